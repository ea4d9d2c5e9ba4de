/*
 * trap_rig.h - the world that the tests of the traps start from.
 *
 * Owns     nothing; a rig is a value.
 */
#ifndef HYD_TESTS_PROP_TRAP_RIG_H
#define HYD_TESTS_PROP_TRAP_RIG_H

#include "tests/lib/engine_rig.h"

/* fp32, head size 8, causal, forward and backward, with chaos; no group yet. */
struct hyd_rig trap_rig(uint32_t n_ranks, uint32_t n_heads, uint32_t n_kv_heads,
                        uint64_t seed);

/* Run it; the test fails when a result is wrong. */
void trap_expect_right(struct hyd_rig *rig);

#endif
