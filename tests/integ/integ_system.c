/* The whole product on one machine: hydra-schedd, two hydra-worker of several ranks, plans
 * that are executed and checked; an agent that is killed or stopped, and its successor. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/rng.h"
#include "common/rpc/hydra_v1.h"
#include "common/sys/clock.h"
#include "tests/lib/daemon_requests.h"
#include "tests/lib/spawn.h"
#include "tests/lib/test.h"
#include "tests/lib/victim.h"

enum { MAX_SEQS = 40 };

static const char *program; /* this test, to start victims from */

struct system {
    struct daemon_rig rig;
    struct hyd_spawn spawn;
};

static int set_up(void **state)
{
    struct system *sys = calloc(1, sizeof *sys);

    *state = sys;
    if (sys == NULL) {
        return -1;
    }
    hyd_spawn_init(&sys->spawn);
    return 0;
}

static int tear_down(void **state)
{
    struct system *sys = *state;

    hyd_spawn_release(&sys->spawn);
    if (sys->rig.pid != 0) {
        daemon_rig_stop(&sys->rig);
    }
    free(sys);
    return 0;
}

static void need(const struct system *sys, bool condition, const char *what)
{
    if (!condition) {
        hyd_spawn_show_logs(&sys->spawn);
        fail_msg("%s", what);
    }
}

static unsigned linked_worker(struct system *sys, const char *node, const char *ranks,
                              const char *links)
{
    char path[HYD_SPAWN_PATH_BYTES];
    const char *argv[] = {path,
                          "--connect",
                          sys->rig.address,
                          "--job",
                          "test",
                          "--node",
                          node,
                          "--ranks",
                          ranks,
                          "--threads-per-rank",
                          "1",
                          links != NULL ? "--links" : NULL,
                          links,
                          NULL};

    hyd_spawn_program("hydra-worker", path);
    return hyd_spawn_start(&sys->spawn, node, argv);
}

static unsigned worker(struct system *sys, const char *node, const char *ranks)
{
    return linked_worker(sys, node, ranks, NULL);
}

static unsigned victim(struct system *sys, const char *where, int signal_number)
{
    char number[16];
    const char *argv[] = {program,          "--victim", where, number,
                          sys->rig.address, "b",        NULL};

    (void)snprintf(number, sizeof number, "%d", signal_number);
    return hyd_spawn_start(&sys->spawn, "victim", argv);
}

static void open_masked_job(struct system *sys, uint32_t ranks, const char *policy,
                            Hydra__V1__Verify verify, Hydra__V1__Mask mask)
{
    struct job_request job;
    struct run_request run;

    job_request_init(&job, "test");
    job_request_run(&job, &run);
    run.shape.mask = mask;
    run.shape.window_tokens = mask == HYDRA__V1__MASK__MASK_WINDOW ? 37 : 0;
    run.execution.verify = verify;
    job.pool.ranks = ranks;
    job.pool.ranks_per_node = ranks / 2;
    job.limits.cap_tokens = 160;
    job.policy.policy = (char *)(uintptr_t)policy;
    job_request_open(&job, &sys->rig);
}

static void open_job(struct system *sys, uint32_t ranks, const char *policy,
                     Hydra__V1__Verify verify)
{
    open_masked_job(sys, ranks, policy, verify, HYDRA__V1__MASK__MASK_CAUSAL);
}

static bool workers_are(struct system *sys, size_t n, const char *what)
{
    Hydra__V1__ListWorkersRequest list = HYDRA__V1__LIST_WORKERS_REQUEST__INIT;
    const Hydra__V1__ListWorkersResponse *out = NULL;
    hyd_status st = HYD_OK;
    size_t n_so = 0;

    list.job = (char *)(uintptr_t) "test";
    out = daemon_rig_call(&sys->rig, &hyd_rpc_list_workers, &list.base, &st);
    for (size_t i = 0; st == HYD_OK && i < out->n_workers; i++) {
        n_so += strcmp(out->workers[i]->state, what) == 0;
    }
    return n_so == n;
}

static void wait_ready(struct system *sys, size_t n)
{
    const uint64_t end_ms = hyd_clock_mono_ms(hyd_clock_system()) + 30000;

    while (!workers_are(sys, n, "ready")) {
        need(sys, hyd_clock_mono_ms(hyd_clock_system()) < end_ms, "agents not ready");
        (void)usleep(20000);
    }
}

