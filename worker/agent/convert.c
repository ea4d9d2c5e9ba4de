/* convert.c - see convert.h. Groups arrive in the plan's order and are sorted here by the
 * engine's own rule, so that two ends of a link agree whatever the sender's order was. */
#include "worker/agent/convert.h"

#include <stdlib.h>

/* What is above these is not a plan but a broken or hostile peer. */
enum { MAX_LAYERS = 4096, MAX_MICROBATCHES = 1 << 20 };

static hyd_status read_mask(const Hydra__V1__ModelShape *shape,
                            struct hyd_attn_model *ret_model, struct hyd_error *err)
{
    switch ((int)shape->mask) {
    case HYDRA__V1__MASK__MASK_CAUSAL:
        ret_model->see = HYD_SEE_CAUSAL;
        return HYD_OK;
    case HYDRA__V1__MASK__MASK_FULL:
        ret_model->see = HYD_SEE_FULL;
        return HYD_OK;
    case HYDRA__V1__MASK__MASK_WINDOW:
        ret_model->see = HYD_SEE_WINDOW;
        ret_model->window_tokens = shape->window_tokens;
        return HYD_OK;
    default:
        return hyd_error_value(err, HYD_ERR_UNSUPPORTED, "job.cost.model.mask",
                               "causal, full or window", "%d", (int)shape->mask);
    }
}

static hyd_status read_dtype(const Hydra__V1__Execution *execution,
                             struct hyd_attn_model *ret_model, struct hyd_error *err)
{
    const int dtype = execution != NULL ? (int)execution->dtype : 0;

    switch (dtype) {
    case HYDRA__V1__DTYPE__DTYPE_F32:
        ret_model->dtype = HYD_DTYPE_F32;
        return HYD_OK;
    case HYDRA__V1__DTYPE__DTYPE_BF16:
        ret_model->dtype = HYD_DTYPE_BF16;
        return HYD_OK;
    default:
        return hyd_error_value(err, HYD_ERR_UNSUPPORTED, "job.execution.dtype",
                               "f32 or bf16", "%d", dtype);
    }
}

hyd_status hyd_agent_job_read(const Hydra__V1__JobSpec *spec,
                              struct hyd_agent_job *ret_job, struct hyd_error *err)
{
    const Hydra__V1__ModelShape *shape =
        spec != NULL && spec->cost != NULL ? spec->cost->model : NULL;
    struct hyd_agent_job job = {.n_layers = 1};
    uint32_t tp = 1;
    hyd_status st = HYD_OK;

    if (shape == NULL || shape->heads == 0) {
        return hyd_error_field(err, HYD_ERR_INVALID, "job.cost.model",
                               "the job names no model shape");
    }
    if (spec->pool != NULL && spec->pool->tp > 0) {
        tp = spec->pool->tp;
    }
    if (shape->heads % tp != 0) {
        return hyd_error_value(err, HYD_ERR_INVALID, "job.pool.tp",
                               "a divisor of the heads", "%u", tp);
    }
    job.model.d = shape->head_dim;
    job.model.n_heads = shape->heads / tp;
    /* Fewer kv heads than tensor-parallel ranks: each rank holds a copy of one. */
    job.model.n_kv_heads = shape->kv_heads > tp ? shape->kv_heads / tp : 1;
    st = read_mask(shape, &job.model, err);
    if (st == HYD_OK) {
        st = read_dtype(spec->execution, &job.model, err);
    }
    if (st == HYD_OK) {
        st = hyd_attn_model_check(&job.model, err);
    }
    if (st != HYD_OK) {
        return st;
    }
    if (spec->limits == NULL || spec->limits->cap_tokens == 0) {
        return hyd_error_value(err, HYD_ERR_INVALID, "job.limits.cap_tokens",
                               "at least 1", "0");
    }
    job.cell_tokens = spec->limits->cap_tokens;
    if (spec->limits->forward_cap_tokens > job.cell_tokens) {
        job.cell_tokens = spec->limits->forward_cap_tokens;
    }
    if (spec->execution != NULL && spec->execution->layers > 0) {
        job.n_layers = spec->execution->layers;
    }
    if (job.n_layers > MAX_LAYERS) {
        return hyd_error_value(err, HYD_ERR_INVALID, "job.execution.layers",
                               "at most 4096", "%u", job.n_layers);
    }
    *ret_job = job;
    return HYD_OK;
}

