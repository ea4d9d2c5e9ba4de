/*
 * search.c - see search.h.
 *
 * Coordinate search. The first M walks down the scales of theta; later ones start at the
 * best scale so far. It stops when the next prediction is no better than what is there:
 * predictions are one to three per cent below what placements reach.
 */
#include "scheduler/core/search.h"

#include <float.h>
#include <string.h>

#include "scheduler/core/ramp.h"
#include "scheduler/core/trial.h"

#include "common/base/banned.h"

static const double THETA[] = {1.0, 0.7, 0.45, 0.28, 0.2};
enum { N_THETAS = sizeof THETA / sizeof THETA[0] };

/* A scale must be this much better to go on to the next. */
static const double WORTH = 0.9995;
/* Small batches try a ramp whose largest share is at most this, too. */
static const double LOW_RAMP = 1.1;
enum { SMALL_BATCH = 3000, RESCUES = 40 };

/* One candidate of M while it is tried. */
struct stage {
    struct hyd_candidate candidate;
    struct hyd_trial_bench bench;
    double *share;
    double *low_share; /* NULL: not tried */
    uint8_t *row; /* [n_runs] */
    uint32_t *order;
    struct hyd_placement *placement; /* scratch of the search */
    bool placed; /* some placement worked */
};

static hyd_status no_memory(struct hyd_error *err)
{
    return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory to plan");
}

static void tell(const struct hyd_search *search, enum hyd_trace_kind kind,
                 const struct hyd_candidate *candidate, double theta, double step_s,
                 bool exclusive)
{
    const struct hyd_trace_event event = {
        .kind = kind,
        .n_microbatches = candidate->n_microbatches,
        .exclusive = exclusive,
        .target_s = candidate->target_s,
        .predicted_s = candidate->predicted_s,
        .theta = theta,
        .time_s = step_s,
    };

    hyd_trace_emit(search->in->trace, &event);
}

/* The degree of each length, as chosen. */
static void tell_degrees(const struct hyd_search *search, const struct stage *stage,
                         double target_s)
{
    const struct hyd_seqs *seqs = &search->seqs;

    for (uint32_t k = 0; search->in->trace != NULL && k < seqs->n_runs; k++) {
        const struct hyd_trace_event event = {
            .kind = HYD_TRACE_DEGREE,
            .seq = seqs->id[seqs->run_first[k]],
            .degree = search->table.row[stage->row[k]].d,
            .tokens = seqs->tokens[k],
            .time_s = hyd_degree_s(&search->table, stage->row[k], seqs->tokens[k],
                                   seqs->extra_s[k]),
            .target_s = target_s,
        };

        hyd_trace_emit(search->in->trace, &event);
    }
}

/* Keep a better placement: swap the arrays, copy the order. */
static void keep(struct hyd_search *search, struct stage *stage, double step_s)
{
    const struct hyd_placement better = *stage->placement;

    *stage->placement = search->best;
    search->best = better;
    search->step_s = step_s;
    memcpy(search->order, stage->order, better.n_microbatches * sizeof *search->order);
}

/* Place and simulate once; *ret_step_s is DBL_MAX when there is no placement. */
static hyd_status try_one(struct hyd_search *search, struct stage *stage, double theta,
                          const double *share, bool exclusive, double *ret_step_s)
{
    const struct hyd_place_in in = {
        .seqs = &search->seqs,
        .table = &search->table,
        .speed = search->speed,
        .row = stage->row,
        .share = share,
        .n_microbatches = stage->candidate.n_microbatches,
        .target_s = stage->candidate.target_s,
        .theta = theta,
        .trace = search->in->trace,
    };
    double step_s = DBL_MAX;
    hyd_status st = HYD_OK;

    tell(search, HYD_TRACE_TRY, &stage->candidate, theta, 0.0, exclusive);
    hyd_degree_choose(&search->table, &search->seqs, theta * in.target_s, stage->row);
    tell_degrees(search, stage, theta * in.target_s);
    st = exclusive ? hyd_place_exclusive(&in, search->arena, stage->placement)
                   : hyd_place_mixed(&in, search->arena, stage->placement);
    search->n_tries++;
    search->n_pops += stage->placement->n_pops;
    if (st == HYD_OK) {
        st = hyd_trial_run(&stage->bench, stage->placement, share, search->arena,
                           stage->order, &step_s);
    }
    if (st != HYD_OK && st != HYD_ERR_INFEASIBLE) {
        return st;
    }
    tell(search, HYD_TRACE_RESULT, &stage->candidate, theta,
         st == HYD_OK ? step_s : -1.0, exclusive);
    if (st == HYD_OK) {
        stage->placed = true;
        if (step_s < search->step_s) {
            keep(search, stage, step_s);
        }
    }
    *ret_step_s = step_s;
    return HYD_OK;
}

