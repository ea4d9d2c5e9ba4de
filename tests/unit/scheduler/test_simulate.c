/*
 * The simulator equals a second one that keeps every operation's end and repeats itself
 * until nothing moves; groups wait for their slowest member, a barrier for all.
 */
#include "scheduler/core/simulate.h"

#include <string.h>

#include "tests/lib/prop.h"
#include "tests/lib/test.h"

enum { MAX_P = 4, MAX_M = 6, MAX_R = 5, MAX_GROUPS = 3 };

struct cells {
    struct hyd_pipeline shape;
    uint32_t n_ranks;
    bool barrier;
    double local_s[MAX_M][MAX_R];
    uint32_t first_group[MAX_M + 1];
    struct hyd_sim_group group[MAX_M * MAX_GROUPS];
    uint32_t rank[MAX_M * MAX_GROUPS * MAX_R];
};

static void random_cells(struct hyd_rng *rng, struct cells *c)
{
    uint32_t n_groups = 0;
    uint32_t n_entries = 0;

    memset(c, 0, sizeof *c);
    c->shape = (struct hyd_pipeline){
        .n_stages = 1 + hyd_rng_below(rng, MAX_P),
        .n_chunks = 1,
        .n_microbatches = 1 + hyd_rng_below(rng, MAX_M),
        .backward_over_forward = 2.0,
    };
    c->shape.chunk_group = c->shape.n_stages;
    c->n_ranks = 1 + hyd_rng_below(rng, MAX_R);
    c->barrier = hyd_rng_below(rng, 3) == 0;
    for (uint32_t m = 0; m < c->shape.n_microbatches; m++) {
        c->first_group[m] = n_groups;
        for (uint32_t r = 0; r < c->n_ranks; r++) {
            c->local_s[m][r] = hyd_rng_below(rng, 3) == 0 ? 0.0 : hyd_rng_unit(rng);
        }
        for (uint32_t g = hyd_rng_below(rng, MAX_GROUPS + 1); g > 0; g--) {
            struct hyd_sim_group *group = &c->group[n_groups++];
            const uint32_t n = 1 + hyd_rng_below(rng, c->n_ranks);

            group->n_ranks = n;
            group->seconds = hyd_rng_unit(rng);
            group->scattered = hyd_rng_below(rng, 2) == 0;
            if (!group->scattered) {
                group->first = hyd_rng_below(rng, c->n_ranks - n + 1);
                continue;
            }
            /* Listed backwards, so not consecutive. */
            group->first = n_entries;
            for (uint32_t k = 0; k < n; k++) {
                c->rank[n_entries++] = c->n_ranks - 1 - k;
            }
        }
    }
    c->first_group[c->shape.n_microbatches] = n_groups;
}

static uint32_t member(const struct cells *c, const struct hyd_sim_group *group,
                       uint32_t k)
{
    return group->scattered ? c->rank[group->first + k] : group->first + k;
}

static void highest_for_all(double *row, uint32_t n)
{
    double highest = 0.0;

    for (uint32_t r = 0; r < n; r++) {
        highest = row[r] > highest ? row[r] : highest;
    }
    for (uint32_t r = 0; r < n; r++) {
        row[r] = highest;
    }
}

/* One operation of all ranks, each starting when its row says. */
static void run_cells(const struct cells *c, uint32_t m, double share, double *row)
{
    for (uint32_t g = c->first_group[m]; g < c->first_group[m + 1]; g++) {
        const struct hyd_sim_group *group = &c->group[g];
        double members[MAX_R];

        for (uint32_t k = 0; k < group->n_ranks; k++) {
            members[k] = row[member(c, group, k)];
        }
        highest_for_all(members, group->n_ranks);
        for (uint32_t k = 0; k < group->n_ranks; k++) {
            row[member(c, group, k)] = members[k] + share * group->seconds;
        }
    }
    for (uint32_t r = 0; r < c->n_ranks; r++) {
        row[r] += share * c->local_s[m][r];
    }
    if (c->barrier) {
        highest_for_all(row, c->n_ranks);
    }
}

