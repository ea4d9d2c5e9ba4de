/* What the scheduler sends is checked before an engine relies on it, and what the ranks
 * measured arrives in the report. */
#include "worker/agent/convert.h"

#include <math.h>

#include "common/base/arena.h"
#include "tests/lib/test.h"

struct job_parts {
    Hydra__V1__JobSpec spec;
    Hydra__V1__CostChoice cost;
    Hydra__V1__ModelShape shape;
    Hydra__V1__Limits limits;
    Hydra__V1__Pool pool;
    Hydra__V1__Execution execution;
};

static void make_job(struct job_parts *job)
{
    hydra__v1__job_spec__init(&job->spec);
    hydra__v1__cost_choice__init(&job->cost);
    hydra__v1__model_shape__init(&job->shape);
    hydra__v1__limits__init(&job->limits);
    hydra__v1__pool__init(&job->pool);
    hydra__v1__execution__init(&job->execution);
    job->spec.cost = &job->cost;
    job->spec.limits = &job->limits;
    job->spec.pool = &job->pool;
    job->spec.execution = &job->execution;
    job->cost.model = &job->shape;
    job->shape.heads = 16;
    job->shape.kv_heads = 4;
    job->shape.head_dim = 64;
    job->limits.cap_tokens = 4096;
    job->pool.tp = 2;
}

static void convert_reads_a_job(void **state)
{
    struct job_parts parts;
    struct hyd_agent_job job;
    struct hyd_error err = {.text = ""};

    (void)state;
    make_job(&parts);
    parts.limits.forward_cap_tokens = 8192;
    parts.execution.layers = 3;
    parts.execution.dtype = HYDRA__V1__DTYPE__DTYPE_BF16;
    parts.shape.mask = HYDRA__V1__MASK__MASK_WINDOW;
    parts.shape.window_tokens = 100;
    assert_int_equal(hyd_agent_job_read(&parts.spec, &job, &err), HYD_OK);
    assert_int_equal(job.model.n_heads, 8); /* of a tensor-parallel rank */
    assert_int_equal(job.model.n_kv_heads, 2);
    assert_int_equal(job.model.dtype, HYD_DTYPE_BF16);
    assert_int_equal(job.model.window_tokens, 100);
    assert_int_equal(job.cell_tokens, 8192);
    assert_int_equal(job.n_layers, 3);
}

static void refuses_job(struct job_parts *parts, const char *field)
{
    struct hyd_agent_job job = {.n_layers = 77};
    struct hyd_error err = {.text = ""};

    assert_true(hyd_agent_job_read(&parts->spec, &job, &err) != HYD_OK);
    assert_string_equal(err.field, field);
    assert_int_equal(job.n_layers, 77);
    make_job(parts);
}

static void convert_names_what_is_wrong_with_a_job(void **state)
{
    struct job_parts parts;

    (void)state;
    make_job(&parts);
    parts.cost.model = NULL;
    refuses_job(&parts, "job.cost.model");
    parts.pool.tp = 3;
    refuses_job(&parts, "job.pool.tp");
    parts.limits.cap_tokens = 0;
    refuses_job(&parts, "job.limits.cap_tokens");
    parts.shape.mask = (Hydra__V1__Mask)9;
    refuses_job(&parts, "job.cost.model.mask");
    parts.execution.dtype = (Hydra__V1__Dtype)9;
    refuses_job(&parts, "job.execution.dtype");
    parts.execution.layers = 5000;
    refuses_job(&parts, "job.execution.layers");
    parts.shape.head_dim = 0;
    refuses_job(&parts, "head_dim");
    parts.shape.kv_heads = 6;
    refuses_job(&parts, "kv_heads");
}

/* Two groups in microbatch 1 (degrees 1 and 3) and one in 0, in the wrong order. */
struct step_parts {
    Hydra__V1__Assignment message;
    Hydra__V1__AssignedGroup group[3];
    Hydra__V1__AssignedGroup *list[3];
    Hydra__V1__RankRun run[3];
    Hydra__V1__RankRun *run_list[3][1];
    uint32_t id[3][2];
    uint32_t length[3][2];
};

static void make_step(struct step_parts *step)
{
    static const uint32_t microbatch[] = {1, 1, 0};
    static const uint32_t degree[] = {1, 3, 2};

    hydra__v1__assignment__init(&step->message);
    step->message.step = 5;
    step->message.epoch = 2;
    step->message.num_microbatches = 2;
    step->message.n_groups = 3;
    step->message.groups = step->list;
    for (uint32_t i = 0; i < 3; i++) {
        Hydra__V1__AssignedGroup *group = &step->group[i];

        hydra__v1__assigned_group__init(group);
        hydra__v1__rank_run__init(&step->run[i]);
        step->list[i] = group;
        step->run[i].first = i;
        step->run[i].count = degree[i];
        step->run_list[i][0] = &step->run[i];
        group->microbatch = microbatch[i];
        group->group = 10 + i;
        group->n_ranks = 1;
        group->ranks = step->run_list[i];
        group->u = degree[i];
        group->r = 1;
        group->n_ids = group->n_length_tokens = 2;
        group->ids = step->id[i];
        group->length_tokens = step->length[i];
        for (uint32_t k = 0; k < 2; k++) {
            step->id[i][k] = 2 * i + k;
            step->length[i][k] = 100 + k;
        }
    }
}

static const struct hyd_agent_job small_job = {
    .model = {.d = 8, .n_heads = 6, .n_kv_heads = 2},
    .cell_tokens = 999,
    .n_layers = 2};

