/* Made-up tensors are a pure function of their names: shards put together are the whole,
 * and fingerprints do not depend on who holds which row. */
#include "worker/agent/made.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/prop.h"
#include "tests/lib/test.h"

static const struct hyd_attn_model model_f32 = {
    .dtype = HYD_DTYPE_F32, .d = 8, .n_heads = 4, .n_kv_heads = 2};
static const struct hyd_attn_model model_bf16 = {
    .dtype = HYD_DTYPE_BF16, .d = 8, .n_heads = 4, .n_kv_heads = 2};

enum { MAX_TOKENS = 60, MAX_DEGREE = 8 };

static const char *shards_are_the_whole(struct hyd_rng *rng, void *ctx)
{
    const struct hyd_attn_model *model =
        hyd_rng_below(rng, 2) == 0 ? &model_f32 : &model_bf16;
    const struct hyd_made made = {hyd_rng_next(rng), hyd_rng_next(rng), 3, model};
    const uint32_t degree = 1 + hyd_rng_below(rng, MAX_DEGREE);
    const uint32_t length = hyd_rng_below(rng, MAX_TOKENS);
    const uint32_t id = hyd_rng_below(rng, 100);
    const uint32_t rank[MAX_DEGREE] = {0, 1, 2, 3, 4, 5, 6, 7};
    const struct hyd_group group = {.rank = rank,
                                    .u = degree,
                                    .r = 1,
                                    .id = &id,
                                    .length_tokens = &length,
                                    .n_seqs = 1};
    const size_t row =
        (size_t)model->n_kv_heads * model->d * hyd_dtype_bytes(model->dtype);
    unsigned char whole[MAX_TOKENS * 64];
    unsigned char gathered[MAX_TOKENS * 64];
    uint64_t sum = 0;

    (void)ctx;
    hyd_made_rows(&made, HYD_MADE_K, id, (struct hyd_span){0, length}, whole);
    for (uint32_t m = 0; m < degree; m++) {
        unsigned char shard[MAX_TOKENS * 64];

        hyd_made_shard(&made, HYD_MADE_K, &group, m, shard);
        hyd_layout_gather(length, degree, m, shard, gathered, row);
        sum += hyd_made_digest(&made, &group, m, 2, shard, row);
    }
    if (memcmp(whole, gathered, length * row) != 0) {
        return hyd_prop_reason("%u tokens over %u differ", length, degree);
    }
    {
        const struct hyd_group alone = {.rank = rank,
                                        .u = 1,
                                        .r = 1,
                                        .id = &id,
                                        .length_tokens = &length,
                                        .n_seqs = 1};

        if (sum != hyd_made_digest(&made, &alone, 0, 2, whole, row)) {
            return "the fingerprint depends on who holds the rows";
        }
    }
    return NULL;
}

static void made_shards_are_the_whole(void **state)
{
    (void)state;
    hyd_prop_run("shards_are_the_whole", 300, shards_are_the_whole, NULL);
}

static void made_values_differ_in_every_name(void **state)
{
    struct hyd_made made = {1, 2, 0, &model_f32};
    float base[32];
    float other[32];
    const struct hyd_span token = {5, 1};

    (void)state;
    hyd_made_rows(&made, HYD_MADE_Q, 7, token, base);
    for (int i = 1; i < 32; i++) {
        assert_true(base[i] != base[0]); /* head and dimension */
        assert_true(base[i] >= -1.0F && base[i] < 1.0F);
    }
    for (int change = 0; change < 6; change++) {
        struct hyd_made changed = made;

        changed.seed += change == 0;
        changed.step += change == 1;
        changed.layer += change == 2;
        hyd_made_rows(&changed, change == 3 ? HYD_MADE_DOUT : HYD_MADE_Q,
                      change == 4 ? 8 : 7, (struct hyd_span){change == 5 ? 6 : 5, 1},
                      other);
        for (int i = 0; i < 32; i++) {
            assert_true(other[i] != base[i]);
        }
    }
}

static void made_floats_are_what_bf16_holds(void **state)
{
    const struct hyd_made made = {1, 2, 0, &model_bf16};
    const struct hyd_span tokens = {3, 4};
    uint16_t narrow[4 * 32];
    float wide[4 * 32];

    (void)state;
    hyd_made_rows(&made, HYD_MADE_Q, 1, tokens, narrow);
    hyd_made_floats(&made, HYD_MADE_Q, 1, tokens, wide);
    for (int i = 0; i < 4 * 32; i++) {
        uint32_t bits = 0;

        memcpy(&bits, &wide[i], sizeof bits);
        assert_int_equal(bits, (uint32_t)narrow[i] << 16);
    }
}

static void made_digest_sees_a_changed_bit_and_a_moved_row(void **state)
{
    const struct hyd_made made = {1, 2, 0, &model_f32};
    const uint32_t rank = 0;
    const uint32_t id = 3;
    const uint32_t length = 4;
    const struct hyd_group group = {.rank = &rank,
                                    .u = 1,
                                    .r = 1,
                                    .id = &id,
                                    .length_tokens = &length,
                                    .n_seqs = 1};
    unsigned char rows[4 * 12];
    unsigned char swapped[4 * 12];
    uint64_t digest = 0;

    (void)state;
    for (size_t i = 0; i < sizeof rows; i++) {
        rows[i] = (unsigned char)(i * 37);
    }
    digest = hyd_made_digest(&made, &group, 0, 0, rows, 12);
    memcpy(swapped, rows + 12, 12);
    memcpy(swapped + 12, rows, 12);
    memcpy(swapped + 24, rows + 24, 24);
    assert_true(hyd_made_digest(&made, &group, 0, 0, swapped, 12) != digest);
    assert_true(hyd_made_digest(&made, &group, 0, 1, rows, 12) != digest);
    rows[47] ^= 1; /* beyond the last whole word of the row */
    assert_true(hyd_made_digest(&made, &group, 0, 0, rows, 12) != digest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(made_shards_are_the_whole),
        cmocka_unit_test(made_values_differ_in_every_name),
        cmocka_unit_test(made_floats_are_what_bf16_holds),
        cmocka_unit_test(made_digest_sees_a_changed_bit_and_a_moved_row),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
