/* Agents that are killed, stopped and ended at random, for a while: no step hangs, none that
 * is done has a wrong result, and neither the daemon nor an agent that is left alone grows.
 *
 *   soak_agents [--long]      25 s, or 10 minutes; HYDRA_SOAK_S=n, HYDRA_SEED=n
 */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
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

enum {
    N_AGENTS = 4, /* of two ranks each; the first is left alone */
    N_RANKS = 2 * N_AGENTS,
    LEAST_RANKS = 4,
    MAX_SEQS = 24,
    SHORT_S = 25,
    LONG_S = 600,
    READY_MS = 60000, /* to be whole again behind any event */
    STEP_MS = 60000, /* for one step, however often it begins anew */
    MAX_GROWTH_KIB = 16 * 1024,
    MAX_GROWTH_FDS = 8 + 128, /* the ucx transport holds that many closed ones */
};

enum event { EVENT_KILL, EVENT_STOP, EVENT_STOP_AND_KILL, EVENT_END, N_EVENTS };

static const char *const event_name[N_EVENTS] = {"killed", "stopped for a while",
                                                 "stopped, then killed", "ended"};

struct soak {
    struct daemon_rig rig;
    struct hyd_spawn spawn;
    unsigned child[N_AGENTS];
    atomic_bool over;
    uint64_t seed;
    uint64_t n_events[N_EVENTS];
    /* steps */
    uint64_t n_done, n_failed, n_refused;
    double worst_error;
};

struct options {
    uint64_t seed;
    uint64_t soak_ms;
};

struct usage {
    unsigned long kib;
    unsigned long fds;
};

static uint64_t now_ms(void)
{
    return hyd_clock_mono_ms(hyd_clock_system());
}

static void need(const struct soak *soak, bool condition, const char *what)
{
    if (!condition) {
        hyd_spawn_show_logs(&soak->spawn);
        fail_msg("seed %llu: %s", (unsigned long long)soak->seed, what);
    }
}

static void start_agent(struct soak *soak, unsigned i, bool again)
{
    char path[HYD_SPAWN_PATH_BYTES];
    char node[8];
    const char *argv[] = {
        path,      "--connect", soak->rig.address,    "--job", "test", "--node", node,
        "--ranks", "2",         "--threads-per-rank", "1",     NULL};

    (void)snprintf(node, sizeof node, "n%u", i);
    hyd_spawn_program("hydra-worker", path);
    if (again) {
        hyd_spawn_again(&soak->spawn, soak->child[i], argv);
    } else {
        soak->child[i] = hyd_spawn_start(&soak->spawn, node, argv);
    }
}

static void open_job(struct soak *soak)
{
    struct job_request job;
    struct run_request run;

    job_request_init(&job, "test");
    job_request_run(&job, &run);
    job.pool.ranks = N_RANKS;
    job.pool.ranks_per_node = 4;
    job.limits.cap_tokens = 160;
    job.policy.policy = (char *)(uintptr_t) "hydra";
    /* The longest sequence needs three ranks: with fewer a step waits for more. */
    job.spec.min_ranks = LEAST_RANKS;
    job_request_open(&job, &soak->rig);
}

static bool all_ready(struct soak *soak)
{
    Hydra__V1__ListWorkersRequest list = HYDRA__V1__LIST_WORKERS_REQUEST__INIT;
    const Hydra__V1__ListWorkersResponse *out = NULL;
    hyd_status st = HYD_OK;
    size_t n_ready = 0;

    list.job = (char *)(uintptr_t) "test";
    out = daemon_rig_call(&soak->rig, &hyd_rpc_list_workers, &list.base, &st);
    for (size_t i = 0; st == HYD_OK && i < out->n_workers; i++) {
        n_ready += strcmp(out->workers[i]->state, "ready") == 0;
    }
    daemon_rig_reset(&soak->rig);
    return n_ready == N_AGENTS;
}

static void wait_ready(struct soak *soak)
{
    const uint64_t end_ms = now_ms() + READY_MS;

    while (!all_ready(soak)) {
        need(soak, now_ms() < end_ms, "the agents do not come together again");
        (void)usleep(20000);
    }
}

/* A pause that ends early when the soak does. */
static void pause_ms(struct soak *soak, uint32_t ms)
{
    const uint64_t end_ms = now_ms() + ms;

    while (!atomic_load(&soak->over) && now_ms() < end_ms) {
        (void)usleep(5000);
    }
}

static void strike(struct soak *soak, struct hyd_rng *rng, enum event event, unsigned i)
{
    const unsigned child = soak->child[i];

    switch (event) {
    case EVENT_KILL:
        hyd_spawn_signal(&soak->spawn, child, SIGKILL);
        break;
    case EVENT_STOP:
        /* Shorter and longer than it takes to be given up. */
        hyd_spawn_signal(&soak->spawn, child, SIGSTOP);
        pause_ms(soak, 50 + hyd_rng_below(rng, 2500));
        hyd_spawn_signal(&soak->spawn, child, SIGCONT);
        return;
    case EVENT_STOP_AND_KILL:
        hyd_spawn_signal(&soak->spawn, child, SIGSTOP);
        pause_ms(soak, hyd_rng_below(rng, 2500));
        hyd_spawn_signal(&soak->spawn, child, SIGKILL);
        break;
    case EVENT_END:
    case N_EVENTS:
        hyd_spawn_signal(&soak->spawn, child, SIGTERM);
        break;
    }
    pause_ms(soak, hyd_rng_below(rng, 400));
    start_agent(soak, i, true);
}

