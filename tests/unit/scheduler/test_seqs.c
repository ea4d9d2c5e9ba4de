/* Sequences come heaviest first, ties by id, and alike ones form a run. */
#include "scheduler/core/seqs.h"

#include "tests/lib/fault_alloc.h"
#include "tests/lib/prop.h"
#include "tests/lib/test.h"

enum { MAX_SEQS = 300 };

struct bench {
    struct hyd_arena arena;
    struct hyd_cost cost;
};

static const char *seqs_sorts(struct hyd_rng *rng, void *ctx)
{
    struct bench *bench = ctx;
    uint32_t length[MAX_SEQS];
    double extra[MAX_SEQS];
    const uint32_t n = 1 + hyd_rng_below(rng, MAX_SEQS);
    const bool with_extra = hyd_rng_below(rng, 2) != 0;
    struct hyd_batch batch = {length, with_extra ? extra : NULL, n};
    struct hyd_seqs seqs;
    double tokens = 0.0;
    bool seen[MAX_SEQS] = {false};
    uint32_t at = 0;

    for (uint32_t i = 0; i < n; i++) {
        length[i] = 1 + hyd_rng_below(rng, hyd_rng_below(rng, 2) != 0 ? 20 : 300000);
        extra[i] = hyd_rng_below(rng, 3) * 1000.0;
        tokens += length[i];
    }
    hyd_arena_reset(&bench->arena);
    if (hyd_seqs_init(&batch, &bench->cost, &bench->arena, &seqs, NULL) != HYD_OK) {
        return "no memory";
    }
    for (uint32_t k = 0; k < seqs.n_runs; k++) {
        for (; at < seqs.run_first[k + 1]; at++) {
            const uint32_t id = seqs.id[at];

            if (id >= n || seen[id]) {
                return hyd_prop_reason("id %u at %u is not new", id, at);
            }
            seen[id] = true;
            if (length[id] != (uint32_t)seqs.tokens[k] ||
                (with_extra && extra[id] != seqs.extra_s[k])) {
                return hyd_prop_reason("id %u is in the wrong run", id);
            }
            if (at > seqs.run_first[k] && seqs.id[at - 1] > id) {
                return hyd_prop_reason("id %u comes before %u", seqs.id[at - 1], id);
            }
        }
        if (k > 0 && seqs.work_s[k] > seqs.work_s[k - 1] * (1.0 + 1e-9)) {
            return hyd_prop_reason("run %u is heavier than the one before", k);
        }
    }
    if (at != n || seqs.total_tokens != tokens || seqs.by_length == with_extra) {
        return hyd_prop_reason("%u of %u sequences, %g tokens", at, n,
                               seqs.total_tokens);
    }
    return NULL;
}

static void seqs_come_heaviest_first(void **state)
{
    struct bench bench;

    (void)state;
    hyd_arena_init(&bench.arena, hyd_alloc_system());
    assert_int_equal(hyd_cost_nested(1.0 / 53000, 1, 300, &bench.cost, NULL), HYD_OK);
    hyd_prop_run("seqs_sorts", 300, seqs_sorts, &bench);
    hyd_arena_release(&bench.arena);
}

static void seqs_say_when_memory_ends(void **state)
{
    const uint32_t length[] = {5, 9};
    const struct hyd_batch batch = {length, NULL, 2};
    struct hyd_fault_alloc fault;
    struct hyd_arena arena;
    struct hyd_seqs seqs = {.n_runs = 77};
    struct hyd_cost cost;

    (void)state;
    assert_int_equal(hyd_cost_nested(1.0, 1.0, 0.0, &cost, NULL), HYD_OK);
    hyd_fault_alloc_init(&fault);
    fault.fail_at = 1;
    hyd_arena_init(&arena, &fault.alloc);
    assert_int_equal(hyd_seqs_init(&batch, &cost, &arena, &seqs, NULL),
                     HYD_ERR_NO_MEMORY);
    assert_int_equal(seqs.n_runs, 77);
    hyd_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seqs_come_heaviest_first),
        cmocka_unit_test(seqs_say_when_memory_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