/* Both ramps at one scale of degrees. */
static hyd_status try_theta(struct hyd_search *search, struct stage *stage,
                            double theta, bool exclusive, double *ret_step_s)
{
    double step_s = DBL_MAX;
    double low_s = DBL_MAX;
    hyd_status st = try_one(search, stage, theta, stage->share, exclusive, &step_s);

    if (st == HYD_OK && stage->low_share != NULL) {
        st = try_one(search, stage, theta, stage->low_share, exclusive, &low_s);
    }
    *ret_step_s = low_s < step_s ? low_s : step_s;
    return st;
}

static hyd_status open_stage(struct hyd_search *search,
                             const struct hyd_candidate *candidate,
                             struct hyd_placement *placement, struct stage *ret_stage)
{
    const struct hyd_plan_input *in = search->in;
    const uint32_t n_mb = candidate->n_microbatches;
    const struct hyd_pipeline shape = hyd_pipeline_of(in, n_mb);
    const bool small = search->seqs.n_seqs <= SMALL_BATCH;
    struct stage stage = {
        .candidate = *candidate,
        .placement = placement,
        .share = hyd_arena_take(search->arena, n_mb, sizeof *stage.share),
        .order = hyd_arena_take(search->arena, n_mb, sizeof *stage.order),
        .row = hyd_arena_take(search->arena, search->seqs.n_runs, sizeof *stage.row),
    };
    hyd_status st = HYD_OK;

