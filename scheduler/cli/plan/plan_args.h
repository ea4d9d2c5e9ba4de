/*
 * plan_args.h - the planning options that plan, compare and job open share.
 *
 * What     Made from the planner's option table, so that a new option needs no line here;
 *          plus cost model, speeds, stages and --set. Token counts take K and M.
 * Errors   HYD_ERR_INVALID with field, value and what would be right
 * Owns     struct hyd_plan_args owns its speeds and stages until release; texts point into argv.
 * Threads  one thread.
 */
#ifndef HYD_SCHEDULER_CLI_PLAN_PLAN_ARGS_H
#define HYD_SCHEDULER_CLI_PLAN_PLAN_ARGS_H

#include "scheduler/cli/args.h"
#include "scheduler/cli/plan/cost_choice.h"
#include "scheduler/core/options.h"

enum { HYD_PLAN_ARGS_MAX_OPTIONS = 64 };

struct hyd_plan_args {
    struct hyd_cli *cli; /* set by the command before parsing */
    struct hyd_plan_input in; /* cost and batch are left for resolve and the command */
    bool given[HYD_PLAN_ARGS_MAX_OPTIONS]; /* by row of the option table */
    const char *policy; /* --policy, NULL when not given */
    const char *model;
    const char *device;
    const char *scope;
    const char *plain_cost; /* --cost a,b[,cell] */
    const char *speed_path;
    const char *stages;
    /* after resolve: */
    double *speed; /* [in.pool.n_ranks] or NULL */
    double *stage_cost; /* [in.pool.pp] or NULL */
    struct hyd_cost_choice choice;
    struct hyd_cost cost;
};

void hyd_plan_args_init(struct hyd_plan_args *args, struct hyd_cli *cli);
void hyd_plan_args_release(struct hyd_plan_args *args);

/* The argp group; its input is a struct hyd_plan_args. */
const struct argp *hyd_plan_args_argp(void);

/* Read files, build the cost model, point in.cost, in.pool.speed and in.pool.stage_cost to
 * the results. Missing --ranks or --cap is an error. */
HYD_MUST_CHECK hyd_status hyd_plan_args_resolve(struct hyd_plan_args *args,
                                                struct hyd_error *err);

/* Refuse an option that was given and that `policy` does not read. */
HYD_MUST_CHECK hyd_status
hyd_plan_args_check_policy(const struct hyd_plan_args *args,
                           const struct hyd_policy_ops *policy, struct hyd_error *err);

/* The policy of this name, or an error that lists them. */
HYD_MUST_CHECK hyd_status hyd_plan_args_find_policy(const char *name,
                                                    const struct hyd_policy_ops **ret,
                                                    struct hyd_error *err);

/* "degrees=tile cells=auto effort=4": what the policy reads, for people. */
void hyd_plan_args_text(const struct hyd_plan_input *in,
                        const struct hyd_policy_ops *policy, char *text,
                        size_t text_bytes);

#endif
