/* What a sequence costs: values worked out by hand, shape of t(l,d), bad input. */
#include "scheduler/core/cost.h"

#include <math.h>
#include <string.h>

#include "scheduler/core/cost_volume.h"
#include "scheduler/core/model.h"
#include "tests/lib/prop.h"
#include "tests/lib/test.h"

static struct hyd_cost nested(void)
{
    struct hyd_cost cost;

    assert_int_equal(hyd_cost_nested(1.0 / 53000.0, 1.0, 300.0, &cost, NULL), HYD_OK);
    return cost;
}

static struct hyd_cost_settings settings(enum hyd_scope scope)
{
    return (struct hyd_cost_settings){
        .scope = scope, .tp = 1, .pp = 1, .ranks_per_node = 8};
}

static struct hyd_cost of_model(const char *model, const char *device,
                                struct hyd_cost_settings with)
{
    struct hyd_cost cost;

    assert_int_equal(hyd_cost_from_model(hyd_model_find(model), hyd_device_find(device),
                                         &with, &cost, NULL),
                     HYD_OK);
    return cost;
}

static bool is(double got, double want)
{
    return hyd_test_close(got, want, 0.0, 1e-12);
}

static void cost_nested_gives_hand_computed_seconds(void **state)
{
    const struct hyd_cost cost = nested();
    const double l = 10000.0;
    const double att = l * l / 53000.0;
    uint32_t u = 0;

    (void)state;
    assert_true(is(hyd_cost_work_s(&cost, l, 0.0), l + att));
    assert_true(is(hyd_cost_work_s(&cost, l, 7.0), l + att + 7.0));
    /* In a node: only the all-to-all share on top. */
    assert_true(is(hyd_cost_degree_s(&cost, l, 0.0, 8, &u), (1.03 * l + att) / 8.0));
    assert_int_equal(u, 8);
    /* r = 8: hidden from 20,000 tokens, so at 10,000 seven of eight hops show. */
    assert_true(is(hyd_cost_degree_s(&cost, l, 0.0, 64, &u),
                   (1.03 * l + att) / 64.0 + att / 64.0 * 7.0 / 8.0));
    assert_int_equal(u, 8);
    /* Odd degrees pay the same share: no gain from being odd. */
    assert_true(is(hyd_cost_degree_s(&cost, l, 0.0, 3, &u), (1.03 * l + att) / 3.0));
    assert_int_equal(u, 1);
    assert_int_equal(cost.n_eff, 0);
}

static void cost_of_llama_8b_matches_its_flop_count(void **state)
{
    struct hyd_device flat = *hyd_device_find("h100");
    struct hyd_cost_settings with = settings(HYD_SCOPE_LAYER);
    struct hyd_cost cost;

    (void)state;
    flat.n_attention = 1;
    flat.attention[0] =
        (struct hyd_rate_point){1, flat.gemm_flop_per_s, flat.gemm_flop_per_s};
    assert_int_equal(
        hyd_cost_from_model(hyd_model_find("llama-8b"), &flat, &with, &cost, NULL),
        HYD_OK);
    /* 218 M parameters a layer; 8192 FLOP of attention a half pair and layer. */
    assert_true(is(cost.a_s, 32 * 8192.0 * 3.5 / 600e12));
    assert_true(is(cost.b_s, 32 * 218103808.0 * 6.0 / 600e12 + cost.a_s));
    /* Attention overtakes the rest at 436 MFLOP * 3 / (8192 * 3.5). */
    assert_true(hyd_test_close(cost.b_s / cost.a_s, 45640.0, 0.0, 1e-3));
    assert_true(is(cost.backward_over_forward, 2.0));

    with.pass = HYD_PASS_FORWARD;
    assert_int_equal(
        hyd_cost_from_model(hyd_model_find("llama-8b"), &flat, &with, &cost, NULL),
        HYD_OK);
    assert_true(is(cost.a_s, 32 * 8192.0 / 600e12));
    with = (struct hyd_cost_settings){.tp = 8, .pp = 4, .ranks_per_node = 1};
    assert_int_equal(
        hyd_cost_from_model(hyd_model_find("llama-8b"), &flat, &with, &cost, NULL),
        HYD_OK);
    assert_int_equal(cost.layers_per_stage, 8);
    assert_int_equal(cost.heads, 4);
    assert_int_equal(cost.kv_heads, 1);
}

