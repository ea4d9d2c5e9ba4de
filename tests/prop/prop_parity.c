/* Two layers of a toy transformer, x <- x + attention(x Wq, x Wk, x Wv) Wo, under five
 * plans of one batch: static, powers of two, any degree, one group, no splitting. The loss
 * is the mean over all tokens of the plan. The gradient of every weight equals that of one
 * rank that holds everything, computed in double. Data is cut by the public maps. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "tests/lib/compute_naive.h"
#include "tests/lib/test.h"
#include "tests/prop/parity_plan.h"
#include "tests/prop/toy.h"
#include "worker/attn/attn.h"
#include "worker/transport/self/transport_self.h"

enum { MAX_ROUNDS = 2000000 };

struct rank {
    struct hyd_compute *dev;
    struct hyd_attn *attn;
    struct hyd_transport *transport;
    struct hyd_group group[PARITY_MAX_GROUPS];
    struct hyd_attn_step step;
    struct toy_rows rows; /* of the current cell */
};

static struct hyd_group group_of(const struct parity_group *from)
{
    return (struct hyd_group){from->microbatch,   from->u,    from->r,
                              from->n_seqs,       from->rank, from->id,
                              from->length_tokens};
}

static int compare(const void *a, const void *b)
{
    return hyd_group_compare(a, b);
}

static void open_rank(const struct parity_plan *plan, uint32_t i, struct rank *rank)
{
    const struct hyd_compute_config compute = {.n_threads = 1};
    const struct hyd_transport_config net = {
        .rank = i, .n_ranks = plan->n_ranks, .epoch = 1, .session = "parity"};
    struct hyd_attn_config config = {
        .model = toy_model,
        .limits = {.cell_tokens = 400,
                   .split_seqs = TOY_N_SEQS,
                   .max_u = 8,
                   .dense = true,
                   .n_saved = TOY_LAYERS},
        .compute = &hyd_compute_naive,
    };
    struct hyd_error err = {.text = ""};

    hyd_assert(hyd_compute_naive.open(&compute, &rank->dev, NULL) == HYD_OK);
    hyd_assert(hyd_transport_self.open(&net, &rank->transport, NULL) == HYD_OK);
    config.dev = rank->dev;
    hyd_assert(hyd_attn_create(&config, hyd_alloc_system(), &rank->attn, NULL) ==
               HYD_OK);
    hyd_assert(hyd_attn_set_transport(rank->attn, &hyd_transport_self, rank->transport,
                                      i, plan->n_ranks, NULL) == HYD_OK);
    for (size_t g = 0; g < plan->n_groups; g++) {
        struct hyd_group group = group_of(&plan->group[g]);
        uint32_t member;

        if (hyd_group_member(&group, i, &member)) {
            rank->group[rank->step.n_groups++] = group;
        }
    }
    qsort(rank->group, rank->step.n_groups, sizeof *rank->group, compare);
    rank->step.group = rank->group;
    rank->step.backward = true;
    if (hyd_attn_begin_step(rank->attn, &rank->step, &err) != HYD_OK) {
        print_error("begin_step: %s\n", err.text);
        fail();
    }
}

static void close_rank(struct rank *rank)
{
    hyd_attn_end_step(rank->attn);
    hyd_transport_self.close(rank->transport);
    hyd_attn_free(rank->attn);
    hyd_compute_naive.close(rank->dev);
}

/* Which token each row of a cell is. */
static void open_cell(struct rank *rank, uint32_t own, uint32_t microbatch)
{
    uint32_t at = 0;

    toy_make(hyd_attn_cell_rows(&rank->step, own, microbatch), &rank->rows);
    for (size_t g = 0; g < rank->step.n_groups; g++) {
        const struct hyd_group *group = &rank->group[g];
        uint32_t member = 0, n_rows;

        if (group->microbatch != microbatch) {
            continue;
        }
        hyd_assert(hyd_group_member(group, own, &member));
        n_rows = hyd_group_rows(group, member);
        for (uint32_t row = 0; row < n_rows; row++, at++) {
            uint32_t seq = 0;

            hyd_assert(hyd_layout_token(group, member, row, &seq,
                                        &rank->rows.token[at]) == HYD_OK);
            rank->rows.id[at] = group->id[seq];
        }
    }
    toy_load(&rank->rows);
}