bool hyd_agent_job_equal(const struct hyd_agent_job *a, const struct hyd_agent_job *b)
{
    return a->model.dtype == b->model.dtype && a->model.d == b->model.d &&
           a->model.n_heads == b->model.n_heads &&
           a->model.n_kv_heads == b->model.n_kv_heads && a->model.see == b->model.see &&
           a->model.window_tokens == b->model.window_tokens &&
           a->cell_tokens == b->cell_tokens && a->n_layers == b->n_layers;
}

/* --- assignment --- */

static hyd_status read_ranks(const Hydra__V1__AssignedGroup *message, uint32_t n_ranks,
                             struct hyd_arena *arena, struct hyd_group *group,
                             struct hyd_error *err)
{
    uint64_t n_members = 0;
    uint32_t *rank = NULL;
    size_t at = 0;

    for (size_t i = 0; i < message->n_ranks; i++) {
        const Hydra__V1__RankRun *run = message->ranks[i];

        if (run->count > n_ranks || run->first > n_ranks - run->count) {
            return hyd_error_value(err, HYD_ERR_INVALID, "groups.ranks",
                                   "inside the world", "%u+%u of %u", run->first,
                                   run->count, n_ranks);
        }
        n_members += run->count;
    }
    if (n_members == 0 || n_members > n_ranks ||
        (uint64_t)message->u * message->r != n_members) {
        return hyd_error_value(err, HYD_ERR_INVALID, "groups.u", "u * r members",
                               "%u * %u for %llu", message->u, message->r,
                               (unsigned long long)n_members);
    }
    rank = hyd_arena_take(arena, (size_t)n_members, sizeof *rank);
    if (rank == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < message->n_ranks; i++) {
        for (uint32_t k = 0; k < message->ranks[i]->count; k++) {
            rank[at++] = message->ranks[i]->first + k;
        }
    }
    group->rank = rank;
    group->u = message->u;
    group->r = message->r;
    return HYD_OK;
}

static hyd_status read_group(const Hydra__V1__AssignedGroup *message,
                             const struct hyd_agent_job *job, uint32_t n_ranks,
                             struct hyd_arena *arena, struct hyd_group *ret_group,
                             struct hyd_error *err)
{
    struct hyd_group group = {
        .microbatch = message->microbatch,
        .id = message->ids,
        .length_tokens = message->length_tokens,
        .n_seqs = (uint32_t)message->n_ids,
    };
    hyd_status st = HYD_OK;

    if (message->n_ids == 0 || message->n_ids != message->n_length_tokens ||
        message->n_ids > UINT32_MAX) {
        return hyd_error_value(err, HYD_ERR_INVALID, "groups.ids",
                               "one or more, each with a length", "%zu for %zu lengths",
                               message->n_ids, message->n_length_tokens);
    }
    st = read_ranks(message, n_ranks, arena, &group, err);
    if (st == HYD_OK) {
        st = hyd_group_check(&group, &job->model, n_ranks, err);
    }
    if (st == HYD_OK) {
        *ret_group = group;
    }
    return st;
}

struct placed_group {
    struct hyd_group group;
    uint32_t plan_group;
};

static int compare_groups(const void *a, const void *b)
{
    const struct placed_group *x = a;
    const struct placed_group *y = b;

    return hyd_group_compare(&x->group, &y->group);
}

