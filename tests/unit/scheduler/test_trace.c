/*
 * Ten small batches whose decisions a reader can follow: tests/golden/trace-*.trace.
 * Costs are in tokens of linear work: a sequence of l tokens is l + l^2 / 53000 long.
 */
#include "scheduler/core/trace.h"

#include <stdio.h>
#include <string.h>

#include "scheduler/core/cost.h"
#include "scheduler/core/planner.h"
#include "tests/lib/golden.h"
#include "tests/lib/test.h"

enum { MAX_SEQS = 16, TEXT_BYTES = 1 << 16 };

struct story {
    const char *name;
    uint32_t length[MAX_SEQS]; /* up to the first 0 */
    uint32_t n_ranks;
    uint32_t cap_tokens;
    uint32_t n_microbatches;
    uint32_t pp;
    uint32_t effort;
    enum hyd_cells cells;
    enum hyd_degrees degrees;
    double extra_s[MAX_SEQS];
    double speed[MAX_SEQS];
};

static const struct story stories[] = {
    {"equal", {100, 100, 100, 100}, 2, 200, 2, 1, 1, HYD_CELLS_MIXED, 0, {0}, {0}},
    {"long",
     {8000, 1000, 1000, 900, 800},
     4,
     4096,
     1,
     1,
     1,
     HYD_CELLS_MIXED,
     0,
     {0},
     {0}},
    {"tight-cap",
     {900, 700, 600, 500, 300},
     2,
     1500,
     1,
     1,
     1,
     HYD_CELLS_MIXED,
     0,
     {0},
     {0}},
    {"giant",
     {40000, 900, 800, 700, 600, 500},
     4,
     16384,
     2,
     1,
     1,
     HYD_CELLS_MIXED,
     0,
     {0},
     {0}},
    {"ramp",
     {900, 900, 900, 900, 900, 900, 900, 900, 900, 900, 900, 900},
     1,
     4096,
     4,
     4,
     1,
     HYD_CELLS_MIXED,
     0,
     {0},
     {0}},
    {"exclusive",
     {9000, 3000, 1200, 1100, 600, 500},
     4,
     8192,
     2,
     1,
     1,
     HYD_CELLS_EXCLUSIVE,
     0,
     {0},
     {0}},
    {"passenger",
     {20000, 400, 300, 200},
     4,
     8192,
     1,
     1,
     1,
     HYD_CELLS_EXCLUSIVE,
     0,
     {0},
     {0}},
    {"speeds",
     {1000, 1000, 1000, 1000, 900, 800},
     4,
     4096,
     1,
     1,
     1,
     HYD_CELLS_MIXED,
     0,
     {0},
     {1, 0.5, 1, 1}},
    {"extra-work",
     {500, 500, 500, 500},
     4,
     4096,
     1,
     1,
     1,
     HYD_CELLS_MIXED,
     0,
     {0, 9000},
     {0}},
    {"search",
     {12000, 5000, 4000, 3000, 3000, 2000, 1500, 900},
     4,
     8192,
     0,
     4,
     2,
     HYD_CELLS_AUTO,
     HYD_DEGREES_POW2,
     {0},
     {0}},
};

struct text {
    char at[TEXT_BYTES];
    size_t n;
};

static void write_line(void *ctx, const struct hyd_trace_event *event)
{
    struct text *text = ctx;
    char line[256];

    (void)hyd_trace_text(event, line, sizeof line);
    assert_true(text->n + strlen(line) + 2 < sizeof text->at);
    text->n +=
        (size_t)snprintf(text->at + text->n, sizeof text->at - text->n, "%s\n", line);
}

static void tell_story(const struct story *story, struct hyd_planner *planner,
                       struct text *text)
{
    struct hyd_plan_input in = hyd_plan_input_default();
    struct hyd_trace trace = {.listen = write_line, .ctx = text};
    const struct hyd_plan *plan = NULL;
    struct hyd_cost cost;

    text->n = 0;
    assert_int_equal(hyd_cost_nested(1.0 / 53000, 1, 300, &cost, NULL), HYD_OK);
    while (in.batch.n_seqs < MAX_SEQS && story->length[in.batch.n_seqs] > 0) {
        in.batch.n_seqs++;
    }
    in.batch.length_tokens = story->length;
    in.batch.extra_work_s = story->extra_s[1] > 0.0 ? story->extra_s : NULL;
    in.pool.n_ranks = story->n_ranks;
    in.pool.pp = story->pp;
    in.pool.speed = story->speed[0] > 0.0 ? story->speed : NULL;
    in.limits.cap_tokens = story->cap_tokens;
    in.options.microbatches = story->n_microbatches;
    in.options.effort = story->effort;
    in.options.cells = story->cells;
    in.options.degrees = story->degrees;
    in.cost = &cost;
    in.trace = &trace;
    assert_int_equal(hyd_planner_plan(planner, &in, &plan, NULL), HYD_OK);
}

static void trace_tells_the_known_stories(void **state)
{
    static struct text text;
    struct hyd_planner *planner = NULL;
    bool same = true;

    (void)state;
    assert_int_equal(hyd_planner_create(hyd_alloc_system(), &planner), HYD_OK);
    for (size_t i = 0; i < sizeof stories / sizeof stories[0]; i++) {
        char name[64];

        (void)snprintf(name, sizeof name, "trace-%s.trace", stories[i].name);
        tell_story(&stories[i], planner, &text);
        same = hyd_golden_equal(name, text.at) && same;
    }
    hyd_planner_free(planner);
    assert_true(same);
}

/* Nobody listening changes nothing, and every kind of event has its line. */
static void trace_has_a_line_for_every_kind(void **state)
{
    char line[256];

    (void)state;
    for (int kind = HYD_TRACE_CANDIDATE; kind <= HYD_TRACE_CHOICE; kind++) {
        const struct hyd_trace_event event = {.kind = (enum hyd_trace_kind)kind,
                                              .time_s = 1.0};

        line[0] = '\0';
        assert_true(hyd_trace_text(&event, line, sizeof line) > 0);
        assert_true(strlen(line) > 0);
        assert_null(strchr(line, '\n'));
    }
    hyd_trace_emit(NULL, &(struct hyd_trace_event){.kind = HYD_TRACE_TRY});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trace_tells_the_known_stories),
        cmocka_unit_test(trace_has_a_line_for_every_kind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
