/* The engine on every compute backend and every transport of this build: random plans with
 * a thread for each rank, against attention in double. */
#include <stdio.h>

#include "tests/conform/engine_place.h"
#include "tests/lib/engine_rig.h"
#include "tests/lib/prop.h"
#include "tests/lib/test.h"

struct pair {
    const struct hyd_compute_ops *compute;
    const struct hyd_transport_ops *net;
};

static const char *plan_equals_reference(struct hyd_rng *rng, void *ctx)
{
    static const uint32_t kv[] = {1, 2, 4};
    const struct pair *pair = ctx;
    struct hyd_rig rig = {
        .compute = pair->compute, .backward = true, .amplitude = 1.0F};

    rig.seed = hyd_rng_next(rng);
    rig.model = (struct hyd_attn_model){
        .dtype = hyd_rng_below(rng, 3) == 0 ? HYD_DTYPE_BF16 : HYD_DTYPE_F32,
        .d = 64,
        .n_kv_heads = kv[hyd_rng_below(rng, 3)],
        .see = (enum hyd_visibility)hyd_rng_below(rng, 3),
        .window_tokens = 1 + hyd_rng_below(rng, 100),
        .part_min_rows = hyd_rng_below(rng, 2) == 0 ? 0 : 1 + hyd_rng_below(rng, 8),
    };
    rig.model.n_heads = rig.model.n_kv_heads * (1 + hyd_rng_below(rng, 3));
    rig.strided = hyd_rng_below(rng, 3) == 0;
    rig.tolerance = rig.model.dtype == HYD_DTYPE_F32 ? 1e-5 : 2e-2;
    hyd_rig_random_plan(rng, &rig.model, 90, &rig.plan);
    return hyd_rig_run_threads(&rig, pair->net);
}

static void engine_equals_reference_on_this_pair(void **state)
{
    const struct pair *pair = *state;
    char name[64];

    (void)snprintf(name, sizeof name, "engine on %s and %s", pair->compute->name,
                   pair->net->name);
    hyd_prop_run(name, 8, plan_equals_reference, *state);
}

/* May the two work together on this machine? */
static bool usable(const struct pair *pair)
{
    struct hyd_error err = {.text = ""};

    if (pair->compute->mem != engine_place_mem) {
        printf("SKIPPED: compute %s with transport %s: %s\n", pair->compute->name,
               pair->net->name, engine_place_why);
        return false;
    }
    if (!pair->net->moves(pair->compute->mem)) {
        (void)hyd_error_set(&err, HYD_ERR_UNSUPPORTED, "it does not move that memory");
    } else if (pair->compute->probe(&err) == HYD_OK &&
               pair->net->probe(&err) == HYD_OK) {
        printf("compute %s with transport %s\n", pair->compute->name, pair->net->name);
        return true;
    }
    printf("SKIPPED: compute %s with transport %s: %s\n", pair->compute->name,
           pair->net->name, err.text);
    return false;
}

int main(void)
{
    int n_failed = 0;

    for (size_t i = 0; hyd_compute_table[i] != NULL; i++) {
        for (size_t j = 0; hyd_transport_table[j] != NULL; j++) {
            struct pair pair = {hyd_compute_table[i], hyd_transport_table[j]};
            const struct CMUnitTest tests[] = {
                cmocka_unit_test_prestate(engine_equals_reference_on_this_pair, &pair),
            };

            if (usable(&pair)) {
                n_failed += cmocka_run_group_tests(tests, NULL, NULL);
            }
        }
    }
    return n_failed;
}