static const Hydra__V1__SubmitStepResponse *run_step(struct system *sys,
                                                     uint64_t number, uint32_t *length,
                                                     size_t n_seqs,
                                                     hyd_status *ret_status)
{
    struct step_request step;

    step_request_init(&step, "test", number);
    step.batch.length_tokens = length;
    step.batch.n_length_tokens = n_seqs;
    step.request.wait = HYDRA__V1__STEP_STATE__STEP_DONE;
    return daemon_rig_call(&sys->rig, &hyd_rpc_submit_step, &step.request.base,
                           ret_status);
}

/* Mostly short, a few that no rank could hold alone. */
static size_t some_lengths(struct hyd_rng *rng, uint32_t *length)
{
    const size_t n = 20 + hyd_rng_below(rng, MAX_SEQS - 20);

    for (size_t i = 0; i < n; i++) {
        length[i] = 1 + hyd_rng_below(rng, i % 10 == 0 ? 400 : 50);
    }
    return n;
}

static void plans_of_hydra_run_on_two_agents_of_four_ranks(void **state)
{
    struct system *sys = *state;
    struct hyd_rng rng = {42};
    uint32_t length[MAX_SEQS];
    hyd_status st = HYD_OK;

    daemon_rig_start(&sys->rig, NULL);
    open_job(sys, 8, "hydra", HYDRA__V1__VERIFY__VERIFY_FULL);
    (void)worker(sys, "n0", "4");
    (void)worker(sys, "n1", "4");
    wait_ready(sys, 2);
    for (uint64_t step = 1; step <= 3; step++) {
        const size_t n = some_lengths(&rng, length);
        const Hydra__V1__SubmitStepResponse *out = run_step(sys, step, length, n, &st);

        need(sys, st == HYD_OK, sys->rig.err.text);
        assert_int_equal(out->state, HYDRA__V1__STEP_STATE__STEP_DONE);
        assert_int_equal(
            out->report->check->by_reference + out->report->check->by_single_rank, n);
        assert_int_equal(out->report->check->unchecked, 0);
        assert_true(out->report->check->max_error < 1e-5);
        assert_int_equal(out->report->n_cells, 8 * out->plan->num_microbatches);
        assert_int_equal(out->report->measured_peak_bytes,
                         out->report->predicted_peak_bytes);
        assert_true(out->report->measured_balance_ranks >= 1.0);
        print_message("step %d: %zu sequences, M %u, largest error %.2g, ranks %.2f\n",
                      (int)step, n, out->plan->num_microbatches,
                      out->report->check->max_error,
                      out->report->measured_balance_ranks);
        daemon_rig_reset(&sys->rig);
    }
}

/* One checked step of one sequence over all ranks. */
static uint64_t digest_of(struct system *sys, Hydra__V1__Mask mask)
{
    uint32_t length[] = {300};
    const Hydra__V1__SubmitStepResponse *out = NULL;
    hyd_status st = HYD_OK;
    uint64_t digest = 0;

    daemon_rig_start(&sys->rig, NULL);
    open_masked_job(sys, 4, "static", HYDRA__V1__VERIFY__VERIFY_FULL, mask);
    (void)worker(sys, "a", "2");
    (void)worker(sys, "b", "2");
    wait_ready(sys, 2);
    out = run_step(sys, 1, length, 1, &st);
    need(sys, st == HYD_OK, sys->rig.err.text);
    assert_true(out->report->check->max_error < 1e-5);
    assert_int_equal(out->report->check->unchecked, 0);
    digest = out->report->digest;
    hyd_spawn_release(&sys->spawn);
    hyd_spawn_init(&sys->spawn);
    daemon_rig_stop(&sys->rig);
    return digest;
}

/* The reference checks with the mask that the agent was told, so a mask that is lost on
 * the way would look right: but then all three would give the same. */
static void the_mask_of_a_job_reaches_the_kernels(void **state)
{
    struct system *sys = *state;
    const uint64_t causal = digest_of(sys, HYDRA__V1__MASK__MASK_CAUSAL);
    const uint64_t full = digest_of(sys, HYDRA__V1__MASK__MASK_FULL);
    const uint64_t window = digest_of(sys, HYDRA__V1__MASK__MASK_WINDOW);

    assert_true(causal != full && causal != window && full != window);
}

