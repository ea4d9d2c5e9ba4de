/* plan_cases.c - see plan_cases.h. */
#include "tests/bench/plan_cases.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "tests/lib/test.h"

#include "common/base/banned.h"

enum { MAX_LENGTHS = 1 << 17, N_STAGES = 8, LEAST_FILL = 4 };

static const double FILL = 32.0;
static const double FILL_LOGNORMAL = 24.0;
static const double ROOM = 0.9;
static const double CROSSOVER_TOKENS = 53000.0;
static const double CELL_TOKENS = 300.0;
static const double PI = 3.14159265358979323846;

const char *const hyd_plan_sets[] = {
    "pretrain_prolong",
    "pretrain_wlbllm",
    "pretrain_flexsp_wikipedia",
    "pretrain_magi_histogram",
    "code_linux_files",
    "code_linux_dirs",
    "code_azure2023",
    "chat_azure2023",
    "chat_sharegpt_8k",
    "chat_mooncake_conversation",
    "doc_mooncake_synthetic",
    "doc_arxiv_summ_4k",
    "doc_bwb_translation",
    "doc_books_eltec",
    "agent_claude_code_sessions",
    "agent_claude_code_requests",
    "agent_tau_bench",
    "multimodal_omnibal_internvl",
    "multimodal_servegen_image",
    "lognormal",
    NULL,
};

void hyd_plan_lognormal(double location, double sigma, uint32_t max_tokens,
                        uint64_t seed, size_t n, uint32_t *ret_tokens)
{
    struct hyd_rng rng = {seed};

    for (size_t i = 0; i < n; i++) {
        const double u = 1.0 - hyd_rng_unit(&rng);
        const double v = hyd_rng_unit(&rng);
        const double normal = sqrt(-2.0 * log(u)) * cos(2.0 * PI * v);
        double tokens = floor(exp(location + sigma * normal));

        tokens = tokens < 64.0 ? 64.0 : tokens;
        ret_tokens[i] = tokens > max_tokens ? max_tokens : (uint32_t)tokens;
    }
}

