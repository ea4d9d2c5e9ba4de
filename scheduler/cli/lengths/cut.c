/* cut.c - see cut.h. */
#include "scheduler/cli/lengths/cut.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_BYTES = 40, NUMBER_BYTES = 64 };

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct hyd_piece trim(struct hyd_piece piece)
{
    while (piece.n > 0 && is_blank(piece.at[0])) {
        piece.at++;
        piece.n--;
    }
    while (piece.n > 0 && is_blank(piece.at[piece.n - 1])) {
        piece.n--;
    }
    return piece;
}

struct hyd_cut hyd_cut_begin(const char *bytes, size_t n_bytes)
{
    struct hyd_cut cut = {.at = bytes, .end = bytes + n_bytes};

    if (n_bytes >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) {
        cut.at += 3;
    }
    return cut;
}

bool hyd_cut_line(struct hyd_cut *cut, struct hyd_piece *ret_line)
{
    const char *feed = NULL;

    if (cut->at >= cut->end) {
        return false;
    }
    feed = memchr(cut->at, '\n', (size_t)(cut->end - cut->at));
    if (feed == NULL) {
        feed = cut->end;
    }
    *ret_line = trim((struct hyd_piece){cut->at, (size_t)(feed - cut->at)});
    cut->at = feed < cut->end ? feed + 1 : feed;
    cut->line++;
    return true;
}

/* One cell from cut->at; leaves cut->at behind its comma or at its line's end. */
static struct hyd_piece cut_cell(struct hyd_cut *cut)
{
    const char *c = cut->at;
    struct hyd_piece cell;

    while (c < cut->end && (*c == ' ' || *c == '\t')) {
        c++;
    }
    if (c < cut->end && *c == '"') {
        cell.at = ++c;
        while (c < cut->end && (*c != '"' || (c + 1 < cut->end && c[1] == '"'))) {
            cut->line += *c == '\n' ? 1 : 0;
            c += *c == '"' ? 2 : 1;
        }
        cell.n = (size_t)(c - cell.at);
        while (c < cut->end && *c != ',' && *c != '\n') {
            c++;
        }
    } else {
        cell.at = c;
        while (c < cut->end && *c != ',' && *c != '\n') {
            c++;
        }
        cell.n = (size_t)(c - cell.at);
        cell = trim(cell);
    }
    cut->at = c;
    return cell;
}

bool hyd_cut_row(struct hyd_cut *cut, struct hyd_piece cell[HYD_CUT_MAX_CELLS],
                 size_t *ret_n)
{
    struct hyd_piece line;
    struct hyd_cut ahead = *cut;
    size_t n = 0;

    for (;;) {
        if (!hyd_cut_line(&ahead, &line)) {
            *cut = ahead;
            return false;
        }
        if (line.n > 0 && line.at[0] != '#') {
            break;
        }
        *cut = ahead;
    }
    cut->line++;
    for (;;) {
        const struct hyd_piece piece = cut_cell(cut);

        if (n < HYD_CUT_MAX_CELLS) {
            cell[n++] = piece;
        }
        if (cut->at >= cut->end || *cut->at == '\n') {
            break;
        }
        cut->at++;
    }
    cut->at += cut->at < cut->end ? 1 : 0;
    *ret_n = n;
    return true;
}

struct hyd_piece hyd_piece_word(struct hyd_piece *line)
{
    struct hyd_piece word = trim(*line);
    size_t n = 0;

    while (n < word.n && !is_blank(word.at[n])) {
        n++;
    }
    line->at = word.at + n;
    line->n = word.n - n;
    word.n = n;
    return word;
}

bool hyd_piece_is_number(struct hyd_piece piece)
{
    size_t i = 0;
    size_t n_digits = 0;

    if (i < piece.n && (piece.at[i] == '-' || piece.at[i] == '+')) {
        i++;
    }
    for (; i < piece.n; i++) {
        const bool digit = piece.at[i] >= '0' && piece.at[i] <= '9';

        n_digits += digit ? 1 : 0;
        if (!digit && piece.at[i] != '.') {
            return false;
        }
    }
    return n_digits > 0;
}

bool hyd_piece_seems_number(struct hyd_piece piece)
{
    char text[NUMBER_BYTES];
    char *rest = NULL;

    if (piece.n == 0 || piece.n >= sizeof text) {
        return false;
    }
    if (piece.at[0] >= '0' && piece.at[0] <= '9') {
        return true;
    }
    memcpy(text, piece.at, piece.n);
    text[piece.n] = '\0';
    (void)strtod(text, &rest);
    return rest != text && *rest == '\0';
}

bool hyd_piece_count(struct hyd_piece piece, uint64_t *ret_count)
{
    uint64_t count = 0;
    size_t i = 0;

    for (; i < piece.n && piece.at[i] >= '0' && piece.at[i] <= '9'; i++) {
        if (count > UINT64_MAX / 100) {
            return false;
        }
        count = count * 10 + (uint64_t)(piece.at[i] - '0');
    }
    if (i == 0) {
        return false;
    }
    if (i < piece.n && piece.at[i] == '.') {
        for (i++; i < piece.n && piece.at[i] == '0'; i++) {
        }
    }
    *ret_count = count;
    return i == piece.n;
}

bool hyd_piece_real(struct hyd_piece piece, double *ret_value)
{
    char text[NUMBER_BYTES];
    char *rest = NULL;

    if (piece.n == 0 || piece.n >= sizeof text) {
        return false;
    }
    memcpy(text, piece.at, piece.n);
    text[piece.n] = '\0';
    *ret_value = strtod(text, &rest);
    return *rest == '\0' && isfinite(*ret_value);
}

bool hyd_piece_equals(struct hyd_piece piece, const char *text)
{
    return strlen(text) == piece.n && memcmp(piece.at, text, piece.n) == 0;
}

int hyd_piece_show(struct hyd_piece piece)
{
    return (int)(piece.n < SHOWN_BYTES ? piece.n : SHOWN_BYTES);
}
