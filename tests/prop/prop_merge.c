/* Cutting the keys of a row into blocks and joining the partial results in any order gives
 * the whole row; blocks that the row does not see change nothing. */
#include <math.h>

#include "tests/lib/prop.h"
#include "tests/lib/test.h"
#include "worker/attn/merge.h"
#include "worker/attn/ref.h"

enum { MAX_KEYS = 60, D = 4, MAX_BLOCKS = 8 };

struct row {
    float q[D];
    float k[MAX_KEYS * D];
    float v[MAX_KEYS * D];
    uint32_t n;
};

static void make_row(struct hyd_rng *rng, struct row *row)
{
    /* Some rows have scores of some hundreds: exp() of them alone would overflow. */
    float amplitude = hyd_rng_below(rng, 3) == 0 ? 300.0F : 1.0F;
    uint64_t key = hyd_rng_next(rng);

    row->n = 1 + hyd_rng_below(rng, MAX_KEYS);
    for (uint32_t i = 0; i < D; i++) {
        row->q[i] = amplitude * hyd_rng_signed_at(key, i);
    }
    for (uint32_t i = 0; i < row->n * D; i++) {
        row->k[i] = hyd_rng_signed_at(key, 100 + i);
        row->v[i] = hyd_rng_signed_at(key, 1000 + i);
    }
}

/* Result over keys [from, to). */
static void partial(const struct hyd_attn_model *model, const struct row *row,
                    const uint32_t from_to[2], float *o, float *lse)
{
    struct hyd_ref_row_in in = {.q = row->q,
                                .k = row->k + (size_t)from_to[0] * D,
                                .v = row->v + (size_t)from_to[0] * D,
                                .row_floats = D,
                                .n = from_to[1] - from_to[0]};
    double wide[D], wide_lse;

    hyd_ref_row(model, &in, wide, &wide_lse);
    for (uint32_t i = 0; i < D; i++) {
        /* What an unseen block holds is nobody's business. */
        o[i] = in.n == 0 ? nanf("") : (float)wide[i];
    }
    *lse = (float)wide_lse;
}

static const char *blocks_in_any_order_are_the_row(struct hyd_rng *rng, void *ctx)
{
    const struct hyd_attn_model model = {
        .d = D, .n_heads = 1, .n_kv_heads = 1, .see = HYD_SEE_FULL};
    uint32_t bound[MAX_BLOCKS + 1], order[MAX_BLOCKS];
    struct row row;
    float o[D], lse = -INFINITY;
    float want[D], want_lse;
    uint32_t whole[2];

    (void)ctx;
    make_row(rng, &row);
    bound[0] = 0;
    bound[MAX_BLOCKS] = row.n;
    for (uint32_t i = 1; i < MAX_BLOCKS; i++) {
        bound[i] = bound[i - 1] + hyd_rng_below(rng, row.n - bound[i - 1] + 1);
    }
    for (uint32_t i = 0; i < MAX_BLOCKS; i++) {
        uint32_t j = hyd_rng_below(rng, i + 1);

        order[i] = order[j];
        order[j] = i;
    }
    for (uint32_t i = 0; i < D; i++) {
        o[i] = nanf("");
    }
    for (uint32_t i = 0; i < MAX_BLOCKS; i++) {
        float part[D], part_lse;

        partial(&model, &row, &bound[order[i]], part, &part_lse);
        hyd_merge_row(o, &lse, part, part_lse, D);
    }
    whole[0] = 0;
    whole[1] = row.n;
    partial(&model, &row, whole, want, &want_lse);
    for (uint32_t i = 0; i < D; i++) {
        if (!hyd_test_close((double)o[i], (double)want[i], 2e-5, 0.0)) {
            return hyd_prop_reason("o[%u] is %g, not %g", i, (double)o[i],
                                   (double)want[i]);
        }
    }
    return hyd_test_close((double)lse, (double)want_lse, 1e-5, 1e-6)
               ? NULL
               : hyd_prop_reason("lse is %g, not %g", (double)lse, (double)want_lse);
}

static void merge_equals_the_whole_in_any_order(void **state)
{
    (void)state;
    hyd_prop_run("blocks in any order", 500, blocks_in_any_order_are_the_row, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merge_equals_the_whole_in_any_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