static void cost_of_attention_scope_counts_no_gemm(void **state)
{
    struct hyd_device device = *hyd_device_find("h100");
    struct hyd_cost_settings with = settings(HYD_SCOPE_ATTENTION);
    struct hyd_cost cost;

    (void)state;
    device.gemm_flop_per_s = 0.0; /* not needed here */
    device.copy_s_per_token = 1e-9;
    assert_int_equal(
        hyd_cost_from_model(hyd_model_find("llama-8b"), &device, &with, &cost, NULL),
        HYD_OK);
    assert_true(is(cost.b_s, 32e-9 + cost.a_s));
    assert_true(is(cost.cell_s, 32e-4));
}

static void cost_recompute_repeats_the_forward(void **state)
{
    struct hyd_model_shape model = *hyd_model_find("llama-8b");
    const struct hyd_cost_settings with = settings(HYD_SCOPE_LAYER);
    const struct hyd_cost plain = of_model("llama-8b", "a100", with);
    struct hyd_cost cost;

    (void)state;
    model.recompute = true;
    assert_int_equal(
        hyd_cost_from_model(&model, hyd_device_find("a100"), &with, &cost, NULL),
        HYD_OK);
    assert_true(is(cost.backward_over_forward, 3.0));
    assert_true(is(cost.a_s / plain.a_s, 4.5 / 3.5));
    assert_true(hyd_cost_shard_s(&cost, 1e5, 0, 8, 1) >
                hyd_cost_shard_s(&plain, 1e5, 0, 8, 1));
}

static void cost_pairs_follow_the_mask(void **state)
{
    struct hyd_cost cost = nested();

    (void)state;
    cost.window_tokens = 4;
    for (uint32_t l = 1; l < 20; l++) {
        const uint32_t masks[] = {HYD_MASK_CAUSAL, HYD_MASK_FULL, HYD_MASK_WINDOW};

        for (uint32_t m = 0; m < 3; m++) {
            uint32_t n_pairs = 0;

            cost.mask = (enum hyd_mask)masks[m];
            for (uint32_t q = 0; q < l; q++) {
                for (uint32_t k = 0; k < l; k++) {
                    n_pairs += cost.mask == HYD_MASK_FULL ||
                               (k <= q && (cost.mask == HYD_MASK_CAUSAL || q - k < 4));
                }
            }
            /* All but full leave the diagonal to b_s. */
            assert_true(is(hyd_cost_pairs(&cost, l),
                           2.0 * n_pairs - (cost.mask == HYD_MASK_FULL ? 0 : l)));
        }
    }
}

/* Beyond the window a longer sequence has no better rate, and a ring no more to send. */
static void cost_of_a_window_rises_with_length(void **state)
{
    struct hyd_model_shape model = *hyd_model_find("llama-8b");
    const struct hyd_cost_settings with = settings(HYD_SCOPE_ATTENTION);
    struct hyd_cost cost;

    (void)state;
    model.mask = HYD_MASK_WINDOW;
    for (model.window_tokens = 16; model.window_tokens < 70000;
         model.window_tokens *= 4) {
        assert_int_equal(
            hyd_cost_from_model(&model, hyd_device_find("h100"), &with, &cost, NULL),
            HYD_OK);
        for (uint32_t r = 1; r <= 8; r *= 2) {
            double before_s = 0.0;

            for (uint32_t l = 1; l < 300000; l += l / 20 + 1) {
                const double here_s = hyd_cost_shard_s(&cost, l, 0, 2, r);

                assert_true(here_s >= before_s);
                before_s = here_s;
            }
        }
    }
}

/* Four ring indexes in two nodes: a window sends less than blocks that go around. */
static void cost_of_a_windows_hops_does_not_grow(void **state)
{
    struct hyd_model_shape model = *hyd_model_find("llama-8b");
    struct hyd_cost_settings with = settings(HYD_SCOPE_ATTENTION);
    struct hyd_device device = *hyd_device_find("h100");
    struct hyd_cost cost;
    double rise_s[2];

    (void)state;
    with.ranks_per_node = 2;
    device.nic_bytes_per_s = 1e6; /* so slow that hops are all that counts */
    model.mask = HYD_MASK_WINDOW;
    model.window_tokens = 100;
    assert_int_equal(hyd_cost_from_model(&model, &device, &with, &cost, NULL), HYD_OK);
    cost.b_s = 0.0;
    rise_s[0] =
        hyd_cost_shard_s(&cost, 200, 0, 1, 4) - hyd_cost_shard_s(&cost, 100, 0, 1, 4);
    rise_s[1] = hyd_cost_shard_s(&cost, 20100, 0, 1, 4) -
                hyd_cost_shard_s(&cost, 20000, 0, 1, 4);
    assert_true(rise_s[0] > 0.0 && rise_s[1] < 0.5 * rise_s[0]);
}

