/* gen.c - see gen.h. */
#include "tests/lib/gen.h"

#include <stdlib.h>

#include "scheduler/core/planner.h"

enum { UNIT_TOKENS = 1000 };

static uint32_t any_length(struct hyd_rng *rng, uint32_t shape, uint32_t cap)
{
    uint32_t length = 0;

    switch (shape) {
    case 0: /* all equal */
        return cap / 3 + 1;
    case 1: /* uniform */
        return 1 + hyd_rng_below(rng, 2 * cap);
    case 2: /* many short ones, a few long: each doubling half as likely */
        length = 1 + hyd_rng_below(rng, cap / 4 + 1);
        while (hyd_rng_below(rng, 2) == 0 && length < 8 * cap) {
            length *= 2;
        }
        return length;
    default: /* powers of two of the cap, where rounding decides */
        return cap << hyd_rng_below(rng, 3) >> hyd_rng_below(rng, 4);
    }
}

void hyd_gen_plain_input(struct hyd_rng *rng, struct hyd_gen *ret_gen)
{
    struct hyd_gen *gen = ret_gen;
    const uint32_t cap = (uint32_t)UNIT_TOKENS << hyd_rng_below(rng, 4);
    const uint32_t shape = hyd_rng_below(rng, 4);
    const uint32_t n_seqs = 1 + hyd_rng_below(rng, HYD_GEN_MAX_SEQS);

    gen->in = hyd_plan_input_default();
    gen->in.pool.n_ranks = (uint32_t)1 << hyd_rng_below(rng, 7);
    gen->in.pool.pp = (uint32_t)1 << hyd_rng_below(rng, 4);
    gen->in.limits.cap_tokens = cap;
    for (uint32_t i = 0; i < n_seqs; i++) {
        const uint32_t most = cap * gen->in.pool.n_ranks;
        uint32_t length = any_length(rng, shape, cap);

        length = length > most ? most : length;
        gen->tokens[i] = length > 0 ? length : 1;
    }
    gen->in.batch.length_tokens = gen->tokens;
    gen->in.batch.n_seqs = n_seqs;
    if (hyd_cost_nested(1.0 / 53000.0, 1.0, 300.0, &gen->cost, NULL) != HYD_OK) {
        abort();
    }
    gen->in.cost = &gen->cost;
}

void hyd_gen_stages(struct hyd_rng *rng, uint32_t n_stages, double *ret_cost)
{
    const uint32_t kind = hyd_rng_below(rng, 3);

    for (uint32_t s = 0; s < n_stages; s++) {
        ret_cost[s] = kind == 2 ? 0.25 + 1.5 * hyd_rng_unit(rng) : 1.0;
    }
    if (kind == 0) {
        ret_cost[n_stages - 1] = 1.0 + hyd_rng_unit(rng);
    } else if (kind == 1) {
        ret_cost[0] = 1.0 - 0.5 * hyd_rng_unit(rng);
    }
}

void hyd_gen_input(struct hyd_rng *rng, struct hyd_gen *ret_gen)
{
    struct hyd_gen *gen = ret_gen;
    struct hyd_plan_input *in = &gen->in;

    hyd_gen_plain_input(rng, gen);
    in->pool.n_ranks = 1 + hyd_rng_below(rng, HYD_GEN_MAX_RANKS);
    in->pool.ranks_per_node = 1 + hyd_rng_below(rng, 12);
    in->pool.pp = 1 + hyd_rng_below(rng, 6);
    in->limits.align_tokens = hyd_rng_below(rng, 2) * hyd_rng_below(rng, 64);
    in->limits.min_degree =
        hyd_rng_below(rng, 3) > 0 ? 1 : 1 + hyd_rng_below(rng, in->pool.n_ranks);
    in->options.dp_barrier = hyd_rng_below(rng, 4) == 0;
    in->options.order = (enum hyd_order)hyd_rng_below(rng, 4);
    if (hyd_rng_below(rng, 4) == 0) {
        in->pass = HYD_PASS_FORWARD;
    }
    if (hyd_rng_below(rng, 3) == 0) {
        in->pool.vpp = 2;
        in->pool.vpp_group = in->pool.pp;
    } else {
        in->options.zero_bubble = hyd_rng_below(rng, 3) == 0;
    }
    if (hyd_rng_below(rng, 3) == 0) {
        for (size_t i = 0; i < in->batch.n_seqs; i++) {
            gen->extra_s[i] =
                hyd_rng_below(rng, 4) == 0 ? 5e3 * hyd_rng_unit(rng) : 0.0;
        }
        in->batch.extra_work_s = gen->extra_s;
    }
    if (hyd_rng_below(rng, 3) == 0) {
        for (uint32_t r = 0; r < in->pool.n_ranks; r++) {
            gen->speed[r] = hyd_rng_below(rng, 4) == 0 ? 0.5 : 1.0;
        }
        in->pool.speed = gen->speed;
    }
    if (hyd_rng_below(rng, 3) == 0) {
        hyd_gen_stages(rng, in->pool.pp, gen->stage_cost);
        in->pool.stage_cost = gen->stage_cost;
    }
}