static hyd_status read_groups(const Hydra__V1__Assignment *message,
                              const struct hyd_agent_job *job, uint32_t n_ranks,
                              struct hyd_arena *arena, struct hyd_agent_plan *plan,
                              struct hyd_error *err)
{
    const size_t n = message->n_groups;
    struct placed_group *placed = hyd_arena_take(arena, n, sizeof *placed);
    struct hyd_group *group = hyd_arena_take(arena, n, sizeof *group);
    uint32_t *plan_group = hyd_arena_take(arena, n, sizeof *plan_group);

    if (placed == NULL || group == NULL || plan_group == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < n; i++) {
        const Hydra__V1__AssignedGroup *from = message->groups[i];
        hyd_status st = HYD_OK;

        if (from->microbatch >= message->num_microbatches) {
            st = hyd_error_value(err, HYD_ERR_INVALID, "groups.microbatch",
                                 "below num_microbatches", "%u of %u", from->microbatch,
                                 message->num_microbatches);
        } else {
            st = read_group(from, job, n_ranks, arena, &placed[i].group, err);
        }
        if (st != HYD_OK) {
            hyd_error_prefix(err, "step %llu, group %zu",
                             (unsigned long long)message->step, i);
            return st;
        }
        placed[i].plan_group = from->group;
    }
    qsort(placed, n, sizeof *placed, compare_groups);
    for (size_t i = 0; i < n; i++) {
        group[i] = placed[i].group;
        plan_group[i] = placed[i].plan_group;
    }
    plan->group = group;
    plan->plan_group = plan_group;
    plan->n_groups = n;
    return HYD_OK;
}

static enum hyd_agent_verify read_verify(const Hydra__V1__Execution *execution)
{
    if (execution == NULL) {
        return HYD_VERIFY_OFF;
    }
    switch ((int)execution->verify) {
    case HYDRA__V1__VERIFY__VERIFY_SAMPLE:
        return HYD_VERIFY_SAMPLE;
    case HYDRA__V1__VERIFY__VERIFY_FULL:
        return HYD_VERIFY_FULL;
    default:
        return HYD_VERIFY_OFF;
    }
}

hyd_status hyd_agent_plan_read(const Hydra__V1__Assignment *message,
                               const struct hyd_agent_job *job, uint32_t n_ranks,
                               struct hyd_arena *arena, struct hyd_agent_plan *ret_plan,
                               struct hyd_error *err)
{
    const Hydra__V1__Execution *execution = message->execution;
    struct hyd_agent_plan plan = {
        .step = message->step,
        .epoch = message->epoch,
        .backward = message->pass == HYDRA__V1__PASS__PASS_TRAIN,
        .n_microbatches = message->num_microbatches,
        .n_layers = job->n_layers,
        .verify = read_verify(execution),
        .deadline_ms = message->deadline_ms,
    };
    hyd_status st = HYD_OK;

    if (execution != NULL) {
        plan.seed = execution->seed;
        plan.verify_flop = execution->verify_flop;
    }
    if (execution != NULL && execution->layers > job->n_layers) {
        return hyd_error_value(err, HYD_ERR_INVALID, "execution.layers",
                               "at most the job's", "%u of %u", execution->layers,
                               job->n_layers);
    }
    if (execution != NULL && execution->layers > 0) {
        plan.n_layers = execution->layers;
    }
    if (message->num_microbatches > MAX_MICROBATCHES) {
        return hyd_error_value(err, HYD_ERR_INVALID, "num_microbatches",
                               "at most 1048576", "%u", message->num_microbatches);
    }
    st = read_groups(message, job, n_ranks, arena, &plan, err);
    if (st == HYD_OK) {
        *ret_plan = plan;
    }
    return st;
}

/* --- report --- */

/* Room for all cells and shards of a node, with the lists that point to them. */
struct report_room {
    Hydra__V1__CellReport *cell;
    Hydra__V1__CellReport **cell_list;
    size_t n_cells;
    Hydra__V1__ShardReport *shard;
    Hydra__V1__ShardReport **shard_list;
    size_t n_shards;
};