    if (stage.share == NULL || stage.order == NULL || stage.row == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    st = hyd_ramp_share(in->ramps, &shape, 0.0, search->arena, stage.share);
    if (st == HYD_OK && shape.n_stages > 1 &&
        (in->options.effort >= 6 || (in->options.effort >= 4 && small))) {
        stage.low_share = hyd_arena_take(search->arena, n_mb, sizeof *stage.low_share);
        if (stage.low_share == NULL) {
            return HYD_ERR_NO_MEMORY;
        }
        st =
            hyd_ramp_share(in->ramps, &shape, LOW_RAMP, search->arena, stage.low_share);
    }
    if (st != HYD_OK) {
        return st;
    }
    *ret_stage = stage;
    /* In place: the simulator points to the program beside it. */
    st = hyd_trial_bench_init(&ret_stage->bench, in, &search->seqs, &search->table,
                              n_mb, search->arena);
    ret_stage->bench.speed = search->speed;
    return st;
}

/* Scales of theta from `*theta` on, downwards while it helps. */
static hyd_status walk_thetas(struct hyd_search *search, struct stage *stage,
                              uint32_t n_done, bool exclusive, uint32_t *theta)
{
    const uint32_t effort = search->in->options.effort;
    uint32_t best_theta = *theta;
    double here_s = DBL_MAX;

    for (uint32_t h = n_done > 0 ? *theta : 0; h < N_THETAS; h++) {
        const double before_s = search->step_s;
        double step_s = DBL_MAX;
        const hyd_status st = try_theta(search, stage, THETA[h], exclusive, &step_s);

        if (st != HYD_OK) {
            return st;
        }
        if (search->step_s < before_s) {
            best_theta = h;
        }
        if ((effort == 1 && stage->placed) || (n_done > 0 && effort < 4)) {
            break;
        }
        if (step_s >= here_s * WORTH && (n_done > 0 || h > 1)) {
            break;
        }
        here_s = step_s < here_s ? step_s : here_s;
    }
    *theta = best_theta;
    return HYD_OK;
}

/* One pass over the candidates with one kind of cells. */
static hyd_status walk_candidates(struct hyd_search *search,
                                  const struct hyd_candidate *candidate, uint32_t count,
                                  bool exclusive, struct hyd_placement *placement)
{
    uint32_t theta = 0;
    uint32_t n_done = 0;
    hyd_status st = HYD_OK;

    for (uint32_t k = 0; k < count && n_done < search->in->options.effort; k++) {
        const struct hyd_arena_mark mark = hyd_arena_mark(search->arena);
        struct stage stage;

        if (search->step_s < candidate[k].predicted_s) {
            break;
        }
        st = open_stage(search, &candidate[k], placement, &stage);
        if (st == HYD_OK) {
            st = walk_thetas(search, &stage, n_done, exclusive, &theta);
        }
        hyd_arena_rewind(search->arena, mark);
        if (st != HYD_OK) {
            return st;
        }
        n_done += stage.placed;
    }
    return HYD_OK;
}

/* No candidate could be placed: more microbatches until one can. */
static hyd_status rescue(struct hyd_search *search,
                         const struct hyd_microbatches_in *in, uint32_t most,
                         bool exclusive, struct hyd_placement *placement)
{
    const uint32_t step =
        search->in->pool.vpp_group > 1 ? search->in->pool.vpp_group : 1;
    uint32_t n_mb = most;
    hyd_status st = HYD_OK;

    for (uint32_t k = 0; st == HYD_OK && k < RESCUES && search->step_s == DBL_MAX;
         k++) {
        struct hyd_candidate candidate = {0};

        n_mb = (n_mb + n_mb / 4 + step) / step * step;
        if (n_mb > HYD_MAX_MICROBATCHES) {
            break;
        }
        candidate.n_microbatches = n_mb;
        st = hyd_microbatches_predict(in, search->arena, &candidate, NULL);
        if (st == HYD_OK) {
            st = walk_candidates(search, &candidate, 1, exclusive, placement);
        }
    }
    return st;
}

static hyd_status take_results(struct hyd_search *search, uint32_t most,
                               struct hyd_placement *ret_scratch)
{
    const size_t n = search->seqs.n_seqs;

