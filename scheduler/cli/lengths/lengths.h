/*
 * lengths.h - a list of sequence lengths with where it came from.
 *
 * What     Grows entry by entry; an entry may carry extra work. Reshaping (sample, scale,
 *          clip, keep a token budget) and the figures people ask about are here too.
 * Units    tokens; extra work in seconds on one reference rank.
 * Errors   HYD_ERR_LIMIT      more than HYD_LENGTHS_MAX entries
 *          HYD_ERR_INVALID    a sample larger than the list
 *          HYD_ERR_NO_MEMORY
 * Owns     its arrays, until hyd_lengths_release.
 * Threads  one thread.
 */
#ifndef HYD_SCHEDULER_CLI_LENGTHS_LENGTHS_H
#define HYD_SCHEDULER_CLI_LENGTHS_LENGTHS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/alloc.h"
#include "common/base/error.h"

/* Entries a list may hold: more than a step can (HYD_MAX_SEQS), so that a large data set
 * can be measured or sampled. */
enum { HYD_LENGTHS_MAX = 1 << 24, HYD_LENGTHS_BUCKETS = 29 };

struct hyd_lengths {
    const struct hyd_alloc *alloc; /* lent */
    uint32_t *length_tokens; /* [n] */
    double *extra_work_s; /* [n], or NULL when no entry has any */
    size_t n;
    size_t capacity;
    size_t n_estimated; /* entries whose tokens were estimated from bytes */
    size_t n_skipped; /* empty or binary files, records without text */
    char format[32]; /* as read: a format's name, or "mixed" */
    char field[96]; /* field or columns that were read, or "" */
};

void hyd_lengths_init(struct hyd_lengths *list, const struct hyd_alloc *alloc);

/* A zeroed or released list is fine. */
void hyd_lengths_release(struct hyd_lengths *list);

/* length_tokens must be 1..HYD_MAX_LENGTH_TOKENS, extra_work_s finite and >= 0. */
HYD_MUST_CHECK hyd_status hyd_lengths_add(struct hyd_lengths *list,
                                          uint32_t length_tokens, double extra_work_s,
                                          struct hyd_error *err);

enum { HYD_LENGTHS_SOURCE_BYTES = 192 };

/* What a reader should know of where the lengths are from, as "csv, field seq_len" or
 * that tokens are estimates; "" for plain numbers. Returns text[]. */
const char *hyd_lengths_source(const struct hyd_lengths *list,
                               char text[HYD_LENGTHS_SOURCE_BYTES]);

/* Keep n_keep entries drawn without replacement, in drawn order. */
HYD_MUST_CHECK hyd_status hyd_lengths_sample(struct hyd_lengths *list, size_t n_keep,
                                             uint64_t seed, struct hyd_error *err);

/* Multiply every length, to the nearest token and at least 1; extra work stays. */
HYD_MUST_CHECK hyd_status hyd_lengths_scale(struct hyd_lengths *list, double factor,
                                            struct hyd_error *err);

/* Cut every length to at most max_tokens. */
void hyd_lengths_clip(struct hyd_lengths *list, uint32_t max_tokens);

/* Keep the first entries whose sum stays within budget_tokens. */
void hyd_lengths_keep_tokens(struct hyd_lengths *list, uint64_t budget_tokens);

struct hyd_length_bucket {
    uint32_t from_tokens; /* a power of two */
    uint32_t to_tokens; /* 2 * from - 1 */
    size_t n;
    double share_tokens; /* of the sum of lengths */
    double share_work; /* of the sum of length^2 */
};

struct hyd_length_stats {
    size_t n;
    uint64_t tokens;
    uint32_t min, p10, p50, p90, p99, max; /* nearest rank */
    double mean;
    double top_share_work; /* of sum length^2 in the longest ceil(n / 100) */
    double extra_work_s;
    struct hyd_length_bucket bucket[HYD_LENGTHS_BUCKETS]; /* none empty at either end */
    size_t n_buckets;
};

/* The list must not be empty. */
HYD_MUST_CHECK hyd_status hyd_lengths_measure(const struct hyd_lengths *list,
                                              struct hyd_length_stats *ret_stats,
                                              struct hyd_error *err);

#endif
