/*
 * cost.c - see cost.h.
 *
 * Everything that does not depend on the length is folded into a struct hyd_cost_form,
 * so that the planner evaluates t(l,u,r) with a handful of multiplications and exactly
 * the numbers that the figures use.
 */
#include "scheduler/core/cost.h"

#include <float.h>
#include <string.h>

#include "scheduler/core/cost_volume.h"

#include "common/base/banned.h"

/* The nested model of the field study (scheduler/README.md "Cost model", 5). */
static const double NESTED_A2A_SHARE = 0.03;
static const double NESTED_RING_TOKENS = 2500.0;
enum { NESTED_HEADS = 8, NESTED_RANKS_PER_NODE = 8, PREFERRED_RING = 8 };

static inline double pairs(const struct hyd_cost *cost, double tokens)
{
    const double window = cost->window_tokens;

    switch (cost->mask) {
    case HYD_MASK_CAUSAL:
        return tokens * tokens;
    case HYD_MASK_FULL:
        return 2.0 * tokens * tokens;
    case HYD_MASK_WINDOW:
        if (tokens <= window) {
            return tokens * tokens;
        }
        return window * window + (2.0 * window - 1.0) * (tokens - window);
    }
    return tokens * tokens;
}

double hyd_cost_pairs(const struct hyd_cost *cost, double tokens)
{
    return pairs(cost, tokens);
}

double hyd_cost_efficiency(const struct hyd_cost *cost, double tokens)
{
    uint32_t at = cost->n_eff;

    if (cost->n_eff == 0) {
        return 1.0;
    }
    while (at > 0 && tokens < cost->eff_tokens[at - 1]) {
        at--;
    }
    if (at == cost->n_eff) {
        return cost->eff[at - 1];
    }
    if (at == 0) {
        /* Shorter than ever measured: a block takes as long per token as the shortest
         * one did, which keeps t rising with l. */
        return cost->eff[0] * tokens / cost->eff_tokens[0];
    }
    return cost->eff[at - 1] + (cost->eff[at] - cost->eff[at - 1]) *
                                   (tokens - cost->eff_tokens[at - 1]) /
                                   (cost->eff_tokens[at] - cost->eff_tokens[at - 1]);
}

struct hyd_cost_form hyd_cost_form(const struct hyd_cost *cost, uint32_t u, uint32_t r)
{
    const double d = (double)u * r;
    struct hyd_cost_form form = {
        .u = u,
        .r = r,
        .attention_s = cost->a_s / d,
        .linear_s = cost->b_s / d,
        .share = 1.0 / d,
    };

    if (u == 1 && r == 1) {
        return form;
    }
    form.linear_s += cost->a2a_share * cost->b_s / d;
    form.hop_s = cost->ring_hidden_tokens * cost->a_s / d;
    if (cost->in_node_bytes_per_s > 0.0) {
        const struct hyd_cost_volume volume = hyd_cost_volume(cost, u, r);

        form.attention_s *= volume.head_imbalance;
        form.linear_s += volume.a2a_s + volume.last_hop_s;
        form.fixed_s = volume.fixed_s;
        form.hop_s += volume.hop_s;
        form.hop_fixed_s = volume.hop_fixed_s;
    }
    return form;
}

/* Tokens that one query sees at most: behind a window a longer sequence has no longer
 * blocks. */
static double seen_tokens(const struct hyd_cost *cost, double tokens)
{
    return cost->mask == HYD_MASK_WINDOW && tokens > cost->window_tokens
               ? (double)cost->window_tokens
               : tokens;
}

/* Tokens whose keys a hop carries. With a window each ring index sends what its two
 * neighbours see, whatever the length is. */
static double hop_tokens(const struct hyd_cost *cost, uint32_t r, double tokens)
{
    const double most = 2.0 * cost->window_tokens * r / (r - 1.0);

    return cost->mask == HYD_MASK_WINDOW && tokens > most ? most : tokens;
}