static void cost_efficiency_interpolates(void **state)
{
    struct hyd_cost cost = nested();

    (void)state;
    cost.n_eff = 2;
    cost.eff_tokens[0] = 1000;
    cost.eff[0] = 0.5;
    cost.eff_tokens[1] = 3000;
    cost.eff[1] = 1.0;
    assert_true(is(hyd_cost_efficiency(&cost, 500), 0.25));
    assert_true(is(hyd_cost_efficiency(&cost, 1000), 0.5));
    assert_true(is(hyd_cost_efficiency(&cost, 2000), 0.75));
    assert_true(is(hyd_cost_efficiency(&cost, 9000), 1.0));
    /* The block of a ring position decides, not the sequence. */
    assert_true(is(hyd_cost_shard_s(&cost, 4000, 0, 1, 1), 4000 + 16e6 / 53000));
    assert_true(
        is(hyd_cost_shard_s(&cost, 30000, 0, 1, 20),
           30900.0 / 20 + 9e8 / 53000 / 20 / 0.625 +
               19 * (2500.0 / 53000 / 20 * 30000 - 9e8 / 53000 / 20 / 0.625 / 20)));
}

static void cost_volumes_match_the_engine(void **state)
{
    struct hyd_cost_settings with = settings(HYD_SCOPE_LAYER);
    struct hyd_cost cost = of_model("llama-8b", "h100", with);
    struct hyd_cost_volume volume = hyd_cost_volume(&cost, 8, 2);
    const double kv_bytes = 2.0 * 8 * 128 / 16 * 32; /* of a token, rank and stage */

    (void)state;
    assert_int_equal(hyd_cost_kv_heads(&cost, 8), 8);
    assert_int_equal(hyd_cost_kv_heads(&cost, 3), 10); /* 10, 11, 11 q heads */
    assert_int_equal(hyd_cost_kv_heads(&cost, 16), 16);
    assert_true(is(volume.a2a_s, 32 * 2 * 2.0 * 40 * 128 / 16 * 2 * 7 / 8 / 300e9));
    /* k, v forward and backward in bf16, their gradients in fp32; over the NIC. */
    assert_true(is(volume.hop_s, kv_bytes * (2 + 2 + 4) / 45e9));
    assert_true(is(volume.last_hop_s, kv_bytes * 4 / 45e9));
    assert_true(is(volume.head_imbalance, 1.0));
    assert_true(is(hyd_cost_volume(&cost, 3, 1).head_imbalance, 33.0 / 32.0));
    assert_true(
        is(hyd_cost_volume(&cost, 2, 2).hop_s, 2.0 * 8 * 128 / 4 * 32 * 8 / 300e9));
}

static void cost_u_stays_in_node_and_divides_heads(void **state)
{
    struct hyd_cost cost = of_model("qwen2.5-7b", "h100", settings(HYD_SCOPE_LAYER));

    (void)state;
    assert_true(hyd_cost_u_allowed(&cost, 4, 8));
    assert_false(hyd_cost_u_allowed(&cost, 8, 8)); /* 28 heads */
    assert_true(hyd_cost_u_allowed(&cost, 7, 7));
    assert_false(hyd_cost_u_allowed(&cost, 7, 14)); /* 7 does not tile a node of 8 */
    assert_false(hyd_cost_u_allowed(&cost, 14, 28));
    assert_false(hyd_cost_u_allowed(&cost, 3, 8));
    assert_false(hyd_cost_u_allowed(&cost, 0, 8));
    cost.uneven_heads = true;
    assert_true(hyd_cost_u_allowed(&cost, 8, 8));
}

static const char *cost_degree_is_the_least_of_its_shards(struct hyd_rng *rng,
                                                          void *ctx)
{
    const struct hyd_cost *cost = ctx;
    const double l = 1.0 + hyd_rng_below(rng, 1U << 19);
    const double extra = hyd_rng_below(rng, 2) * hyd_rng_unit(rng);
    const uint32_t d = 1 + hyd_rng_below(rng, 128);
    uint32_t chosen = 0;
    const double got = hyd_cost_degree_s(cost, l, extra, d, &chosen);
    double least = HUGE_VAL;

    for (uint32_t u = 1; u <= 16; u++) {
        if (hyd_cost_u_allowed(cost, u, d)) {
            const double s = hyd_cost_shard_s(cost, l, extra, u, d / u);
            bool is_short = d / u <= 8;

            for (uint32_t v = 1; v <= 16 && !is_short; v++) {
                is_short = hyd_cost_u_allowed(cost, v, d) && d / v <= 8;
                if (is_short) {
                    break;
                }
            }
            /* A ring longer than 8 counts only where there is no shorter one. */
            if ((d / u <= 8 || !is_short) && s < least) {
                least = s;
            }
        }
    }
    if (got != least) {
        return hyd_prop_reason("l=%g d=%u: %g is not %g", l, d, got, least);
    }
    if (hyd_cost_shard_s(cost, l, extra, chosen, d / chosen) != got) {
        return hyd_prop_reason("l=%g d=%u: u=%u does not give it", l, d, chosen);
    }
    if (d * got < hyd_cost_work_s(cost, l, extra) * (1 - 1e-12) && cost->n_eff == 0) {
        return hyd_prop_reason("l=%g d=%u: splitting made work vanish", l, d);
    }
    if (hyd_cost_degree_s(cost, l + 1.0, extra, d, NULL) < got) {
        return hyd_prop_reason("l=%g d=%u: a longer sequence is faster", l, d);
    }
    return NULL;
}

