/*
 * planning.h - plans made on the thread pool, over a snapshot that nobody changes.
 *
 * What     A request copies its input; a free thread plans, proves and copies the plan;
 *          `done` is called on the loop thread. Requests of steps go before what-ifs,
 *          each kind in the order in which it came. Every thread in use has a planner of
 *          its own, which keeps its memory. A check holds a plan against the other
 *          policies; it runs when nothing else waits and a thread stays free, and is
 *          dropped where others wait for that already.
 * Errors   HYD_ERR_LIMIT      too many what-ifs wait
 *          HYD_ERR_NO_MEMORY
 *          and in the result what hyd_planner_plan returns.
 * Owns     requests until `done` was called or the ticket was cancelled.
 * Threads  loop thread; planning itself on libuv's pool.
 */
#ifndef HYD_SCHEDULER_DAEMON_PLANNING_H
#define HYD_SCHEDULER_DAEMON_PLANNING_H

#include <uv.h>

#include "common/base/alloc.h"
#include "common/base/error.h"
#include "scheduler/core/cost.h"
#include "scheduler/core/gain.h"
#include "scheduler/core/types.h"
#include "scheduler/daemon/plan_store.h"

struct hyd_planning; /* opaque */
struct hyd_plan_ticket; /* opaque: one request */

struct hyd_planning_config {
    uv_loop_t *loop;
    const struct hyd_alloc *alloc; /* thread-safe */
    uint32_t n_threads;
    uint32_t max_what_ifs; /* waiting */
};

struct hyd_plan_result {
    hyd_status status;
    struct hyd_error err;
    struct hyd_kept_plan *plan; /* on HYD_OK: copy the struct out to take it */
};

struct hyd_plan_request {
    const struct hyd_plan_input *input; /* copied, with its cost and arrays */
    bool what_if;
    void (*done)(void *ctx, struct hyd_plan_result *result);
    void *ctx;
};

HYD_MUST_CHECK hyd_status hyd_planning_create(const struct hyd_planning_config *config,
                                              struct hyd_planning **ret_planning);

/* Nothing may be running: cancel all, run the loop, then free. What waits is dropped
 * without a word. NULL is fine. */
void hyd_planning_free(struct hyd_planning *planning);

HYD_MUST_CHECK hyd_status hyd_planning_submit(struct hyd_planning *planning,
                                              const struct hyd_plan_request *request,
                                              struct hyd_plan_ticket **ret_ticket,
                                              struct hyd_error *err);

/* A plan that was made, to be held against the other policies. */
struct hyd_plan_check_request {
    const struct hyd_plan_input *input; /* copied, with its cost and arrays */
    const struct hyd_figures *figures; /* copied */
    const char *job; /* copied */
    uint64_t step;
    /* On the loop thread; ctx outlives the planning. */
    void (*done)(void *ctx, const char *job, uint64_t step,
                 const struct hyd_gain *gain);
    void *ctx;
};

/* No error tells of a check that is dropped: nobody waits for it. */
void hyd_planning_check(struct hyd_planning *planning,
                        const struct hyd_plan_check_request *request);

/* done will not be called; what runs is thrown away when it is ready. */
void hyd_planning_cancel(struct hyd_plan_ticket *ticket);

/* Requests that run or wait, but for checks that wait. */
uint32_t hyd_planning_busy(const struct hyd_planning *planning);

#endif
