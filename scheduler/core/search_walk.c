/*
 * search_walk.c - see search_walk.h.
 *
 * A point is a candidate of M, a scale theta of the degrees and a kind of cells. The
 * search starts at the best prediction and a middle scale, and moves to the first better
 * neighbour in the order of MOVE until none is better or the effort is used up.
 * Candidates whose prediction is no better than the best step are not looked at:
 * predictions are one to three per cent below what placements reach. Order of moves,
 * start and limits were chosen on full grids over 170 real batches (scheduler/README.md
 * "The search").
 */
#include "scheduler/core/search_walk.h"

#include <float.h>
#include <string.h>

#include "scheduler/core/ramp.h"
#include "scheduler/core/trial.h"

#include "common/base/banned.h"

static const double THETA[] = {1.0, 0.7, 0.45, 0.28, 0.2, 0.14};
enum {
    N_THETAS = sizeof THETA / sizeof THETA[0],
    START_THETA = 2,
    ONLY_THETA = 3, /* when one try is all there is */
    MAX_EFFORT = 6,
    RESCUES = 40,
};

static const uint32_t TRIES[MAX_EFFORT + 1] = {1, 1, 4, 8, 12, 20, 36};

struct move {
    int candidate;
    int theta;
    bool other_cells;
};

static const struct move MOVE[] = {
    {0, 1, false},  {0, -1, false}, {0, 0, true},  {1, 0, false},  {2, 0, false},
    {-1, 0, false}, {3, 0, false},  {0, 1, true},  {0, -1, true},  {0, 2, true},
    {0, -2, true},  {1, 0, true},   {1, 1, false}, {1, -1, false}, {2, 0, true},
    {0, 2, false},  {0, -2, false}, {2, 1, false}, {2, -1, false}, {4, 0, false},
};
enum { N_MOVES = sizeof MOVE / sizeof MOVE[0] };

/* Batches that have effort to spare try a ramp whose largest share is at most this. */
static const double LOW_RAMP = 1.1;

struct point {
    int candidate;
    int theta;
    bool exclusive;
};

/* One candidate of M while it is tried. */
struct stage {
    struct hyd_candidate candidate;
    struct hyd_trial_bench bench;
    double *share;
    uint8_t *row; /* [n_runs] */
    uint32_t *order;
};

struct walk {
    struct hyd_search *search;
    const struct hyd_candidate *candidate;
    int n_candidates;
    bool cells[2]; /* may they be mixed, exclusive? */
    struct hyd_placement placement; /* scratch: the worse of two */
    struct hyd_arena_mark mark; /* before the open stage */
    int open; /* candidate of the stage; -1: none */
    struct stage stage;
    double step_s[HYD_MAX_CANDIDATES][N_THETAS][2]; /* < 0: not tried */
    uint32_t n_tries;
};