/* End of each operation: forward and backward, stage, microbatch, rank. */
struct ends {
    double s[2][MAX_P][MAX_M][MAX_R];
};

/* The k-th operation of a stage under 1F1B. */
static bool is_backward(const struct cells *c, uint32_t stage, uint32_t k,
                        uint32_t *ret_microbatch)
{
    const uint32_t n = c->shape.n_microbatches;
    const uint32_t ahead = c->shape.n_stages - stage - 1;
    const uint32_t warm = ahead < n ? ahead : n;
    bool back = k >= warm;

    if (k >= warm && k < 2 * n - warm) {
        back = (k - warm) % 2 == 1;
        *ret_microbatch = (k - warm) / 2 + (back ? 0 : warm);
    } else {
        *ret_microbatch = back ? k - n : k;
    }
    return back;
}

/* All operations of one stage; gives whether any end moved. */
static bool run_stage(const struct cells *c, uint32_t s, struct ends *e)
{
    double row[MAX_R] = {0};
    bool moved = false;

    for (uint32_t k = 0; k < 2 * c->shape.n_microbatches; k++) {
        uint32_t m = 0;
        const bool back = is_backward(c, s, k, &m);
        double *wait = NULL;

        if (!back && s > 0) {
            wait = e->s[0][s - 1][m];
        } else if (back) {
            wait = s + 1 < c->shape.n_stages ? e->s[1][s + 1][m] : e->s[0][s][m];
        }
        for (uint32_t r = 0; wait != NULL && r < c->n_ranks; r++) {
            row[r] = wait[r] > row[r] ? wait[r] : row[r];
        }
        run_cells(c, m, back ? 2.0 / 3.0 : 1.0 / 3.0, row);
        for (uint32_t r = 0; r < c->n_ranks; r++) {
            moved = moved || e->s[back][s][m][r] < row[r];
            e->s[back][s][m][r] = row[r];
        }
    }
    return moved;
}

/* Every stage again and again until nothing moves. */
static double slow_step(const struct cells *c)
{
    static struct ends e;
    double last_s = 0.0;
    bool moved = true;

    memset(&e, 0, sizeof e);
    while (moved) {
        moved = false;
        for (uint32_t s = 0; s < c->shape.n_stages; s++) {
            moved = run_stage(c, s, &e) || moved;
        }
    }
    for (uint32_t i = 0; i < MAX_P * MAX_M * MAX_R; i++) {
        last_s = (&e.s[1][0][0][0])[i] > last_s ? (&e.s[1][0][0][0])[i] : last_s;
    }
    return last_s;
}

static const char *simulator_equals_the_slow_one(struct hyd_rng *rng, void *ctx)
{
    static struct cells c;
    struct hyd_pipeline_program program;
    struct hyd_arena arena;
    struct hyd_sim sim;
    struct hyd_sim_cells cells;
    double got_s = 0.0;
    double want_s = 0.0;
    double packed_s[MAX_M * MAX_R];

    (void)ctx;
    random_cells(rng, &c);
    hyd_arena_init(&arena, hyd_alloc_system());
    if (hyd_pipeline_program(&c.shape, &arena, &program, NULL) != HYD_OK ||
        hyd_sim_init(&sim, &program, c.n_ranks, &arena, NULL) != HYD_OK) {
        return "no program";
    }
    for (uint32_t m = 0; m < c.shape.n_microbatches; m++) {
        memcpy(packed_s + (size_t)m * c.n_ranks, c.local_s[m],
               c.n_ranks * sizeof *packed_s);
    }
    cells = (struct hyd_sim_cells){
        .n_ranks = c.n_ranks,
        .n_microbatches = c.shape.n_microbatches,
        .local_s = packed_s,
        .first_group = c.first_group,
        .group = c.group,
        .rank = c.rank,
        .barrier = c.barrier,
    };
    got_s = hyd_sim_run(&sim, &cells);
    want_s = slow_step(&c);
    hyd_arena_release(&arena);
    return hyd_test_close(got_s, want_s, 0.0, 1e-12)
               ? NULL
               : hyd_prop_reason("p %u M %u R %u: %.17g instead of %.17g",
                                 c.shape.n_stages, c.shape.n_microbatches, c.n_ranks,
                                 got_s, want_s);
}

