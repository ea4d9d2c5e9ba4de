/* trap_rig.c - see trap_rig.h. */
#include "tests/prop/trap_rig.h"

#include "tests/lib/compute_naive.h"
#include "tests/lib/test.h"

struct hyd_rig trap_rig(uint32_t n_ranks, uint32_t n_heads, uint32_t n_kv_heads,
                        uint64_t seed)
{
    return (struct hyd_rig){
        .model = {.dtype = HYD_DTYPE_F32,
                  .d = 8,
                  .n_heads = n_heads,
                  .n_kv_heads = n_kv_heads,
                  .see = HYD_SEE_CAUSAL},
        .plan = {.n_ranks = n_ranks, .n_microbatches = 1, .n_layers = 1},
        .compute = &hyd_compute_naive,
        .backward = true,
        .chaos = true,
        .amplitude = 1.0F,
        .tolerance = 1e-5,
        .seed = seed,
    };
}

void trap_expect_right(struct hyd_rig *rig)
{
    const char *why;

    hyd_rig_sort(&rig->plan);
    why = hyd_rig_run(rig);
    if (why != NULL) {
        print_error("%s\n", why);
    }
    assert_null(why);
}
