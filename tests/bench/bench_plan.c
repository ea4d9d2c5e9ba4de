/* bench_plan.c - see bench_plan.h. */
#include "tests/bench/bench_plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "tests/bench/plan_gain.h"
#include "tests/bench/plan_gaps.h"
#include "tests/bench/plan_jitter.h"
#include "tests/bench/plan_seeds.h"
#include "tests/bench/plan_sweep.h"
#include "tests/bench/plan_time.h"

#include "common/base/banned.h"

enum { K = 1024, SEED = 7 };

/* What --check runs: small, with a gain that is known to be there. */
static const struct hyd_plan_case_spec check_case = {
    "pretrain_prolong", 1, 0, 0, 16, 4 * K, 24 * K, SEED};
static const double CHECK_GAIN = 1.02;

static const struct hyd_plan_case_spec cases[] = {
    {"pretrain_prolong", 1, 0, 0, 64, 16 * K, 256 * K, SEED},
    {"pretrain_prolong", 1, 0, 0, 64, 16 * K, 256 * K, 1},
    {"pretrain_prolong", 1, 0, 0, 64, 16 * K, 256 * K, 4},
    {"pretrain_prolong", 1, 0, 0, 64, 16 * K, 256 * K, 2},
    {"pretrain_prolong", 1, 0, 0, 64, 16 * K, 256 * K, 3},
    {"pretrain_wlbllm", 2, 0, 0, 64, 16 * K, 256 * K, SEED},
    {"pretrain_wlbllm", 2, 0, 0, 64, 16 * K, 256 * K, 1},
    {"lognormal", 1, HYD_PLAN_MEDIAN_8192, 1.5, 64, 32 * K, 256 * K, SEED},
    {"lognormal", 1, HYD_PLAN_MEAN_8192, 1.5, 64, 32 * K, 256 * K, SEED},
    {"code_linux_files", 1, 0, 0, 64, 16 * K, 256 * K, SEED},
    {"pretrain_magi_histogram", 1, 0, 0, 64, 16 * K, 256 * K, SEED},
    {"agent_claude_code_sessions", 1, 0, 0, 64, 32 * K, 1024 * K, SEED},
    {"pretrain_prolong", 1, 0, 0, 32, 8 * K, 32 * K, SEED},
    {"pretrain_wlbllm", 1, 0, 0, 32, 8 * K, 32 * K, SEED},
    {"chat_sharegpt_8k", 1, 0, 0, 32, 8 * K, 32 * K, SEED},
    {"multimodal_servegen_image", 1, 0, 0, 32, 8 * K, 32 * K, SEED},
    {"pretrain_prolong", 1, 0, 0, 16, 4 * K, 24 * K, SEED},
    {"pretrain_prolong", 1, 0, 0, 48, 16 * K, 256 * K, SEED},
    {"pretrain_prolong", 1, 0, 0, 96, 16 * K, 256 * K, SEED},
    {"pretrain_prolong", 1, 0, 0, 128, 8 * K, 256 * K, SEED},
    {"pretrain_wlbllm", 2, 0, 0, 128, 8 * K, 256 * K, SEED},
    {NULL, 0, 0, 0, 0, 0, 0, 0},
};

/* Ratio, or "-" where there is no plan. */
static const char *ratio(double a, double b, char text[16])
{
    if (a > 0.0) {
        (void)snprintf(text, 16, "%.3f", a / b);
    } else {
        (void)snprintf(text, 16, "-");
    }
    return text;
}

static void print_gain(const struct hyd_plan_case *c, const struct hyd_plan_gain *g)
{
    const double step_s = g->hydra.step_s;
    char t[7][16];

    (void)printf(
        "%-36s %2u %5zu %7u %3.0f %016" PRIx64 " | %3u %9.0f %6.4f %5.1f%% "
        "%+5.1f%% | %5s %5.1f%% %5s %6u %6s %+5.1f%% | %5s %5s %5s %6s\n",
        c->name, c->spec.seed, c->n, c->longest_tokens, c->fill, c->hash,
        g->hydra_microbatches, step_s, g->hydra.balance, g->hydra.bubble.total * 100.0,
        g->hydra.gap * 100.0, ratio(g->megatron_s, step_s, t[0]),
        g->megatron_bubble * 100.0, ratio(g->tuned_s, step_s, t[1]), g->tuned_cap,
        ratio(g->exclusive_s, step_s, t[2]), g->exclusive_gap * 100.0,
        ratio(g->dp_balanced_s, step_s, t[3]), ratio(g->relax_s, step_s, t[4]),
        ratio(g->static_s, step_s, t[5]), ratio(g->zero_bubble_s, step_s, t[6]));
}

static void print_gain_head(void)
{
    (void)printf(
        "gain: steps against hydra's, each policy at its best order; S = megatron, St "
        "= "
        "megatron at its\nbest of nine caps, X = hydra with pow2 and exclusive cells, "
        "ZB "
        "= hydra with zero bubble\n"
        "%-36s %2s %5s %7s %3s %-16s | %3s %9s %6s %6s %6s | %5s %6s %5s %6s %6s %6s | "
        "%5s %5s %5s %6s\n",
        "set ranks/cap/clip", "sd", "n", "longest", "k", "hash of lengths", "M", "step",
        "balance", "bubble", "gap", "S", "bubble", "St", "cap", "X", "X gap", "dp-b",
        "relax", "stat", "ZB");
}

