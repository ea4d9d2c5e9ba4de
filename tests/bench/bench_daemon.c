/* bench_daemon.c - see bench_daemon.h. */
#include "tests/bench/bench_daemon.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/rpc/hydra_v1.h"
#include "tests/bench/daemon_fleet.h"
#include "tests/bench/daemon_watch.h"

#include "common/base/banned.h"

enum { SEQS = 4096, MAX_STEPS = 400, SEED = 1 };

struct row {
    uint32_t n_agents;
    uint32_t n_watchers;
    uint64_t updates; /* that the watchers got */
    uint64_t dropped; /* left out: a reader was slow */
    double cpu_s; /* of the daemon, a step */
    struct hyd_bench_times all; /* SubmitStep to the last part */
    struct hyd_bench_times plan; /* of it: planning */
    double p99_s;
};

/* Lengths as of code: log-normal, most a few hundred tokens, some very long. */
static void draw_lengths(struct hyd_rng *rng, uint32_t *length)
{
    for (uint32_t i = 0; i < SEQS; i++) {
        double normal = -6.0;

        for (int k = 0; k < 12; k++) {
            normal += hyd_rng_unit(rng);
        }
        normal = exp(6.5 + 1.3 * normal);
        length[i] = normal < 16.0 ? 16 : normal > 131072.0 ? 131072 : (uint32_t)normal;
    }
}

/* ---- one step ---- */

struct step_run {
    struct fleet *fleet;
    double plan_s;
    bool answered;
};

static void on_answer(void *ctx, const ProtobufCMessage *answer)
{
    const Hydra__V1__SubmitStepResponse *in =
        (const Hydra__V1__SubmitStepResponse *)answer;
    struct step_run *run = ctx;

    run->answered = true;
    run->plan_s = in->plan->figures->plan_wall_s;
}

static bool all_got(void *ctx)
{
    const struct step_run *run = ctx;

    return run->fleet->n_got == run->fleet->n_agents;
}

/* Each sequence is owned by exactly one agent. */
static bool check_parts(struct fleet *fleet)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < fleet->n_agents; i++) {
        n += fleet->agent[i].n_owned;
    }
    if (n != SEQS) {
        (void)fprintf(stderr, "daemon: %llu of %d sequences reached an agent\n",
                      (unsigned long long)n, SEQS);
    }
    return n == SEQS;
}

static bool wait_done(struct fleet *fleet, const char *job, uint64_t step,
                      Hydra__V1__Batch *batch)
{
    Hydra__V1__SubmitStepRequest request = HYDRA__V1__SUBMIT_STEP_REQUEST__INIT;

    request.job = (char *)(uintptr_t)job;
    request.step = step;
    request.batch = batch;
    request.omit_plan = true;
    request.wait = HYDRA__V1__STEP_STATE__STEP_DONE;
    return fleet_call(fleet, &hyd_rpc_submit_step, &request.base, NULL, NULL);
}

static bool run_step(struct fleet *fleet, const char *job, uint64_t step,
                     struct hyd_rng *rng, double *ret_all_s, double *ret_plan_s)
{
    static uint32_t length[SEQS];
    Hydra__V1__SubmitStepRequest request = HYDRA__V1__SUBMIT_STEP_REQUEST__INIT;
    Hydra__V1__Batch batch = HYDRA__V1__BATCH__INIT;
    struct step_run run = {.fleet = fleet};
    uint64_t start_ns = 0;
    uint64_t last_ns = 0;

    draw_lengths(rng, length);
    batch.length_tokens = length;
    batch.n_length_tokens = SEQS;
    request.job = (char *)(uintptr_t)job;
    request.step = step;
    request.batch = &batch;
    fleet->want_step = step;
    fleet->n_got = 0;
    start_ns = uv_hrtime();
    if (!fleet_call(fleet, &hyd_rpc_submit_step, &request.base, on_answer, &run) ||
        !fleet_run_until(fleet, all_got, &run, "the parts of a step") ||
        !check_parts(fleet)) {
        return false;
    }
    for (uint32_t i = 0; i < fleet->n_agents; i++) {
        last_ns = fleet->agent[i].got_ns > last_ns ? fleet->agent[i].got_ns : last_ns;
    }
    *ret_all_s = (double)(last_ns - start_ns) * 1e-9;
    *ret_plan_s = run.plan_s;
    fleet_report(fleet, step);
    return wait_done(fleet, job, step, &batch);
}

/* ret_row holds what to run with: agents and watchers. */
static bool bench_steps(struct fleet *fleet, const char *job, size_t n_steps,
                        struct row *ret_row)
{
    static double all_s[MAX_STEPS];
    static double plan_s[MAX_STEPS];
    struct hyd_rng rng = {SEED};
    struct fleet_watch *watch = NULL;
    double first[2];
    bool ok = fleet_attach(fleet, job, ret_row->n_agents, 8);