static void simulator_equals_a_slow_one(void **state)
{
    (void)state;
    hyd_prop_run("simulator_equals_the_slow_one", 300, simulator_equals_the_slow_one,
                 NULL);
}

enum { WIDE_R = 300, WIDE_M = 3, WIDE_GROUPS = 40 };

struct wide {
    uint32_t n_ranks;
    double local_s[WIDE_M * WIDE_R];
    uint32_t first_group[WIDE_M + 1];
    struct hyd_sim_group group[WIDE_M * WIDE_GROUPS];
    uint32_t rank[WIDE_M * WIDE_R];
};

/* Wide groups first, as plans list them, or in any order; a few that are scattered. */
static void random_wide(struct hyd_rng *rng, struct wide *w)
{
    const bool any_order = hyd_rng_below(rng, 4) == 0;
    uint32_t n_groups = 0;
    uint32_t n_entries = 0;

    w->n_ranks = 1 + hyd_rng_below(rng, WIDE_R);
    for (uint32_t m = 0; m < WIDE_M; m++) {
        uint32_t d = 1 + hyd_rng_below(rng, 1U << hyd_rng_below(rng, 8));

        w->first_group[m] = n_groups;
        for (uint32_t r = 0; r < w->n_ranks; r++) {
            w->local_s[m * w->n_ranks + r] = hyd_rng_unit(rng);
        }
        for (uint32_t g = hyd_rng_below(rng, WIDE_GROUPS); g > 0; g--) {
            struct hyd_sim_group *group = &w->group[n_groups];

            d = any_order ? 1 + hyd_rng_below(rng, 64) : d - hyd_rng_below(rng, 4) / 3;
            if (d == 0 || d > w->n_ranks) {
                continue;
            }
            *group = (struct hyd_sim_group){
                .first = hyd_rng_below(rng, w->n_ranks / d) * d,
                .n_ranks = d,
                .seconds = hyd_rng_unit(rng),
            };
            if (any_order && g == 1) {
                group->scattered = true;
                group->first = n_entries;
                for (uint32_t k = 0; k < d; k++) {
                    w->rank[n_entries++] = w->n_ranks - 1 - k;
                }
            }
            n_groups++;
        }
    }
    w->first_group[WIDE_M] = n_groups;
}