static void cost_degree_is_least(void **state)
{
    struct hyd_cost cost = nested();

    (void)state;
    hyd_prop_run("cost_degree_is_the_least_of_its_shards", 1000,
                 cost_degree_is_the_least_of_its_shards, &cost);
    cost = of_model("llama-8b", "h100", settings(HYD_SCOPE_LAYER));
    hyd_prop_run("cost_degree_is_the_least_of_its_shards", 1000,
                 cost_degree_is_the_least_of_its_shards, &cost);
}

static void cost_names_the_field_that_is_wrong(void **state)
{
    struct hyd_cost_settings with = settings(HYD_SCOPE_LAYER);
    struct hyd_model_shape model = *hyd_model_find("llama-8b");
    struct hyd_device device = *hyd_device_find("h100");
    struct hyd_cost cost = {.a_s = 42.0};
    struct hyd_error err;

    (void)state;
    with.tp = 3;
    assert_int_equal(hyd_cost_from_model(&model, &device, &with, &cost, &err),
                     HYD_ERR_INVALID);
    assert_string_equal(err.field, "tp");
    with.tp = 1;
    model.kv_heads = 5;
    assert_int_equal(hyd_cost_from_model(&model, &device, &with, &cost, &err),
                     HYD_ERR_INVALID);
    assert_string_equal(err.field, "model.kv_heads");
    model.kv_heads = 8;
    device.attention[1].tokens = 1024;
    assert_int_equal(hyd_cost_from_model(&model, &device, &with, &cost, &err),
                     HYD_ERR_INVALID);
    assert_string_equal(err.field, "device.attention.tokens");
    device.attention[1].tokens = 2048;
    device.latency_s = nan("");
    assert_int_equal(hyd_cost_from_model(&model, &device, &with, &cost, &err),
                     HYD_ERR_INVALID);
    assert_string_equal(err.field, "device.latency_s");
    device.latency_s = 0.0;
    with.scope = HYD_SCOPE_ATTENTION;
    device.attention[1].forward_flop_per_s = 1e18; /* twice as long, far faster */
    device.attention[1].backward_flop_per_s = 1e18;
    assert_int_equal(hyd_cost_from_model(&model, &device, &with, &cost, &err),
                     HYD_ERR_INVALID);
    assert_string_equal(err.field, "device.attention");
    assert_non_null(strstr(err.text, "must not fall"));
    assert_int_equal(hyd_cost_nested(-1.0, 1.0, 0.0, &cost, &err), HYD_ERR_INVALID);
    assert_string_equal(err.field, "cost.a_s");
    assert_int_equal(hyd_cost_nested(0.0, 0.0, 0.0, &cost, &err), HYD_ERR_INVALID);
    assert_int_equal(hyd_cost_nested(1.0, 1.0, nan(""), &cost, &err), HYD_ERR_INVALID);
    assert_true(cost.a_s == 42.0); /* untouched */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cost_nested_gives_hand_computed_seconds),
        cmocka_unit_test(cost_of_llama_8b_matches_its_flop_count),
        cmocka_unit_test(cost_of_attention_scope_counts_no_gemm),
        cmocka_unit_test(cost_recompute_repeats_the_forward),
        cmocka_unit_test(cost_pairs_follow_the_mask),
        cmocka_unit_test(cost_of_a_window_rises_with_length),
        cmocka_unit_test(cost_of_a_windows_hops_does_not_grow),
        cmocka_unit_test(cost_efficiency_interpolates),
        cmocka_unit_test(cost_volumes_match_the_engine),
        cmocka_unit_test(cost_u_stays_in_node_and_divides_heads),
        cmocka_unit_test(cost_degree_is_least),
        cmocka_unit_test(cost_names_the_field_that_is_wrong),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
