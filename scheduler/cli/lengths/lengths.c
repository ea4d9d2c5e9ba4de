/* lengths.c - see lengths.h. */
#include "scheduler/cli/lengths/lengths.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "common/base/rng.h"
#include "scheduler/core/types.h"

enum { FIRST_ENTRIES = 1024 };

void hyd_lengths_init(struct hyd_lengths *list, const struct hyd_alloc *alloc)
{
    *list = (struct hyd_lengths){.alloc = alloc};
}

void hyd_lengths_release(struct hyd_lengths *list)
{
    if (list->alloc != NULL) {
        hyd_alloc_free(list->alloc, list->length_tokens);
        hyd_alloc_free(list->alloc, list->extra_work_s);
    }
    *list = (struct hyd_lengths){0};
}

static hyd_status grow(struct hyd_lengths *list, struct hyd_error *err)
{
    const size_t capacity = list->capacity == 0 ? FIRST_ENTRIES : 2 * list->capacity;
    uint32_t *tokens = NULL;
    double *work = NULL;

    if (list->n >= HYD_LENGTHS_MAX) {
        return hyd_error_field(err, HYD_ERR_LIMIT, "lengths",
                               "more than %d lengths, the limit", HYD_LENGTHS_MAX);
    }
    tokens =
        hyd_alloc_resize(list->alloc, list->length_tokens, capacity, sizeof *tokens);
    if (tokens != NULL) {
        list->length_tokens = tokens;
    }
    if (list->extra_work_s != NULL) {
        work =
            hyd_alloc_resize(list->alloc, list->extra_work_s, capacity, sizeof *work);
        if (work != NULL) {
            list->extra_work_s = work;
        }
    }
    if (tokens == NULL || (list->extra_work_s != NULL && work == NULL)) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for %zu lengths",
                             capacity);
    }
    list->capacity = capacity;
    return HYD_OK;
}

hyd_status hyd_lengths_add(struct hyd_lengths *list, uint32_t length_tokens,
                           double extra_work_s, struct hyd_error *err)
{
    hyd_assert(length_tokens >= 1 && length_tokens <= HYD_MAX_LENGTH_TOKENS);
    if (list->n == list->capacity) {
        const hyd_status st = grow(list, err);

        if (st != HYD_OK) {
            return st;
        }
    }
    if (extra_work_s > 0 && list->extra_work_s == NULL) {
        list->extra_work_s =
            hyd_alloc_zeroed(list->alloc, list->capacity, sizeof *list->extra_work_s);
        if (list->extra_work_s == NULL) {
            return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for extra work");
        }
    }
    list->length_tokens[list->n] = length_tokens;
    if (list->extra_work_s != NULL) {
        list->extra_work_s[list->n] = extra_work_s;
    }
    list->n++;
    return HYD_OK;
}

const char *hyd_lengths_source(const struct hyd_lengths *list,
                               char text[HYD_LENGTHS_SOURCE_BYTES])
{
    int n = 0;

    text[0] = '\0';
    if (list->field[0] != '\0') {
        n = snprintf(text, HYD_LENGTHS_SOURCE_BYTES, "%s, field %s", list->format,
                     list->field);
    }
    if (list->n_estimated > 0 && n >= 0 && n < HYD_LENGTHS_SOURCE_BYTES) {
        (void)snprintf(text + n, (size_t)(HYD_LENGTHS_SOURCE_BYTES - n),
                       "%stokens of %zu estimated from bytes", n > 0 ? ", " : "",
                       list->n_estimated);
    }
    return text;
}

hyd_status hyd_lengths_sample(struct hyd_lengths *list, size_t n_keep, uint64_t seed,
                              struct hyd_error *err)
{
    struct hyd_rng rng = {seed};

    if (n_keep > list->n) {
        return hyd_error_field(
            err, HYD_ERR_INVALID, "sample",
            "option '--sample' is %zu, but there are only %zu lengths", n_keep,
            list->n);
    }
    for (size_t i = 0; i < n_keep; i++) {
        const size_t j = i + hyd_rng_below(&rng, (uint32_t)(list->n - i));
        const uint32_t tokens = list->length_tokens[i];

        list->length_tokens[i] = list->length_tokens[j];
        list->length_tokens[j] = tokens;
        if (list->extra_work_s != NULL) {
            const double work_s = list->extra_work_s[i];

            list->extra_work_s[i] = list->extra_work_s[j];
            list->extra_work_s[j] = work_s;
        }
    }
    list->n = n_keep;
    return HYD_OK;
}