static json_t *gain_json(const struct hyd_plan_case *c, const struct hyd_plan_gain *g)
{
    char hash[24];

    (void)snprintf(hash, sizeof hash, "%016" PRIx64, c->hash);
    return json_pack(
        "{s:s, s:i, s:I, s:I, s:f, s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:i, s:f, "
        "s:f, s:f, s:f, s:f}",
        "case", c->name, "seed", (int)c->spec.seed, "sequences", (json_int_t)c->n,
        "longest_tokens", (json_int_t)c->longest_tokens, "fill", c->fill, "hash", hash,
        "num_microbatches", (int)g->hydra_microbatches, "step_s", g->hydra.step_s,
        "balance", g->hydra.balance, "bubble", g->hydra.bubble.total, "gap",
        g->hydra.gap, "megatron_s", g->megatron_s, "megatron_tuned_s", g->tuned_s,
        "tuned_cap_tokens", (int)g->tuned_cap, "exclusive_s", g->exclusive_s,
        "dp_balanced_s", g->dp_balanced_s, "relax_s", g->relax_s, "static_s",
        g->static_s, "zero_bubble_s", g->zero_bubble_s);
}

static int check_gain(void)
{
    struct hyd_planner *planner = NULL;
    struct hyd_plan_case c;
    struct hyd_plan_gain gain;
    struct hyd_error err = {.text = ""};
    char why[128];
    int status = 1;

    if (!hyd_plan_case_make(&check_case, &c, why, sizeof why)) {
        (void)printf("%s\n", why);
        return 0;
    }
    if (hyd_planner_create(hyd_alloc_system(), &planner) == HYD_OK &&
        hyd_plan_gain(planner, &c, false, &gain, &err)) {
        const double ratio_s = gain.megatron_s / gain.hydra.step_s;

        (void)printf("%s: megatron's step is %.3f of hydra's, at least %.2f wanted\n",
                     c.name, ratio_s, CHECK_GAIN);
        status = ratio_s >= CHECK_GAIN ? 0 : 1;
    } else {
        (void)fprintf(stderr, "%s: %s\n", c.name, err.text);
    }
    hyd_planner_free(planner);
    hyd_plan_case_release(&c);
    return status;
}

/* All cases. Gives the exit status. */
static int gain_table(const struct hyd_bench_args *args, json_t *out)
{
    struct hyd_planner *planner = NULL;
    int status = 0;

    if (hyd_planner_create(hyd_alloc_system(), &planner) != HYD_OK) {
        return 1;
    }
    if (!args->json) {
        print_gain_head();
    }
    for (size_t i = 0; cases[i].set != NULL; i++) {
        struct hyd_plan_case c;
        struct hyd_plan_gain gain;
        struct hyd_error err;
        char why[128];

        if (!hyd_plan_case_make(&cases[i], &c, why, sizeof why)) {
            (void)fprintf(args->json ? stderr : stdout, "%s\n", why);
            continue;
        }
        if (!hyd_plan_gain(planner, &c, true, &gain, &err)) {
            (void)fprintf(stderr, "%s: %s\n", c.name, err.text);
            status = 1;
        } else if (args->json) {
            (void)json_array_append_new(out, gain_json(&c, &gain));
        } else {
            print_gain(&c, &gain);
            (void)fflush(stdout);
        }
        hyd_plan_case_release(&c);
    }
    hyd_planner_free(planner);
    return status;
}

int hyd_bench_plan(const struct hyd_bench_args *args)
{
    const bool all = args->n_words == 0;
    json_t *out = json_pack("{s:s}", "machine", hyd_bench_machine());
    json_t *gain = json_array();
    json_t *times = json_array();
    json_t *jitter = json_array();
    json_t *sweep = json_array();
    json_t *seeds = json_array();
    json_t *gaps = json_array();
    int status = 0;

    if (!args->json) {
        (void)printf("%s\n", hyd_bench_machine());
    }
    if (all || hyd_bench_has_word(args, "time")) {
        /* First, so that the first plan of the process is one. */
        status |= hyd_plan_time_table(args, times);
    }
    if (all || hyd_bench_has_word(args, "gain")) {
        status |= args->check ? check_gain() : gain_table(args, gain);
    }
    if ((all && !args->check) || hyd_bench_has_word(args, "jitter")) {
        status |= hyd_plan_jitter_table(args, jitter);
    }
    if (hyd_bench_has_word(args, "seeds") || (all && args->full)) {
        status |= hyd_plan_seeds_table(args, seeds);
    }
    if (hyd_bench_has_word(args, "sweep") || (all && args->full)) {
        status |= hyd_plan_sweep_table(args, sweep);
    }
    if (hyd_bench_has_word(args, "gaps") || (all && args->full)) {
        status |= hyd_plan_gaps_table(args, gaps);
    }
    (void)json_object_set_new(out, "time", times);
    (void)json_object_set_new(out, "gain", gain);
    (void)json_object_set_new(out, "jitter", jitter);
    (void)json_object_set_new(out, "seeds", seeds);
    (void)json_object_set_new(out, "sweep", sweep);
    (void)json_object_set_new(out, "gaps", gaps);
    if (args->json) {
        (void)json_dumpf(out, stdout, JSON_INDENT(1));
        (void)printf("\n");
    }
    json_decref(out);
    return status;
}
