/*
 * cut.h - lines, words and comma-separated cells of bytes in memory, without copying.
 *
 * What     Pieces point into the bytes. Lines may end in LF, CRLF or CR LF-less at the
 *          end; blanks around a line are cut off. A CSV row may span lines inside quotes.
 * Owns     nothing.
 * Threads  plain data.
 */
#ifndef HYD_SCHEDULER_CLI_LENGTHS_CUT_H
#define HYD_SCHEDULER_CLI_LENGTHS_CUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hyd_piece {
    const char *at;
    size_t n;
};

struct hyd_cut {
    const char *at;
    const char *end;
    size_t line; /* number of the line last given, from 1 */
};

/* A byte-order mark in front is skipped. */
struct hyd_cut hyd_cut_begin(const char *bytes, size_t n_bytes);

/* The next line; false at the end. */
bool hyd_cut_line(struct hyd_cut *cut, struct hyd_piece *ret_line);

enum { HYD_CUT_MAX_CELLS = 128 };

/*
 * The cells of the next CSV row that is not blank and not a # comment: *ret_n of them,
 * at most HYD_CUT_MAX_CELLS (later ones are dropped). Quotes around a cell are cut off,
 * doubled quotes inside stay doubled. false at the end.
 */
bool hyd_cut_row(struct hyd_cut *cut, struct hyd_piece cell[HYD_CUT_MAX_CELLS],
                 size_t *ret_n);

/* Take the first word (blanks or tabs between) off a line; n == 0 when none is left. */
struct hyd_piece hyd_piece_word(struct hyd_piece *line);

/* Looks like a number: optional sign, digits, optional fraction. */
bool hyd_piece_is_number(struct hyd_piece piece);

/* Is no name: starts with a digit, or is what C reads as a number ("1e9", "nan"). */
bool hyd_piece_seems_number(struct hyd_piece piece);

/* A whole number, also written 12.0; false when it is not one. */
bool hyd_piece_count(struct hyd_piece piece, uint64_t *ret_count);

bool hyd_piece_real(struct hyd_piece piece, double *ret_value);

bool hyd_piece_equals(struct hyd_piece piece, const char *text);

/* For "%.*s": the number of bytes of a piece worth showing in an error. */
int hyd_piece_show(struct hyd_piece piece);

#endif