static struct hyd_attn_io io_of(const struct toy_rows *rows, uint32_t layer)
{
    struct hyd_attn_tensor t[8];

    for (size_t i = 0; i < 8; i++) {
        t[i] = (struct hyd_attn_tensor){{rows->io32[layer][i],
                                         rows->n * toy_width[i] * sizeof(float),
                                         HYD_MEM_HOST},
                                        0};
    }
    return (struct hyd_attn_io){t[TOY_Q],    t[TOY_K],  t[TOY_V],  t[TOY_O],
                                t[TOY_DOUT], t[TOY_DQ], t[TOY_DK], t[TOY_DV]};
}

static void *take(size_t n, size_t size)
{
    void *at = calloc(n, size);

    hyd_assert(at != NULL);
    return at;
}

/* The same pass on all ranks, going round until all are done. */
static void run_pass(struct rank *rank, uint32_t n_ranks, struct hyd_attn_pass pass)
{
    bool done[PARITY_MAX_RANKS] = {false};
    uint32_t n_done = 0;

    for (uint32_t i = 0; i < n_ranks; i++) {
        const struct hyd_attn_io io = io_of(&rank[i].rows, pass.layer);

        hyd_assert(hyd_attn_start(rank[i].attn, &pass, &io, NULL) == HYD_OK);
    }
    for (uint32_t n = 0; n < MAX_ROUNDS && n_done < n_ranks; n++) {
        enum hyd_attn_state state;
        struct hyd_error err = {.text = ""};

        if (done[n % n_ranks]) {
            continue;
        }
        if (hyd_attn_advance(rank[n % n_ranks].attn, &state, &err) != HYD_OK) {
            print_error("advance: %s\n", err.text);
            fail();
        }
        done[n % n_ranks] = state == HYD_ATTN_DONE;
        n_done += state == HYD_ATTN_DONE;
    }
    assert_int_equal(n_done, n_ranks);
}

static void run_microbatch(struct rank *rank, const struct parity_plan *plan,
                           uint32_t microbatch, struct toy_weights *weights,
                           struct toy_weights *grad)
{
    for (uint32_t i = 0; i < plan->n_ranks; i++) {
        open_cell(&rank[i], i, microbatch);
    }
    for (uint32_t l = 0; l < TOY_LAYERS; l++) {
        for (uint32_t i = 0; i < plan->n_ranks; i++) {
            toy_before(&rank[i].rows, weights, l);
        }
        run_pass(rank, plan->n_ranks,
                 (struct hyd_attn_pass){microbatch, l, HYD_DIRECTION_FORWARD});
        for (uint32_t i = 0; i < plan->n_ranks; i++) {
            toy_widen(&rank[i].rows, l, TOY_O);
            toy_after(&rank[i].rows, weights, l);
        }
    }
    for (uint32_t i = 0; i < plan->n_ranks; i++) {
        toy_loss_back(&rank[i].rows);
    }
    for (uint32_t l = TOY_LAYERS; l-- > 0;) {
        for (uint32_t i = 0; i < plan->n_ranks; i++) {
            toy_before_back(&rank[i].rows, weights, l, grad);
        }
        run_pass(rank, plan->n_ranks,
                 (struct hyd_attn_pass){microbatch, l, HYD_DIRECTION_BACKWARD});
        for (uint32_t i = 0; i < plan->n_ranks; i++) {
            for (size_t which = TOY_DQ; which <= TOY_DV; which++) {
                toy_widen(&rank[i].rows, l, which);
            }
            toy_after_back(&rank[i].rows, weights, l, grad);
        }
    }
    for (uint32_t i = 0; i < plan->n_ranks; i++) {
        toy_release(&rank[i].rows);
    }
}