static void convert_brings_groups_into_the_order_in_which_they_run(void **state)
{
    struct step_parts step;
    struct hyd_agent_plan plan;
    struct hyd_arena arena;
    struct hyd_error err = {.text = ""};

    (void)state;
    make_step(&step);
    hyd_arena_init(&arena, hyd_alloc_system());
    assert_int_equal(
        hyd_agent_plan_read(&step.message, &small_job, 4, &arena, &plan, &err), HYD_OK);
    assert_int_equal(plan.n_groups, 3);
    assert_int_equal(plan.plan_group[0], 12);
    assert_int_equal(plan.plan_group[1], 11);
    assert_int_equal(plan.plan_group[2], 10);
    assert_int_equal(plan.group[1].rank[2], 3);
    assert_int_equal(plan.n_layers, 2);
    assert_true(plan.backward);
    hyd_arena_release(&arena);
}

static void refuses_step(struct step_parts *step, const char *field)
{
    struct hyd_agent_plan plan;
    struct hyd_arena arena;
    struct hyd_error err = {.text = ""};

    hyd_arena_init(&arena, hyd_alloc_system());
    assert_true(hyd_agent_plan_read(&step->message, &small_job, 4, &arena, &plan,
                                    &err) != HYD_OK);
    assert_string_equal(err.field, field);
    hyd_arena_release(&arena);
    make_step(step);
}

static void convert_names_what_is_wrong_with_a_step(void **state)
{
    struct step_parts step;
    Hydra__V1__Execution execution = HYDRA__V1__EXECUTION__INIT;

    (void)state;
    make_step(&step);
    step.run[1].first = 2;
    refuses_step(&step, "groups.ranks");
    step.run[1].first = UINT32_MAX;
    refuses_step(&step, "groups.ranks");
    step.group[1].u = 2;
    refuses_step(&step, "groups.u");
    step.group[1].u = 0x80000000U;
    step.group[1].r = 2;
    refuses_step(&step, "groups.u");
    step.group[0].n_length_tokens = 1;
    refuses_step(&step, "groups.ids");
    step.group[0].n_ids = step.group[0].n_length_tokens = 0;
    refuses_step(&step, "groups.ids");
    step.group[0].microbatch = 2;
    refuses_step(&step, "groups.microbatch");
    step.message.num_microbatches = UINT32_MAX;
    refuses_step(&step, "num_microbatches");
    execution.layers = 3;
    step.message.execution = &execution;
    refuses_step(&step, "execution.layers");
}

static void convert_adds_up_what_the_ranks_measured(void **state)
{
    const uint32_t rank[] = {4, 5};
    const struct hyd_group group[] = {
        {.microbatch = 0, .rank = rank, .u = 2, .r = 1},
        {.microbatch = 1, .rank = rank, .u = 2, .r = 1},
        {.microbatch = 1, .rank = rank, .u = 1, .r = 1},
    };
    const struct hyd_attn_figures figures[] = {
        {.compute_s = 1.0, .sent_bytes = 10},
        {.compute_s = 2.0, .wait_s = 0.5, .sent_bytes = 20},
        {.compute_s = 4.0},
    };
    const uint32_t plan_group[] = {3, 0, 7};
    const double blocked_s[] = {0.25, 0.75};
    const struct hyd_agent_measured one = {
        .rank = 4,
        .figures = figures,
        .group = group,
        .plan_group = plan_group,
        .n_groups = 3,
        .blocked_s = blocked_s,
        .n_microbatches = 2,
        .predicted_peak_bytes = 100,
        .measured_peak_bytes = 90,
        .wall_s = 3.0,
        .check = {.by_reference = 2, .max_error = 1e-6, .digest = UINT64_MAX}};
    struct hyd_agent_measured two = one;
    const struct hyd_agent_measured *const both[] = {&one, &two};
    Hydra__V1__StepReport report;
    struct hyd_arena arena;

    (void)state;
    two.rank = 5;
    two.measured_peak_bytes = 95;
    two.check.max_error = nan("");
    two.check.digest = 3;
    hyd_arena_init(&arena, hyd_alloc_system());
    assert_int_equal(hyd_agent_report_write(both, 2, &arena, &report), HYD_OK);
    assert_int_equal(report.n_cells, 4);
    assert_int_equal(report.n_shards, 6);
    assert_true(hyd_test_close(report.cells[1]->compute_s, 6.0, 0.0, 0.0));
    assert_true(hyd_test_close(report.cells[1]->wait_s, 0.75, 0.0, 0.0));
    assert_true(hyd_test_close(report.cells[1]->exposed_s, 0.5, 0.0, 0.0));
    assert_int_equal(report.cells[1]->bytes, 20);
    assert_int_equal(report.cells[2]->rank, 5);
    assert_int_equal(report.shards[2]->group, 7);
    assert_int_equal(report.shards[2]->microbatch, 1);
    assert_int_equal(report.measured_peak_bytes, 95);
    assert_int_equal(report.check->by_reference, 4);
    assert_true(isnan(report.check->max_error)); /* not hidden by a comparison */
    assert_int_equal(report.digest, 2); /* a sum, modulo 2^64 */
    hyd_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convert_reads_a_job),
        cmocka_unit_test(convert_names_what_is_wrong_with_a_job),
        cmocka_unit_test(convert_brings_groups_into_the_order_in_which_they_run),
        cmocka_unit_test(convert_names_what_is_wrong_with_a_step),
        cmocka_unit_test(convert_adds_up_what_the_ranks_measured),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
