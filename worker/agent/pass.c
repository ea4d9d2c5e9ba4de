/* pass.c - see impl.h: a step on a rank's thread, from its assignment to its report. */
#include <stdio.h>

#include "worker/agent/impl.h"

/* Groups of the assignment that hold this rank, with room for what they cost. */
static hyd_status take_groups(struct hyd_agent_rank *rank)
{
    const struct hyd_agent_plan *plan = &rank->work->plan;
    struct hyd_agent_assignment *out = &rank->assignment;
    struct hyd_group *group = NULL;
    uint32_t *plan_group = NULL;
    size_t n = 0;

    hyd_arena_reset(&rank->arena);
    group = hyd_arena_take(&rank->arena, plan->n_groups, sizeof *group);
    plan_group = hyd_arena_take(&rank->arena, plan->n_groups, sizeof *plan_group);
    if (group == NULL || plan_group == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < plan->n_groups; i++) {
        uint32_t member = 0;

        if (hyd_group_member(&plan->group[i], rank->world_rank, &member)) {
            group[n] = plan->group[i];
            plan_group[n] = plan->plan_group[i];
            n++;
        }
    }
    out->attn = (struct hyd_attn_step){
        .group = group,
        .n_groups = n,
        .figures = hyd_arena_take_zeroed(&rank->arena, n, sizeof *out->attn.figures),
        .backward = plan->backward,
    };
    out->plan_group = plan_group;
    rank->blocked_s = hyd_arena_take_zeroed(&rank->arena, plan->n_microbatches,
                                            sizeof *rank->blocked_s);
    return out->attn.figures != NULL && rank->blocked_s != NULL ? HYD_OK
                                                                : HYD_ERR_NO_MEMORY;
}

/* Most sequences of one cell that are spread over ranks; each may round up. */
static uint32_t split_seqs(const struct hyd_attn_step *step)
{
    uint32_t most = 0;
    uint32_t here = 0;

    for (size_t i = 0; i < step->n_groups; i++) {
        if (i > 0 && step->group[i].microbatch != step->group[i - 1].microbatch) {
            here = 0;
        }
        if (hyd_group_degree(&step->group[i]) > 1) {
            here += step->group[i].n_seqs;
        }
        most = here > most ? here : most;
    }
    return most;
}

/* Between steps the engine may be made larger: policies that split short sequences need
 * more rows for rounding than the cap says. Never while a step runs. */
static hyd_status begin_step(struct hyd_agent_rank *rank, struct hyd_error *err)
{
    const struct hyd_attn_step *step = &rank->assignment.attn;
    hyd_status st = hyd_attn_begin_step(rank->attn, step, err);
    const uint32_t wanted = split_seqs(step);

    if (st != HYD_ERR_LIMIT || wanted <= rank->split_seqs) {
        return st;
    }
    st = hyd_agent_rank_make_engine(rank, &rank->job, wanted + wanted / 4, err);
    if (st == HYD_OK) {
        st = hyd_attn_set_transport(rank->attn, rank->agent->transport, rank->transport,
                                    rank->world_rank, rank->n_ranks, err);
    }
    return st == HYD_OK ? hyd_attn_begin_step(rank->attn, step, err) : st;
}

hyd_status hyd_agent_pass_begin(struct hyd_agent_rank *rank, struct hyd_error *err)
{
    const struct hyd_agent_plan *plan = &rank->work->plan;
    struct hyd_agent_assignment *out = &rank->assignment;
    struct hyd_attn_memory memory;
    hyd_status st = HYD_OK;

    *out = (struct hyd_agent_assignment){
        .step = plan->step,
        .epoch = plan->epoch,
        .backward = plan->backward,
        .n_microbatches = plan->n_microbatches,
        .n_layers = plan->n_layers,
        .seed = plan->seed,
        .verify = plan->verify,
        .verify_flop = plan->verify_flop,
        .rank = rank->world_rank,
        .n_ranks = rank->n_ranks,
        .model = rank->job.model,
    };
    st = take_groups(rank);
    if (st == HYD_OK) {
        st = begin_step(rank, err);
    }
    if (st != HYD_OK) {
        return hyd_agent_rank_lose(rank, st, err);
    }
    hyd_attn_memory(rank->attn, &memory);
    out->predicted_peak_bytes =
        memory.scratch_bytes +
        hyd_attn_step_bytes(&out->model, &out->attn, rank->world_rank, plan->n_layers);
    rank->running = true;
    return HYD_OK;
}