static void add_cells(const struct hyd_agent_measured *from, struct report_room *room)
{
    const size_t first = room->n_cells;

    for (uint32_t m = 0; m < from->n_microbatches; m++) {
        Hydra__V1__CellReport *cell = &room->cell[first + m];

        hydra__v1__cell_report__init(cell);
        cell->rank = from->rank;
        cell->microbatch = m;
        cell->wait_s = from->blocked_s[m];
        room->cell_list[first + m] = cell;
    }
    room->n_cells += from->n_microbatches;
    for (size_t i = 0; i < from->n_groups; i++) {
        const struct hyd_attn_figures *figures = &from->figures[i];
        Hydra__V1__CellReport *cell = &room->cell[first + from->group[i].microbatch];
        Hydra__V1__ShardReport *shard = &room->shard[room->n_shards];

        cell->compute_s += figures->compute_s;
        cell->bytes += figures->sent_bytes;
        cell->exposed_s += figures->wait_s;
        hydra__v1__shard_report__init(shard);
        shard->rank = from->rank;
        shard->microbatch = from->group[i].microbatch;
        shard->group = from->plan_group[i];
        shard->compute_s = figures->compute_s;
        room->shard_list[room->n_shards++] = shard;
    }
}

static void add_check(const struct hyd_agent_check *from, Hydra__V1__CheckReport *to,
                      uint64_t *digest)
{
    to->by_reference += from->by_reference;
    to->by_single_rank += from->by_single_rank;
    to->sampled_rows += from->sampled_rows;
    to->unchecked += from->unchecked;
    /* A NaN error must not get lost in a comparison. */
    if (!(from->max_error <= to->max_error)) {
        to->max_error = from->max_error;
    }
    *digest += from->digest;
}

static hyd_status take_room(const struct hyd_agent_measured *const *measured,
                            size_t n_ranks, struct hyd_arena *arena,
                            struct report_room *ret_room)
{
    size_t n_cells = 0;
    size_t n_shards = 0;

    for (size_t i = 0; i < n_ranks; i++) {
        n_cells += measured[i]->n_microbatches;
        n_shards += measured[i]->n_groups;
    }
    *ret_room = (struct report_room){
        .cell = hyd_arena_take(arena, n_cells, sizeof *ret_room->cell),
        .cell_list = hyd_arena_take(arena, n_cells, sizeof(void *)),
        .shard = hyd_arena_take(arena, n_shards, sizeof *ret_room->shard),
        .shard_list = hyd_arena_take(arena, n_shards, sizeof(void *)),
    };
    return ret_room->cell != NULL && ret_room->cell_list != NULL &&
                   ret_room->shard != NULL && ret_room->shard_list != NULL
               ? HYD_OK
               : HYD_ERR_NO_MEMORY;
}

hyd_status hyd_agent_report_write(const struct hyd_agent_measured *const *measured,
                                  size_t n_ranks, struct hyd_arena *arena,
                                  Hydra__V1__StepReport *ret_report)
{
    Hydra__V1__StepReport report = HYDRA__V1__STEP_REPORT__INIT;
    Hydra__V1__CheckReport *check = hyd_arena_take(arena, 1, sizeof *check);
    struct report_room room;
    hyd_status st = take_room(measured, n_ranks, arena, &room);

    if (st != HYD_OK || check == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    hydra__v1__check_report__init(check);
    for (size_t i = 0; i < n_ranks; i++) {
        const struct hyd_agent_measured *from = measured[i];

        add_cells(from, &room);
        add_check(&from->check, check, &report.digest);
        if (from->predicted_peak_bytes > report.predicted_peak_bytes) {
            report.predicted_peak_bytes = from->predicted_peak_bytes;
        }
        if (from->measured_peak_bytes > report.measured_peak_bytes) {
            report.measured_peak_bytes = from->measured_peak_bytes;
        }
        if (from->wall_s > report.wall_s) {
            report.wall_s = from->wall_s;
        }
    }
    report.cells = room.cell_list;
    report.n_cells = room.n_cells;
    report.shards = room.shard_list;
    report.n_shards = room.n_shards;
    report.check = check;
    *ret_report = report;
    return HYD_OK;
}
