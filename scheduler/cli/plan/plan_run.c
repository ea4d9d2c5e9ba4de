/* plan_run.c - see plan_run.h. */
#include "scheduler/cli/plan/plan_run.h"

#include <time.h>

#include "scheduler/cli/lengths/import.h"

static double seconds_of(clockid_t clock)
{
    struct timespec now = {0};

    (void)clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

hyd_status hyd_plan_run(struct hyd_planner *planner, const struct hyd_plan_input *in,
                        const struct hyd_plan **ret_plan,
                        struct hyd_plan_measured *ret_measured, struct hyd_error *err)
{
    const double cpu_s = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    const double wall_s = seconds_of(CLOCK_MONOTONIC);
    const hyd_status st = hyd_planner_plan(planner, in, ret_plan, err);

    if (st == HYD_OK) {
        ret_measured->cpu_s = seconds_of(CLOCK_THREAD_CPUTIME_ID) - cpu_s;
        ret_measured->wall_s = seconds_of(CLOCK_MONOTONIC) - wall_s;
    }
    return st;
}

hyd_status hyd_plan_run_lengths(const struct hyd_alloc *alloc, const char *path,
                                struct hyd_lengths *ret_list, struct hyd_error *err)
{
    const struct hyd_import_options options = hyd_import_options_default();
    struct hyd_lengths list;
    hyd_status st = HYD_OK;

    hyd_lengths_init(&list, alloc);
    st = hyd_import_path(&options, path, &list, err);
    if (st == HYD_OK && list.n < 1) {
        st = hyd_error_field(err, HYD_ERR_INVALID, "lengths",
                             "no lengths in '%.80s': must be one a line, or JSON, JSON "
                             "lines, CSV or text",
                             path);
    } else if (st == HYD_OK && list.n > HYD_MAX_SEQS) {
        st = hyd_error_field(err, HYD_ERR_INVALID, "lengths",
                             "'%.80s' has %zu lengths, a step takes 1 to %d: draw some "
                             "with 'hydractl lengths --sample N -o FILE'",
                             path, list.n, HYD_MAX_SEQS);
    }
    if (st != HYD_OK) {
        hyd_lengths_release(&list);
        return st;
    }
    *ret_list = list;
    return HYD_OK;
}

struct hyd_batch hyd_plan_run_batch(const struct hyd_lengths *list)
{
    return (struct hyd_batch){
        .length_tokens = list->length_tokens,
        .extra_work_s = list->extra_work_s,
        .n_seqs = list->n,
    };
}
