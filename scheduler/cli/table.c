/* table.c - see table.h. */
#include "scheduler/cli/table.h"

#include <inttypes.h>
#include <langinfo.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "common/base/check.h"

enum { CELL_BYTES = 512, FIRST_CELLS = 64, GAP_COLUMNS = 2, LEAST_WRAP_COLUMNS = 16 };

/* A cell is one line that cannot command the terminal, whatever a reason or a name holds. */
static void clean(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || *text == 127) {
            *text = '?';
        }
    }
}

/* Characters on the screen, not bytes: continuation bytes of UTF-8 do not count. */
static size_t screen_width(const char *text)
{
    size_t n = 0;

    for (; *text != '\0'; text++) {
        n += ((unsigned char)*text & 0xC0U) != 0x80U ? 1 : 0;
    }
    return n;
}

static void add_text(struct hyd_table *table, const char *text)
{
    if (table->status != HYD_OK) {
        return;
    }
    if (table->n_cells == table->capacity) {
        const size_t capacity =
            table->capacity == 0 ? FIRST_CELLS : 2 * table->capacity;
        char **grown =
            hyd_alloc_resize(table->alloc, table->cell, capacity, sizeof *grown);

        if (grown == NULL) {
            table->status = HYD_ERR_NO_MEMORY;
            return;
        }
        table->cell = grown;
        table->capacity = capacity;
    }
    table->cell[table->n_cells] = hyd_alloc_text(table->alloc, text);
    if (table->cell[table->n_cells] == NULL) {
        table->status = HYD_ERR_NO_MEMORY;
        return;
    }
    table->n_cells++;
}

void hyd_table_init(struct hyd_table *table, const struct hyd_alloc *alloc,
                    const char *const *names)
{
    *table = (struct hyd_table){.alloc = alloc};
    for (; *names != NULL; names++) {
        const bool left = (*names)[0] == '<';

        hyd_assert(table->n_columns < HYD_TABLE_MAX_COLUMNS);
        table->left_columns |= left ? 1U << table->n_columns : 0U;
        add_text(table, *names + (left ? 1 : 0));
        table->n_columns++;
    }
}

void hyd_table_release(struct hyd_table *table)
{
    for (size_t i = 0; i < table->n_cells; i++) {
        hyd_alloc_free(table->alloc, table->cell[i]);
    }
    if (table->alloc != NULL) {
        hyd_alloc_free(table->alloc, table->cell);
    }
    *table = (struct hyd_table){0};
}

void hyd_table_add(struct hyd_table *table, const char *format, ...)
{
    char text[CELL_BYTES];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    clean(text);
    add_text(table, text);
}

void hyd_table_end_row(struct hyd_table *table)
{
    while (table->status == HYD_OK && table->n_cells % table->n_columns != 0) {
        add_text(table, "");
    }
}

static bool is_hidden(const struct hyd_table *table, size_t c)
{
    return (table->hidden_columns >> c & 1U) != 0;
}

static void measure(const struct hyd_table *table, size_t width[HYD_TABLE_MAX_COLUMNS])
{
    for (size_t i = 0; i < table->n_cells; i++) {
        const size_t n = screen_width(table->cell[i]);
        const size_t c = i % table->n_columns;

        width[c] = n > width[c] ? n : width[c];
    }
}

/* Where column c begins; c = n_columns: how wide the table is. */
static size_t offset_of(const struct hyd_table *table, const size_t *width, size_t c)
{
    size_t offset = 0;

    for (size_t i = 0; i < c; i++) {
        offset += is_hidden(table, i) ? 0 : width[i] + GAP_COLUMNS;
    }
    return c == table->n_columns && offset > 0 ? offset - GAP_COLUMNS : offset;
}

void hyd_table_fit(struct hyd_table *table, const struct hyd_cli *cli,
                   const unsigned char *column, size_t n_columns)
{
    size_t width[HYD_TABLE_MAX_COLUMNS] = {0};

    if (!cli->terminal || table->status != HYD_OK) {
        return;
    }
    measure(table, width);
    for (size_t i = 0; i < n_columns; i++) {
        if (offset_of(table, width, table->n_columns) <= (size_t)cli->width) {
            return;
        }
        table->hidden_columns |= 1U << column[i];
    }
}

/* Bytes of `text` that go on this line, and what to skip behind them. */
static size_t break_line(const char *text, size_t columns, size_t *ret_skip)
{
    size_t used = 0;
    size_t blank = 0;
    size_t i = 0;

    *ret_skip = 0;
    for (; text[i] != '\0'; i++) {
        used += ((unsigned char)text[i] & 0xC0U) != 0x80U ? 1 : 0;
        if (text[i] == ' ') {
            blank = i;
        }
        if (used > columns) {
            break;
        }
    }
    if (text[i] == '\0') {
        return i;
    }
    *ret_skip = blank > 0 ? 1 : 0;
    return blank > 0 ? blank : i;
}