/* Two agents of two ranks; the second one is lost in forward of the first step. */
static const Hydra__V1__SubmitStepResponse *lose_one(struct system *sys,
                                                     const char *replan,
                                                     int signal_number,
                                                     hyd_status *ret_status)
{
    const char *const args[] = {replan, NULL};
    uint32_t length[] = {97, 20, 60};
    const Hydra__V1__SubmitStepResponse *out = NULL;
    uint64_t from_ms = 0;
    unsigned b = 0;

    daemon_rig_start(&sys->rig, args);
    open_job(sys, 4, "static", HYDRA__V1__VERIFY__VERIFY_OFF);
    (void)worker(sys, "a", "2");
    b = victim(sys, "forward", signal_number);
    wait_ready(sys, 2);
    from_ms = hyd_clock_mono_ms(hyd_clock_system());
    out = run_step(sys, 1, length, 3, ret_status);
    print_message("step 1 ended after %d ms: %s\n",
                  (int)(hyd_clock_mono_ms(hyd_clock_system()) - from_ms),
                  *ret_status == HYD_OK ? "done" : sys->rig.err.text);
    hyd_spawn_signal(&sys->spawn, b, SIGKILL);
    need(sys, hyd_spawn_wait(&sys->spawn, b) == 1000 + SIGKILL, "the victim lives");
    return out;
}

static void a_successor_takes_the_place(struct system *sys)
{
    uint32_t length[] = {97, 20, 60};
    const Hydra__V1__SubmitStepResponse *out = NULL;
    hyd_status st = HYD_OK;

    (void)worker(sys, "b", "2");
    wait_ready(sys, 2);
    out = run_step(sys, 2, length, 3, &st);
    need(sys, st == HYD_OK, sys->rig.err.text);
    assert_int_equal(out->plan->ranks, 4);
}

static void a_killed_agent_fails_the_step_and_is_replaced(void **state)
{
    struct system *sys = *state;
    hyd_status st = HYD_OK;

    (void)lose_one(sys, "--step-replan=no", SIGKILL, &st);
    need(sys, st == HYD_ERR_UNAVAILABLE, "not failed as unavailable");
    need(sys, strstr(sys->rig.err.text, "node 'b'") != NULL, sys->rig.err.text);
    a_successor_takes_the_place(sys);
}

static void a_stopped_agent_fails_the_step_and_is_replaced(void **state)
{
    struct system *sys = *state;
    hyd_status st = HYD_OK;

    (void)lose_one(sys, "--step-replan=no", SIGSTOP, &st);
    need(sys, st == HYD_ERR_UNAVAILABLE, "not failed as unavailable");
    need(sys, strstr(sys->rig.err.text, "node 'b'") != NULL, sys->rig.err.text);
    a_successor_takes_the_place(sys);
}

static void a_step_that_lost_an_agent_is_done_by_the_others(void **state)
{
    struct system *sys = *state;
    const Hydra__V1__SubmitStepResponse *out = NULL;
    hyd_status st = HYD_OK;

    out = lose_one(sys, "--step-replan=yes", SIGKILL, &st);
    need(sys, st == HYD_OK, sys->rig.err.text);
    assert_int_equal(out->plan->ranks, 2);
    assert_int_equal(out->report->n_cells, 2 * out->plan->num_microbatches);
    a_successor_takes_the_place(sys);
}

/* ---- a node that attaches, but whose network leads nowhere ---- */

static void is_shut_out(struct system *sys, const char *node)
{
    Hydra__V1__ListWorkersRequest list = HYDRA__V1__LIST_WORKERS_REQUEST__INIT;
    const Hydra__V1__ListWorkersResponse *out = NULL;
    hyd_status st = HYD_OK;

    list.job = (char *)(uintptr_t) "test";
    out = daemon_rig_call(&sys->rig, &hyd_rpc_list_workers, &list.base, &st);
    need(sys, st == HYD_OK, sys->rig.err.text);
    for (size_t i = 0; i < out->n_workers; i++) {
        const bool is_it = strcmp(out->workers[i]->node, node) == 0;

        need(sys, (strcmp(out->workers[i]->state, "shut out") == 0) == is_it,
             out->workers[i]->node);
        need(sys,
             !is_it || strstr(out->workers[i]->reason, "it missed 2 epochs") != NULL,
             out->workers[i]->reason);
    }
}

