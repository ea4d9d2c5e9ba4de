/* explain_blocks.c - see explain.h: where else a sequence could have gone, and how else its
 * degree could have been made. */
#include "scheduler/cli/plan/explain.h"

enum {
    PREFERRED_RING = 8
}; /* scheduler/core/cost.h: longer ones only without a choice */

/* Tokens of each cell so far, [microbatch][rank], or NULL. */
static double *tokens_so_far(struct hyd_explain *e, uint32_t n_microbatches)
{
    const uint32_t n_ranks = e->counted.pool.n_ranks;
    double *tokens = hyd_arena_take_zeroed(&e->arena, (size_t)n_microbatches * n_ranks,
                                           sizeof *tokens);

    for (size_t i = 0; tokens != NULL && i < e->n_placed; i++) {
        const struct hyd_explain_placed *placed = &e->placed[i];

        for (uint32_t k = 0; k < placed->degree; k++) {
            tokens[(size_t)placed->microbatch * n_ranks + placed->rank + k] +=
                placed->tokens;
        }
    }
    return tokens;
}

void hyd_explain_count_blocks(struct hyd_explain *e, struct hyd_explain_try *t)
{
    const struct hyd_arena_mark mark = hyd_arena_mark(&e->arena);
    const uint32_t d = t->place.degree;
    const double shard_tokens = t->place.tokens / d;
    const double cap = e->counted.limits.cap_tokens * (1 + 1e-9);
    const double *tokens = NULL;
    const size_t n_blocks =
        (size_t)t->begin.n_microbatches * e->counted.pool.n_ranks / d;

    /* Exclusive cells get their ranks only when all is placed. */
    if (t->begin.exclusive != 0 || e->counted.pool.n_ranks % d != 0) {
        return;
    }
    tokens = tokens_so_far(e, t->begin.n_microbatches);
    for (size_t b = 0; tokens != NULL && b < n_blocks; b++) {
        double most = 0;

        for (uint32_t k = 0; k < d; k++) {
            most = tokens[b * d + k] > most ? tokens[b * d + k] : most;
        }
        t->n_blocks++;
        t->n_room += most + shard_tokens <= cap ? 1 : 0;
        t->n_empty += most > 0 ? 0 : 1;
    }
    hyd_arena_rewind(&e->arena, mark);
}

static const char *why_not(const struct hyd_cost *cost, uint32_t u, uint32_t d,
                           bool has_short)
{
    if (!hyd_cost_u_allowed(cost, u, d)) {
        return u > cost->ranks_per_node ? "heads are exchanged inside a node only"
               : u > cost->heads        ? "there are fewer heads"
               : cost->heads % u != 0   ? "the heads do not divide by u"
                                        : "a node does not divide by u";
    }
    return has_short && d / u > PREFERRED_RING ? "the ring is longer than 8" : NULL;
}

size_t hyd_explain_splits(const struct hyd_explain *explain, uint32_t seq, uint32_t d,
                          struct hyd_explain_split ret[HYD_EXPLAIN_MAX_SPLITS])
{
    const struct hyd_plan_input *in = &explain->counted;
    const double extra_s =
        in->batch.extra_work_s != NULL ? in->batch.extra_work_s[seq] : 0;
    bool has_short = false;
    size_t n = 0;

    for (uint32_t u = 1; u <= d; u++) {
        has_short = has_short ||
                    (hyd_cost_u_allowed(in->cost, u, d) && d / u <= PREFERRED_RING);
    }
    for (uint32_t u = d; u > 0 && n < HYD_EXPLAIN_MAX_SPLITS; u--) {
        if (d % u != 0) {
            continue;
        }
        ret[n++] = (struct hyd_explain_split){
            .u = u,
            .r = d / u,
            .shard_s = hyd_cost_shard_s(in->cost, in->batch.length_tokens[seq], extra_s,
                                        u, d / u),
            .why_not = why_not(in->cost, u, d, has_short),
        };
    }
    return n;
}
