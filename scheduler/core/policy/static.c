/*
 * static.c - every sequence at one context-parallel size, packed in order of arrival.
 *
 * The pool is cut into R / cp groups; a bin is one group in one microbatch, filled
 * next-fit in order of arrival: what a packed loader does. With pad=max planner.c hands
 * in lengths that are all the longest one: what a loader without packing does, and
 * users' worst baseline.
 */
#include "scheduler/core/policy.h"

#include "scheduler/core/plan_build.h"
#include "scheduler/core/policy_help.h"

#include "common/base/banned.h"

static hyd_status static_plan(const struct hyd_plan_input *in, struct hyd_arena *arena,
                              struct hyd_plan *ret_plan, struct hyd_error *err)
{
    const uint32_t cp = in->options.cp != 0 ? in->options.cp : in->pool.n_ranks;
    const uint32_t n_bins = in->pool.n_ranks / cp;
    const double room = (double)in->limits.cap_tokens * cp;
    struct hyd_plan_builder builder;
    double used = 0.0;
    uint32_t bin = n_bins;
    uint32_t n_microbatches = 0;
    hyd_status st = hyd_policy_check_cp(in, cp, err);

    if (st == HYD_OK) {
        st = hyd_policy_check_fit(in, cp, err);
    }
    if (st != HYD_OK) {
        return st;
    }
    hyd_plan_build_begin(&builder, arena, in);
    for (size_t i = 0; i < in->batch.n_seqs; i++) {
        const double tokens = in->batch.length_tokens[i];

        if (i == 0 || used + tokens > room) {
            if (bin == n_bins) {
                hyd_plan_build_microbatch(&builder);
                n_microbatches++;
                bin = 0;
            }
            hyd_plan_build_block(&builder, bin++ * cp, cp);
            used = 0.0;
        }
        used += tokens;
        hyd_plan_build_id(&builder, (uint32_t)i);
    }
    for (; n_microbatches % in->pool.vpp_group != 0; n_microbatches++) {
        /* An interleaved pipeline wants a multiple: empty ones, which cost nothing. */
        hyd_plan_build_microbatch(&builder);
    }
    return hyd_plan_build_finish(&builder, ret_plan, err);
}

const struct hyd_policy_ops hyd_policy_static = {
    .name = "static",
    .summary = "every sequence at one context-parallel size, in order of arrival",
    .reproduces = "",
    .options = "cp pad",
    .cap_rule = HYD_CAP_CELL,
    .plan = static_plan,
};
