/* import_csv.c - comma-separated rows: request traces (Azure, Vidur, BurstGPT), tables with
 * a length column, and the one-column files of Megatron's mock data, with header and
 * without. Readers of the latter take the first line for a header whatever it holds; we
 * look at it instead, so a file without one keeps its first length. */
#include <stdio.h>
#include <string.h>

#include "scheduler/cli/lengths/cut.h"
#include "scheduler/cli/lengths/fields.h"
#include "scheduler/cli/lengths/import.h"

/* Which columns of a row count. */
struct columns {
    size_t at[HYD_FIELDS_MAX];
    size_t n;
    size_t work; /* column, or SIZE_MAX */
    bool headless;
    struct hyd_fields set;
};

static bool all_numbers(const struct hyd_piece *cell, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!hyd_piece_seems_number(cell[i])) {
            return false;
        }
    }
    return true;
}

/* Columns of a set of names; false when one is missing. */
static bool match(const struct hyd_piece *header, size_t n_cells,
                  const struct hyd_fields *set, struct columns *ret_columns)
{
    ret_columns->n = 0;
    for (size_t f = 0; f < set->n; f++) {
        size_t c = 0;

        while (c < n_cells && !hyd_piece_equals(header[c], set->name[f])) {
            c++;
        }
        if (c == n_cells) {
            return false;
        }
        ret_columns->at[ret_columns->n++] = c;
    }
    ret_columns->set = *set;
    return true;
}

static bool match_known(const struct hyd_piece *header, size_t n_cells,
                        struct columns *ret_columns)
{
    for (size_t i = 0; hyd_fields_known[i].n > 0; i++) {
        if (match(header, n_cells, &hyd_fields_known[i], ret_columns)) {
            return true;
        }
    }
    return false;
}

static bool csv_recognise(const struct hyd_import *in)
{
    struct hyd_piece cell[HYD_CUT_MAX_CELLS];
    struct hyd_cut cut = hyd_cut_begin(in->bytes, in->n_bytes);
    struct columns columns;
    size_t n = 0;

    if (!hyd_cut_row(&cut, cell, &n)) {
        return false;
    }
    return n >= 2 && (hyd_import_path_ends(in, ".csv") || all_numbers(cell, n) ||
                      match_known(cell, n, &columns));
}

/* One column: a name without blanks over a number, or anything called .csv. */
static bool megatron_recognise(const struct hyd_import *in)
{
    struct hyd_piece first[HYD_CUT_MAX_CELLS];
    struct hyd_piece second[HYD_CUT_MAX_CELLS];
    struct hyd_cut cut = hyd_cut_begin(in->bytes, in->n_bytes);
    size_t n_first = 0;
    size_t n_second = 0;

    if (!hyd_cut_row(&cut, first, &n_first) || n_first != 1) {
        return false;
    }
    if (hyd_import_path_ends(in, ".csv")) {
        return true;
    }
    return !hyd_piece_seems_number(first[0]) &&
           memchr(first[0].at, ' ', first[0].n) == NULL &&
           hyd_cut_row(&cut, second, &n_second) && n_second == 1 &&
           hyd_piece_is_number(second[0]);
}

static hyd_status no_column(const struct hyd_import *in, size_t line,
                            const struct hyd_piece *header, size_t n_cells,
                            const char *wanted, struct hyd_error *err)
{
    char names[80] = "";
    size_t used = 0;

    for (size_t i = 0; i < n_cells && used + 1 < sizeof names; i++) {
        const int n =
            snprintf(names + used, sizeof names - used, "%s%.*s", i > 0 ? "," : "",
                     hyd_piece_show(header[i]), header[i].at);

        used += n > 0 ? (size_t)n : 0;
    }
    if (wanted != NULL) {
        return hyd_import_fail(in, line, err, "no column '%.40s', there are %s", wanted,
                               names);
    }
    return hyd_import_fail(in, line, err,
                           "no length column known among %s: name one with 'hydractl "
                           "lengths --field NAME'",
                           names);
}

/* Without a header: the first column, the second is work; --field counts from 1. */
static hyd_status choose_headless(const struct hyd_import *in, size_t n_cells,
                                  struct columns *columns, struct hyd_error *err)
{
    uint64_t number = 1;

    if (in->field != NULL &&
        (!hyd_piece_count((struct hyd_piece){in->field, strlen(in->field)}, &number) ||
         number < 1 || number > n_cells)) {
        return hyd_import_fail(in, 1, err,
                               "no header, so field '%.40s' must be a column number "
                               "from 1 to %zu",
                               in->field, n_cells);
    }
    if (in->field == NULL && n_cells > 2) {
        return hyd_import_fail(in, 1, err,
                               "no header and %zu columns: choose one, counted from 1, "
                               "with 'hydractl lengths --field N'",
                               n_cells);
    }
    columns->at[0] = (size_t)number - 1;
    columns->n = 1;
    columns->work = in->field == NULL && n_cells == 2 ? 1 : SIZE_MAX;
    columns->headless = true;
    (void)snprintf(columns->set.name[0], HYD_FIELD_NAME_BYTES, "column %u",
                   (unsigned)number);
    columns->set.n = 1;
    return HYD_OK;
}