static const char *split_cells_run_the_same(struct hyd_rng *rng, void *ctx)
{
    static struct wide w;
    const struct hyd_pipeline shape = {.n_stages = 3,
                                       .n_chunks = 1,
                                       .chunk_group = 3,
                                       .n_microbatches = WIDE_M,
                                       .backward_over_forward = 2.0};
    struct hyd_pipeline_program program;
    struct hyd_arena arena;
    struct hyd_sim sim;
    struct hyd_sim_cells cells;
    struct hyd_sim_cells split;
    double end_s[WIDE_R];
    double want_s = 0.0;
    double got_s = 0.0;

    (void)ctx;
    random_wide(rng, &w);
    hyd_arena_init(&arena, hyd_alloc_system());
    cells = (struct hyd_sim_cells){.n_ranks = w.n_ranks,
                                   .n_microbatches = WIDE_M,
                                   .local_s = w.local_s,
                                   .first_group = w.first_group,
                                   .group = w.group,
                                   .rank = w.rank};
    if (hyd_pipeline_program(&shape, &arena, &program, NULL) != HYD_OK ||
        hyd_sim_init(&sim, &program, w.n_ranks, &arena, NULL) != HYD_OK ||
        hyd_sim_split(&cells, &arena, &split) != HYD_OK) {
        return "no memory";
    }
    want_s = hyd_sim_run(&sim, &cells);
    for (uint32_t r = 0; r < w.n_ranks; r++) {
        end_s[r] = hyd_sim_rank_end_s(&sim, r);
    }
    got_s = hyd_sim_run(&sim, &split);
    for (uint32_t r = 0; r < w.n_ranks; r++) {
        if (hyd_sim_rank_end_s(&sim, r) != end_s[r]) {
            return hyd_prop_reason("rank %u of %u ends at %.17g instead of %.17g", r,
                                   w.n_ranks, hyd_sim_rank_end_s(&sim, r), end_s[r]);
        }
    }
    split.enough_s = want_s * (0.5 + hyd_rng_unit(rng));
    if (got_s == want_s) {
        const double least_s = split.enough_s < want_s ? split.enough_s : want_s;

        got_s = hyd_sim_run(&sim, &split);
        got_s = got_s >= least_s && got_s <= want_s ? want_s : got_s;
    }
    hyd_arena_release(&arena);
    return got_s == want_s ? NULL
                           : hyd_prop_reason("%u ranks in %u chunks: %.17g, not %.17g",
                                             w.n_ranks, split.n_chunks, got_s, want_s);
}

static void simulator_runs_split_cells_the_same(void **state)
{
    (void)state;
    hyd_prop_run("split_cells_run_the_same", 300, split_cells_run_the_same, NULL);
}

static bool any_scattered(const struct wide *w)
{
    for (uint32_t g = 0; g < w->first_group[WIDE_M]; g++) {
        if (w->group[g].scattered) {
            return true;
        }
    }
    return false;
}

/* `alike` copies of each rank: first, members and local seconds alike. */
static void multiply_ranks(struct wide *w, uint32_t alike)
{
    static double local_s[WIDE_M * WIDE_R];
    const uint32_t n = w->n_ranks * alike;

    for (uint32_t i = 0; i < WIDE_M * n; i++) {
        local_s[i] = w->local_s[i / alike];
    }
    memcpy(w->local_s, local_s, (size_t)WIDE_M * n * sizeof *local_s);
    w->n_ranks = n;
    for (uint32_t g = 0; g < w->first_group[WIDE_M]; g++) {
        w->group[g].first *= alike;
        w->group[g].n_ranks *= alike;
    }
}

/* The ends of all ranks; gives the step. */
static double run_wide(const struct hyd_pipeline_program *program,
                       const struct hyd_sim_cells *cells, uint32_t alike,
                       struct hyd_arena *arena, double *ret_end_s)
{
    struct hyd_sim sim;
    double step_s = -1.0;

    if (hyd_sim_init(&sim, program, cells->n_ranks, arena, NULL) == HYD_OK) {
        step_s = hyd_sim_run(&sim, cells);
        for (uint32_t r = 0; r < cells->n_ranks * alike; r++) {
            ret_end_s[r] = hyd_sim_rank_end_s(&sim, r / alike);
        }
    }
    return step_s;
}

