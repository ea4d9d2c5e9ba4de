/*
 * The program of a pipeline is a valid order of the right operations. Read the first test
 * for what 1F1B looks like: three stages, four microbatches.
 */
#include "scheduler/core/pipeline.h"

#include <stdio.h>
#include <string.h>

#include "scheduler/core/line.h"
#include "tests/lib/prop.h"
#include "tests/lib/test.h"

enum { MAX_MICROBATCHES = 40, MAX_OPS = 1 << 14, MAX_LINE = 64 };

static struct hyd_pipeline random_shape(struct hyd_rng *rng)
{
    struct hyd_pipeline shape = {
        .n_stages = 1 + hyd_rng_below(rng, 9),
        .n_chunks = 1,
        .n_microbatches = 1 + hyd_rng_below(rng, MAX_MICROBATCHES),
        .backward_over_forward = 2.0 + hyd_rng_below(rng, 2),
        .forward_only = hyd_rng_below(rng, 4) == 0,
    };

    shape.chunk_group = shape.n_stages + hyd_rng_below(rng, 3);
    if (shape.n_stages > 1 && hyd_rng_below(rng, 2) == 0) {
        shape.n_chunks = 2 + hyd_rng_below(rng, 3);
        shape.n_microbatches =
            shape.chunk_group *
            (1 + hyd_rng_below(rng, MAX_MICROBATCHES / shape.chunk_group));
    } else {
        shape.zero_bubble = hyd_rng_below(rng, 2) == 0;
    }
    return shape;
}

/* The operations of one stage as text: F0 F1 B0 ... */
static void print_stage(const struct hyd_pipeline_program *program, uint32_t stage,
                        char *text, size_t bytes)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < program->n_ops; i++) {
        if (program->op[i].stage == stage) {
            used += (size_t)snprintf(text + used, bytes - used, "%s%c%u",
                                     used > 0 ? " " : "", "FBW"[program->op[i].kind],
                                     program -> op[i].position);
        }
    }
}

static void pipeline_orders_1f1b(void **state)
{
    const char *const want[] = {"F0 F1 F2 B0 F3 B1 B2 B3", "F0 F1 B0 F2 B1 F3 B2 B3",
                                "F0 B0 F1 B1 F2 B2 F3 B3"};
    const struct hyd_pipeline shape = {.n_stages = 3,
                                       .n_chunks = 1,
                                       .chunk_group = 3,
                                       .n_microbatches = 4,
                                       .backward_over_forward = 2.0};
    struct hyd_pipeline_program program;
    struct hyd_arena arena;
    char text[256];

    (void)state;
    hyd_arena_init(&arena, hyd_alloc_system());
    assert_int_equal(hyd_pipeline_program(&shape, &arena, &program, NULL), HYD_OK);
    for (uint32_t s = 0; s < 3; s++) {
        print_stage(&program, s, text, sizeof text);
        assert_string_equal(text, want[s]);
    }
    hyd_arena_release(&arena);
}

/* Two chunks: Megatron's order walks groups of p microbatches through both. */
static void pipeline_orders_interleaved_chunks(void **state)
{
    /* Positions only; the first two warm-up forwards are chunk 0, the next chunk 1. */
    const char *const want[] = {"F0 F1 F0 F1 F2 B0 F3 B1 F2 B0 F3 B1 B2 B3 B2 B3",
                                "F0 F1 F0 B0 F1 B1 F2 B0 F3 B1 F2 B2 F3 B3 B2 B3"};
    const struct hyd_pipeline shape = {.n_stages = 2,
                                       .n_chunks = 2,
                                       .chunk_group = 2,
                                       .n_microbatches = 4,
                                       .backward_over_forward = 2.0};
    struct hyd_pipeline_program program;
    struct hyd_arena arena;
    char text[256];

    (void)state;
    hyd_arena_init(&arena, hyd_alloc_system());
    assert_int_equal(hyd_pipeline_program(&shape, &arena, &program, NULL), HYD_OK);
    for (uint32_t s = 0; s < 2; s++) {
        print_stage(&program, s, text, sizeof text);
        assert_string_equal(text, want[s]);
    }
    hyd_arena_release(&arena);
}

