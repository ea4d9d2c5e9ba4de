/*
 * plan_cases.h - the fixed cases of `hydra-bench plan`.
 *
 * What     A case is the start of a set of real lengths (or of a lognormal draw) after a
 *          clip and a shuffle from a seed: the first sequences that fit k * 0.9 * ranks *
 *          cap tokens, k = 32 (lognormal 24), or the largest k >= 4 that the set fills.
 *          Nothing is repeated. A hash of the lengths says whether two machines ran the
 *          same. The cost is the nested model: l* = 53,000 tokens, a cell costs as much
 *          as 300 tokens of linear work; eight stages, V = 1.
 * Errors   gives false when the set is missing or too small; `why` says which.
 * Owns     tokens is the case's; release frees it.
 */
#ifndef HYD_TESTS_BENCH_PLAN_CASES_H
#define HYD_TESTS_BENCH_PLAN_CASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler/core/cost.h"
#include "scheduler/core/planner.h"

struct hyd_plan_case_spec {
    const char *set; /* file name in the data folder, or "lognormal" */
    double scale; /* lengths are multiplied by this: 2 doubles them */
    double location; /* lognormal: mean of the logarithm */
    double sigma;
    uint32_t ranks;
    uint32_t cap_tokens;
    uint32_t clip_tokens;
    uint32_t seed;
};

/* Locations of lognormal lengths: ln 8192, and what gives mean 8192 at sigma 1.5,
 * ln 8192 - 1.5^2 / 2. */
#define HYD_PLAN_MEDIAN_8192 9.010913347279289
#define HYD_PLAN_MEAN_8192 7.885913347279289

struct hyd_plan_case {
    struct hyd_plan_case_spec spec;
    char name[64];
    uint32_t *tokens;
    size_t n;
    uint32_t longest_tokens;
    double fill; /* k: how many times 0.9 * ranks * cap the tokens fill */
    uint64_t hash;
    struct hyd_cost cost;
    struct hyd_plan_input in; /* policy hydra, defaults; points into the case */
};

bool hyd_plan_case_make(const struct hyd_plan_case_spec *spec,
                        struct hyd_plan_case *ret_case, char *why, size_t why_bytes);
void hyd_plan_case_release(struct hyd_plan_case *c);

/* Lengths for the tables of time: lognormal, n of them, from a seed. */
void hyd_plan_lognormal(double location, double sigma, uint32_t max_tokens,
                        uint64_t seed, size_t n, uint32_t *ret_tokens);

/*
 * The first real lengths of a set, shuffled, scaled and clipped, that add up to at most
 * most_tokens; a lognormal draw, and a line that says so, where the set is missing.
 * Returns how many.
 */
size_t hyd_plan_real_lengths(const char *set, double scale, uint32_t clip_tokens,
                             double most_tokens, uint32_t *ret_tokens, size_t n_max);

extern const char *const hyd_plan_sets[]; /* all sets of the data folder; NULL ends */

#endif