    watch = ok ? fleet_watch_start(fleet, job, ret_row->n_watchers) : NULL;
    ok = watch != NULL && /* the first step warms up */
         run_step(fleet, job, 1, &rng, &first[0], &first[1]) &&
         fleet_watch_saw(watch, 1);
    ret_row->cpu_s = fleet_daemon_cpu_s(fleet);
    for (size_t i = 0; i < n_steps && ok; i++) {
        ok = run_step(fleet, job, i + 2, &rng, &all_s[i], &plan_s[i]) &&
             fleet_watch_saw(watch, i + 2);
    }
    if (ok) {
        ret_row->cpu_s = (fleet_daemon_cpu_s(fleet) - ret_row->cpu_s) / (double)n_steps;
        ret_row->updates = fleet_watch_updates(watch, &ret_row->dropped);
        ret_row->all = hyd_bench_times(all_s, n_steps);
        ret_row->plan = hyd_bench_times(plan_s, n_steps);
        ret_row->p99_s = all_s[(n_steps - 1) * 99 / 100]; /* sorted by now */
    }
    fleet_watch_stop(watch);
    fleet_detach(fleet);
    return ok;
}

/* ---- agents ---- */

struct standing {
    double kb_each;
    double cpu_share;
    double attach_s;
};

static bool timer_done(void *ctx)
{
    return uv_hrtime() >= *(const uint64_t *)ctx;
}

static bool bench_agents(uint32_t n_agents, bool mutual_tls, double seconds,
                         struct standing *ret)
{
    struct fleet fleet;
    uint64_t before = 0;
    uint64_t start_ns = 0;
    uint64_t end_ns = 0;
    double cpu_s = 0.0;
    bool ok = fleet_start(&fleet, mutual_tls);

    before = fleet_daemon_bytes(&fleet);
    start_ns = uv_hrtime();
    ok = ok && fleet_attach(&fleet, "agents", n_agents, 1);
    ret->attach_s = (double)(uv_hrtime() - start_ns) * 1e-9;
    if (ok) {
        cpu_s = fleet_daemon_cpu_s(&fleet);
        end_ns = uv_hrtime() + (uint64_t)(seconds * 1e9);
        ok = fleet_run_until(&fleet, timer_done, &end_ns, "the time");
        ret->cpu_share = (fleet_daemon_cpu_s(&fleet) - cpu_s) / seconds;
        ret->kb_each =
            (double)(fleet_daemon_bytes(&fleet) - before) / 1024.0 / n_agents;
        for (uint32_t i = 0; i < n_agents; i++) {
            ok = ok && fleet.agent[i].call != NULL; /* all stayed */
        }
    }
    if (!ok) {
        (void)fprintf(stderr, "daemon: %u agents: %s\n", n_agents,
                      fleet.why[0] == '\0' ? "some did not stay" : fleet.why);
    }
    fleet_stop(&fleet);
    return ok;
}

/* ---- what-ifs ---- */

enum { IN_FLIGHT = 16, WHAT_IF_SEQS = 256 };

struct what_ifs {
    struct fleet *fleet;
    Hydra__V1__PlanRequest request;
    uint64_t end_ns;
    uint32_t n_open;
    uint64_t n_done;
};

static void start_what_if(struct what_ifs *w);

static void what_if_end(void *ctx, struct hyd_client_call *call,
                        const struct hyd_rpc_result *result)
{
    struct what_ifs *w = ctx;

    (void)call;
    w->n_open--;
    w->fleet->failed = w->fleet->failed || result->status != HYD_OK;
    w->n_done++;
    if (uv_hrtime() < w->end_ns && !w->fleet->failed) {
        start_what_if(w);
    }
}

static void what_if_message(void *ctx, struct hyd_client_call *call,
                            const ProtobufCMessage *message)
{
    (void)ctx;
    (void)call;
    (void)message;
}

static void start_what_if(struct what_ifs *w)
{
    static const struct hyd_client_events events = {.on_message = what_if_message,
                                                    .on_end = what_if_end};
    const struct hyd_client_start start = {.spec = &hyd_rpc_plan,
                                           .request = &w->request.base,
                                           .timeout_ms = 60000,
                                           .events = &events,
                                           .ctx = w};
    struct hyd_client_call *call = NULL;
    struct hyd_error err = {0};

    if (hyd_client_start(w->fleet->client, &start, &call, &err) == HYD_OK) {
        w->n_open++;
    } else {
        w->fleet->failed = true;
    }
}