/* Step of equal cells, from the schedules' papers. */
static void pipeline_gives_the_known_steps_of_equal_cells(void **state)
{
    const struct {
        struct hyd_pipeline shape;
        double cells;
    } known[] = {
        {{4, 1, 4, 12, 2.0, false, false, NULL}, 12.0 + 3.0},
        {{4, 1, 4, 2, 2.0, false, false, NULL}, 2.0 + 3.0},
        {{4, 2, 4, 12, 2.0, false, false, NULL}, 12.0 + 3.0 / 2.0},
        {{4, 3, 4, 8, 3.0, false, false, NULL}, 8.0 + 3.0 / 3.0},
        {{4, 1, 4, 12, 2.0, true, false, NULL}, 12.0 + 3.0},
        {{4, 2, 4, 12, 2.0, true, false, NULL}, 12.0 + 3.0 / 2.0},
        /* F = B = W: (p - 1) (F + B - W). */
        {{8, 1, 8, 32, 2.0, false, true, NULL}, 32.0 + 7.0 / 3.0},
        {{1, 1, 1, 5, 2.0, false, true, NULL}, 5.0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        double cell_s[MAX_MICROBATCHES];
        double scratch[1024];
        struct hyd_pipeline_program program;
        struct hyd_arena arena;

        for (uint32_t k = 0; k < MAX_MICROBATCHES; k++) {
            cell_s[k] = 1.0;
        }
        hyd_arena_init(&arena, hyd_alloc_system());
        assert_int_equal(hyd_pipeline_program(&known[i].shape, &arena, &program, NULL),
                         HYD_OK);
        assert_true(hyd_line_scratch(&program) <= 1024);
        assert_true(hyd_test_close(hyd_line_step(&program, cell_s, scratch),
                                   known[i].cells, 0.0, 1e-12));
        hyd_arena_release(&arena);
    }
}

/* Each operation once; waits point back to who they must wait for; slots agree. */
static const char *check_program(const struct hyd_pipeline_program *program)
{
    static uint32_t writer[UINT16_MAX];
    const struct hyd_pipeline *shape = &program->shape;
    const uint32_t n_line = shape->n_stages * shape->n_chunks;
    /* Operations of kind and position seen on each stage, and left on each. */
    static uint8_t seen[3][MAX_LINE][MAX_MICROBATCHES];
    uint32_t last[16];
    double share = 0.0;

    memset(seen, 0, sizeof seen);
    memset(last, 0xff, sizeof last);
    for (uint32_t i = 0; i < program->n_ops; i++) {
        const struct hyd_pipeline_op *op = &program->op[i];

        if (op->position >= shape->n_microbatches || op->stage >= shape->n_stages) {
            return hyd_prop_reason("op %u is outside", i);
        }
        if (op->stage_op != last[op->stage]) {
            return hyd_prop_reason("op %u has the wrong predecessor", i);
        }
        if ((op->wait_slot == HYD_NO_SLOT) != (op->wait_op == HYD_NO_OP)) {
            return hyd_prop_reason("op %u waits for half a thing", i);
        }
        if (op->wait_slot != HYD_NO_SLOT) {
            const struct hyd_pipeline_op *from = &program->op[op->wait_op];
            const uint32_t step =
                op->kind == HYD_PIPELINE_FORWARD ? 1 : shape->n_stages - 1;

            if (op->wait_op >= i || writer[op->wait_slot] != op->wait_op) {
                return hyd_prop_reason("op %u reads a stale slot", i);
            }
            if (from->kind != op->kind || from->position != op->position ||
                (from->stage + step) % shape->n_stages != op->stage) {
                return hyd_prop_reason("op %u waits for the wrong operation", i);
            }
        }
        if (op->done_slot != HYD_NO_SLOT) {
            if (op->done_slot >= program->n_slots) {
                return hyd_prop_reason("op %u writes outside the slots", i);
            }
            writer[op->done_slot] = i;
        }
        if (++seen[op->kind][op->stage][op->position] > shape->n_chunks) {
            return hyd_prop_reason("op %u is one too many", i);
        }
        last[op->stage] = i;
    }
    for (uint32_t k = 0; k < HYD_PIPELINE_KINDS; k++) {
        share += program->share[k] * shape->n_chunks;
    }
    if (!hyd_test_close(share, 1.0, 1e-12, 0.0)) {
        return "shares do not add up to 1";
    }
    return program->n_ops % ((size_t)n_line * shape->n_microbatches) == 0
               ? NULL
               : "operations are missing";
}

static const char *pipeline_program_is_valid(struct hyd_rng *rng, void *ctx)
{
    const struct hyd_pipeline shape = random_shape(rng);
    struct hyd_pipeline_program program;
    struct hyd_arena arena;
    struct hyd_error err;
    const char *why = NULL;

    (void)ctx;
    hyd_arena_init(&arena, hyd_alloc_system());
    if (hyd_pipeline_program(&shape, &arena, &program, &err) != HYD_OK) {
        why = hyd_prop_reason("%s", err.text);
    } else {
        why = check_program(&program);
    }
    hyd_arena_release(&arena);
    return why;
}

static void pipeline_programs_are_valid(void **state)
{
    (void)state;
    hyd_prop_run("pipeline_program_is_valid", 300, pipeline_program_is_valid, NULL);
}

/* The path's coefficients give the step, and nothing else on the line is longer. */
static const char *line_path_explains_the_step(struct hyd_rng *rng, void *ctx)
{
    static double scratch[MAX_OPS];
    const struct hyd_pipeline shape = random_shape(rng);
    double cell_s[MAX_MICROBATCHES];
    double coefficient[MAX_MICROBATCHES];
    struct hyd_pipeline_program program;
    struct hyd_arena arena;
    double step_s = 0.0;
    double path_s = 0.0;
    double sum_s = 0.0;

    (void)ctx;
    hyd_arena_init(&arena, hyd_alloc_system());
    if (hyd_pipeline_program(&shape, &arena, &program, NULL) != HYD_OK) {
        return "no program";
    }
    for (uint32_t k = 0; k < shape.n_microbatches; k++) {
        cell_s[k] = hyd_rng_below(rng, 4) == 0 ? 0.0 : hyd_rng_unit(rng);
    }
    step_s = hyd_line_step(&program, cell_s, scratch);
    path_s = hyd_line_path(&program, cell_s, scratch, coefficient);
    for (uint32_t k = 0; k < shape.n_microbatches; k++) {
        sum_s += coefficient[k] * cell_s[k];
    }
    hyd_arena_release(&arena);
    if (step_s < path_s || step_s > path_s) {
        return "path and step differ";
    }
    return hyd_test_close(sum_s, step_s, 1e-12, 1e-9) ? NULL
                                                      : "the path is not the step";
}

static void line_paths_explain_their_steps(void **state)
{
    (void)state;
    hyd_prop_run("line_path_explains_the_step", 300, line_path_explains_the_step, NULL);
}

static void pipeline_refuses_what_it_cannot_order(void **state)
{
    struct hyd_pipeline shape = {4, 2, 4, 8, 2.0, false, true, NULL};
    struct hyd_pipeline_program program;
    struct hyd_arena arena;
    struct hyd_error err;

    (void)state;
    hyd_arena_init(&arena, hyd_alloc_system());
    assert_int_equal(hyd_pipeline_program(&shape, &arena, &program, &err),
                     HYD_ERR_INVALID);
    assert_string_equal(err.field, "zero_bubble");
    shape.zero_bubble = false;
    shape.n_microbatches = 9;
    assert_int_equal(hyd_pipeline_program(&shape, &arena, &program, &err),
                     HYD_ERR_INVALID);
    assert_string_equal(err.field, "num_microbatches");
    shape.n_microbatches = 1 << 24;
    assert_int_equal(hyd_pipeline_program(&shape, &arena, &program, &err),
                     HYD_ERR_LIMIT);
    hyd_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pipeline_orders_1f1b),
        cmocka_unit_test(pipeline_orders_interleaved_chunks),
        cmocka_unit_test(pipeline_gives_the_known_steps_of_equal_cells),
        cmocka_unit_test(pipeline_programs_are_valid),
        cmocka_unit_test(line_paths_explain_their_steps),
        cmocka_unit_test(pipeline_refuses_what_it_cannot_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
