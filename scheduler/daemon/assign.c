/*
 * assign.c - each member agent its part of a plan; see agents.h.
 *
 * An agent gets only the groups that touch its ranks. One pass over the plan's rank
 * entries finds them for all agents at once; a group's message is built once and shared
 * by every agent that is in it.
 */
#include "scheduler/daemon/agents.h"
#include "scheduler/daemon/service.h"

#include "common/base/banned.h"

struct assign {
    struct hyd_job *job;
    const struct hyd_plan *plan;
    const struct hyd_batch *batch;
    struct hyd_arena *arena;
    uint32_t *slot_of_rank; /* [n_ranks] */
    uint32_t *n_of_slot; /* [n_slots] groups */
    uint32_t *seen; /* [n_slots] last group counted, plus 1 */
    Hydra__V1__AssignedGroup ***group_of_slot; /* [n_slots][n_of_slot] */
};

static bool map_ranks(struct assign *a)
{
    const uint32_t n_slots = a->job->n_slots;

    a->slot_of_rank =
        hyd_arena_take_zeroed(a->arena, a->plan->n_ranks, sizeof(uint32_t));
    a->n_of_slot = hyd_arena_take_zeroed(a->arena, n_slots, sizeof(uint32_t));
    a->seen = hyd_arena_take_zeroed(a->arena, n_slots, sizeof(uint32_t));
    a->group_of_slot = hyd_arena_take_zeroed(a->arena, n_slots, sizeof(void *));
    if (a->slot_of_rank == NULL || a->n_of_slot == NULL || a->seen == NULL ||
        a->group_of_slot == NULL) {
        return false;
    }
    for (uint32_t slot = 0; slot < n_slots; slot++) {
        const struct hyd_step_agent *agent = hyd_step_agent(a->job->machine, slot);

        for (uint32_t k = 0; agent != NULL && agent->member && k < agent->n_ranks;
             k++) {
            a->slot_of_rank[agent->first_rank + k] = slot;
        }
    }
    return true;
}

static Hydra__V1__AssignedGroup *make_group(const struct assign *a, uint32_t m,
                                            uint32_t g)
{
    const struct hyd_plan_group *group = &a->plan->group[g];
    Hydra__V1__AssignedGroup *out = hyd_arena_take(a->arena, 1, sizeof *out);
    uint32_t *length = hyd_arena_take(a->arena, group->n_ids, sizeof *length);

    if (out == NULL || length == NULL) {
        return NULL;
    }
    hydra__v1__assigned_group__init(out);
    out->microbatch = m;
    out->group = g - a->plan->mb_first_group[m];
    out->u = group->u;
    out->r = group->r;
    out->ids = a->plan->id + group->first_id;
    out->n_ids = group->n_ids;
    for (uint32_t i = 0; i < group->n_ids; i++) {
        length[i] = a->batch->length_tokens[out->ids[i]];
    }
    out->length_tokens = length;
    out->n_length_tokens = group->n_ids;
    out->ranks = hyd_convert_runs(a->plan->rank + group->first_rank, group->n_ranks,
                                  a->arena, &out->n_ranks);
    return out->ranks == NULL ? NULL : out;
}

/* Give a group to every agent that has a rank in it; made NULL: only count it. `mark` is
 * this group's alone, so that no agent gets it twice. */
static void hand_out(struct assign *a, const struct hyd_plan_group *group,
                     uint32_t mark, Hydra__V1__AssignedGroup *made)
{
    for (uint32_t k = 0; k < group->n_ranks; k++) {
        const uint32_t slot = a->slot_of_rank[a->plan->rank[group->first_rank + k]];

        if (a->seen[slot] == mark) {
            continue;
        }
        a->seen[slot] = mark;
        if (made != NULL) {
            a->group_of_slot[slot][a->n_of_slot[slot]] = made;
        }
        a->n_of_slot[slot]++;
    }
}

/* First count, then with `fill` build and list. */
static bool visit(struct assign *a, bool fill)
{
    for (uint32_t m = 0; m < a->plan->n_microbatches; m++) {
        for (uint32_t g = a->plan->mb_first_group[m];
             g < a->plan->mb_first_group[m + 1]; g++) {
            Hydra__V1__AssignedGroup *made = fill ? make_group(a, m, g) : NULL;

            if (fill && made == NULL) {
                return false;
            }
            hand_out(a, &a->plan->group[g], 2 * g + (fill ? 2 : 1), made);
        }
    }
    return true;
}

static bool list_groups(struct assign *a)
{
    if (!visit(a, false)) {
        return false;
    }
    for (uint32_t slot = 0; slot < a->job->n_slots; slot++) {
        a->group_of_slot[slot] =
            hyd_arena_take(a->arena, a->n_of_slot[slot], sizeof(void *));
        if (a->group_of_slot[slot] == NULL) {
            return false;
        }
        a->n_of_slot[slot] = 0;
    }
    return visit(a, true);
}

static void send_parts(const struct assign *a, const struct hyd_job_step *step,
                       const struct hyd_step_update *update)
{
    Hydra__V1__SchedulerMessage out = HYDRA__V1__SCHEDULER_MESSAGE__INIT;
    Hydra__V1__Assignment part = HYDRA__V1__ASSIGNMENT__INIT;

    part.epoch = update->epoch;
    part.step = update->step;
    part.pass = step->pass == HYD_PASS_FORWARD ? HYDRA__V1__PASS__PASS_FORWARD
                                               : HYDRA__V1__PASS__PASS_TRAIN;
    part.num_microbatches = a->plan->n_microbatches;
    part.execution = a->job->spec->execution;
    part.deadline_ms = (uint32_t)update->deadline_ms;
    out.kind_case = HYDRA__V1__SCHEDULER_MESSAGE__KIND_ASSIGNMENT;
    out.assignment = &part;
    for (uint32_t slot = 0; slot < a->job->n_slots; slot++) {
        const struct hyd_step_agent *agent = hyd_step_agent(a->job->machine, slot);

        if (a->job->agent[slot] != NULL && agent != NULL && agent->member) {
            part.groups = a->group_of_slot[slot];
            part.n_groups = a->n_of_slot[slot];
            (void)hyd_call_send(a->job->agent[slot]->call, &out.base);
        }
    }
}

void hyd_agents_send_assignment(struct hyd_job *job,
                                const struct hyd_step_update *update)
{
    struct hyd_arena *scratch = &job->service->scratch;
    struct hyd_arena_mark mark = hyd_arena_mark(scratch);
    struct hyd_job_step *step = hyd_job_find_step(job, update->step);
    struct assign a = {.job = job,
                       .plan = &step->plan.plan,
                       .batch = &step->plan.batch,
                       .arena = scratch};

    if (map_ranks(&a) && list_groups(&a)) {
        send_parts(&a, step, update);
    } else {
        /* The step's deadline ends this. */
        hyd_log_error(job->service->config.log, "assignment dropped: no memory",
                      "job=%s step=%llu", hyd_job_name(job),
                      (unsigned long long)update->step);
    }
    hyd_arena_rewind(scratch, mark);
}