static struct hyd_agent_rank *running_rank(struct hyd_agent *agent, uint32_t local,
                                           struct hyd_error *err)
{
    if (local >= agent->config.n_ranks || !agent->rank[local].running) {
        (void)hyd_error_set(err, HYD_ERR_CANCELLED, "no step runs on local rank %u",
                            local);
        return NULL;
    }
    return &agent->rank[local];
}

/* Sleep until the network or the loop has news. */
static hyd_status wait_network(struct hyd_agent_rank *rank)
{
    const struct hyd_transport_ops *ops = rank->agent->transport;
    int fd = -1;
    hyd_status st = HYD_OK;

    if (rank->transport == NULL) {
        return HYD_ERR_INTERNAL;
    }
    if (ops->progress(rank->transport)) {
        return HYD_OK;
    }
    st = ops->arm_fd(rank->transport, &fd);
    if (st == HYD_OK && fd >= 0) {
        hyd_agent_rank_block(rank, &fd, 1, -1);
    }
    return st;
}

/* Sleep until the device, the network or the loop has news. The device computes meanwhile,
 * so this does not count as blocked. */
static hyd_status wait_device(struct hyd_agent_rank *rank)
{
    const struct hyd_transport_ops *ops = rank->agent->transport;
    const uint64_t blocked_ns = rank->blocked_ns;
    int fd[HYD_AGENT_MAX_FDS] = {-1, -1};
    hyd_status st = HYD_OK;

    if (rank->transport != NULL) {
        if (ops->progress(rank->transport)) {
            return HYD_OK;
        }
        st = ops->arm_fd(rank->transport, &fd[1]);
        if (st == HYD_OK && fd[1] < 0) {
            return HYD_OK;
        }
    }
    if (st == HYD_OK) {
        st = rank->agent->compute->arm_fd(rank->dev, &fd[0]);
    }
    if (st == HYD_OK && fd[0] >= 0) {
        hyd_agent_rank_block(rank, fd, HYD_AGENT_MAX_FDS, -1);
        rank->blocked_ns = blocked_ns;
    }
    return st;
}

static hyd_status advance(struct hyd_agent_rank *rank, struct hyd_error *err)
{
    for (;;) {
        enum hyd_attn_state state = HYD_ATTN_DONE;
        hyd_status st = hyd_attn_advance(rank->attn, &state, err);

        if (st != HYD_OK) {
            return st;
        }
        if (!hyd_agent_rank_live(rank)) {
            return HYD_ERR_CANCELLED;
        }
        (void)atomic_fetch_add(&rank->progress, state != HYD_ATTN_WAIT_NETWORK);
        switch (state) {
        case HYD_ATTN_DONE:
            return HYD_OK;
        case HYD_ATTN_BUSY:
            break;
        case HYD_ATTN_WAIT_NETWORK:
            st = wait_network(rank);
            if (st != HYD_OK) {
                return st;
            }
            break;
        case HYD_ATTN_WAIT_DEVICE:
            st = wait_device(rank);
            if (st != HYD_OK) {
                return st;
            }
            break;
        }
    }
}

hyd_status hyd_agent_run(struct hyd_agent *agent, uint32_t local_rank,
                         const struct hyd_attn_pass *pass, const struct hyd_attn_io *io,
                         struct hyd_error *err)
{
    struct hyd_agent_rank *rank = running_rank(agent, local_rank, err);
    hyd_status st = HYD_OK;

    if (rank == NULL) {
        return HYD_ERR_CANCELLED;
    }
    if (pass->microbatch >= rank->assignment.n_microbatches) {
        return hyd_error_value(err, HYD_ERR_INVALID, "microbatch",
                               "below n_microbatches", "%u of %u", pass->microbatch,
                               rank->assignment.n_microbatches);
    }
    rank->blocked_ns = 0;
    st = hyd_attn_start(rank->attn, pass, io, err);
    if (st == HYD_OK) {
        st = advance(rank, err);
    }
    rank->blocked_s[pass->microbatch] += 1e-9 * (double)rank->blocked_ns;
    return st == HYD_OK ? HYD_OK : hyd_agent_rank_lose(rank, st, err);
}

