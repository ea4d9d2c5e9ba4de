/* planning.c - see planning.h. */
#include "scheduler/daemon/planning.h"

#include <string.h>

#include "common/sys/clock.h"
#include "scheduler/core/planner.h"

#include "common/base/banned.h"

struct hyd_plan_ticket {
    uv_work_t work;
    struct hyd_plan_ticket *next;
    struct hyd_planning *owner;
    struct hyd_arena arena; /* of the snapshot */
    struct hyd_plan_input input;
    struct hyd_cost cost;
    struct hyd_planner *planner; /* lent while it runs */
    struct hyd_kept_plan kept;
    struct hyd_plan_result result;
    bool cancelled;
    bool running;
    void (*done)(void *ctx, struct hyd_plan_result *result);
    void *ctx;
    const struct hyd_plan_check_request *check; /* NULL: a plan is wanted */
    struct hyd_gain gain; /* of a check */
};

/* More would only be late. */
enum { MAX_CHECKS = 2 };

struct queue {
    struct hyd_plan_ticket *first;
    struct hyd_plan_ticket *last;
    uint32_t n;
};

struct hyd_planning {
    struct hyd_planning_config config;
    struct hyd_planner **idle; /* [n_idle] of n_threads */
    uint32_t n_idle;
    uint32_t n_running;
    struct queue steps;
    struct queue what_ifs;
    struct queue checks;
};

static void append(struct queue *queue, struct hyd_plan_ticket *ticket)
{
    ticket->next = NULL;
    if (queue->last == NULL) {
        queue->first = ticket;
    } else {
        queue->last->next = ticket;
    }
    queue->last = ticket;
    queue->n++;
}

static struct hyd_plan_ticket *take_first(struct queue *queue)
{
    struct hyd_plan_ticket *ticket = queue->first;

    if (ticket != NULL) {
        queue->first = ticket->next;
        queue->last = queue->first == NULL ? NULL : queue->last;
        queue->n--;
    }
    return ticket;
}

static void free_ticket(struct hyd_plan_ticket *ticket)
{
    hyd_kept_plan_release(&ticket->kept);
    hyd_arena_release(&ticket->arena);
    hyd_alloc_free(ticket->owner->config.alloc, ticket);
}

static void drop_all(struct queue *queue)
{
    while (queue->n > 0) {
        free_ticket(take_first(queue));
    }
}

void hyd_planning_free(struct hyd_planning *planning)
{
    if (planning == NULL) {
        return;
    }
    drop_all(&planning->steps);
    drop_all(&planning->what_ifs);
    drop_all(&planning->checks);
    while (planning->idle != NULL && planning->n_idle > 0) {
        hyd_planner_free(planning->idle[--planning->n_idle]);
    }
    hyd_alloc_free(planning->config.alloc, planning->idle);
    hyd_alloc_free(planning->config.alloc, planning);
}

hyd_status hyd_planning_create(const struct hyd_planning_config *config,
                               struct hyd_planning **ret_planning)
{
    struct hyd_planning *planning =
        hyd_alloc_zeroed(config->alloc, 1, sizeof *planning);