static bool none_in_flight(void *ctx)
{
    return ((const struct what_ifs *)ctx)->n_open == 0;
}

static bool bench_what_ifs(struct fleet *fleet, double seconds, double *ret_per_s)
{
    static uint32_t length[SEQS];
    struct hyd_rng rng = {SEED};
    Hydra__V1__Batch batch = HYDRA__V1__BATCH__INIT;
    Hydra__V1__Pool pool = HYDRA__V1__POOL__INIT;
    Hydra__V1__Limits limits = HYDRA__V1__LIMITS__INIT;
    struct what_ifs w = {.fleet = fleet};
    const uint64_t start_ns = uv_hrtime();

    draw_lengths(&rng, length);
    batch.length_tokens = length;
    batch.n_length_tokens = WHAT_IF_SEQS;
    pool.ranks = 16;
    limits.cap_tokens = 16384;
    hydra__v1__plan_request__init(&w.request);
    w.request.batch = &batch;
    w.request.pool = &pool;
    w.request.limits = &limits;
    w.end_ns = start_ns + (uint64_t)(seconds * 1e9);
    for (int i = 0; i < IN_FLIGHT; i++) {
        start_what_if(&w);
    }
    if (!fleet_run_until(fleet, none_in_flight, &w, "what-ifs")) {
        return false;
    }
    *ret_per_s = (double)w.n_done / ((double)(uv_hrtime() - start_ns) * 1e-9);
    return true;
}

/* ---- a restart ---- */

static bool fill_journal(struct fleet *fleet, uint32_t n_jobs, uint32_t n_steps)
{
    static uint32_t length[64];
    Hydra__V1__OpenJobRequest open = HYDRA__V1__OPEN_JOB_REQUEST__INIT;
    Hydra__V1__JobSpec spec = HYDRA__V1__JOB_SPEC__INIT;
    Hydra__V1__Pool pool = HYDRA__V1__POOL__INIT;
    Hydra__V1__Limits limits = HYDRA__V1__LIMITS__INIT;
    Hydra__V1__SubmitStepRequest submit = HYDRA__V1__SUBMIT_STEP_REQUEST__INIT;
    Hydra__V1__Batch batch = HYDRA__V1__BATCH__INIT;
    char name[16];
    bool ok = true;

    for (uint32_t i = 0; i < 64; i++) {
        length[i] = 100 + 37 * i;
    }
    pool.ranks = 8;
    limits.cap_tokens = 8192;
    spec.name = name;
    spec.pool = &pool;
    spec.limits = &limits;
    spec.run = HYDRA__V1__RUN_MODE__RUN_NONE;
    open.spec = &spec;
    batch.length_tokens = length;
    batch.n_length_tokens = 64;
    submit.job = name;
    submit.batch = &batch;
    submit.omit_plan = true;
    for (uint32_t j = 0; j < n_jobs && ok; j++) {
        (void)snprintf(name, sizeof name, "j%u", j);
        ok = fleet_call(fleet, &hyd_rpc_open_job, &open.base, NULL, NULL);
        for (uint32_t k = 1; k <= n_steps && ok; k++) {
            submit.step = k;
            ok = fleet_call(fleet, &hyd_rpc_submit_step, &submit.base, NULL, NULL);
        }
    }
    return ok;
}

static bool bench_restart(uint32_t n_jobs, uint32_t n_steps, double *ret_s)
{
    struct fleet fleet;
    const bool ok = fleet_start(&fleet, false) &&
                    fill_journal(&fleet, n_jobs, n_steps) &&
                    fleet_restart(&fleet, ret_s);

    if (!ok) {
        (void)fprintf(stderr, "daemon: restart: %s\n", fleet.why);
    }
    fleet_stop(&fleet);
    return ok;
}

/* ---- the tables ---- */