static hyd_status choose_by_header(const struct hyd_import *in, size_t line,
                                   const struct hyd_piece *header, size_t n_cells,
                                   struct columns *columns, struct hyd_error *err)
{
    columns->work = SIZE_MAX;
    for (size_t c = 0; c < n_cells; c++) {
        if (hyd_fields_is_work(header[c].at, header[c].n)) {
            columns->work = c;
        }
    }
    if (in->field != NULL) {
        struct hyd_fields set;
        const hyd_status st = hyd_fields_parse(in->field, &set, err);

        if (st != HYD_OK) {
            return st;
        }
        return match(header, n_cells, &set, columns)
                   ? HYD_OK
                   : no_column(in, line, header, n_cells, in->field, err);
    }
    if (match_known(header, n_cells, columns)) {
        return HYD_OK;
    }
    if (n_cells == 1) {
        columns->at[0] = 0;
        columns->n = 1;
        columns->set.n = 1;
        (void)snprintf(columns->set.name[0], HYD_FIELD_NAME_BYTES, "%.*s",
                       hyd_piece_show(header[0]), header[0].at);
        return HYD_OK;
    }
    return no_column(in, line, header, n_cells, NULL, err);
}

/* "1,000" without a header: a length and its work, or one number written for people? */
static bool is_thousands(struct hyd_piece length, struct hyd_piece work)
{
    uint64_t count = 0;

    return length.n >= 1 && length.n <= 3 && work.n == 3 &&
           hyd_piece_count(length, &count) && hyd_piece_count(work, &count) &&
           memchr(work.at, '.', work.n) == NULL;
}

/* A row of the file. */
struct row {
    struct hyd_piece cell[HYD_CUT_MAX_CELLS];
    size_t n;
    size_t line;
};

static hyd_status read_row(const struct hyd_import *in, const struct row *row,
                           const struct columns *columns, struct hyd_lengths *list,
                           struct hyd_error *err)
{
    uint64_t tokens = 0;
    double work_s = 0;

    for (size_t i = 0; i < columns->n; i++) {
        const size_t c = columns->at[i];
        uint64_t part = 0;

        if (c >= row->n) {
            return hyd_import_fail(in, row->line, err,
                                   "%zu cells, but '%s' is cell %zu", row->n,
                                   columns->set.name[i], c + 1);
        }
        if (!hyd_piece_count(row->cell[c], &part) || part > UINT32_MAX) {
            return hyd_import_fail(in, row->line, err,
                                   "%s is '%.*s', must be a whole number of tokens, at "
                                   "most 268435456",
                                   columns->set.name[i], hyd_piece_show(row->cell[c]),
                                   row->cell[c].at);
        }
        tokens += part;
    }
    if (columns->headless && columns->work < row->n &&
        is_thousands(row->cell[0], row->cell[columns->work])) {
        return hyd_import_fail(
            in, row->line, err,
            "'%.*s,%.*s' is read as LENGTH,WORK: write a number without commas, or "
            "the seconds of work with a point",
            hyd_piece_show(row->cell[0]), row->cell[0].at,
            hyd_piece_show(row->cell[columns->work]), row->cell[columns->work].at);
    }
    if (columns->work < row->n && row->cell[columns->work].n > 0 &&
        !hyd_piece_real(row->cell[columns->work], &work_s)) {
        return hyd_import_fail(
            in, row->line, err, "work is '%.*s', must be a number of seconds",
            hyd_piece_show(row->cell[columns->work]), row->cell[columns->work].at);
    }
    return hyd_import_add(in, row->line, tokens, work_s, list, err);
}

static hyd_status csv_read(const struct hyd_import *in, struct hyd_lengths *list,
                           struct hyd_error *err)
{
    struct hyd_cut cut = hyd_cut_begin(in->bytes, in->n_bytes);
    struct columns columns = {.n = 0};
    struct row row;
    hyd_status st = HYD_OK;

    if (!hyd_cut_row(&cut, row.cell, &row.n)) {
        return hyd_import_fail(in, 0, err, "no rows");
    }
    row.line = cut.line;
    if (all_numbers(row.cell, row.n)) {
        st = choose_headless(in, row.n, &columns, err);
        if (st == HYD_OK) {
            st = read_row(in, &row, &columns, list, err);
        }
    } else {
        st = choose_by_header(in, row.line, row.cell, row.n, &columns, err);
    }
    if (st == HYD_OK) {
        (void)hyd_fields_text(&columns.set, list->field, sizeof list->field);
    }
    while (st == HYD_OK && hyd_cut_row(&cut, row.cell, &row.n)) {
        row.line = cut.line;
        st = read_row(in, &row, &columns, list, err);
    }
    return st;
}

static hyd_status megatron_read(const struct hyd_import *in, struct hyd_lengths *list,
                                struct hyd_error *err)
{
    struct hyd_piece cell[HYD_CUT_MAX_CELLS];
    struct hyd_cut cut = hyd_cut_begin(in->bytes, in->n_bytes);
    size_t n = 0;

    if (hyd_cut_row(&cut, cell, &n) && n != 1) {
        return hyd_import_fail(in, cut.line, err,
                               "%zu columns, a Megatron length file has one: use "
                               "--format csv",
                               n);
    }
    return csv_read(in, list, err);
}

const struct hyd_importer hyd_importer_csv = {
    .name = "csv",
    .reads = "CSV with a header (Azure, Vidur, BurstGPT, or --field), or LENGTH,WORK",
    .recognise = csv_recognise,
    .read = csv_read,
};

const struct hyd_importer hyd_importer_megatron = {
    .name = "megatron",
    .reads = "the one-column CSV of Megatron's mock data, with header or without",
    .recognise = megatron_recognise,
    .read = megatron_read,
};
