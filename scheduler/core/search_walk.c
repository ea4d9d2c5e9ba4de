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

#include "scheduler/core/search_try.h"

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

/* Sequences for each cell below which the smallest degree may, and should, be larger. */
static const double FINE_BELOW = 3.0;
static const double FINE_FIRST_BELOW = 2.25;
/* A few sequences are placed one by one; nothing is even about them. */
enum { FINE_FROM_SEQS = 128 };

struct move {
    int candidate;
    int theta;
    int fine;
    bool other_cells;
    int ramp;
};

static const struct move MOVE[] = {
    {.theta = 1},
    {.theta = -1},
    {.other_cells = true},
    {.fine = 1},
    {.fine = -1},
    {.candidate = 1},
    {.ramp = 2},
    {.candidate = 2},
    {.candidate = -1},
    {.candidate = 3},
    {.ramp = 1},
    {.theta = 1, .other_cells = true},
    {.theta = -1, .other_cells = true},
    {.theta = 2, .other_cells = true},
    {.theta = -2, .other_cells = true},
    {.candidate = 1, .other_cells = true},
    {.candidate = 1, .theta = 1},
    {.candidate = 1, .theta = -1},
    {.candidate = 2, .other_cells = true},
    {.theta = 2},
    {.theta = -2},
    {.candidate = 2, .theta = 1},
    {.candidate = 2, .theta = -1},
    {.candidate = 4},
};
enum { N_MOVES = sizeof MOVE / sizeof MOVE[0] };

/* Cells, and for mixed ones the least row of the degrees. */
enum kind { MIXED, MIXED_FINE, MIXED_FINER, EXCLUSIVE, N_KINDS };

struct point {
    int candidate;
    int theta;
    enum kind kind;
    int ramp; /* enum hyd_profile_kind */
};

struct walk {
    struct hyd_search *search;
    struct hyd_search_try try;
    const struct hyd_microbatches_in *in;
    const struct hyd_candidate *candidate;
    int n_candidates;
    bool may[N_KINDS];
    enum kind mixed; /* which comes first */
    double *share[HYD_MAX_CANDIDATES][HYD_PROFILE_KINDS]; /* profiles */
    bool has_share[HYD_MAX_CANDIDATES][HYD_PROFILE_KINDS];
    int open; /* candidate of the try; -1: none */
    int open_ramp;
    double step_s[HYD_MAX_CANDIDATES][N_THETAS][N_KINDS]
                 [HYD_PROFILE_KINDS]; /* < 0: not tried */
    uint32_t n_tries;
};

/* The profile of a candidate, made once. */
static hyd_status find_share(struct walk *walk, int k, int ramp,
                             const double **ret_share)
{
    const struct hyd_profile_wish wish = {
        .n_microbatches = walk->candidate[k].n_microbatches,
        .target_s = walk->candidate[k].target_s,
        .kind = (enum hyd_profile_kind)ramp,
        .n_steps = HYD_PROFILE_FINE,
    };
    uint32_t n_giants = 0;
    hyd_status st = HYD_OK;

    if (!walk->has_share[k][ramp]) {
        st = hyd_microbatches_profile(walk->in, &wish, walk->search->arena,
                                      walk->share[k][ramp], &n_giants);
        walk->has_share[k][ramp] = st == HYD_OK;
    }
    *ret_share = walk->share[k][ramp];
    return st;
}

static hyd_status open_try(struct walk *walk, int k, int ramp)
{
    const double *share = NULL;
    hyd_status st = HYD_OK;

    hyd_search_try_close(&walk->try);
    walk->open = k;
    walk->open_ramp = ramp;
    st = find_share(walk, k, ramp, &share);
    if (st == HYD_OK) {
        st = hyd_search_try_open(&walk->try, &walk->candidate[k], share);
    }
    return st;
}

static double *step_of(struct walk *walk, struct point at)
{
    return &walk->step_s[at.candidate][at.theta][at.kind][at.ramp];
}

