#!/bin/sh
# add_policy.sh - a scheduling policy is one file and one line: add one to a copy of the
# tree, build it, and let the conformance test find it in the table.
set -eu
command -v ninja > /dev/null || { echo "SKIPPED: no ninja"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
git ls-files --cached --others --exclude-standard -z | xargs -0 cp --parents -t "$tmp"
cd "$tmp"

cat > scheduler/core/policy/round_robin.c << 'POLICY'
/* round_robin.c - the example of tests/integ/add_policy.sh: the whole pool, one by one. */
#include "scheduler/core/policy.h"

#include "scheduler/core/plan_build.h"
#include "scheduler/core/policy_help.h"

static hyd_status round_robin_plan(const struct hyd_plan_input *in,
                                   struct hyd_arena *arena, struct hyd_plan *ret_plan,
                                   struct hyd_error *err)
{
    struct hyd_plan_builder builder;
    hyd_status st = hyd_policy_check_cp(in, in->pool.n_ranks, err);

    if (st == HYD_OK) {
        st = hyd_policy_check_fit(in, in->pool.n_ranks, err);
    }
    if (st != HYD_OK) {
        return st;
    }
    hyd_plan_build_begin(&builder, arena, in);
    for (size_t i = 0; i < in->batch.n_seqs || i % in->pool.vpp_group != 0; i++) {
        hyd_plan_build_microbatch(&builder);
        if (i < in->batch.n_seqs) {
            hyd_plan_build_block(&builder, 0, in->pool.n_ranks);
            hyd_plan_build_id(&builder, (uint32_t)i);
        }
    }
    return hyd_plan_build_finish(&builder, ret_plan, err);
}

const struct hyd_policy_ops hyd_policy_round_robin = {
    .name = "round-robin",
    .summary = "every sequence on the whole pool, one after the other",
    .reproduces = "",
    .options = "",
    .plan = round_robin_plan,
};
POLICY
# The registration: one line.
sed -i 's/^    ROW(static)/    ROW(round_robin) \\\n&/' scheduler/core/policy_table.c

launcher=
command -v ccache > /dev/null && launcher=-DCMAKE_C_COMPILER_LAUNCHER=ccache
# shellcheck disable=SC2086  # the launcher is one word or none
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Debug -DHYDRA_WERROR=ON $launcher > log 2>&1 ||
    { cat log; exit 1; }
ninja -C build conform_policy > log 2>&1 || { tail -40 log; exit 1; }
HYDRA_CASES=40 HYDRA_SOURCE_DIR=$tmp build/tests/conform_policy > log 2>&1 || { cat log; exit 1; }
grep 'round-robin: [1-9][0-9]* planned' log
