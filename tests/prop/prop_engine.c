/* The engine over any plan equals plain attention in double: random worlds of 2 to 12
 * ranks, any degree, any u that divides it, any list of ranks, several groups in a cell,
 * lengths from 0 on, heads that u does not divide, kv heads fewer than u, three masks,
 * fp32 and bf16, tensors with and without gaps, exchanges cut into parts of any size; a
 * transport that delays at random. How exchanges are cut changes no byte. */
#include "tests/lib/compute_naive.h"
#include "tests/lib/engine_rig.h"
#include "tests/lib/prop.h"
#include "tests/lib/test.h"

static uint32_t random_part_rows(struct hyd_rng *rng)
{
    switch (hyd_rng_below(rng, 3)) {
    case 0:
        return 0; /* as the rule says */
    case 1:
        return UINT32_MAX;
    default:
        return 1 + hyd_rng_below(rng, 6);
    }
}

static void random_model(struct hyd_rng *rng, struct hyd_attn_model *model)
{
    static const uint32_t kv[] = {1, 2, 3, 4, 8};
    static const uint32_t per_kv[] = {1, 2, 3, 4};

    *model = (struct hyd_attn_model){
        .dtype = hyd_rng_below(rng, 4) == 0 ? HYD_DTYPE_BF16 : HYD_DTYPE_F32,
        .d = 8,
        .n_kv_heads = kv[hyd_rng_below(rng, 5)],
        .see = (enum hyd_visibility)hyd_rng_below(rng, 3),
        .window_tokens = 1 + hyd_rng_below(rng, 40),
        .part_min_rows = random_part_rows(rng),
    };
    model->n_heads = model->n_kv_heads * per_kv[hyd_rng_below(rng, 4)];
}

static const char *engine_equals_reference(struct hyd_rng *rng, void *ctx)
{
    struct hyd_rig rig = {.compute = ctx, .chaos = hyd_rng_below(rng, 2) == 0};

    rig.seed = hyd_rng_next(rng) | 1;
    random_model(rng, &rig.model);
    rig.backward = hyd_rng_below(rng, 4) > 0;
    rig.strided = hyd_rng_below(rng, 3) == 0;
    rig.dout_strided = hyd_rng_below(rng, 4) == 0;
    rig.device_lag = hyd_rng_below(rng, 3);
    if (hyd_rng_below(rng, 2) == 0) {
        /* A pair and head has 32 flop: slices of some rows. */
        rig.slices = (struct hyd_attn_slices){1e4, 1e3, 1 + hyd_rng_below(rng, 6)};
    }
    rig.amplitude = 1.0F;
    rig.tolerance = rig.model.dtype == HYD_DTYPE_F32 ? 1e-5 : 2e-2;
    hyd_rig_random_plan(rng, &rig.model, 40, &rig.plan);
    return hyd_rig_run(&rig);
}

static void engine_equals_reference_over_any_plan(void **state)
{
    (void)state;
    hyd_prop_run("engine equals reference", 200, engine_equals_reference,
                 (void *)&hyd_compute_naive);
}

/* Members with several kv heads; the same plan with exchanges in parts and whole. */
static const char *parts_change_no_byte(struct hyd_rng *rng, void *ctx)
{
    struct hyd_rig rig = {.compute = ctx,
                          .chaos = hyd_rng_below(rng, 2) == 0,
                          .backward = true,
                          .amplitude = 1.0F,
                          .unchecked = true};
    bool cpu = rig.compute != &hyd_compute_naive;
    uint64_t digest;
    const char *why;

    rig.seed = hyd_rng_next(rng) | 1;
    random_model(rng, &rig.model);
    rig.model.n_heads = 12 * (1 + hyd_rng_below(rng, 2));
    rig.model.n_kv_heads = 12; /* u 2, 3, 4 and 6 give members whole kv heads */
    rig.model.d = cpu ? 64 : 8;
    rig.model.window_tokens *= cpu ? 5 : 1;
    /* Slices of some rows, also where heads are cut. */
    rig.slices = cpu ? (struct hyd_attn_slices){4e6, 1e6, 32}
                     : (struct hyd_attn_slices){2e4, 1e4, 4};
    hyd_rig_random_plan(rng, &rig.model, cpu ? 200 : 40, &rig.plan);
    rig.model.part_min_rows = UINT32_MAX;
    why = hyd_rig_run(&rig);
    if (why != NULL) {
        return why;
    }
    digest = rig.digest;
    rig.model.part_min_rows =
        hyd_rng_below(rng, 2) == 0 ? 0 : 1 + hyd_rng_below(rng, 6);
    why = hyd_rig_run(&rig);
    if (why == NULL && rig.digest != digest) {
        why = "parts give other bytes than the whole";
    }
    return why;
}

static void parts_give_the_bytes_of_the_whole(void **state)
{
    const struct hyd_compute_ops *cpu = NULL;

    (void)state;
    hyd_prop_run("parts, naive", 30, parts_change_no_byte, (void *)&hyd_compute_naive);
    assert_int_equal(hyd_compute_find("cpu", &cpu, NULL), HYD_OK);
    hyd_prop_run("parts, cpu", 8, parts_change_no_byte, (void *)cpu);
}

static const char *loss_is_survived(struct hyd_rng *rng, void *ctx)
{
    struct hyd_rig rig = {.compute = ctx, .chaos = hyd_rng_below(rng, 2) == 0};

    rig.seed = hyd_rng_next(rng) | 1;
    random_model(rng, &rig.model);
    rig.model.dtype = HYD_DTYPE_F32;
    rig.device_lag = hyd_rng_below(rng, 3);
    rig.backward = true;
    rig.amplitude = 1.0F;
    rig.tolerance = 1e-5;
    hyd_rig_random_plan(rng, &rig.model, 30, &rig.plan);
    return hyd_rig_run_with_loss(&rig, hyd_rng_below(rng, 600));
}

static void engine_survives_a_lost_rank_at_any_moment(void **state)
{
    (void)state;
    hyd_prop_run("loss is survived", 40, loss_is_survived, (void *)&hyd_compute_naive);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engine_equals_reference_over_any_plan),
        cmocka_unit_test(parts_give_the_bytes_of_the_whole),
        cmocka_unit_test(engine_survives_a_lost_rank_at_any_moment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
