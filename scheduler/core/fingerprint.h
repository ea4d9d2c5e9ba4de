/*
 * fingerprint.h - one number for everything a plan depends on and decides.
 *
 * What     XXH64 (seed 0) over a canonical encoding: the options that apply to the
 *          policy as "key=value" lines in the order of the option table, the cost
 *          model's coefficients, speeds, extra work, lengths, and for each microbatch
 *          its groups with ranks, u, r and ids. Numbers are little-endian; doubles by
 *          their bits. Same on every machine and compiler.
 * Threads  reentrant; no allocation.
 * Source   scheduler/README.md "Fingerprint".
 */
#ifndef HYD_SCHEDULER_CORE_FINGERPRINT_H
#define HYD_SCHEDULER_CORE_FINGERPRINT_H

#include "scheduler/core/plan.h"
#include "scheduler/core/types.h"

/* in: as given by the caller, lengths not rounded; in->policy is in the table. */
uint64_t hyd_fingerprint(const struct hyd_plan_input *in, const struct hyd_plan *plan);

#endif
