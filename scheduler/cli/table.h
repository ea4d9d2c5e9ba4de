/*
 * table.h - aligned text tables and bars for people.
 *
 * What     Cells are collected row by row and printed with columns as wide as their
 *          widest cell. Numbers sit right, words left. Colour marks the header and a
 *          chosen row, on a terminal only.
 * Errors   HYD_ERR_NO_MEMORY is remembered by the table and returned by print.
 * Owns     its cells, until hyd_table_release.
 * Threads  one thread.
 */
#ifndef HYD_SCHEDULER_CLI_TABLE_H
#define HYD_SCHEDULER_CLI_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "scheduler/cli/cli.h"

enum { HYD_TABLE_MAX_COLUMNS = 24 };

struct hyd_table {
    const struct hyd_alloc *alloc;
    char **cell; /* [n_rows * n_columns], row 0 is the header */
    size_t n_cells;
    size_t capacity;
    size_t n_columns;
    size_t marked_row; /* printed bold; 0: none */
    hyd_status status;
    unsigned left_columns; /* bit c: column c holds words */
    unsigned hidden_columns; /* bit c: column c is not printed */
    bool wrap; /* break words of the last column at the edge of a terminal */
};

/* Column names, NULL-terminated; a name that starts with '<' is a column of words. */
void hyd_table_init(struct hyd_table *table, const struct hyd_alloc *alloc,
                    const char *const *names);

/* A zeroed or released table is fine. */
void hyd_table_release(struct hyd_table *table);

/* Add the next cell; rows fill from the left. */
void hyd_table_add(struct hyd_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Fill the rest of the row with empty cells. */
void hyd_table_end_row(struct hyd_table *table);

/* On a terminal too narrow, hide these columns one after the other until the table fits.
 * In a pipe all are printed. */
void hyd_table_fit(struct hyd_table *table, const struct hyd_cli *cli,
                   const unsigned char *column, size_t n_columns);

HYD_MUST_CHECK hyd_status hyd_table_print(const struct hyd_table *table,
                                          const struct hyd_cli *cli,
                                          struct hyd_error *err);

enum { HYD_TEXT_BYTES = 64, HYD_BAR_BYTES = 256 };

/* A bar of at most `columns` characters for part/whole, in eighths of a character on a
 * UTF-8 terminal and in '#' elsewhere; returns text[]. */
const char *hyd_text_bar(const struct hyd_cli *cli, double part, double whole,
                         unsigned columns, char text[HYD_BAR_BYTES]);

/* Seconds with a fitting unit: "1.23 ms"; returns text[]. */
const char *hyd_text_seconds(double seconds, char text[HYD_TEXT_BYTES]);

/* A count with thousands apart: "24,857,510"; returns text[]. */
const char *hyd_text_count(uint64_t count, char text[HYD_TEXT_BYTES]);

/* A count of things: "1 group", "2,000 groups"; returns text[]. */
const char *hyd_text_things(uint64_t count, const char *thing,
                            char text[HYD_TEXT_BYTES]);

#endif
