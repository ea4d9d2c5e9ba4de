/* The specification itself: small cases by hand, and its gradients against finite
 * differences of its own forward. */
#include "worker/attn/ref.h"

#include <math.h>
#include <string.h>

#include "common/base/rng.h"
#include "tests/lib/test.h"

enum {
    N = 5,
    D = 3,
    HEADS = 4,
    KV = 2,
    Q_ELEMENTS = N * HEADS * D,
    KV_ELEMENTS = N * KV * D
};

struct data {
    float q[Q_ELEMENTS], k[KV_ELEMENTS], v[KV_ELEMENTS], dout[Q_ELEMENTS];
    double o[Q_ELEMENTS], lse[HEADS * N];
};

static void fill(float *x, size_t n, uint64_t key)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = hyd_rng_signed_at(key, i);
    }
}

static void make(struct data *data)
{
    fill(data->q, Q_ELEMENTS, 1);
    fill(data->k, KV_ELEMENTS, 2);
    fill(data->v, KV_ELEMENTS, 3);
    fill(data->dout, Q_ELEMENTS, 4);
}

static struct hyd_ref_in in_of(const struct data *data)
{
    return (struct hyd_ref_in){data->q,    data->k, data->v,
                               data->dout, data->o, data->lse};
}

static void ref_averages_values_when_all_scores_are_equal(void **state)
{
    const struct hyd_attn_model model = {
        .d = 1, .n_heads = 1, .n_kv_heads = 1, .see = HYD_SEE_CAUSAL};
    const float zero[3] = {0};
    const float v[3] = {3.0F, 5.0F, 10.0F};
    const struct hyd_ref_in in = {.q = zero, .k = zero, .v = v};
    double o[3], lse[3];

    (void)state;
    hyd_ref_forward(&model, 3, &in, o, lse);
    assert_true(hyd_test_close(o[0], 3.0, 1e-15, 0.0));
    assert_true(hyd_test_close(o[1], 4.0, 1e-15, 0.0));
    assert_true(hyd_test_close(o[2], 6.0, 1e-15, 0.0));
    assert_true(hyd_test_close(lse[2], log(3.0), 1e-15, 0.0));
}

static void ref_sees_only_the_window_when_there_is_one(void **state)
{
    const struct hyd_attn_model model = {.d = 1,
                                         .n_heads = 1,
                                         .n_kv_heads = 1,
                                         .see = HYD_SEE_WINDOW,
                                         .window_tokens = 2};
    const float zero[3] = {0};
    const float v[3] = {3.0F, 5.0F, 10.0F};
    const struct hyd_ref_in in = {.q = zero, .k = zero, .v = v};
    double o[3], lse[3];

    (void)state;
    hyd_ref_forward(&model, 3, &in, o, lse);
    assert_true(hyd_test_close(o[1], 4.0, 1e-15, 0.0));
    assert_true(hyd_test_close(o[2], 7.5, 1e-15, 0.0));
}

static void ref_gives_neighbouring_heads_the_same_kv_head(void **state)
{
    /* 4 q heads on 2 kv heads: 0 and 1 read kv head 0, 2 and 3 read kv head 1; repeating
     * the list of kv heads instead would give 0 1 0 1. */
    const struct hyd_attn_model model = {
        .d = 1, .n_heads = 4, .n_kv_heads = 2, .see = HYD_SEE_FULL};
    const float zero[4] = {0};
    const float v[2] = {1.0F, 2.0F};
    const struct hyd_ref_in in = {.q = zero, .k = zero, .v = v};
    double o[4], lse[4];

    (void)state;
    hyd_ref_forward(&model, 1, &in, o, lse);
    assert_true(o[0] == 1.0 && o[1] == 1.0 && o[2] == 2.0 && o[3] == 2.0);
}

static double loss(const struct hyd_attn_model *model, const struct data *data)
{
    struct hyd_ref_in in = in_of(data);
    double o[Q_ELEMENTS], lse[HEADS * N];
    double sum = 0.0;

    hyd_ref_forward(model, N, &in, o, lse);
    for (size_t i = 0; i < Q_ELEMENTS; i++) {
        sum += o[i] * (double)data->dout[i];
    }
    return sum;
}

/* Central difference of the loss along x[i]. */
static double slope(const struct hyd_attn_model *model, struct data *data, float *x)
{
    const float h = 1.0F / 1024.0F;
    float before = *x;
    double up, down;

    *x = before + h;
    up = loss(model, data);
    *x = before - h;
    down = loss(model, data);
    *x = before;
    return (up - down) / (2.0 * (double)h);
}

static void ref_gradients_equal_finite_differences(void **state)
{
    static const enum hyd_visibility see[] = {HYD_SEE_CAUSAL, HYD_SEE_FULL,
                                              HYD_SEE_WINDOW};

    (void)state;
    for (size_t s = 0; s < sizeof see / sizeof *see; s++) {
        const struct hyd_attn_model model = {.d = D,
                                             .n_heads = HEADS,
                                             .n_kv_heads = KV,
                                             .see = see[s],
                                             .window_tokens = 2};
        double dq[Q_ELEMENTS], dk[KV_ELEMENTS], dv[KV_ELEMENTS];
        struct data data;
        struct hyd_ref_in in;

        make(&data);
        in = in_of(&data);
        hyd_ref_forward(&model, N, &in, data.o, data.lse);
        hyd_ref_backward(&model, N, &in, dq, dk, dv);
        for (size_t i = 0; i < Q_ELEMENTS; i++) {
            assert_true(
                hyd_test_close(dq[i], slope(&model, &data, &data.q[i]), 1e-5, 0.0));
        }
        for (size_t i = 0; i < KV_ELEMENTS; i++) {
            assert_true(
                hyd_test_close(dk[i], slope(&model, &data, &data.k[i]), 1e-5, 0.0));
            assert_true(
                hyd_test_close(dv[i], slope(&model, &data, &data.v[i]), 1e-5, 0.0));
        }
    }
}

static void ref_row_says_minus_infinity_when_no_key_is_visible(void **state)
{
    const struct hyd_attn_model model = {
        .d = 1, .n_heads = 1, .n_kv_heads = 1, .see = HYD_SEE_CAUSAL};
    const float x[1] = {1.0F};
    const struct hyd_ref_row_in in = {.q = x, .k = x, .v = x, .row_floats = 1, .n = 0};
    double o = 5.0, lse = 5.0;

    (void)state;
    hyd_ref_row(&model, &in, &o, &lse);
    assert_true(o == 0.0 && lse < -1e300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ref_averages_values_when_all_scores_are_equal),
        cmocka_unit_test(ref_sees_only_the_window_when_there_is_one),
        cmocka_unit_test(ref_gives_neighbouring_heads_the_same_kv_head),
        cmocka_unit_test(ref_gradients_equal_finite_differences),
        cmocka_unit_test(ref_row_says_minus_infinity_when_no_key_is_visible),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