static void *strike_main(void *arg)
{
    struct soak *soak = arg;
    struct hyd_rng rng = {soak->seed};

    while (!atomic_load(&soak->over)) {
        const enum event event = (enum event)hyd_rng_below(&rng, N_EVENTS);

        /* Often there is time for a few steps, sometimes for none. */
        pause_ms(soak, hyd_rng_below(&rng, hyd_rng_below(&rng, 3) == 0 ? 200 : 3000));
        if (!atomic_load(&soak->over)) {
            strike(soak, &rng, event, 1 + hyd_rng_below(&rng, N_AGENTS - 1));
            soak->n_events[event]++;
        }
    }
    return NULL;
}

/* Submit, and ask again for as long as it may take: whenever somebody comes or goes the
 * step begins anew. */
static const Hydra__V1__SubmitStepResponse *submit(struct soak *soak,
                                                   struct step_request *step,
                                                   hyd_status *ret_status)
{
    const uint64_t end_ms = now_ms() + STEP_MS;
    const Hydra__V1__SubmitStepResponse *out = NULL;

    do {
        out = daemon_rig_call(&soak->rig, &hyd_rpc_submit_step, &step->request.base,
                              ret_status);
    } while (*ret_status == HYD_ERR_TIMEOUT && now_ms() < end_ms);
    return out;
}

/* One step: done and right, or refused or failed because somebody is missing. */
static void run_step(struct soak *soak, struct hyd_rng *rng, uint64_t number)
{
    const size_t n = 1 + hyd_rng_below(rng, MAX_SEQS);
    uint32_t length[MAX_SEQS];
    struct step_request step;
    const Hydra__V1__SubmitStepResponse *out = NULL;
    hyd_status st = HYD_OK;

    for (size_t i = 0; i < n; i++) {
        length[i] = 1 + hyd_rng_below(rng, i % 8 == 0 ? 400 : 50);
    }
    step_request_init(&step, "test", number);
    step.batch.length_tokens = length;
    step.batch.n_length_tokens = n;
    step.request.wait = HYDRA__V1__STEP_STATE__STEP_DONE;
    out = submit(soak, &step, &st);
    if (st == HYD_ERR_UNAVAILABLE) {
        const bool missing = strstr(soak->rig.err.text, "missing") != NULL;

        soak->n_refused += missing;
        soak->n_failed += !missing;
        (void)usleep(20000);
    } else {
        need(soak, st == HYD_OK, soak->rig.err.text);
        need(soak, out->report->check->unchecked == 0, "something was not checked");
        need(soak,
             out->report->check->by_reference + out->report->check->by_single_rank == n,
             "a sequence is missing from the check");
        need(soak, out->report->check->max_error < 1e-5, "a wrong result");
        if (out->report->check->max_error > soak->worst_error) {
            soak->worst_error = out->report->check->max_error;
        }
        soak->n_done++;
    }
    daemon_rig_reset(&soak->rig);
}

/* Nobody touches the first agent: it must live through all that happens to the others. */
static void need_survivor(struct soak *soak)
{
    char text[64];

    if (!hyd_spawn_alive(&soak->spawn, soak->child[0])) {
        (void)snprintf(text, sizeof text, "the agent that is left alone ended: %d",
                       hyd_spawn_wait(&soak->spawn, soak->child[0]));
        need(soak, false, text);
    }
}