static const char *folded_cells_run_the_same(struct hyd_rng *rng, void *ctx)
{
    static struct wide w;
    const struct hyd_pipeline shape = {.n_stages = 3,
                                       .n_chunks = 1,
                                       .chunk_group = 3,
                                       .n_microbatches = WIDE_M,
                                       .backward_over_forward = 2.0};
    const uint32_t copies = 1 + hyd_rng_below(rng, 4);
    const bool spoiled = copies > 1 && hyd_rng_below(rng, 4) == 0;
    struct hyd_pipeline_program program;
    struct hyd_arena arena;
    struct hyd_sim_cells cells = {.n_microbatches = WIDE_M,
                                  .local_s = w.local_s,
                                  .first_group = w.first_group,
                                  .group = w.group,
                                  .rank = w.rank};
    struct hyd_sim_cells folded;
    double want_end_s[WIDE_R];
    double got_end_s[WIDE_R];
    uint32_t alike = 0;
    double want_s = 0.0;
    double got_s = 0.0;

    (void)ctx;
    do {
        random_wide(rng, &w);
    } while (w.n_ranks > WIDE_R / 4 || any_scattered(&w));
    multiply_ranks(&w, copies);
    if (spoiled) {
        /* Only these two neighbours differ, in one microbatch. */
        w.local_s[w.n_ranks + 1] += 0.125;
    }
    cells.n_ranks = w.n_ranks;
    hyd_arena_init(&arena, hyd_alloc_system());
    if (hyd_pipeline_program(&shape, &arena, &program, NULL) != HYD_OK ||
        hyd_sim_fold(&cells, &arena, &folded, &alike) != HYD_OK) {
        return "no memory";
    }
    want_s = run_wide(&program, &cells, 1, &arena, want_end_s);
    got_s = run_wide(&program, &folded, alike, &arena, got_end_s);
    hyd_arena_release(&arena);
    if (spoiled ? alike != 1 : alike % copies != 0) {
        return hyd_prop_reason("%u ranks, %u copies each: %u alike", w.n_ranks, copies,
                               alike);
    }
    if (memcmp(want_end_s, got_end_s, w.n_ranks * sizeof *want_end_s) != 0) {
        return hyd_prop_reason("%u ranks, %u alike: other ends", w.n_ranks, alike);
    }
    return got_s == want_s ? NULL
                           : hyd_prop_reason("%u ranks, %u alike: %.17g, not %.17g",
                                             w.n_ranks, alike, got_s, want_s);
}

static void simulator_runs_folded_cells_the_same(void **state)
{
    (void)state;
    hyd_prop_run("folded_cells_run_the_same", 200, folded_cells_run_the_same, NULL);
}

/* Two ranks, one microbatch each way round: the group makes the fast rank wait. */
static void simulator_makes_members_wait_for_each_other(void **state)
{
    const struct hyd_pipeline shape = {1, 1, 1, 2, 2.0, true, false, NULL};
    const double local_s[] = {1.0, 5.0, 1.0, 1.0};
    const uint32_t first_group[] = {0, 0, 1};
    const uint32_t order[] = {0, 1};
    const uint32_t turned[] = {1, 0};
    const struct hyd_sim_group group[] = {{.n_ranks = 2, .seconds = 10.0}};
    struct hyd_sim_cells cells = {.n_ranks = 2,
                                  .n_microbatches = 2,
                                  .local_s = local_s,
                                  .first_group = first_group,
                                  .group = group,
                                  .order = order};
    struct hyd_pipeline_program program;
    struct hyd_arena arena;
    struct hyd_sim sim;

    (void)state;
    hyd_arena_init(&arena, hyd_alloc_system());
    assert_int_equal(hyd_pipeline_program(&shape, &arena, &program, NULL), HYD_OK);
    assert_int_equal(hyd_sim_init(&sim, &program, 2, &arena, NULL), HYD_OK);
    /* Rank 0 has waited from 1 to 5: both end at 5 + 10 + 1. */
    assert_true(hyd_test_close(hyd_sim_run(&sim, &cells), 16.0, 0.0, 0.0));
    assert_true(hyd_test_close(hyd_sim_rank_end_s(&sim, 0), 16.0, 0.0, 0.0));
    /* The group first: rank 0 is done at 12, rank 1 at 16. */
    cells.order = turned;
    assert_true(hyd_test_close(hyd_sim_run(&sim, &cells), 16.0, 0.0, 0.0));
    assert_true(hyd_test_close(hyd_sim_rank_end_s(&sim, 0), 12.0, 0.0, 0.0));
    hyd_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(simulator_equals_a_slow_one),
        cmocka_unit_test(simulator_runs_split_cells_the_same),
        cmocka_unit_test(simulator_runs_folded_cells_the_same),
        cmocka_unit_test(simulator_makes_members_wait_for_each_other),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