/* Run the plan and compare every weight's gradient with one rank's. */
static void expect_parity(const struct parity_plan *plan, const char *name)
{
    struct toy_weights *weights = take(1, sizeof *weights);
    struct toy_weights *grad = take(1, sizeof *grad);
    struct toy_weights *want = take(1, sizeof *want);
    struct rank *rank = take(plan->n_ranks, sizeof *rank);
    double most = 0.0, worst = 0.0;

    toy_make_weights(weights);
    for (uint32_t i = 0; i < TOY_N_SEQS; i++) {
        toy_solve(i, weights, want);
    }
    for (uint32_t i = 0; i < plan->n_ranks; i++) {
        open_rank(plan, i, &rank[i]);
    }
    for (uint32_t m = 0; m < plan->n_microbatches; m++) {
        run_microbatch(rank, plan, m, weights, grad);
    }
    for (size_t i = 0; i < (size_t)TOY_LAYERS * TOY_WEIGHTS; i++) {
        most = fmax(most, fabs(want->w[i / TOY_WEIGHTS][i % TOY_WEIGHTS]));
        worst = fmax(worst, fabs(grad->w[i / TOY_WEIGHTS][i % TOY_WEIGHTS] -
                                 want->w[i / TOY_WEIGHTS][i % TOY_WEIGHTS]));
    }
    printf("%s: %u microbatches, %zu groups, gradients off by %.1e of the largest\n",
           name, plan->n_microbatches, plan->n_groups, worst / most);
    assert_true(most > 0.01 && worst <= 1e-5 * most);
    for (uint32_t i = 0; i < plan->n_ranks; i++) {
        close_rank(&rank[i]);
    }
    free(rank);
    free(want);
    free(grad);
    free(weights);
}

/* Plan by the planner; `least` sequences must be split, or the test shows nothing. */
static void expect_parity_of(const struct parity_question *question, const char *name,
                             size_t least_split)
{
    static struct parity_plan plan;
    const char *why = parity_plan_make(question, toy_lengths, TOY_N_SEQS, &plan);
    size_t n_split = 0;

    if (why != NULL) {
        print_error("%s\n", why);
    }
    assert_null(why);
    for (size_t g = 0; g < plan.n_groups; g++) {
        n_split += plan.group[g].u * plan.group[g].r > 1 ? plan.group[g].n_seqs : 0;
    }
    assert_true(n_split >= least_split);
    expect_parity(&plan, name);
}

static void gradient_is_the_same_under_a_static_plan(void **state)
{
    const struct parity_question question = {"static", NULL, 4, 120, 0, 4};

    (void)state;
    expect_parity_of(&question, "static", TOY_N_SEQS);
}

static void gradient_is_the_same_under_powers_of_two(void **state)
{
    const struct parity_question question = {"hydra", "pow2", 8, 80, 0, 0};

    (void)state;
    expect_parity_of(&question, "powers of two", 1);
}

static void gradient_is_the_same_under_any_degree(void **state)
{
    const struct parity_question question = {"hydra", "any", 7, 60, 0, 0};

    (void)state;
    expect_parity_of(&question, "any degree", 1);
}

static void gradient_is_the_same_when_nothing_is_split(void **state)
{
    const struct parity_question question = {"hydra", "pow2", 4, 200, 1, 0};

    (void)state;
    expect_parity_of(&question, "no splitting", 0);
}

static void gradient_is_the_same_in_one_group(void **state)
{
    static struct parity_plan plan;

    (void)state;
    plan = (struct parity_plan){.n_ranks = 6, .n_microbatches = 1, .n_groups = 1};
    plan.group[0] = (struct parity_group){.u = 3, .r = 2, .n_seqs = TOY_N_SEQS};
    for (uint32_t i = 0; i < 6; i++) {
        plan.group[0].rank[i] = 5 - i;
    }
    for (uint32_t i = 0; i < TOY_N_SEQS; i++) {
        plan.group[0].id[i] = i;
        plan.group[0].length_tokens[i] = toy_lengths[i];
    }
    expect_parity(&plan, "one group");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradient_is_the_same_under_a_static_plan),
        cmocka_unit_test(gradient_is_the_same_under_powers_of_two),
        cmocka_unit_test(gradient_is_the_same_under_any_degree),
        cmocka_unit_test(gradient_is_the_same_when_nothing_is_split),
        cmocka_unit_test(gradient_is_the_same_in_one_group),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