    if (planning == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    planning->config = *config;
    planning->idle = hyd_alloc_zeroed(config->alloc, config->n_threads, sizeof(void *));
    for (uint32_t i = 0; planning->idle != NULL && i < config->n_threads; i++) {
        if (hyd_planner_create(config->alloc, &planning->idle[i]) != HYD_OK) {
            break;
        }
        planning->n_idle++;
    }
    if (planning->n_idle < config->n_threads) {
        hyd_planning_free(planning);
        return HYD_ERR_NO_MEMORY;
    }
    *ret_planning = planning;
    return HYD_OK;
}

/* Everything the input points to, but for the policy's name, which is static. */
static hyd_status take_snapshot(struct hyd_plan_ticket *ticket,
                                const struct hyd_plan_input *input)
{
    const size_t n = input->batch.n_seqs;
    const size_t n_ranks = input->pool.n_ranks;
    uint32_t *length = hyd_arena_take(&ticket->arena, n, sizeof *length);
    double *extra = NULL;
    double *speed = NULL;
    double *stage_cost = NULL;

    if (input->batch.extra_work_s != NULL) {
        extra = hyd_arena_take(&ticket->arena, n, sizeof *extra);
    }
    if (input->pool.speed != NULL) {
        speed = hyd_arena_take(&ticket->arena, n_ranks, sizeof *speed);
    }
    if (input->pool.stage_cost != NULL) {
        stage_cost = hyd_arena_take(&ticket->arena, input->pool.pp, sizeof *stage_cost);
    }
    if (length == NULL || (extra == NULL) != (input->batch.extra_work_s == NULL) ||
        (speed == NULL) != (input->pool.speed == NULL) ||
        (stage_cost == NULL) != (input->pool.stage_cost == NULL)) {
        return HYD_ERR_NO_MEMORY;
    }
    memcpy(length, input->batch.length_tokens, n * sizeof *length);
    if (extra != NULL) {
        memcpy(extra, input->batch.extra_work_s, n * sizeof *extra);
    }
    if (speed != NULL) {
        memcpy(speed, input->pool.speed, n_ranks * sizeof *speed);
    }
    if (stage_cost != NULL) {
        memcpy(stage_cost, input->pool.stage_cost, input->pool.pp * sizeof *stage_cost);
    }
    ticket->input = *input;
    ticket->cost = *input->cost;
    ticket->input.cost = &ticket->cost;
    ticket->input.batch.length_tokens = length;
    ticket->input.batch.extra_work_s = extra;
    ticket->input.pool.speed = speed;
    ticket->input.pool.stage_cost = stage_cost;
    return HYD_OK;
}

/* On a thread of the pool. */
static void plan_now(uv_work_t *work)
{
    struct hyd_plan_ticket *ticket = work->data;
    const uint64_t start_ns = uv_hrtime();
    const double start_cpu_s = hyd_clock_thread_cpu_s();
    const struct hyd_plan *plan = NULL;
    double cpu_s = 0.0;
    double wall_s = 0.0;

    if (ticket->check != NULL) {
        ticket->result.status = hyd_gain_check(ticket->planner, &ticket->input,
                                               ticket->check->figures, &ticket->gain);
        return;
    }
    ticket->result.status =
        hyd_planner_plan(ticket->planner, &ticket->input, &plan, &ticket->result.err);
    cpu_s = hyd_clock_thread_cpu_s() - start_cpu_s;
    wall_s = (double)(uv_hrtime() - start_ns) * 1e-9;
    if (ticket->result.status != HYD_OK) {
        return;
    }
    ticket->result.status = hyd_kept_plan_init(
        &ticket->kept, ticket->owner->config.alloc, &ticket->input, plan);
    ticket->kept.summary.plan_cpu_s = cpu_s;
    ticket->kept.summary.plan_wall_s = wall_s;
    ticket->result.plan = &ticket->kept;
}

static void start_some(struct hyd_planning *planning);

static void planned(uv_work_t *work, int status)
{
    struct hyd_plan_ticket *ticket = work->data;
    struct hyd_planning *planning = ticket->owner;

    (void)status; /* never cancelled inside libuv */
    planning->idle[planning->n_idle++] = ticket->planner;
    planning->n_running--;
    if (ticket->check != NULL && ticket->result.status == HYD_OK) {
        ticket->check->done(ticket->check->ctx, ticket->check->job, ticket->check->step,
                            &ticket->gain);
    }
    if (ticket->check == NULL && !ticket->cancelled) {
        ticket->done(ticket->ctx, &ticket->result);
    }
    free_ticket(ticket);
    start_some(planning);
}

static void start_some(struct hyd_planning *planning)
{
    while (planning->n_idle > 0) {
        struct hyd_plan_ticket *ticket = take_first(&planning->steps);

        if (ticket == NULL) {
            ticket = take_first(&planning->what_ifs);
        }
        if (ticket == NULL && (planning->n_idle > 1 || planning->n_running == 0)) {
            ticket = take_first(&planning->checks);
        }
        if (ticket == NULL) {
            return;
        }
        if (ticket->cancelled) {
            free_ticket(ticket);
            continue;
        }
        ticket->planner = planning->idle[--planning->n_idle];
        ticket->running = true;
        ticket->work.data = ticket;
        planning->n_running++;
        /* Fails only for a NULL callback. */
        (void)uv_queue_work(planning->config.loop, &ticket->work, plan_now, planned);
    }
}

hyd_status hyd_planning_submit(struct hyd_planning *planning,
                               const struct hyd_plan_request *request,
                               struct hyd_plan_ticket **ret_ticket,
                               struct hyd_error *err)
{
    struct hyd_plan_ticket *ticket = NULL;
    hyd_status st = HYD_OK;

    if (request->what_if && planning->what_ifs.n >= planning->config.max_what_ifs) {
        return hyd_error_set(err, HYD_ERR_LIMIT, "%u plans wait already, at most %u",
                             planning->what_ifs.n, planning->config.max_what_ifs);
    }
    ticket = hyd_alloc_zeroed(planning->config.alloc, 1, sizeof *ticket);
    if (ticket == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    ticket->owner = planning;
    ticket->done = request->done;
    ticket->ctx = request->ctx;
    hyd_arena_init(&ticket->arena, planning->config.alloc);
    st = take_snapshot(ticket, request->input);
    if (st != HYD_OK) {
        free_ticket(ticket);
        return st;
    }
    append(request->what_if ? &planning->what_ifs : &planning->steps, ticket);
    *ret_ticket = ticket;
    start_some(planning);
    return HYD_OK;
}

/* What the ticket needs of the request, in the ticket's own memory. */
static bool copy_check(struct hyd_plan_ticket *ticket,
                       const struct hyd_plan_check_request *request)
{
    const size_t n_bytes = strlen(request->job) + 1;
    struct hyd_plan_check_request *check =
        hyd_arena_take(&ticket->arena, 1, sizeof *check);
    struct hyd_figures *figures = hyd_arena_take(&ticket->arena, 1, sizeof *figures);
    char *job = hyd_arena_take(&ticket->arena, n_bytes, 1);

    if (check == NULL || figures == NULL || job == NULL) {
        return false;
    }
    *check = *request;
    *figures = *request->figures;
    memcpy(job, request->job, n_bytes);
    check->input = &ticket->input;
    check->figures = figures;
    check->job = job;
    ticket->check = check;
    return true;
}

void hyd_planning_check(struct hyd_planning *planning,
                        const struct hyd_plan_check_request *request)
{
    struct hyd_plan_ticket *ticket = NULL;

    if (planning->checks.n < MAX_CHECKS) {
        ticket = hyd_alloc_zeroed(planning->config.alloc, 1, sizeof *ticket);
    }
    if (ticket == NULL) {
        return;
    }
    ticket->owner = planning;
    hyd_arena_init(&ticket->arena, planning->config.alloc);
    if (take_snapshot(ticket, request->input) != HYD_OK ||
        !copy_check(ticket, request)) {
        free_ticket(ticket);
        return;
    }
    append(&planning->checks, ticket);
    start_some(planning);
}

void hyd_planning_cancel(struct hyd_plan_ticket *ticket)
{
    /* One that waits is freed when its turn comes. */
    ticket->cancelled = true;
}

uint32_t hyd_planning_busy(const struct hyd_planning *planning)
{
    return planning->n_running + planning->steps.n + planning->what_ifs.n;
}
