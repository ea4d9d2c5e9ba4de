/* The closed loop: reports move the cost model, in bounds, and plans say which they used. */
#include <signal.h>

#include "common/rpc/hydra_v1.h"
#include "tests/lib/daemon_requests.h"
#include "tests/lib/test.h"

enum { RANKS = 4, SEQS = 40 };

static const double A_S = 1e-6; /* believed when the job is opened */
static const double B_S = 1e-5;

/* What the machine is really like. */
struct truth {
    double a_s;
    double b_s;
    double speed[RANKS];
};

/* Seconds of every cell of a plan in which no sequence is split. */
static void measure(const Hydra__V1__Plan *plan, const struct truth *truth,
                    Hydra__V1__CellReport *cell)
{
    for (size_t m = 0; m < plan->n_microbatches; m++) {
        for (uint32_t r = 0; r < RANKS; r++) {
            hydra__v1__cell_report__init(&cell[m * RANKS + r]);
            cell[m * RANKS + r].rank = r;
            cell[m * RANKS + r].microbatch = (uint32_t)m;
        }
        for (size_t g = 0; g < plan->microbatches[m]->n_groups; g++) {
            const Hydra__V1__Group *group = plan->microbatches[m]->groups[g];
            const uint32_t rank = group->ranks[0]->first;

            assert_int_equal(group->u * group->r, 1);
            for (size_t i = 0; i < group->n_ids; i++) {
                const double l = plan->length_tokens[group->ids[i]];

                cell[m * RANKS + rank].compute_s +=
                    (truth->a_s * l * l + truth->b_s * l) / truth->speed[rank];
            }
        }
    }
}

static const Hydra__V1__SubmitStepResponse *run_step(struct daemon_rig *rig,
                                                     const char *job, uint64_t number,
                                                     const struct truth *truth)
{
    struct step_request step;
    uint32_t length[SEQS];
    Hydra__V1__ReportStepRequest report = HYDRA__V1__REPORT_STEP_REQUEST__INIT;
    Hydra__V1__StepReport body = HYDRA__V1__STEP_REPORT__INIT;
    Hydra__V1__CellReport cell[SEQS * RANKS];
    Hydra__V1__CellReport *cells[SEQS * RANKS];
    const Hydra__V1__SubmitStepResponse *out = NULL;
    hyd_status st = HYD_OK;

    step_request_init(&step, job, number);
    for (uint32_t i = 0; i < SEQS; i++) {
        length[i] = 50 + (i * 37 + (uint32_t)number * 11) % 450;
    }
    step.batch.length_tokens = length;
    step.batch.n_length_tokens = SEQS;
    out = daemon_rig_call(rig, &hyd_rpc_submit_step, &step.request.base, &st);
    assert_int_equal(st, HYD_OK);
    assert_in_range(out->plan->n_microbatches, 1, SEQS);
    measure(out->plan, truth, cell);
    for (size_t i = 0; i < out->plan->n_microbatches * RANKS; i++) {
        cells[i] = &cell[i];
    }
    body.cells = cells;
    body.n_cells = out->plan->n_microbatches * RANKS;
    report.job = (char *)(uintptr_t)job;
    report.step = number;
    report.report = &body;
    (void)daemon_rig_call(rig, &hyd_rpc_report_step, &report.base, &st);
    assert_int_equal(st, HYD_OK);
    return out;
}

static const Hydra__V1__CostModel *cost_of(struct daemon_rig *rig, const char *job)
{
    Hydra__V1__GetCostModelRequest get = HYDRA__V1__GET_COST_MODEL_REQUEST__INIT;
    const Hydra__V1__GetCostModelResponse *got = NULL;
    hyd_status st = HYD_OK;

    get.job = (char *)(uintptr_t)job;
    got = daemon_rig_call(rig, &hyd_rpc_get_cost_model, &get.base, &st);
    assert_int_equal(st, HYD_OK);
    return got->cost;
}