double hyd_cost_form_s(const struct hyd_cost *cost, const struct hyd_cost_form *form,
                       double tokens, double extra_s)
{
    double attention = form->attention_s * pairs(cost, tokens);
    double shard_s = 0.0;

    if (cost->n_eff > 0) {
        attention /= hyd_cost_efficiency(cost, seen_tokens(cost, tokens) / form->r);
    }
    shard_s = attention + form->linear_s * tokens + form->share * extra_s;
    if (form->r > 1) {
        /* A hop is hidden behind the block computed while it travels. */
        const double exposed = form->hop_s * hop_tokens(cost, form->r, tokens) +
                               form->hop_fixed_s - attention / form->r;

        if (exposed > 0.0) {
            shard_s += (form->r - 1) * exposed;
        }
    }
    return shard_s + form->fixed_s;
}

double hyd_cost_work_s(const struct hyd_cost *cost, double tokens, double extra_s)
{
    return hyd_cost_shard_s(cost, tokens, extra_s, 1, 1);
}

double hyd_cost_shard_s(const struct hyd_cost *cost, double tokens, double extra_s,
                        uint32_t u, uint32_t r)
{
    const struct hyd_cost_form form = hyd_cost_form(cost, u, r);

    return hyd_cost_form_s(cost, &form, tokens, extra_s);
}

bool hyd_cost_fits_node(const struct hyd_cost *cost, uint32_t d)
{
    return cost->in_node_bytes_per_s > 0.0 && d <= cost->ranks_per_node;
}

bool hyd_cost_u_allowed(const struct hyd_cost *cost, uint32_t u, uint32_t d)
{
    if (u == 0 || d % u != 0 || u > HYD_MAX_ULYSSES || u > cost->ranks_per_node ||
        u > cost->heads) {
        return false;
    }
    if (!cost->uneven_heads && cost->heads % u != 0) {
        return false;
    }
    /* A group larger than a node is cut into u-blocks at multiples of u. */
    return d <= cost->ranks_per_node || cost->ranks_per_node % u == 0;
}

double hyd_cost_degree_s(const struct hyd_cost *cost, double tokens, double extra_s,
                         uint32_t d, uint32_t *ret_u)
{
    double best_s = DBL_MAX;
    uint32_t best_u = 1;
    bool best_short = false;

    for (uint32_t u = HYD_MAX_ULYSSES; u > 0; u--) {
        const bool is_short = d / u <= PREFERRED_RING;
        double shard_s = 0.0;

        if (!hyd_cost_u_allowed(cost, u, d) || (best_short && !is_short)) {
            continue;
        }
        shard_s = hyd_cost_shard_s(cost, tokens, extra_s, u, d / u);
        if (shard_s < best_s) {
            best_s = shard_s;
            best_u = u;
        }
        best_short = best_short || is_short;
    }
    if (ret_u != NULL) {
        *ret_u = best_u;
    }
    return best_s;
}

hyd_status hyd_cost_nested(double a_s, double b_s, double cell_s,
                           struct hyd_cost *ret_cost, struct hyd_error *err)
{
    if (!(a_s >= 0.0 && a_s <= DBL_MAX)) {
        return hyd_error_field(err, HYD_ERR_INVALID, "cost.a_s",
                               "cost a is %g, must be a number >= 0", a_s);
    }
    if (!(b_s >= 0.0 && b_s <= DBL_MAX) || a_s + b_s == 0.0) {
        return hyd_error_field(err, HYD_ERR_INVALID, "cost.b_s",
                               "cost b is %g, must be a number >= 0 and not 0 with a",
                               b_s);
    }
    if (!(cell_s >= 0.0 && cell_s <= DBL_MAX)) {
        return hyd_error_field(err, HYD_ERR_INVALID, "cost.cell_s",
                               "cost of a cell is %g, must be a number >= 0", cell_s);
    }
    *ret_cost = (struct hyd_cost){
        .scope = HYD_SCOPE_LAYER,
        .a_s = a_s,
        .b_s = b_s,
        .cell_s = cell_s,
        .backward_over_forward = 2.0,
        .heads = NESTED_HEADS,
        .kv_heads = NESTED_HEADS,
        .layers_per_stage = 1,
        .ranks_per_node = NESTED_RANKS_PER_NODE,
        .mask = HYD_MASK_CAUSAL,
        .pass = HYD_PASS_TRAIN,
        .a2a_share = NESTED_A2A_SHARE,
        .ring_hidden_tokens = NESTED_RING_TOKENS,
        .model = "nested",
        .device = "nested",
    };
    return HYD_OK;
}