static size_t read_set(const char *set, uint32_t *ret_tokens)
{
    char name[128];
    char path[512];
    char line[64];
    size_t n = 0;
    FILE *file = NULL;

    (void)snprintf(name, sizeof name, "data/%s.txt", set);
    if (!hyd_test_data(name, path, sizeof path)) {
        return 0;
    }
    file = fopen(path, "r");
    while (file != NULL && n < MAX_LENGTHS && fgets(line, sizeof line, file) != NULL) {
        const unsigned long tokens = strtoul(line, NULL, 10);

        if (tokens > 0) {
            ret_tokens[n++] = (uint32_t)tokens;
        }
        while (strchr(line, '\n') == NULL && fgets(line, sizeof line, file) != NULL) {
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return n;
}

static void shape_lengths(const struct hyd_plan_case_spec *spec, uint32_t *tokens,
                          size_t n)
{
    struct hyd_rng rng = {spec->seed};

    for (size_t i = 0; i < n; i++) {
        const double scaled = tokens[i] * spec->scale;

        tokens[i] = scaled > spec->clip_tokens ? spec->clip_tokens : (uint32_t)scaled;
    }
    for (size_t i = n; i > 1; i--) {
        const size_t k = hyd_rng_below(&rng, (uint32_t)i);
        const uint32_t swap = tokens[i - 1];

        tokens[i - 1] = tokens[k];
        tokens[k] = swap;
    }
}

/* Keep the first that fit; gives false when the set does not fill the least. */
static bool cut(struct hyd_plan_case *c, size_t n)
{
    const struct hyd_plan_case_spec *spec = &c->spec;
    const double unit = ROOM * spec->ranks * spec->cap_tokens;
    double fill = strcmp(spec->set, "lognormal") == 0 ? FILL_LOGNORMAL : FILL;
    double all = 0.0;
    double used = 0.0;

    for (size_t i = 0; i < n; i++) {
        all += c->tokens[i];
    }
    fill = floor(all / unit) < fill ? floor(all / unit) : fill;
    if (fill < LEAST_FILL) {
        return false;
    }
    for (c->n = 0; c->n < n && used + c->tokens[c->n] <= fill * unit; c->n++) {
        used += c->tokens[c->n];
    }
    c->fill = fill;
    return c->n > 0;
}

static void finish(struct hyd_plan_case *c)
{
    const struct hyd_plan_case_spec *spec = &c->spec;
    char scale[16] = "";

    c->hash = c->n;
    c->longest_tokens = 0;
    for (size_t i = 0; i < c->n; i++) {
        c->hash = hyd_rng_mix(c->hash, c->tokens[i]);
        c->longest_tokens =
            c->tokens[i] > c->longest_tokens ? c->tokens[i] : c->longest_tokens;
    }
    if (spec->scale > 1.0 || spec->scale < 1.0) {
        (void)snprintf(scale, sizeof scale, " x%g", spec->scale);
    }
    if (strcmp(spec->set, "lognormal") == 0) {
        (void)snprintf(scale, sizeof scale, " %.0f", exp(spec->location));
    }
    (void)snprintf(c->name, sizeof c->name, "%s%s %u/%uK/%uK", spec->set, scale,
                   spec->ranks, spec->cap_tokens / 1024, spec->clip_tokens / 1024);
    if (hyd_cost_nested(1.0 / CROSSOVER_TOKENS, 1.0, CELL_TOKENS, &c->cost, NULL) !=
        HYD_OK) {
        abort();
    }
    c->in = hyd_plan_input_default();
    c->in.batch = (struct hyd_batch){.length_tokens = c->tokens, .n_seqs = c->n};
    c->in.pool.n_ranks = spec->ranks;
    c->in.pool.pp = N_STAGES;
    c->in.limits.cap_tokens = spec->cap_tokens;
    c->in.cost = &c->cost;
}

bool hyd_plan_case_make(const struct hyd_plan_case_spec *spec,
                        struct hyd_plan_case *ret_case, char *why, size_t why_bytes)
{
    size_t n = 0;

    *ret_case = (struct hyd_plan_case){.spec = *spec};
    ret_case->tokens = calloc(MAX_LENGTHS, sizeof *ret_case->tokens);
    if (ret_case->tokens == NULL) {
        abort();
    }
    if (strcmp(spec->set, "lognormal") == 0) {
        n = MAX_LENGTHS / 4;
        hyd_plan_lognormal(spec->location, spec->sigma, spec->clip_tokens, spec->seed,
                           n, ret_case->tokens);
    } else {
        n = read_set(spec->set, ret_case->tokens);
        if (n == 0) {
            (void)snprintf(why, why_bytes, "%s: no reference data", spec->set);
            goto out;
        }
        shape_lengths(spec, ret_case->tokens, n);
    }
    if (cut(ret_case, n)) {
        finish(ret_case);
        return true;
    }
    (void)snprintf(why, why_bytes, "%s: too small for %u ranks of %u tokens", spec->set,
                   spec->ranks, spec->cap_tokens);

out:
    hyd_plan_case_release(ret_case);
    return false;
}

void hyd_plan_case_release(struct hyd_plan_case *c)
{
    free(c->tokens);
    c->tokens = NULL;
}

size_t hyd_plan_real_lengths(const char *set, double scale, uint32_t clip_tokens,
                             double most_tokens, uint32_t *ret_tokens, size_t n_max)
{
    const struct hyd_plan_case_spec spec = {
        .set = set, .scale = scale, .clip_tokens = clip_tokens, .seed = 1};
    uint32_t *all = calloc(MAX_LENGTHS, sizeof *all);
    size_t n_all, n;
    double used = 0.0;

    if (all == NULL) {
        abort();
    }
    n_all = read_set(set, all);
    if (n_all == 0) {
        (void)fprintf(stderr, "%s: no reference data; lengths are drawn\n", set);
        n_all = MAX_LENGTHS / 4;
        hyd_plan_lognormal(log(clip_tokens / 64.0), 1.6, clip_tokens, spec.seed, n_all,
                           all);
    } else {
        shape_lengths(&spec, all, n_all);
    }
    for (n = 0; n < n_max && n < n_all && used + all[n] <= most_tokens; n++) {
        ret_tokens[n] = all[n] > 0 ? all[n] : 1;
        used += ret_tokens[n];
    }
    free(all);
    return n;
}