static int start(void **state)
{
    static struct daemon_rig rig;

    rig.keeps_state = true;
    daemon_rig_start(&rig, NULL);
    *state = &rig;
    return 0;
}

static int stop(void **state)
{
    daemon_rig_stop(*state);
    return 0;
}

static void open_job(struct daemon_rig *rig, struct job_request *job, const char *name,
                     bool adapt)
{
    job_request_init(job, name);
    job->cost.a_s = A_S;
    job->cost.b_s = B_S;
    job->limits.max_degree = 1;
    job->policy.policy = (char *)(uintptr_t) "hydra";
    job->spec.adapt = adapt;
    job_request_open(job, rig);
}

static void adapt_changes_nothing_unless_it_is_on(void **state)
{
    static const struct truth truth = {2e-6, 2e-5, {1.0, 1.0, 1.0, 1.0}};
    struct daemon_rig *rig = *state;
    struct job_request job;

    open_job(rig, &job, "off", false);
    for (uint64_t step = 1; step <= 8; step++) {
        (void)run_step(rig, "off", step, &truth);
    }
    assert_int_equal(cost_of(rig, "off")->version, 0);
}

static void adapt_learns_seconds_and_speeds_within_bounds(void **state)
{
    /* Attention is three times as dear as thought, and rank 3 is slow. */
    static const struct truth truth = {3e-6, 1.2e-5, {1.1, 1.1, 1.1, 0.7}};
    struct daemon_rig *rig = *state;
    struct job_request job;
    const Hydra__V1__SubmitStepResponse *out = NULL;
    const Hydra__V1__CostModel *cost = NULL;

    open_job(rig, &job, "on", true);
    for (uint64_t step = 1; step <= 12; step++) {
        cost = cost_of(rig, "on");
        out = run_step(rig, "on", step, &truth);
        /* The plan says which version it used; one step moves nothing too far. */
        assert_int_equal(out->plan->cost_version, cost->version);
        assert_true(cost_of(rig, "on")->a_s <= 1.5 * cost->a_s * 1.0001);
    }
    cost = cost_of(rig, "on");
    assert_true(cost->version > 1);
    assert_true(hyd_test_close(cost->a_s, truth.a_s, 0.0, 0.05));
    assert_true(hyd_test_close(cost->b_s, truth.b_s, 0.0, 0.15));
    assert_int_equal(cost->n_speed, RANKS);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_true(hyd_test_close(cost->speed[r], truth.speed[r], 0.0, 0.05));
    }
    assert_true(cost->residual_median < 0.05);
    /* What was learnt is used: the slow rank gets less. */
    out = run_step(rig, "on", 13, &truth);
    assert_true(hyd_test_close(out->plan->figures->balance, 1.0, 0.3, 0.0));
}

static void adapt_survives_a_restart(void **state)
{
    static const struct truth truth = {1.4e-6, 1.4e-5, {1.1, 1.1, 1.1, 0.7}};
    struct daemon_rig *rig = *state;
    struct job_request job;
    const Hydra__V1__CostModel *before = NULL;
    const Hydra__V1__CostModel *after = NULL;
    const Hydra__V1__SubmitStepResponse *out = NULL;

    open_job(rig, &job, "kept", true);
    for (uint64_t step = 1; step <= 4; step++) {
        (void)run_step(rig, "kept", step, &truth);
    }
    before = cost_of(rig, "kept");
    assert_true(before->version > 0);
    daemon_rig_restart(rig, SIGKILL, NULL);
    after = cost_of(rig, "kept");
    assert_true(after->a_s == before->a_s && after->b_s == before->b_s);
    assert_int_equal(after->version, before->version);
    assert_int_equal(after->n_speed, RANKS);
    assert_true(after->speed[3] == before->speed[3]);
    out = run_step(rig, "kept", 5, &truth);
    assert_int_equal(out->plan->cost_version, before->version);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adapt_changes_nothing_unless_it_is_on),
        cmocka_unit_test(adapt_learns_seconds_and_speeds_within_bounds),
        cmocka_unit_test(adapt_survives_a_restart),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, start, stop);
}
