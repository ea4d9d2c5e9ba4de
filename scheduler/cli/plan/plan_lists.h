/*
 * plan_lists.h - planning options that hold a number for each rank or stage.
 *
 * What     --speed FILE, one speed a line; --stages COST,COST,..., one cost a stage.
 * Errors   HYD_ERR_INVALID  a number is out of range, or there are not as many as ranks or
 *                           stages; the text names where
 *          HYD_ERR_NO_MEMORY, and those of reading a file
 * Owns     what is read belongs to the struct hyd_plan_args.
 * Threads  one thread.
 */
#ifndef HYD_SCHEDULER_CLI_PLAN_PLAN_LISTS_H
#define HYD_SCHEDULER_CLI_PLAN_PLAN_LISTS_H

#include "scheduler/cli/plan/plan_args.h"

/* args->speed_path to args->speed; args->in.pool.n_ranks is known. */
HYD_MUST_CHECK hyd_status hyd_plan_read_speeds(struct hyd_plan_args *args,
                                               struct hyd_error *err);

/* args->stages to args->stage_cost; args->in.pool.pp is known. */
HYD_MUST_CHECK hyd_status hyd_plan_read_stages(struct hyd_plan_args *args,
                                               struct hyd_error *err);

/* " (stages cost 1 to 1.3)", or nothing where all cost 1. */
void hyd_plan_stages_text(const struct hyd_pool *pool, char *text, size_t text_bytes);

#endif