static unsigned long count_fds(pid_t pid)
{
    char path[64];
    DIR *folder = NULL;
    unsigned long n = 0;

    (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    folder = opendir(path);
    while (folder != NULL && readdir(folder) != NULL) {
        n++;
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    return n;
}

static struct usage usage_of(pid_t pid)
{
    struct usage usage = {.fds = count_fds(pid)};
    char line[256];
    FILE *file = NULL;

    (void)snprintf(line, sizeof line, "/proc/%d/status", (int)pid);
    file = fopen(line, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "VmRSS:", 6) == 0) {
            usage.kib = strtoul(line + 6, NULL, 10);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return usage;
}

static void judge(const struct soak *soak, const char *who, struct usage from,
                  struct usage to)
{
    print_message("%s: %lu -> %lu KiB resident, %lu -> %lu descriptors\n", who,
                  from.kib, to.kib, from.fds, to.fds);
    need(soak, to.kib > 0 && to.fds <= from.fds + MAX_GROWTH_FDS,
         "descriptors are not given back");
#ifdef __SANITIZE_ADDRESS__
    print_message("%s: the sanitizer keeps freed memory; it looks for leaks itself\n",
                  who);
#else
    need(soak, to.kib <= from.kib + MAX_GROWTH_KIB, "memory grows");
#endif
}

static void run_steps(struct soak *soak, struct hyd_rng *rng, uint64_t *number,
                      uint64_t end_ms)
{
    while (now_ms() < end_ms) {
        run_step(soak, rng, ++*number);
        need_survivor(soak);
    }
}

/* The daemon, a job, and all agents in an epoch. */
static void set_up(struct soak *soak)
{
    static const char *const args[] = {
        "--agents-heartbeat", "200ms", "--agents-lost", "1s", "--step-deadline", "10s",
        "--step-replan=yes",
        /* Who is killed three times before it is ready comes back soon. */
        "--agents-pardon", "2s", NULL};

    hyd_spawn_init(&soak->spawn);
    daemon_rig_start(&soak->rig, args);
    open_job(soak);
    for (unsigned i = 0; i < N_AGENTS; i++) {
        start_agent(soak, i, false);
    }
    wait_ready(soak);
}

static struct soak *running; /* until it is being taken down */

/* All of them leave as they should, and so does the daemon. */
static void tear_down(struct soak *soak)
{
    for (unsigned i = 0; i < N_AGENTS; i++) {
        int code = 0;

        hyd_spawn_signal(&soak->spawn, soak->child[i], SIGTERM);
        code = hyd_spawn_wait(&soak->spawn, soak->child[i]);
        print_message("agent %u ends with %d\n", i, code);
        need(soak, code == 0, "an agent does not end well");
    }
    running = NULL;
    hyd_spawn_release(&soak->spawn);
    daemon_rig_stop(&soak->rig);
}

static void report(const struct soak *soak, uint64_t soak_ms)
{
    print_message("seed %llu, %llu s: %llu steps done, %llu failed, %llu refused; "
                  "largest error %.2g\n",
                  (unsigned long long)soak->seed, (unsigned long long)soak_ms / 1000,
                  (unsigned long long)soak->n_done, (unsigned long long)soak->n_failed,
                  (unsigned long long)soak->n_refused, soak->worst_error);
    for (int i = 0; i < N_EVENTS; i++) {
        print_message("agents %s: %llu\n", event_name[i],
                      (unsigned long long)soak->n_events[i]);
    }
}

static void take_usage(const struct soak *soak, struct usage ret_usage[2])
{
    ret_usage[0] = usage_of(soak->rig.pid);
    ret_usage[1] = usage_of(soak->spawn.child[soak->child[0]].pid);
}

/* Of a soak that failed: nothing of it may be left. */
static int clean_up(void **state)
{
    (void)state;
    if (running != NULL) {
        atomic_store(&running->over, true);
        (void)usleep(500000); /* the striker gets to see it */
        hyd_spawn_release(&running->spawn);
        (void)kill(running->rig.pid, SIGKILL);
    }
    return 0;
}

static void agents_come_and_go(void **state)
{
    const struct options *options = *state;
    struct soak *soak = calloc(1, sizeof *soak);
    const uint64_t soak_ms = options->soak_ms;
    struct hyd_rng rng = {options->seed};
    pthread_t striker;
    struct usage from[2], to[2];
    uint64_t number = 0;
    uint64_t begin_ms;

    assert_non_null(soak);
    soak->seed = options->seed;
    running = soak;
    set_up(soak);
    run_step(soak, &rng, ++number);
    need(soak, soak->n_done == 1, "the first step was not done");
    begin_ms = now_ms();
    assert_int_equal(pthread_create(&striker, NULL, strike_main, soak), 0);
    run_steps(soak, &rng, &number, begin_ms + soak_ms / 3); /* it settles */
    take_usage(soak, from);
    run_steps(soak, &rng, &number, begin_ms + soak_ms);
    atomic_store(&soak->over, true);
    (void)pthread_join(striker, NULL);
    wait_ready(soak);
    take_usage(soak, to);
    for (const uint64_t n_done = soak->n_done; n_done == soak->n_done;) {
        run_step(soak, &rng, ++number); /* who was stopped may be given up once more */
        need(soak, now_ms() < begin_ms + soak_ms + READY_MS, "no step works any more");
    }
    report(soak, soak_ms);
    judge(soak, "daemon", from[0], to[0]);
    judge(soak, "agent that was left alone", from[1], to[1]);
    need(soak, soak->n_done > soak_ms / 10000, "hardly any step was done");
    tear_down(soak);
    free(soak);
}

int main(int argc, char **argv)
{
    const bool full = argc > 1 && strcmp(argv[1], "--long") == 0;
    const char *seconds = getenv("HYDRA_SOAK_S");
    const char *seed = getenv("HYDRA_SEED");
    struct options options = {.seed = seed != NULL ? strtoull(seed, NULL, 10) : 1};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate_setup_teardown(agents_come_and_go, NULL, clean_up,
                                                 &options),
    };

    options.soak_ms = 1000 * (seconds != NULL ? strtoull(seconds, NULL, 10)
                              : full          ? (uint64_t)LONG_S
                                              : (uint64_t)SHORT_S);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