static hyd_status probe(struct walk *walk, struct point at)
{
    const struct hyd_search_way way = {
        .theta = THETA[at.theta],
        .exclusive = at.kind == EXCLUSIVE,
        .least_row = at.kind == EXCLUSIVE ? 0 : (uint32_t)at.kind,
    };
    hyd_status st = HYD_OK;

    if (walk->open != at.candidate || walk->open_ramp != at.ramp) {
        st = open_try(walk, at.candidate, at.ramp);
    }
    walk->n_tries++;
    if (st == HYD_OK) {
        st = hyd_search_try_run(&walk->try, &way, step_of(walk, at));
    }
    return st;
}

/* Is the ramp another one than that of all giants? */
static bool may_ramp(const struct walk *walk, struct point at)
{
    const uint32_t n_giants = walk->candidate[at.candidate].n_giants;

    return at.ramp == HYD_PROFILE_GIANTS ||
           n_giants > (at.ramp == HYD_PROFILE_LARGEST ? 1U : 0U);
}

/* May the walk go there, and has it not been there? */
static bool is_open(struct walk *walk, struct point at)
{
    return at.candidate >= 0 && at.candidate < walk->n_candidates && at.theta >= 0 &&
           at.theta < N_THETAS && at.kind < N_KINDS && walk->may[at.kind] &&
           walk->candidate[at.candidate].predicted_s < walk->search->step_s &&
           may_ramp(walk, at) && *step_of(walk, at) < 0.0;
}

static struct point moved(const struct walk *walk, struct point at,
                          const struct move *move)
{
    at.candidate += move->candidate;
    at.theta += move->theta;
    at.ramp = (at.ramp + move->ramp) % HYD_PROFILE_KINDS;
    if (move->other_cells) {
        at.kind = at.kind == EXCLUSIVE ? walk->mixed : EXCLUSIVE;
    } else if (move->fine != 0) {
        const int kind = (int)at.kind + move->fine;

        /* None at all where there is no such kind. */
        at.kind = at.kind == EXCLUSIVE || kind < 0 || kind >= EXCLUSIVE
                      ? N_KINDS
                      : (enum kind)kind;
    }
    return at;
}

/* First better neighbour; false when there is none or the effort is used up. */
static hyd_status move_on(struct walk *walk, uint32_t most_tries, struct point *at,
                          bool *ret_moved)
{
    *ret_moved = false;
    for (size_t k = 0; k < N_MOVES && walk->n_tries < most_tries; k++) {
        const struct point next = moved(walk, *at, &MOVE[k]);
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
        const struct point next = {.candidate = k / N_THETAS,
                                   .theta = k % N_THETAS / 2 * 2,
                                   .kind = k % 2 == 1 ? EXCLUSIVE : walk->mixed};

        if (walk->search->step_s == DBL_MAX && is_open(walk, next)) {
            st = probe(walk, next);
            *at = next;
        }
    }
    return st;
}

/*
 * Which kinds there are. Where cells outnumber sequences the last ones placed are lumps on
 * some cells and none on others; cut in two or four they are smaller ones on more cells.
 */
static void set_kinds(struct walk *walk)
{
    const struct hyd_search *search = walk->search;
    const enum hyd_cells cells = search->in->options.cells;
    const double each = (double)search->seqs.n_seqs / search->in->pool.n_ranks /
                        walk->candidate[0].n_microbatches;
    /* One slow rank holds up a group: with speeds single ranks stay. */
    const bool is_sparse = search->seqs.n_seqs >= FINE_FROM_SEQS && each < FINE_BELOW &&
                           search->in->pool.speed == NULL;

    for (int kind = MIXED; kind < EXCLUSIVE; kind++) {
        walk->may[kind] = cells != HYD_CELLS_EXCLUSIVE &&
                          (uint32_t)kind < search->table.n_rows &&
                          (kind == MIXED || is_sparse);
    }
    walk->may[EXCLUSIVE] = cells != HYD_CELLS_MIXED;
    walk->mixed = walk->may[MIXED_FINE] && each < FINE_FIRST_BELOW ? MIXED_FINE : MIXED;
}

