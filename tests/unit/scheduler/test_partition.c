/* Karmarkar-Karp as its two inventors describe it, kept in whole sets, and first fit. */
#include "scheduler/core/partition.h"

#include <string.h>

#include "tests/lib/prop.h"
#include "tests/lib/test.h"

enum { MAX_N = 24, MAX_K = 6 };

/* A slow twin: every state holds all k sets in full. */
struct slow_set {
    uint64_t sum;
    uint32_t n;
    uint32_t item[MAX_N];
};

struct slow_state {
    struct slow_set set[MAX_K];
};

static int compare_sets(const struct slow_set *a, const struct slow_set *b)
{
    if (a->sum != b->sum) {
        return a->sum < b->sum ? -1 : 1;
    }
    if (a->n != b->n) {
        return a->n < b->n ? -1 : 1;
    }
    for (uint32_t i = 0; i < a->n; i++) {
        if (a->item[i] != b->item[i]) {
            return a->item[i] < b->item[i] ? -1 : 1;
        }
    }
    return 0;
}

static void sort_state(struct slow_state *s, uint32_t k)
{
    for (uint32_t i = 1; i < k; i++) {
        for (uint32_t at = i; at > 0 && compare_sets(&s->set[at - 1], &s->set[at]) < 0;
             at--) {
            const struct slow_set swap = s->set[at];

            s->set[at] = s->set[at - 1];
            s->set[at - 1] = swap;
        }
    }
}

static bool merged_before(const struct slow_state *a, const struct slow_state *b,
                          uint32_t k)
{
    const uint64_t spread_a = a->set[0].sum - a->set[k - 1].sum;
    const uint64_t spread_b = b->set[0].sum - b->set[k - 1].sum;

    return spread_a != spread_b ? spread_a > spread_b
                                : compare_sets(&a->set[0], &b->set[0]) > 0;
}

static uint32_t take_first(struct slow_state *state, uint32_t *n, uint32_t k,
                           struct slow_state *ret)
{
    uint32_t at = 0;

    for (uint32_t i = 1; i < *n; i++) {
        at = merged_before(&state[i], &state[at], k) ? i : at;
    }
    *ret = state[at];
    state[at] = state[--*n];
    return at;
}

static void slow_partition(const uint32_t *value, uint32_t n, uint32_t k, bool equal,
                           uint32_t *ret_part)
{
    static struct slow_state state[MAX_N];
    uint32_t rising[MAX_N];
    uint32_t n_states = 0;
    const uint32_t n_each = equal ? k : 1;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = i;

        for (; at > 0 && value[rising[at - 1]] > value[i]; at--) {
            rising[at] = rising[at - 1];
        }
        rising[at] = i;
    }
    for (uint32_t i = 0; i < n; i += n_each) {
        struct slow_state *s = &state[n_states++];

        memset(s, 0, sizeof *s);
        for (uint32_t j = 0; j < n_each; j++) {
            s->set[j].sum = value[rising[i + j]];
            s->set[j].n = 1;
            s->set[j].item[0] = rising[i + j];
        }
        sort_state(s, k);
    }
    while (n_states > 1) {
        struct slow_state a;
        struct slow_state b;

        (void)take_first(state, &n_states, k, &a);
        (void)take_first(state, &n_states, k, &b);
        for (uint32_t i = 0; i < k; i++) {
            const struct slow_set *from = &b.set[k - 1 - i];

            a.set[i].sum += from->sum;
            memcpy(a.set[i].item + a.set[i].n, from->item,
                   from->n * sizeof *from->item);
            a.set[i].n += from->n;
        }
        sort_state(&a, k);
        state[n_states++] = a;
    }
    for (uint32_t p = 0; p < k; p++) {
        for (uint32_t i = 0; i < state[0].set[p].n; i++) {
            ret_part[state[0].set[p].item[i]] = p;
        }
    }
}

static const char *differencing_equals_the_slow_one(struct hyd_rng *rng, void *ctx)
{
    const uint32_t k = 1 + hyd_rng_below(rng, MAX_K);
    const bool equal = hyd_rng_below(rng, 2) == 0;
    const uint32_t n = equal ? k * (1 + hyd_rng_below(rng, MAX_N / k))
                             : k + hyd_rng_below(rng, MAX_N - k + 1);
    const uint32_t range = hyd_rng_below(rng, 2) == 0 ? 3 : 1000;
    uint32_t value[MAX_N];
    uint32_t got[MAX_N];
    uint32_t want[MAX_N];
    struct hyd_arena arena;
    hyd_status st = HYD_OK;

    (void)ctx;
    for (uint32_t i = 0; i < n; i++) {
        value[i] = 1 + hyd_rng_below(rng, range);
    }
    hyd_arena_init(&arena, hyd_alloc_system());
    st = hyd_partition_differencing(value, n, k, equal, &arena, got);
    hyd_arena_release(&arena);
    if (st != HYD_OK) {
        return "no memory";
    }
    slow_partition(value, n, k, equal, want);
    return memcmp(got, want, n * sizeof *got) == 0
               ? NULL
               : hyd_prop_reason("n %u k %u equal %d differs", n, k, equal);
}

static void differencing_equals_a_slow_one(void **state)
{
    (void)state;
    hyd_prop_run("differencing_equals_the_slow_one", 400,
                 differencing_equals_the_slow_one, NULL);
}

static void first_fit_opens_bins_in_order(void **state)
{
    const uint32_t value[] = {6, 5, 4, 3, 12, 2};
    const uint32_t want[] = {0, 1, 0, 1, 2, 1};
    uint32_t part[6];
    uint32_t n_parts = 0;
    struct hyd_arena arena;

    (void)state;
    hyd_arena_init(&arena, hyd_alloc_system());
    assert_int_equal(hyd_partition_first_fit(value, 6, 10, &arena, part, &n_parts),
                     HYD_OK);
    hyd_arena_release(&arena);
    assert_int_equal(n_parts, 3);
    assert_memory_equal(part, want, sizeof want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differencing_equals_a_slow_one),
        cmocka_unit_test(first_fit_opens_bins_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