static void print_step(const struct hyd_bench_args *args, const struct row *row)
{
    if (args->json) {
        printf("\"%s\": {\"agents\": %u, \"watchers\": %u, \"updates\": %llu, "
               "\"dropped\": %llu, \"sequences\": %d, \"repeats\": %zu, "
               "\"min_s\": %g, \"p50_s\": %g, \"p95_s\": %g, \"p99_s\": %g, "
               "\"plan_p50_s\": %g, \"daemon_cpu_s\": %g}, ",
               row->n_watchers == 0 ? "step" : "watched", row->n_agents,
               row->n_watchers, (unsigned long long)row->updates,
               (unsigned long long)row->dropped, SEQS, row->all.n, row->all.min_s,
               row->all.median_s, row->all.p95_s, row->p99_s, row->plan.median_s,
               row->cpu_s);
        return;
    }
    printf("step: %d sequences, %u agents of 8 ranks, journal durable, %zu repeats",
           SEQS, row->n_agents, row->all.n);
    if (row->n_watchers > 0) {
        printf(", %u watchers (%llu updates came, %llu were left out)", row->n_watchers,
               (unsigned long long)row->updates, (unsigned long long)row->dropped);
    }
    printf("\n  SubmitStep to the last part   min %.2f  p50 %.2f  p95 %.2f  p99 %.2f "
           "ms\n",
           1e3 * row->all.min_s, 1e3 * row->all.median_s, 1e3 * row->all.p95_s,
           1e3 * row->p99_s);
    printf("  of that the plan              min %.2f  p50 %.2f  p95 %.2f ms\n",
           1e3 * row->plan.min_s, 1e3 * row->plan.median_s, 1e3 * row->plan.p95_s);
    printf("  the daemon's CPU, until done  %.2f ms a step\n", 1e3 * row->cpu_s);
}

static void print_agents(const struct hyd_bench_args *args, uint32_t n, bool mutual_tls,
                         const struct standing *s)
{
    if (args->json) {
        printf(", \"agents_%u%s\": {\"kb_each\": %.1f, \"cpu_share\": %.3f, "
               "\"attach_s\": %.3f}",
               n, mutual_tls ? "_mtls" : "", s->kb_each, s->cpu_share, s->attach_s);
        return;
    }
    printf(
        "agents: %u on %s each: %.1f KB of the daemon each, attached and in an epoch "
        "after %.2f s, heartbeats take %.1f %% of a core\n",
        n, mutual_tls ? "a TCP connection with mutual TLS" : "a unix socket",
        s->kb_each, s->attach_s, 100.0 * s->cpu_share);
}

static bool bench_many(const struct hyd_bench_args *args)
{
    static const struct {
        uint32_t n_agents;
        bool mutual_tls;
    } rows[] = {{64, false}, {1000, false}, {1000, true}, {5000, false}};
    const size_t n_rows = args->full ? 4 : 3;
    bool ok = true;

    for (size_t i = args->check ? 1 : 0; i < n_rows && ok; i++) {
        const uint32_t n = args->check ? 16 : rows[i].n_agents;
        struct standing standing = {0};

        ok = bench_agents(n, rows[i].mutual_tls, args->check ? 0.5 : 5.0, &standing);
        if (ok) {
            print_agents(args, n, rows[i].mutual_tls, &standing);
        }
    }
    return ok;
}

static bool bench_journal(const struct hyd_bench_args *args)
{
    const uint32_t n_jobs = args->full ? 100 : 5;
    const uint32_t n_steps = args->full ? 100 : 20;
    double restart_s = 0.0;

    if (!bench_restart(n_jobs, n_steps, &restart_s)) {
        return false;
    }
    if (args->json) {
        printf(", \"restart\": {\"jobs\": %u, \"steps\": %u, \"s\": %.3f}", n_jobs,
               n_jobs * n_steps, restart_s);
    } else {
        printf("restart: %u jobs and %u steps in the journal: answers after %.2f s\n",
               n_jobs, n_jobs * n_steps, restart_s);
    }
    return true;
}

int hyd_bench_daemon(const struct hyd_bench_args *args)
{
    const size_t n_steps = args->check ? 3 : args->full ? 300 : 100;
    struct fleet fleet;
    struct row row = {.n_agents = args->check ? 8 : 64};
    struct row watched = {.n_agents = row.n_agents,
                          .n_watchers = args->check ? 300 : 2000};
    double per_s = 0.0;
    bool ok = fleet_start(&fleet, false) &&
              bench_steps(&fleet, "steps", n_steps, &row) &&
              bench_steps(&fleet, "watched", (n_steps + 4) / 5, &watched) &&
              bench_what_ifs(&fleet, args->check ? 0.3 : 5.0, &per_s);

    if (!ok) {
        (void)fprintf(stderr, "daemon: %s\n", fleet.why);
    }
    fleet_stop(&fleet);
    if (!ok) {
        return 1;
    }
    printf(args->json ? "{\"machine\": \"%s\", \"seed\": %d, " : "%s, seed %d\n",
           hyd_bench_machine(), SEED);
    print_step(args, &row);
    print_step(args, &watched);
    if (args->json) {
        printf("\"what_ifs_per_s\": %.1f", per_s);
    } else {
        printf(
            "plan: %.0f what-ifs a second of %d sequences on 16 ranks, %d in flight\n",
            per_s, WHAT_IF_SEQS, IN_FLIGHT);
    }
    ok = bench_many(args) && bench_journal(args);
    printf(args->json ? "}\n" : "");
    return ok ? 0 : 1;
}
