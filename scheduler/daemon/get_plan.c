/* get_plan.c - GetPlan: a plan in pieces; see watch.h. */
#include <inttypes.h>
#include <stdio.h>

#include "scheduler/daemon/service.h"
#include "scheduler/daemon/watch.h"

#include "common/base/banned.h"

enum { PIECE_BYTES = 512 * 1024 }; /* about; at least one microbatch */

struct get_plan {
    char job[64];
    uint64_t step;
    uint64_t plan_id; /* of the plan the stream began with */
    uint32_t next;
    uint32_t end;
    bool begun;
};

/* What a microbatch takes on the wire, at most. */
static size_t microbatch_bytes(const struct hyd_plan *plan, uint32_t m)
{
    size_t bytes = 64 + (size_t)plan->n_ranks * 2 * sizeof(double);

    for (uint32_t g = plan->mb_first_group[m]; g < plan->mb_first_group[m + 1]; g++) {
        bytes +=
            32 + (size_t)plan->group[g].n_ranks * 14 + (size_t)plan->group[g].n_ids * 5;
    }
    return bytes;
}

/* NULL when there is no plan to send; err says why, *ret_status how. */
static const struct hyd_job_step *find(struct hyd_service *service,
                                       const struct get_plan *get,
                                       hyd_status *ret_status, struct hyd_error *err)
{
    const struct hyd_job *job = hyd_service_known(service, get->job, err);
    const struct hyd_job_step *step = NULL;

    *ret_status = HYD_ERR_NOT_FOUND;
    if (job == NULL) {
        return NULL;
    }
    step = hyd_job_find_step(job, get->step);
    if (step == NULL || step->state == HYD_STEP_PLANNING) {
        (void)hyd_error_value(err, HYD_ERR_NOT_FOUND, "step",
                              "a step that is remembered", "%" PRIu64, get->step);
        return NULL;
    }
    if (!step->has_plan) {
        (void)hyd_error_value(err, HYD_ERR_NOT_FOUND, "step",
                              "one of the last, whose plans are kept", "%" PRIu64,
                              get->step);
        return NULL;
    }
    if (get->begun && step->plan_id != get->plan_id) {
        *ret_status = HYD_ERR_UNAVAILABLE;
        (void)hyd_error_field(err, HYD_ERR_UNAVAILABLE, "step",
                              "step %" PRIu64 " was planned again, ask again",
                              get->step);
        return NULL;
    }
    *ret_status = HYD_OK;
    return step;
}

static hyd_status send_piece(struct hyd_call *call, struct get_plan *get,
                             const struct hyd_job_step *step)
{
    struct hyd_service *service = hyd_call_ctx(call);
    struct hyd_arena_mark mark = hyd_arena_mark(&service->scratch);
    Hydra__V1__GetPlanResponse out = HYDRA__V1__GET_PLAN_RESPONSE__INIT;
    struct hyd_plan_range range = {
        .first_microbatch = get->next, .with_cells = true, .with_lengths = !get->begun};
    size_t bytes = get->begun ? 0 : step->batch.n_seqs * 5;
    hyd_status st = HYD_ERR_NO_MEMORY;

    while (get->next + range.n_microbatches < get->end &&
           (range.n_microbatches == 0 || bytes < PIECE_BYTES)) {
        bytes += microbatch_bytes(&step->plan.plan, get->next + range.n_microbatches);
        range.n_microbatches++;
    }
    out.step = step->step;
    out.state = hyd_convert_state(step->state);
    out.plan = hyd_convert_plan(&step->plan, &range, &service->scratch);
    if (out.plan != NULL) {
        st = hyd_call_send(call, &out.base);
    }
    if (st == HYD_OK) {
        get->next += range.n_microbatches;
        get->begun = true;
    }
    hyd_arena_rewind(&service->scratch, mark);
    return st;
}

/* As much as the queue takes; the rest when it is empty again. */
static void go_on(struct hyd_call *call, struct get_plan *get)
{
    struct hyd_service *service = hyd_call_ctx(call);
    struct hyd_error err = {0};
    hyd_status st = HYD_OK;
    const struct hyd_job_step *step = find(service, get, &st, &err);

    while (step != NULL && st == HYD_OK && (get->next < get->end || !get->begun)) {
        st = send_piece(call, get, step);
    }
    if (st == HYD_ERR_LIMIT && hyd_call_queued_bytes(call) > 0) {
        return;
    }
    if (st != HYD_OK) {
        hyd_call_fail(call, st, &err);
    } else {
        hyd_call_finish(call);
    }
    hyd_call_set_user(call, NULL);
    hyd_alloc_free(service->config.alloc, get);
}

static hyd_status read_range(const Hydra__V1__GetPlanRequest *in,
                             const struct hyd_job_step *step, struct get_plan *get,
                             struct hyd_error *err)
{
    const uint32_t n = step->plan.plan.n_microbatches;
    char limit[HYD_ERROR_LIMIT_BYTES];

    if (in->first_microbatch >= n) {
        (void)snprintf(limit, sizeof limit, "below %" PRIu32, n);
        return hyd_error_value(err, HYD_ERR_OUT_OF_RANGE, "first_microbatch", limit,
                               "%" PRIu32, in->first_microbatch);
    }
    get->next = in->first_microbatch;
    get->end = n;
    if (in->num_microbatches != 0 && in->num_microbatches < n - get->next) {
        get->end = get->next + in->num_microbatches;
    }
    get->plan_id = step->plan_id;
    return HYD_OK;
}

void hyd_get_plan_open(struct hyd_call *call, const ProtobufCMessage *request)
{
    const Hydra__V1__GetPlanRequest *in = (const Hydra__V1__GetPlanRequest *)request;
    struct hyd_service *service = hyd_call_ctx(call);
    struct get_plan *get = hyd_alloc_zeroed(service->config.alloc, 1, sizeof *get);
    const struct hyd_job_step *step = NULL;
    struct hyd_error err = {0};
    hyd_status st = HYD_ERR_NO_MEMORY;

    if (get != NULL) {
        (void)snprintf(get->job, sizeof get->job, "%.63s", in->job);
        get->step = in->step;
        step = find(service, get, &st, &err);
    }
    if (step != NULL) {
        st = read_range(in, step, get, &err);
    }
    if (st != HYD_OK) {
        hyd_alloc_free(service->config.alloc, get);
        hyd_call_fail(call, st, &err);
        return;
    }
    hyd_call_set_user(call, get);
    go_on(call, get);
}

void hyd_get_plan_writable(struct hyd_call *call)
{
    struct get_plan *get = hyd_call_user(call);

    if (get != NULL) {
        go_on(call, get);
    }
}

void hyd_get_plan_close(struct hyd_call *call, bool cancelled)
{
    struct hyd_service *service = hyd_call_ctx(call);

    (void)cancelled;
    hyd_alloc_free(service->config.alloc, hyd_call_user(call));
}