    search->order = hyd_arena_take(search->arena, most, sizeof *search->order);
    if (search->order == NULL ||
        hyd_placement_init(n, search->arena, &search->best) != HYD_OK ||
        hyd_placement_init(n, search->arena, ret_scratch) != HYD_OK) {
        return HYD_ERR_NO_MEMORY;
    }
    search->step_s = DBL_MAX;
    return HYD_OK;
}

static hyd_status search_all(struct hyd_search *search,
                             const struct hyd_microbatches_in *in,
                             const struct hyd_candidate *candidate, uint32_t count)
{
    const enum hyd_cells cells = search->in->options.cells;
    const bool is_free = search->in->options.microbatches == 0;
    struct hyd_placement scratch;
    uint32_t most = 0;
    hyd_status st = HYD_OK;

    for (uint32_t k = 0; k < count; k++) {
        const uint32_t n = candidate[k].n_microbatches;

        most = n > most ? n : most;
        tell(search, HYD_TRACE_CANDIDATE, &candidate[k], 0.0, 0.0, false);
    }
    /* A rescue may go beyond the candidates. */
    st = take_results(search, is_free ? HYD_MAX_MICROBATCHES : most, &scratch);
    if (st == HYD_OK && cells != HYD_CELLS_EXCLUSIVE) {
        st = walk_candidates(search, candidate, count, false, &scratch);
    }
    if (st == HYD_OK && (cells == HYD_CELLS_EXCLUSIVE ||
                         (cells == HYD_CELLS_AUTO && search->in->options.effort > 1))) {
        st = walk_candidates(search, candidate, count, true, &scratch);
    }
    if (st == HYD_OK && search->step_s == DBL_MAX && is_free) {
        st = rescue(search, in, most, cells == HYD_CELLS_EXCLUSIVE, &scratch);
    }
    return st;
}

hyd_status hyd_search_run(struct hyd_search *search, struct hyd_error *err)
{
    const struct hyd_microbatches_in in = {
        .in = search->in,
        .seqs = &search->seqs,
        .table = &search->table,
        .sums = &search->sums,
        .ramps = search->in->ramps,
        .speed_sum = search->speed_sum,
    };
    struct hyd_candidate candidate[HYD_MAX_CANDIDATES];
    uint32_t count = 0;
    hyd_status st = hyd_microbatches_rank(&in, search->arena, candidate, &count, err);

    if (st != HYD_OK) {
        return st;
    }
    st = search_all(search, &in, candidate, count);
    if (st == HYD_ERR_NO_MEMORY) {
        return no_memory(err);
    }
    if (st != HYD_OK) {
        return hyd_error_set(err, st, "cannot simulate this pipeline");
    }
    if (search->step_s == DBL_MAX) {
        return hyd_error_field(err, HYD_ERR_INFEASIBLE, "microbatches",
                               "no placement of %zu sequences on %u ranks in %u "
                               "microbatches keeps the cap "
                               "of %u tokens",
                               search->seqs.n_seqs, search->in->pool.n_ranks,
                               search->in->options.microbatches != 0
                                   ? search->in->options.microbatches
                                   : HYD_MAX_MICROBATCHES,
                               search->in->limits.cap_tokens);
    }
    {
        const struct hyd_candidate chosen = {.n_microbatches =
                                                 search->best.n_microbatches,
                                             .target_s = search->best.target_s};

        tell(search, HYD_TRACE_CHOICE, &chosen, search->best.theta, search->step_s,
             search->best.exclusive);
    }
    return HYD_OK;
}

/* Nodes by their slowest rank, ranks inside a node by speed: like speeds together. */
static hyd_status sort_by_speed(struct hyd_search *search)
{
    const struct hyd_pool *pool = &search->in->pool;
    const uint32_t n = pool->n_ranks;

    search->speed_sum = n;
    search->rank = hyd_arena_take(search->arena, n, sizeof *search->rank);
    if (search->rank == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (uint32_t r = 0; r < n; r++) {
        search->rank[r] = r;
    }
    if (pool->speed == NULL) {
        return HYD_OK;
    }
    search->speed = hyd_arena_take(search->arena, n, sizeof *search->speed);
    if (search->speed == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    search->speed_sum = 0.0;
    for (uint32_t r = 0; r < n; r++) {
        search->speed[r] = pool->speed[search->rank[r]];
        search->speed_sum += search->speed[r];
    }
    return HYD_OK;
}

hyd_status hyd_search_init(struct hyd_search *search, const struct hyd_plan_input *in,
                           struct hyd_arena *arena, struct hyd_error *err)
{
    double fewest = 0.0;
    double cells = 0.0;
    hyd_status st = HYD_OK;

    *search = (struct hyd_search){.in = in, .arena = arena, .step_s = DBL_MAX};
    st = hyd_seqs_init(&in->batch, in->cost, arena, &search->seqs, err);
    if (st == HYD_OK) {
        st = hyd_degree_table_init(in, &search->seqs, arena, &search->table, err);
    }
    if (st != HYD_OK) {
        return st;
    }
    if (sort_by_speed(search) != HYD_OK) {
        return no_memory(err);
    }
    fewest =
        search->seqs.total_tokens / ((double)in->pool.n_ranks * in->limits.cap_tokens);
    cells = search->speed_sum * (in->options.microbatches != 0
                                     ? in->options.microbatches
                                     : (fewest > 1.0 ? fewest : 1.0));
    /* No target lies far below that of six times the fewest microbatches. */
    if (hyd_target_sums_init(&search->table, &search->seqs,
                             search->seqs.total_work_s / cells / 8.0, cells, arena,
                             &search->sums) != HYD_OK) {
        return no_memory(err);
    }
    return HYD_OK;
}