static void step_says_why(struct system *sys, const char *what)
{
    Hydra__V1__ListStepsRequest list = HYDRA__V1__LIST_STEPS_REQUEST__INIT;
    const Hydra__V1__ListStepsResponse *out = NULL;
    hyd_status st = HYD_OK;

    list.job = (char *)(uintptr_t) "test";
    out = daemon_rig_call(&sys->rig, &hyd_rpc_list_steps, &list.base, &st);
    need(sys, st == HYD_OK && out->n_steps == 2, sys->rig.err.text);
    need(sys, strstr(out->steps[1]->reason, what) != NULL, out->steps[1]->reason);
}

/* Runs it until it ends; a call ends earlier than a fleet that has to find its fault. */
static const Hydra__V1__SubmitStepResponse *run_patiently(struct system *sys,
                                                          uint64_t number,
                                                          uint32_t *length,
                                                          size_t n_seqs)
{
    const uint64_t end_ms = hyd_clock_mono_ms(hyd_clock_system()) + 90000;
    const Hydra__V1__SubmitStepResponse *out = NULL;
    hyd_status st = HYD_OK;

    do {
        need(sys, hyd_clock_mono_ms(hyd_clock_system()) < end_ms, sys->rig.err.text);
        (void)usleep(20000);
        out = run_step(sys, number, length, n_seqs, &st);
    } while (st == HYD_ERR_TIMEOUT || st == HYD_ERR_UNAVAILABLE);
    need(sys, st == HYD_OK, sys->rig.err.text);
    return out;
}

static void a_node_that_nobody_reaches_is_left_out(void **state)
{
    static const char *const args[] = {"--agents-heartbeat",
                                       "200ms",
                                       "--agents-connect",
                                       "4s",
                                       "--agents-max-misses",
                                       "2",
                                       NULL};
    struct system *sys = *state;
    uint32_t length[] = {97, 20, 60};
    Hydra__V1__ReadmitNodeRequest readmit = HYDRA__V1__READMIT_NODE_REQUEST__INIT;
    hyd_status st = HYD_OK;
    unsigned b = 0;

    daemon_rig_start(&sys->rig, args);
    open_job(sys, 6, "static", HYDRA__V1__VERIFY__VERIFY_OFF);
    (void)worker(sys, "a", "2");
    b = linked_worker(sys, "b", "2", "self");
    (void)worker(sys, "c", "2");
    /* Each epoch with it fails, and the step runs on the others; after two it is known. */
    assert_int_equal(run_patiently(sys, 1, length, 3)->plan->ranks, 4);
    assert_int_equal(run_patiently(sys, 2, length, 3)->plan->ranks, 4);
    is_shut_out(sys, "b");
    step_says_why(sys, "4 of 6 ranks: node 'b' is shut out");
    assert_true(hyd_spawn_alive(&sys->spawn, b));

    /* Its network works again, and somebody says so. */
    hyd_spawn_signal(&sys->spawn, b, SIGKILL);
    (void)hyd_spawn_wait(&sys->spawn, b);
    readmit.job = (char *)(uintptr_t) "test";
    readmit.node = (char *)(uintptr_t) "b";
    (void)daemon_rig_call(&sys->rig, &hyd_rpc_readmit_node, &readmit.base, &st);
    need(sys, st == HYD_OK, sys->rig.err.text);
    (void)daemon_rig_call(&sys->rig, &hyd_rpc_readmit_node, &readmit.base, &st);
    assert_int_equal(st, HYD_ERR_NOT_FOUND);
    (void)worker(sys, "b", "2");
    wait_ready(sys, 3);
    assert_int_equal(run_patiently(sys, 3, length, 3)->plan->ranks, 6);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(plans_of_hydra_run_on_two_agents_of_four_ranks),
        TEST(the_mask_of_a_job_reaches_the_kernels),
        TEST(a_killed_agent_fails_the_step_and_is_replaced),
        TEST(a_step_that_lost_an_agent_is_done_by_the_others),
        TEST(a_stopped_agent_fails_the_step_and_is_replaced),
        TEST(a_node_that_nobody_reaches_is_left_out),
    };

    hyd_victim_main(argc, argv); /* does not return in a victim */
    program = argv[0];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