static void print_wrapped(FILE *out, const char *text, size_t offset, size_t columns)
{
    while (*text != '\0') {
        size_t skip = 0;
        const size_t n = break_line(text, columns, &skip);

        (void)fprintf(out, "%.*s", (int)n, text);
        text += n + skip;
        if (*text != '\0') {
            (void)fprintf(out, "\n%*s", (int)offset, "");
        }
    }
}

/* Cells up to the last that holds something, so that no line ends in blanks. */
static void print_row(const struct hyd_table *table, const struct hyd_cli *cli,
                      const size_t *width, size_t row)
{
    char *const *cell = &table->cell[row * table->n_columns];
    size_t n = table->n_columns;
    size_t offset = 0;

    while (n > 0 && (is_hidden(table, n - 1) || cell[n - 1][0] == '\0')) {
        n--;
    }
    for (size_t c = 0; c < n; c++) {
        const int pad = (int)(width[c] - screen_width(cell[c]));
        const bool left = (table->left_columns >> c & 1U) != 0;
        const size_t room =
            (size_t)cli->width > offset ? (size_t)cli->width - offset : 0;

        if (is_hidden(table, c)) {
            continue;
        }
        if (table->wrap && cli->terminal && c + 1 == table->n_columns && left &&
            room >= LEAST_WRAP_COLUMNS) {
            print_wrapped(cli->out, cell[c], offset, room);
        } else {
            (void)fprintf(cli->out, "%*s%s%*s%s", left ? 0 : pad, "", cell[c],
                          left && c + 1 < n ? pad : 0, "", c + 1 < n ? "  " : "");
        }
        offset += width[c] + GAP_COLUMNS;
    }
}

hyd_status hyd_table_print(const struct hyd_table *table, const struct hyd_cli *cli,
                           struct hyd_error *err)
{
    size_t width[HYD_TABLE_MAX_COLUMNS] = {0};

    if (table->status != HYD_OK) {
        return hyd_error_set(err, table->status, "no memory for a table");
    }
    hyd_assert(table->n_cells % table->n_columns == 0);
    measure(table, width);
    for (size_t row = 0; row < table->n_cells / table->n_columns; row++) {
        const bool bold = cli->colour && (row == 0 || row == table->marked_row);

        if (bold) {
            (void)fputs(row == 0 ? "\033[2m" : "\033[1m", cli->out);
        }
        print_row(table, cli, width, row);
        (void)fputs(bold ? "\033[0m\n" : "\n", cli->out);
    }
    return HYD_OK;
}

const char *hyd_text_bar(const struct hyd_cli *cli, double part, double whole,
                         unsigned columns, char text[HYD_BAR_BYTES])
{
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    const double share = whole > 0 ? fmin(fmax(part / whole, 0), 1) : 0;
    const bool utf8 = cli->colour && strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    unsigned n_eighths = (unsigned)(share * 8 * columns + 0.5);
    size_t used = 0;

    hyd_assert(columns < HYD_TEXT_BYTES);
    if (!utf8) {
        n_eighths = (n_eighths + 4) / 8 * 8;
    }
    if (part > 0 && n_eighths == 0) {
        n_eighths = utf8 ? 1 : 8; /* little is not nothing */
    }
    for (; n_eighths >= 8; n_eighths -= 8) {
        used +=
            (size_t)snprintf(text + used, HYD_BAR_BYTES - used, "%s", utf8 ? "█" : "#");
    }
    (void)snprintf(text + used, HYD_BAR_BYTES - used, "%s", eighths[n_eighths]);
    return text;
}

const char *hyd_text_seconds(double seconds, char text[HYD_TEXT_BYTES])
{
    static const struct {
        double least;
        double unit;
        const char *name;
    } units[] = {{1, 1, "s"}, {1e-3, 1e-3, "ms"}, {0, 1e-6, "us"}};
    size_t i = 0;

    if (seconds == 0) {
        (void)snprintf(text, HYD_TEXT_BYTES, "0 s");
        return text;
    }
    while (i < 2 && fabs(seconds) < units[i].least) {
        i++;
    }
    (void)snprintf(text, HYD_TEXT_BYTES, "%#.4g %s", seconds / units[i].unit,
                   units[i].name);
    return text;
}

const char *hyd_text_count(uint64_t count, char text[HYD_TEXT_BYTES])
{
    char digits[32];
    const int n = snprintf(digits, sizeof digits, "%" PRIu64, count);
    size_t used = 0;

    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0) {
            text[used++] = ',';
        }
        text[used++] = digits[i];
    }
    text[used] = '\0';
    return text;
}

const char *hyd_text_things(uint64_t count, const char *thing,
                            char text[HYD_TEXT_BYTES])
{
    const size_t n = strlen(hyd_text_count(count, text));

    (void)snprintf(text + n, HYD_TEXT_BYTES - n, " %s%s", thing, count == 1 ? "" : "s");
    return text;
}
