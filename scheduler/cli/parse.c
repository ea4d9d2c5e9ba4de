/* parse.c - see parse.h. */
#include "scheduler/cli/parse.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"

enum { MAX_WORD_CHARS = 63 };

/* Digits only: strtoull would take blanks and a minus sign. */
static int parse_digits(const char *text, uint64_t *ret_value, const char **ret_rest)
{
    uint64_t value = 0;
    const char *c = text;

    for (; *c >= '0' && *c <= '9'; c++) {
        const uint64_t digit = (uint64_t)(*c - '0');

        if (value > (UINT64_MAX - digit) / 10) {
            return -1;
        }
        value = value * 10 + digit;
    }
    *ret_value = value;
    *ret_rest = c;
    return c == text ? -1 : 0;
}

hyd_status hyd_parse_u64(const char *field, const char *text, uint64_t min,
                         uint64_t max, uint64_t *ret_value, struct hyd_error *err)
{
    uint64_t value = 0;
    const char *rest = NULL;

    if (parse_digits(text, &value, &rest) != 0 || *rest != '\0' || value < min ||
        value > max) {
        return hyd_error_field(err, HYD_ERR_INVALID, field,
                               "%s is '%.40s', must be a whole number from %" PRIu64
                               " to %" PRIu64,
                               field, text, min, max);
    }
    *ret_value = value;
    return HYD_OK;
}

hyd_status hyd_parse_u32(const char *field, const char *text, uint32_t min,
                         uint32_t max, uint32_t *ret_value, struct hyd_error *err)
{
    uint64_t value = 0;
    const hyd_status st = hyd_parse_u64(field, text, min, max, &value, err);

    if (st == HYD_OK) {
        *ret_value = (uint32_t)value;
    }
    return st;
}

hyd_status hyd_parse_many_tokens(const char *field, const char *text, uint64_t min,
                                 uint64_t max, uint64_t *ret_value,
                                 struct hyd_error *err)
{
    uint64_t value = 0;
    const char *rest = NULL;
    unsigned shift = 0;
    const int bad = parse_digits(text, &value, &rest);

    if (bad == 0 && (*rest == 'K' || *rest == 'k')) {
        shift = 10;
        rest++;
    } else if (bad == 0 && *rest == 'M') {
        shift = 20;
        rest++;
    }
    if (bad != 0 || *rest != '\0' || value > UINT64_MAX >> 20 || value << shift < min ||
        value << shift > max) {
        return hyd_error_field(err, HYD_ERR_INVALID, field,
                               "%s is '%.40s', must be %" PRIu64 " to %" PRIu64
                               " tokens (K and M may follow: 8K is 8192)",
                               field, text, min, max);
    }
    *ret_value = value << shift;
    return HYD_OK;
}

hyd_status hyd_parse_tokens(const char *field, const char *text, uint32_t min,
                            uint32_t max, uint32_t *ret_value, struct hyd_error *err)
{
    uint64_t value = 0;
    const hyd_status st = hyd_parse_many_tokens(field, text, min, max, &value, err);

    if (st == HYD_OK) {
        *ret_value = (uint32_t)value;
    }
    return st;
}

hyd_status hyd_parse_real(const char *field, const char *text, double min, double max,
                          double *ret_value, struct hyd_error *err)
{
    char *rest = NULL;
    const double value = strtod(text, &rest);
    const int starts = (text[0] >= '0' && text[0] <= '9') || strchr("+-.", text[0]);

    if (text[0] == '\0' || !starts || *rest != '\0' || !isfinite(value) ||
        value < min || value > max) {
        return hyd_error_field(err, HYD_ERR_INVALID, field,
                               "%s is '%.40s', must be a number from %g to %g", field,
                               text, min, max);
    }
    *ret_value = value;
    return HYD_OK;
}

hyd_status hyd_parse_reals(const char *field, const char *text, double min,
                           size_t n_want, double *ret_values, struct hyd_error *err)
{
    double values[8] = {0};
    const char *at = text;
    size_t n = 0;

    hyd_assert(n_want > 0 && n_want <= sizeof values / sizeof values[0]);
    while (n < n_want) {
        const char want = n + 1 < n_want ? ',' : '\0';
        char *rest = NULL;

        values[n] = strtod(at, &rest);
        if (rest == at || *rest != want || !isfinite(values[n]) || values[n] < min) {
            break;
        }
        at = rest + 1;
        n++;
    }
    if (n != n_want) {
        return hyd_error_field(err, HYD_ERR_INVALID, field,
                               "%s is '%.60s', must be %zu numbers of at least %g with "
                               "commas between them",
                               field, text, n_want, min);
    }
    memcpy(ret_values, values, n_want * sizeof values[0]);
    return HYD_OK;
}

unsigned hyd_parse_distance(const char *a, const char *b)
{
    unsigned char rows[3][MAX_WORD_CHARS + 1]; /* of the last three characters of a */
    const size_t n_a = strlen(a);
    const size_t n_b = strlen(b);

    if (n_a > MAX_WORD_CHARS || n_b > MAX_WORD_CHARS) {
        return 255;
    }
    for (size_t i = 0; i <= n_a; i++) {
        unsigned char *row = rows[i % 3];
        const unsigned char *above = rows[(i + 2) % 3];
        const unsigned char *above2 = rows[(i + 1) % 3];

        row[0] = (unsigned char)i;
        for (size_t j = 1; j <= n_b; j++) {
            unsigned best = row[j - 1] + 1U;

            if (i > 0) {
                const unsigned change = above[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U);

                best = change < best ? change : best;
                best = above[j] + 1U < best ? above[j] + 1U : best;
            }
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                best = above2[j - 2] + 1U < best ? above2[j - 2] + 1U : best;
            }
            row[j] = (unsigned char)best;
        }
    }
    return rows[n_a % 3][n_b];
}

int hyd_parse_is_near(const char *word, const char *near)
{
    const size_t n = strlen(near);

    return hyd_parse_distance(word, near) <= (n <= 4 ? 1U : 1U + (unsigned)n / 4U);
}