/* Begin with these candidates. */
static hyd_status set_candidates(struct walk *walk,
                                 const struct hyd_candidate *candidate, int count)
{
    hyd_search_try_close(&walk->try);
    walk->open = -1;
    walk->candidate = candidate;
    walk->n_candidates = count;
    for (int k = 0; k < count; k++) {
        for (size_t kind = 0; kind < HYD_PROFILE_KINDS; kind++) {
            walk->has_share[k][kind] = false;
            walk->share[k][kind] =
                hyd_arena_take(walk->search->arena, candidate[k].n_microbatches,
                               sizeof *walk->share[k][kind]);
            if (walk->share[k][kind] == NULL) {
                return HYD_ERR_NO_MEMORY;
            }
        }
    }
    {
        double *step_s = &walk->step_s[0][0][0][0];

        for (size_t k = 0; k < sizeof walk->step_s / sizeof *step_s; k++) {
            step_s[k] = -1.0;
        }
    }
    set_kinds(walk);
    return HYD_OK;
}

static hyd_status walk_candidates(struct walk *walk)
{
    const uint32_t effort = walk->search->in->options.effort;
    const uint32_t most = TRIES[effort < MAX_EFFORT ? effort : MAX_EFFORT];
    /* One slow rank holds up a wide group: with speeds begin with narrow ones. */
    const bool narrow = walk->search->in->pool.speed != NULL;
    struct point at = {.theta = narrow ? 0 : most == 1 ? ONLY_THETA : START_THETA};
    bool moved = true;
    hyd_status st = HYD_OK;

    walk->try.takes_first = most == 1;
    for (int cells = 0; st == HYD_OK && cells < 2; cells++) {
        const struct point start = {.theta = at.theta,
                                    .kind = cells == 1 ? EXCLUSIVE : walk->mixed};
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
    if (st == HYD_OK && most > 1 && walk->search->step_s < DBL_MAX) {
        /* One more than the effort: it is worth up to 2 % beside a giant. */
        at.ramp = HYD_PROFILE_LARGEST;
        st = is_open(walk, at) ? probe(walk, at) : HYD_OK;
    }
    hyd_search_try_close(&walk->try);
    walk->open = -1;
    return st;
}

/* No candidate could be placed: more microbatches until one can. */
static hyd_status rescue(struct walk *walk, uint32_t most)
{
    const struct hyd_plan_input *in = walk->search->in;
    const uint32_t step = in->pool.vpp_group > 1 ? in->pool.vpp_group : 1;
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
        st = hyd_microbatches_predict(walk->in, walk->search->arena, &candidate, NULL);
        if (st == HYD_OK) {
            st = set_candidates(walk, &candidate, 1);
        }
        if (st == HYD_OK) {
            st = walk_candidates(walk);
        }
    }
    return st;
}

hyd_status hyd_search_walk(struct hyd_search *search,
                           const struct hyd_microbatches_in *in,
                           const struct hyd_candidate *candidate, uint32_t count)
{
    const bool is_free = search->in->options.microbatches == 0;
    struct walk *walk = hyd_arena_take_zeroed(search->arena, 1, sizeof *walk);
    const struct hyd_search_way none = {.theta = 0.0};
    uint32_t most = 0;
    hyd_status st = HYD_OK;

    for (uint32_t k = 0; k < count; k++) {
        const uint32_t n = candidate[k].n_microbatches;

        most = n > most ? n : most;
        hyd_search_tell(search, HYD_TRACE_CANDIDATE, &candidate[k], &none, 0.0);
    }
    /* A rescue may go beyond the candidates. */
    search->order = hyd_arena_take(search->arena, is_free ? HYD_MAX_MICROBATCHES : most,
                                   sizeof *search->order);
    if (walk == NULL || search->order == NULL ||
        hyd_placement_init(search->seqs.n_seqs, search->arena, &search->best) !=
            HYD_OK ||
        hyd_placement_init(search->seqs.n_seqs, search->arena, &walk->try.placement) !=
            HYD_OK) {
        return HYD_ERR_NO_MEMORY;
    }
    walk->search = search;
    walk->try.search = search;
    walk->in = in;
    walk->open = -1;
    st = set_candidates(walk, candidate, (int)count);
    if (st == HYD_OK) {
        st = walk_candidates(walk);
    }
    if (st == HYD_OK && search->step_s == DBL_MAX && is_free) {
        st = rescue(walk, most);
    }
    return st;
}
