/* bench_bounds.c - see bench_bounds.h. */
#include "tests/bench/bench_bounds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "scheduler/core/line.h"
#include "scheduler/core/line_bound.h"
#include "scheduler/core/ramp.h"

#include "common/base/banned.h"

enum { ROUNDS = 40000, FEW_ROUNDS = 1000, MAX_PLAIN = 64, MAX_GROUPS = 8 };

/* The proved bound, and the step of the best profile known, for one pipeline. */
static double bound_of(const struct hyd_pipeline *shape, uint32_t n_rounds,
                       double *ret_best)
{
    struct hyd_pipeline_program program;
    struct hyd_arena arena;
    double mixed = 0.0;
    double other = 0.0;
    double *share = calloc(shape->n_microbatches, sizeof *share);
    double *scratch = NULL;

    hyd_arena_init(&arena, hyd_alloc_system());
    if (share == NULL ||
        hyd_pipeline_program(shape, &arena, &program, NULL) != HYD_OK ||
        hyd_line_bound_mixed(&program, n_rounds, &arena, &mixed) != HYD_OK ||
        hyd_line_bound(&program, &arena, &other) != HYD_OK ||
        hyd_ramp_share(NULL, shape, &arena, share) != HYD_OK) {
        abort();
    }
    scratch = calloc(hyd_line_scratch(&program), sizeof *scratch);
    if (scratch == NULL) {
        abort();
    }
    *ret_best = hyd_line_step(&program, share, scratch);
    free(scratch);
    free(share);
    hyd_arena_release(&arena);
    return floor((mixed > other ? mixed : other) * 1e4) / 1e4;
}

static void print_row(uint32_t n_stages, uint32_t n_chunks, uint32_t step,
                      uint32_t n_cells)
{
    (void)printf("static const double p%u_v%u[] = {\n", n_stages, n_chunks);
    for (uint32_t i = 1; i <= n_cells; i++) {
        const struct hyd_pipeline shape = {
            .n_stages = n_stages,
            .n_chunks = n_chunks,
            .chunk_group = n_stages,
            .n_microbatches = i * step,
            .backward_over_forward = 2.0,
        };
        double best = 0.0;

        (void)printf("%s%.4f,", i % 8 == 1 ? "    " : " ",
                     bound_of(&shape, ROUNDS, &best));
        if (i % 8 == 0 || i == n_cells) {
            (void)printf("\n");
            (void)fflush(stdout);
        }
    }
    (void)printf("};\n\n");
}

static void print_file(void)
{
    static const uint32_t stages[] = {2, 4, 8, 16};
    static const uint32_t chunks[] = {2, 4};

    (void)printf("/* line_table.c - see line_table.h. Made by `hydra-bench bounds "
                 "--long`. */\n#include \"scheduler/core/line_table.h\"\n\n"
                 "#include <stddef.h>\n\n");
    for (size_t s = 0; s < sizeof stages / sizeof *stages; s++) {
        print_row(stages[s], 1, 1, MAX_PLAIN);
        for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
            print_row(stages[s], chunks[c], stages[s], MAX_GROUPS);
        }
    }
    (void)printf("const struct hyd_line_known hyd_line_table[] = {\n");
    for (size_t s = 0; s < sizeof stages / sizeof *stages; s++) {
        (void)printf("    {%u, 1, 1, %u, p%u_v1},\n", stages[s], MAX_PLAIN, stages[s]);
        for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
            (void)printf("    {%u, %u, %u, %u, p%u_v%u},\n", stages[s], chunks[c],
                         stages[s], MAX_GROUPS, stages[s], chunks[c]);
        }
    }
    (void)printf("    {0, 0, 0, 0, NULL},\n};\n");
}

int hyd_bench_bounds(const struct hyd_bench_args *args)
{
    static const uint32_t n_microbatches[] = {8, 16, 32, 56, 120};
    int status = 0;

    if (args->full) {
        print_file();
        return 0;
    }
    (void)printf("%s\ng*(M) for 8 stages, and the step of the best profile known\n",
                 hyd_bench_machine());
    for (size_t i = 0; i < sizeof n_microbatches / sizeof *n_microbatches; i++) {
        const struct hyd_pipeline shape = {8,   1,     8,     n_microbatches[i],
                                           2.0, false, false, NULL};
        double best = 0.0;
        const double bound = bound_of(&shape, FEW_ROUNDS, &best);

        (void)printf("M %3u  bound %9.4f  best %9.4f\n", n_microbatches[i], bound,
                     best);
        status |= bound > best ? 1 : 0;
    }
    return status;
}