hyd_status hyd_agent_exchange(struct hyd_agent *agent, uint32_t local_rank,
                              const struct hyd_op *op, size_t n_ops,
                              struct hyd_error *err)
{
    struct hyd_agent_rank *rank = running_rank(agent, local_rank, err);
    struct hyd_op_group group = {0};
    bool done = false;
    hyd_status st = HYD_OK;

    if (rank == NULL) {
        return HYD_ERR_CANCELLED;
    }
    st = agent->transport->post_group(rank->transport, op, n_ops, &group);
    while (st == HYD_OK) {
        st = agent->transport->test(rank->transport, &group, &done);
        if (st != HYD_OK || done) {
            break;
        }
        st = hyd_agent_rank_live(rank) ? wait_network(rank) : HYD_ERR_CANCELLED;
    }
    if (st == HYD_OK) {
        hyd_agent_touch(agent, local_rank);
        return HYD_OK;
    }
    (void)hyd_error_set(err, st, "an exchange with rank %u failed (%s)",
                        group.failed_peer, hyd_status_name(st));
    return hyd_agent_rank_lose(rank, st, err);
}

hyd_status hyd_agent_report(struct hyd_agent *agent, uint32_t local_rank,
                            const struct hyd_agent_check *check, struct hyd_error *err)
{
    struct hyd_agent_rank *rank = running_rank(agent, local_rank, err);
    struct hyd_attn_memory memory;

    if (rank == NULL) {
        return HYD_ERR_CANCELLED;
    }
    hyd_attn_memory(rank->attn, &memory);
    hyd_attn_end_step(rank->attn);
    rank->running = false;
    rank->measured = (struct hyd_agent_measured){
        .rank = rank->world_rank,
        .figures = rank->assignment.attn.figures,
        .group = rank->assignment.attn.group,
        .plan_group = rank->assignment.plan_group,
        .n_groups = rank->assignment.attn.n_groups,
        .blocked_s = rank->blocked_s,
        .n_microbatches = rank->assignment.n_microbatches,
        .predicted_peak_bytes = rank->assignment.predicted_peak_bytes,
        .measured_peak_bytes = memory.peak_bytes,
        .wall_s = 1e-9 * (double)(hyd_clock_mono_ns(hyd_clock_system()) -
                                  rank->work->start_ns),
    };
    if (check != NULL) {
        rank->measured.check = *check;
    }
    if (!hyd_agent_rank_live(rank)) {
        return hyd_error_set(err, HYD_ERR_CANCELLED, "the step was given up");
    }
    hyd_agent_rank_tell(rank, HYD_AGENT_EV_DONE, HYD_OK, NULL);
    return HYD_OK;
}

void hyd_agent_fail(struct hyd_agent *agent, uint32_t local_rank, const char *reason)
{
    struct hyd_error err = {.text = ""};
    struct hyd_agent_rank *rank = running_rank(agent, local_rank, &err);

    if (rank != NULL) {
        (void)hyd_error_set(&err, HYD_ERR_INTERNAL, "%s", reason);
        (void)hyd_agent_rank_lose(rank, HYD_ERR_INTERNAL, &err);
    }
}

struct hyd_compute *hyd_agent_device(struct hyd_agent *agent, uint32_t local_rank,
                                     const struct hyd_compute_ops **ret_ops)
{
    *ret_ops = agent->compute;
    return agent->rank[local_rank].dev;
}

void hyd_agent_touch(struct hyd_agent *agent, uint32_t local_rank)
{
    (void)atomic_fetch_add(&agent->rank[local_rank].progress, 1);
}

hyd_status hyd_agent_still_wanted(struct hyd_agent *agent, uint32_t local_rank)
{
    return agent->rank[local_rank].running &&
                   hyd_agent_rank_live(&agent->rank[local_rank])
               ? HYD_OK
               : HYD_ERR_CANCELLED;
}
