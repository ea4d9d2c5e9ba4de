/*
 * fingerprint.c - see fingerprint.h.
 *
 * Names of model and device stay out: they say where the coefficients came from, and the
 * coefficients are in. The encoding starts with a version; change it with the encoding.
 */
#include "scheduler/core/fingerprint.h"

#include <string.h>

/* Shows the state's size, so that it can sit on the stack. */
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "scheduler/core/cost.h"
#include "scheduler/core/options.h"
#include "scheduler/core/pipeline.h"
#include "scheduler/core/policy.h"

static const char ENCODING[] = "hydra plan 1\n";

enum { BUFFER_WORDS = 512 };

struct sink {
    XXH64_state_t state;
    unsigned char buffer[BUFFER_WORDS * 8];
    size_t used;
};

static void flush(struct sink *sink)
{
    (void)XXH64_update(&sink->state, sink->buffer, sink->used);
    sink->used = 0;
}

static void put_bits(struct sink *sink, uint64_t value, size_t n_bytes)
{
    if (sink->used + n_bytes > sizeof sink->buffer) {
        flush(sink);
    }
    for (size_t i = 0; i < n_bytes; i++) {
        sink->buffer[sink->used++] = (unsigned char)(value >> 8 * i);
    }
}

/* The bulk of a plan: written out, so that it becomes one store. */
static void write_u32(unsigned char *to, uint32_t value)
{
    to[0] = (unsigned char)value;
    to[1] = (unsigned char)(value >> 8);
    to[2] = (unsigned char)(value >> 16);
    to[3] = (unsigned char)(value >> 24);
}

static void put_u32(struct sink *sink, uint32_t value)
{
    if (sink->used + 4 > sizeof sink->buffer) {
        flush(sink);
    }
    write_u32(sink->buffer + sink->used, value);
    sink->used += 4;
}

static void put_words(struct sink *sink, const uint32_t *value, size_t n)
{
    while (n > 0) {
        const size_t room = (sizeof sink->buffer - sink->used) / 4;
        const size_t n_now = n < room ? n : room;

        for (size_t i = 0; i < n_now; i++) {
            write_u32(sink->buffer + sink->used + 4 * i, value[i]);
        }
        sink->used += 4 * n_now;
        value += n_now;
        n -= n_now;
        if (n > 0) {
            flush(sink);
        }
    }
}

static void put_double(struct sink *sink, double value)
{
    uint64_t bits = 0;

    memcpy(&bits, &value, sizeof bits);
    put_bits(sink, bits, 8);
}

static void put_text(struct sink *sink, const char *text)
{
    for (; *text != '\0'; text++) {
        put_bits(sink, (unsigned char)*text, 1);
    }
}

static void put_options(struct sink *sink, const struct hyd_plan_input *in)
{
    const struct hyd_policy_ops *policy = hyd_policy_find(in->policy);
    struct hyd_plan_input whole = *in;

    /* 0 and all ranks say the same, so do 0 and 1. */
    if (whole.limits.max_degree == 0) {
        whole.limits.max_degree = whole.pool.n_ranks;
    }
    if (whole.limits.align_tokens == 1) {
        whole.limits.align_tokens = 0;
    }
    put_text(sink, "policy=");
    put_text(sink, in->policy);
    put_text(sink, "\n");
    for (const struct hyd_option *o = hyd_option_table; o->key != NULL; o++) {
        char value[HYD_OPTION_TEXT_BYTES];

        if (policy == NULL || hyd_option_applies(o, policy)) {
            hyd_option_print(o, &whole, value);
            put_text(sink, o->key);
            put_text(sink, "=");
            put_text(sink, value);
            put_text(sink, "\n");
        }
    }
}

static void put_cost(struct sink *sink, const struct hyd_cost *cost)
{
    put_u32(sink, (uint32_t)cost->scope);
    put_double(sink, cost->a_s);
    put_double(sink, cost->b_s);
    put_double(sink, cost->cell_s);
    put_double(sink, cost->backward_over_forward);
    put_u32(sink, cost->heads);
    put_u32(sink, cost->kv_heads);
    put_u32(sink, cost->head_dim);
    put_u32(sink, cost->layers_per_stage);
    put_u32(sink, (uint32_t)cost->mask);
    put_u32(sink, cost->window_tokens);
    put_u32(sink, cost->n_eff);
    for (uint32_t i = 0; i < cost->n_eff; i++) {
        put_double(sink, cost->eff_tokens[i]);
        put_double(sink, cost->eff[i]);
    }
    put_double(sink, cost->in_node_bytes_per_s);
    put_double(sink, cost->between_node_bytes_per_s);
    put_double(sink, cost->latency_s);
    put_double(sink, cost->bytes_per_element);
    put_double(sink, cost->a2a_share);
    put_double(sink, cost->ring_hidden_tokens);
}

static void put_batch(struct sink *sink, const struct hyd_plan_input *in)
{
    const struct hyd_batch *batch = &in->batch;
    const struct hyd_pipeline shape = hyd_pipeline_of(in, 1);

    put_u32(sink, in->pool.speed != NULL ? in->pool.n_ranks : 0);
    for (uint32_t r = 0; in->pool.speed != NULL && r < in->pool.n_ranks; r++) {
        put_double(sink, in->pool.speed[r]);
    }
    /* Stages that all cost 1 say nothing, and add nothing. */
    if (shape.stage_cost != NULL) {
        put_text(sink, "stages\n");
        for (uint32_t s = 0; s < shape.n_stages; s++) {
            put_double(sink, shape.stage_cost[s]);
        }
    }
    put_u32(sink, (uint32_t)batch->n_seqs);
    put_words(sink, batch->length_tokens, batch->n_seqs);
    put_u32(sink, batch->extra_work_s != NULL ? (uint32_t)batch->n_seqs : 0);
    for (size_t i = 0; batch->extra_work_s != NULL && i < batch->n_seqs; i++) {
        put_double(sink, batch->extra_work_s[i]);
    }
}

static void put_plan(struct sink *sink, const struct hyd_plan *plan)
{
    put_text(sink, plan->policy);
    put_u32(sink, plan->n_microbatches);
    for (uint32_t m = 0; m < plan->n_microbatches; m++) {
        put_u32(sink, plan->mb_first_group[m + 1] - plan->mb_first_group[m]);
        for (uint32_t g = plan->mb_first_group[m]; g < plan->mb_first_group[m + 1];
             g++) {
            const struct hyd_plan_group *group = &plan->group[g];

            put_u32(sink, group->n_ranks);
            put_words(sink, plan->rank + group->first_rank, group->n_ranks);
            put_u32(sink, group->u);
            put_u32(sink, group->n_ids);
            put_words(sink, plan->id + group->first_id, group->n_ids);
        }
    }
}

uint64_t hyd_fingerprint(const struct hyd_plan_input *in, const struct hyd_plan *plan)
{
    struct sink sink;

    sink.used = 0;
    (void)XXH64_reset(&sink.state, 0);
    put_text(&sink, ENCODING);
    put_options(&sink, in);
    put_cost(&sink, in->cost);
    put_batch(&sink, in);
    put_plan(&sink, plan);
    flush(&sink);
    return XXH64_digest(&sink.state);
}