hyd_status hyd_lengths_scale(struct hyd_lengths *list, double factor,
                             struct hyd_error *err)
{
    for (size_t i = 0; i < list->n; i++) {
        const double scaled = floor(list->length_tokens[i] * factor + 0.5);

        if (scaled > HYD_MAX_LENGTH_TOKENS) {
            return hyd_error_field(err, HYD_ERR_INVALID, "scale",
                                   "length %u times %g is above %d tokens, the limit",
                                   list->length_tokens[i], factor,
                                   HYD_MAX_LENGTH_TOKENS);
        }
        list->length_tokens[i] = scaled < 1 ? 1 : (uint32_t)scaled;
    }
    return HYD_OK;
}

void hyd_lengths_clip(struct hyd_lengths *list, uint32_t max_tokens)
{
    for (size_t i = 0; i < list->n; i++) {
        if (list->length_tokens[i] > max_tokens) {
            list->length_tokens[i] = max_tokens;
        }
    }
}

void hyd_lengths_keep_tokens(struct hyd_lengths *list, uint64_t budget_tokens)
{
    uint64_t sum = 0;
    size_t n = 0;

    while (n < list->n && sum + list->length_tokens[n] <= budget_tokens) {
        sum += list->length_tokens[n];
        n++;
    }
    list->n = n;
}

static int by_length(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static uint32_t nearest_rank(const uint32_t *sorted, size_t n, double share)
{
    const size_t rank = (size_t)ceil(share * (double)n);

    return sorted[rank > 0 ? rank - 1 : 0];
}

static void fill_buckets(const uint32_t *sorted, size_t n, double work,
                         struct hyd_length_stats *stats)
{
    size_t i = 0;

    while (i < n) {
        struct hyd_length_bucket *bucket = &stats->bucket[stats->n_buckets++];
        double tokens = 0;
        double squares = 0;

        bucket->from_tokens = stats->n_buckets == 1 ? 1 : bucket[-1].from_tokens * 2;
        while (stats->n_buckets == 1 && bucket->from_tokens * 2 <= sorted[0]) {
            bucket->from_tokens *= 2;
        }
        bucket->to_tokens = bucket->from_tokens * 2 - 1;
        for (; i < n && sorted[i] <= bucket->to_tokens; i++) {
            bucket->n++;
            tokens += sorted[i];
            squares += (double)sorted[i] * sorted[i];
        }
        bucket->share_tokens = tokens / (double)stats->tokens;
        bucket->share_work = squares / work;
    }
}

hyd_status hyd_lengths_measure(const struct hyd_lengths *list,
                               struct hyd_length_stats *ret_stats,
                               struct hyd_error *err)
{
    struct hyd_length_stats stats = {.n = list->n};
    uint32_t *sorted = NULL;
    double work = 0;
    double top = 0;
    const size_t n_top = (list->n + 99) / 100;

    if (list->n == 0) {
        return hyd_error_field(err, HYD_ERR_INVALID, "lengths",
                               "no lengths, must be at least one");
    }
    sorted = hyd_alloc_array(list->alloc, list->n, sizeof *sorted);
    if (sorted == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory to sort %zu lengths",
                             list->n);
    }
    memcpy(sorted, list->length_tokens, list->n * sizeof *sorted);
    qsort(sorted, list->n, sizeof *sorted, by_length);
    for (size_t i = 0; i < list->n; i++) {
        const double square = (double)sorted[i] * sorted[i];

        stats.tokens += sorted[i];
        work += square;
        top += i >= list->n - n_top ? square : 0;
        stats.extra_work_s += list->extra_work_s != NULL ? list->extra_work_s[i] : 0;
    }
    stats.min = sorted[0];
    stats.p10 = nearest_rank(sorted, list->n, 0.10);
    stats.p50 = nearest_rank(sorted, list->n, 0.50);
    stats.p90 = nearest_rank(sorted, list->n, 0.90);
    stats.p99 = nearest_rank(sorted, list->n, 0.99);
    stats.max = sorted[list->n - 1];
    stats.mean = (double)stats.tokens / (double)list->n;
    stats.top_share_work = top / work;
    fill_buckets(sorted, list->n, work, &stats);
    hyd_alloc_free(list->alloc, sorted);
    *ret_stats = stats;
    return HYD_OK;
}
