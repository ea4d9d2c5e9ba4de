/* cost_volume.c - see cost_volume.h. */
#include "scheduler/core/cost_volume.h"

#include "common/base/banned.h"

/* KV gradients travel round the ring in fp32. */
static const double ACCUMULATOR_BYTES = 4.0;

/* First q head of member mu: one rule for every u. */
static uint32_t first_head(uint32_t heads, uint32_t u, uint32_t mu)
{
    return (uint32_t)((uint64_t)mu * heads / u);
}

uint32_t hyd_cost_kv_heads(const struct hyd_cost *cost, uint32_t u)
{
    const uint32_t per_kv = cost->heads / cost->kv_heads;
    uint32_t n_kv = 0;

    for (uint32_t mu = 0; mu < u; mu++) {
        const uint32_t from = first_head(cost->heads, u, mu);
        const uint32_t to = first_head(cost->heads, u, mu + 1);

        if (to > from) {
            n_kv += (to - 1) / per_kv - from / per_kv + 1;
        }
    }
    return n_kv;
}

static double head_imbalance(const struct hyd_cost *cost, uint32_t u)
{
    const uint32_t most = (cost->heads + u - 1) / u;

    return (double)most * u / cost->heads;
}

struct hyd_cost_volume hyd_cost_volume(const struct hyd_cost *cost, uint32_t u,
                                       uint32_t r)
{
    const double d = (double)u * r;
    const double layers = cost->layers_per_stage;
    const bool train = cost->pass == HYD_PASS_TRAIN;
    /* Forward runs once more when the backward pass recomputes it. */
    const double n_forward = train && cost->backward_over_forward >= 3.0 ? 2.0 : 1.0;
    const double n_a2a = n_forward + (train ? 1.0 : 0.0);
    const double kv = hyd_cost_kv_heads(cost, u);
    const double element_bytes = cost->bytes_per_element;
    const double kv_elements = 2.0 * kv * cost->head_dim / d;
    const double ring_bytes_per_s =
        hyd_cost_fits_node(cost, u * r) || cost->between_node_bytes_per_s <= 0.0
            ? cost->in_node_bytes_per_s
            : cost->between_node_bytes_per_s;
    struct hyd_cost_volume volume = {.head_imbalance = head_imbalance(cost, u)};

    if (u > 1) {
        const double elements = 2.0 * (cost->heads + kv) * cost->head_dim / d;

        volume.a2a_s = layers * n_a2a * elements * element_bytes * (u - 1) / u /
                       cost->in_node_bytes_per_s;
        volume.fixed_s = layers * n_a2a * 2.0 * cost->latency_s;
    }
    if (r > 1) {
        const double hop_bytes =
            kv_elements * (n_a2a * element_bytes + (train ? ACCUMULATOR_BYTES : 0.0));

        volume.hop_s = layers * hop_bytes / ring_bytes_per_s;
        volume.hop_fixed_s = layers * n_a2a * cost->latency_s;
        if (train) {
            volume.last_hop_s =
                layers * kv_elements * ACCUMULATOR_BYTES / ring_bytes_per_s;
            volume.fixed_s += layers * cost->latency_s;
        }
    }
    return volume;
}
