/*
 * dp_balanced.c - Megatron-Core's packing for a static context-parallel size.
 *
 * A bin is one group of cp ranks in one microbatch, filled next-fit in order of arrival.
 * The number of bins is made a multiple of the groups of the pool (times vpp_group) by
 * taking the last sequence of the last bin that has more than one into a bin of its own.
 * Nothing is balanced, in spite of the name.
 */
#include "scheduler/core/policy.h"

#include "scheduler/core/plan_build.h"
#include "scheduler/core/policy_help.h"

#include "common/base/banned.h"

/* Bin b holds sequences first[b] .. first[b] + count[b] - 1. */
struct bins {
    uint32_t *first;
    uint32_t *count;
    uint32_t n;
};

static void pack(const struct hyd_plan_input *in, uint64_t room, struct bins *bins)
{
    uint64_t used = room;

    for (size_t i = 0; i < in->batch.n_seqs; i++) {
        const uint32_t tokens = in->batch.length_tokens[i];

        if (used + tokens > room) {
            bins->first[bins->n] = (uint32_t)i;
            bins->count[bins->n++] = 0;
            used = 0;
        }
        bins->count[bins->n - 1]++;
        used += tokens;
    }
}

/* Bins of their own for last sequences until the number is a multiple. */
static bool pad_bins(struct bins *bins, uint32_t multiple)
{
    uint32_t at = bins->n;

    while (bins->n % multiple != 0) {
        while (at > 0 && bins->count[at - 1] < 2) {
            at--;
        }
        if (at == 0) {
            return false;
        }
        bins->count[at - 1]--;
        bins->first[bins->n] = bins->first[at - 1] + bins->count[at - 1];
        bins->count[bins->n++] = 1;
    }
    return true;
}

static hyd_status dp_balanced_plan(const struct hyd_plan_input *in,
                                   struct hyd_arena *arena, struct hyd_plan *ret_plan,
                                   struct hyd_error *err)
{
    const uint32_t cp = in->options.cp != 0 ? in->options.cp : in->pool.n_ranks;
    const uint32_t n_groups = in->pool.n_ranks / cp;
    const uint32_t multiple = n_groups * in->pool.vpp_group;
    const uint64_t room = (uint64_t)in->limits.cap_tokens * cp;
    struct hyd_plan_builder builder;
    struct bins bins = {.n = 0};
    hyd_status st = hyd_policy_check_cp(in, cp, err);

    if (st == HYD_OK) {
        st = hyd_policy_check_fit(in, cp, err);
    }
    if (st != HYD_OK) {
        return st;
    }
    bins.first = hyd_arena_take(arena, in->batch.n_seqs, sizeof *bins.first);
    bins.count = hyd_arena_take(arena, in->batch.n_seqs, sizeof *bins.count);
    if (bins.first == NULL || bins.count == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for the bins");
    }
    pack(in, room, &bins);
    if (!pad_bins(&bins, multiple)) {
        return hyd_error_value(
            err, HYD_ERR_INFEASIBLE, "lengths",
            "enough sequences for bins in a multiple of DP * vpp_group",
            "%zu for a multiple of %u", in->batch.n_seqs, multiple);
    }
    hyd_plan_build_begin(&builder, arena, in);
    for (uint32_t b = 0; b < bins.n; b++) {
        if (b % n_groups == 0) {
            hyd_plan_build_microbatch(&builder);
        }
        hyd_plan_build_block(&builder, b % n_groups * cp, cp);
        for (uint32_t k = 0; k < bins.count[b]; k++) {
            hyd_plan_build_id(&builder, bins.first[b] + k);
        }
    }
    return hyd_plan_build_finish(&builder, ret_plan, err);
}

const struct hyd_policy_ops hyd_policy_dp_balanced = {
    .name = "dp-balanced",
    .summary = "one static context-parallel size, packed next-fit in order of arrival",
    .reproduces = "Megatron-LM dev d48bd6be0 and main d98e8a64 (2026-08), dp_balanced",
    .options = "cp",
    .cap_rule = HYD_CAP_CELL,
    .exclusive = true,
    .plan = dp_balanced_plan,
};
