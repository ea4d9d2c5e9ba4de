/* import_lines.c - one length a line, optionally a second column with extra work. */
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/lengths/cut.h"
#include "scheduler/cli/lengths/import.h"

static bool lines_recognise(const struct hyd_import *in)
{
    struct hyd_cut cut = hyd_cut_begin(in->bytes, in->n_bytes);
    struct hyd_piece line;

    while (hyd_cut_line(&cut, &line)) {
        if (line.n > 0 && line.at[0] != '#') {
            const struct hyd_piece word = hyd_piece_word(&line);

            /* One word alone, as "1e9", is a length gone wrong rather than a text. */
            return hyd_piece_is_number(word) ||
                   (hyd_piece_word(&line).n == 0 && hyd_piece_seems_number(word));
        }
    }
    return false;
}

static hyd_status read_line(const struct hyd_import *in, size_t number,
                            struct hyd_piece line, struct hyd_lengths *list,
                            struct hyd_error *err)
{
    const struct hyd_piece first = hyd_piece_word(&line);
    const struct hyd_piece second = hyd_piece_word(&line);
    const struct hyd_piece third = hyd_piece_word(&line);
    uint64_t tokens = 0;
    double work_s = 0;

    if (!hyd_piece_count(first, &tokens)) {
        return hyd_import_fail(in, number, err,
                               "length is '%.*s', must be a whole number of tokens, 1 "
                               "to 268435456",
                               hyd_piece_show(first), first.at);
    }
    if (second.n > 0 && !hyd_piece_real(second, &work_s)) {
        return hyd_import_fail(in, number, err,
                               "work is '%.*s', must be a number of seconds",
                               hyd_piece_show(second), second.at);
    }
    if (third.n > 0) {
        return hyd_import_fail(in, number, err,
                               "third word '%.*s'; a line is LENGTH or LENGTH WORK",
                               hyd_piece_show(third), third.at);
    }
    return hyd_import_add(in, number, tokens, work_s, list, err);
}

static hyd_status lines_read(const struct hyd_import *in, struct hyd_lengths *list,
                             struct hyd_error *err)
{
    struct hyd_cut cut = hyd_cut_begin(in->bytes, in->n_bytes);
    struct hyd_piece line;
    hyd_status st = HYD_OK;

    while (st == HYD_OK && hyd_cut_line(&cut, &line)) {
        if (line.n > 0 && line.at[0] != '#') {
            st = read_line(in, cut.line, line, list, err);
        }
    }
    return st;
}

const struct hyd_importer hyd_importer_lines = {
    .name = "lines",
    .reads = "one length a line; a second column is extra work in seconds; # comments",
    .recognise = lines_recognise,
    .read = lines_read,
};