void hyd_search_tell(const struct hyd_search *search, enum hyd_trace_kind kind,
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
static void keep(struct walk *walk, double step_s)
{
    struct hyd_search *search = walk->search;
    const struct hyd_placement better = walk->placement;

    walk->placement = search->best;
    search->best = better;
    search->step_s = step_s;
    memcpy(search->order, walk->stage.order,
           better.n_microbatches * sizeof *search->order);
}

/* Place and simulate once; *ret_step_s is DBL_MAX when there is no placement. */
static hyd_status try_one(struct walk *walk, double theta, bool exclusive,
                          double *ret_step_s)
{
    struct hyd_search *search = walk->search;
    struct stage *stage = &walk->stage;
    const struct hyd_place_in in = {
        .seqs = &search->seqs,
        .table = &search->table,
        .speed = search->speed,
        .row = stage->row,
        .share = stage->share,
        .n_microbatches = stage->candidate.n_microbatches,
        .target_s = stage->candidate.target_s,
        .theta = theta,
        .trace = search->in->trace,
    };
    double step_s = DBL_MAX;
    hyd_status st = HYD_OK;

    hyd_search_tell(search, HYD_TRACE_TRY, &stage->candidate, theta, 0.0, exclusive);
    hyd_degree_choose(&search->table, &search->seqs, theta * in.target_s, stage->row);
    tell_degrees(search, stage, theta * in.target_s);
    st = exclusive ? hyd_place_exclusive(&in, search->arena, &walk->placement)
                   : hyd_place_mixed(&in, search->arena, &walk->placement);
    search->n_tries++;
    search->n_pops += walk->placement.n_pops;
    if (st == HYD_OK) {
        st = hyd_trial_run(&stage->bench, &walk->placement, stage->share, search->arena,
                           stage->order, &step_s);
    }
    if (st != HYD_OK && st != HYD_ERR_INFEASIBLE) {
        return st;
    }
    hyd_search_tell(search, HYD_TRACE_RESULT, &stage->candidate, theta,
                    st == HYD_OK ? step_s : -1.0, exclusive);
    if (step_s < search->step_s) {
        keep(walk, step_s);
    }
    *ret_step_s = step_s;
    return HYD_OK;
}

static void close_stage(struct walk *walk)
{
    if (walk->open >= 0) {
        hyd_arena_rewind(walk->search->arena, walk->mark);
        walk->open = -1;
    }
}

/* What all placements of one M share; limit is that of the ramp. */
static hyd_status open_stage(struct walk *walk, int k, double limit)
{
    struct hyd_search *search = walk->search;
    struct hyd_arena *arena = search->arena;
    const uint32_t n_mb = walk->candidate[k].n_microbatches;
    const struct hyd_pipeline shape = hyd_pipeline_of(search->in, n_mb);
    struct stage *stage = &walk->stage;
    hyd_status st = HYD_OK;

    close_stage(walk);
    walk->mark = hyd_arena_mark(arena);
    walk->open = k;
    stage->candidate = walk->candidate[k];
    stage->share = hyd_arena_take(arena, n_mb, sizeof *stage->share);
    stage->order = hyd_arena_take(arena, n_mb, sizeof *stage->order);
    stage->row = hyd_arena_take(arena, search->seqs.n_runs, sizeof *stage->row);
    if (stage->share == NULL || stage->order == NULL || stage->row == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    st = hyd_ramp_share(search->in->ramps, &shape, limit, arena, stage->share);
    if (st == HYD_OK) {
        st = hyd_trial_bench_init(&stage->bench, search->in, &search->seqs,
                                  &search->table, n_mb, arena);
        stage->bench.speed = search->speed;
    }
    return st;
}

static double *step_of(struct walk *walk, struct point at)
{
    return &walk->step_s[at.candidate][at.theta][at.exclusive ? 1 : 0];
}

static hyd_status probe(struct walk *walk, struct point at)
{
    hyd_status st = HYD_OK;

    if (walk->open != at.candidate) {
        st = open_stage(walk, at.candidate, 0.0);
    }
    walk->n_tries++;
    if (st == HYD_OK) {
        st = try_one(walk, THETA[at.theta], at.exclusive, step_of(walk, at));
    }
    return st;
}

/* May the walk go there, and has it not been there? */
static bool is_open(struct walk *walk, struct point at)
{
    return at.candidate >= 0 && at.candidate < walk->n_candidates && at.theta >= 0 &&
           at.theta < N_THETAS && walk->cells[at.exclusive ? 1 : 0] &&
           walk->candidate[at.candidate].predicted_s < walk->search->step_s &&
           *step_of(walk, at) < 0.0;
}

/* First better neighbour; false when there is none or the effort is used up. */
static hyd_status move_on(struct walk *walk, uint32_t most_tries, struct point *at,
                          bool *ret_moved)
{
    *ret_moved = false;
    for (size_t k = 0; k < N_MOVES && walk->n_tries < most_tries; k++) {
        const struct point next = {
            .candidate = at->candidate + MOVE[k].candidate,
            .theta = at->theta + MOVE[k].theta,
            .exclusive = at->exclusive != MOVE[k].other_cells,
        };
        const double before_s = walk->search->step_s;
        hyd_status st = HYD_OK;

        if (!is_open(walk, next)) {
            continue;
        }
        st = probe(walk, next);
        if (st != HYD_OK) {
            return st;
        }
        if (walk->search->step_s < before_s) {
            *at = next;
            *ret_moved = true;
            return HYD_OK;
        }
    }
    return HYD_OK;
}

/* Nothing placed yet: every candidate at every second scale until something is. */
static hyd_status sweep(struct walk *walk, struct point *at)
{
    const int n_points = walk->n_candidates * N_THETAS;
    hyd_status st = HYD_OK;

    for (int k = 0; st == HYD_OK && k < n_points; k++) {
        /* Mixed and exclusive in turn, then the next scale but one. */
        const struct point next = {k / N_THETAS, k % N_THETAS / 2 * 2, k % 2 == 1};

        if (walk->search->step_s == DBL_MAX && is_open(walk, next)) {
            st = probe(walk, next);
            *at = next;
        }
    }
    return st;
}

static void forget(struct walk *walk)
{
    close_stage(walk);
    for (size_t k = 0; k < HYD_MAX_CANDIDATES; k++) {
        for (size_t theta = 0; theta < N_THETAS; theta++) {
            walk->step_s[k][theta][0] = -1.0;
            walk->step_s[k][theta][1] = -1.0;
        }
    }
}

static hyd_status walk_candidates(struct walk *walk)
{
    const uint32_t effort = walk->search->in->options.effort;
    const uint32_t most = TRIES[effort < MAX_EFFORT ? effort : MAX_EFFORT];
    struct point at = {.theta = most == 1 ? ONLY_THETA : START_THETA};
    bool moved = true;
    hyd_status st = HYD_OK;

    forget(walk);
    for (int cells = 0; st == HYD_OK && cells < 2; cells++) {
        const struct point start = {0, at.theta, cells == 1};
        const double before_s = walk->search->step_s;

        if (is_open(walk, start) && (walk->n_tries < most || before_s == DBL_MAX)) {
            st = probe(walk, start);
            if (walk->search->step_s < before_s) {
                at = start;
            }
        }
    }
    if (st == HYD_OK && walk->search->step_s == DBL_MAX) {
        st = sweep(walk, &at);
    }
    while (st == HYD_OK && moved && walk->search->step_s < DBL_MAX) {
        st = move_on(walk, most, &at, &moved);
    }
    if (st == HYD_OK && effort >= MAX_EFFORT && walk->search->in->pool.pp > 1 &&
        walk->search->step_s < DBL_MAX) {
        double step_s = 0.0;

        st = open_stage(walk, at.candidate, LOW_RAMP);
        if (st == HYD_OK) {
            st = try_one(walk, THETA[at.theta], at.exclusive, &step_s);
        }
    }
    close_stage(walk);
    return st;
}

/* No candidate could be placed: more microbatches until one can. */
static hyd_status rescue(struct walk *walk, const struct hyd_microbatches_in *in,
                         uint32_t most)
{
    const uint32_t step = in->in->pool.vpp_group > 1 ? in->in->pool.vpp_group : 1;
    uint32_t n_mb = most;
    hyd_status st = HYD_OK;

    for (uint32_t k = 0; st == HYD_OK && k < RESCUES && walk->search->step_s == DBL_MAX;
         k++) {
        struct hyd_candidate candidate = {0};

        n_mb = (n_mb + n_mb / 4 + step) / step * step;
        if (n_mb > HYD_MAX_MICROBATCHES) {
            break;
        }
        candidate.n_microbatches = n_mb;
        st = hyd_microbatches_predict(in, walk->search->arena, &candidate, NULL);
        if (st == HYD_OK) {
            walk->candidate = &candidate;
            walk->n_candidates = 1;
            st = walk_candidates(walk);
        }
    }
    return st;
}

hyd_status hyd_search_walk(struct hyd_search *search,
                           const struct hyd_microbatches_in *in,
                           const struct hyd_candidate *candidate, uint32_t count)
{
    const enum hyd_cells cells = search->in->options.cells;
    const bool is_free = search->in->options.microbatches == 0;
    struct walk *walk = hyd_arena_take_zeroed(search->arena, 1, sizeof *walk);
    uint32_t most = 0;
    hyd_status st = HYD_OK;

    for (uint32_t k = 0; k < count; k++) {
        const uint32_t n = candidate[k].n_microbatches;

        most = n > most ? n : most;
        hyd_search_tell(search, HYD_TRACE_CANDIDATE, &candidate[k], 0.0, 0.0, false);
    }
    /* A rescue may go beyond the candidates. */
    search->order = hyd_arena_take(search->arena, is_free ? HYD_MAX_MICROBATCHES : most,
                                   sizeof *search->order);
    if (walk == NULL || search->order == NULL ||
        hyd_placement_init(search->seqs.n_seqs, search->arena, &search->best) !=
            HYD_OK ||
        hyd_placement_init(search->seqs.n_seqs, search->arena, &walk->placement) !=
            HYD_OK) {
        return HYD_ERR_NO_MEMORY;
    }
    walk->search = search;
    walk->candidate = candidate;
    walk->n_candidates = (int)count;
    walk->cells[0] = cells != HYD_CELLS_EXCLUSIVE;
    walk->cells[1] = cells != HYD_CELLS_MIXED;
    walk->open = -1;
    st = walk_candidates(walk);
    if (st == HYD_OK && search->step_s == DBL_MAX && is_free) {
        st = rescue(walk, in, most);
    }
    return st;
}
