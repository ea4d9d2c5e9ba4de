/*
 * partition.c - see partition.h.
 *
 * A state is a list of k sets, most of them empty at first; only the others are stored.
 * Merging two states pairs the fullest set of one with the emptiest of the other, so a
 * set meets another only when both states have more than k sets between them: there are
 * never more than n sets, each a chain through next[].
 */
#include "scheduler/core/partition.h"

#include <string.h>

#include "common/base/sort.h"

#include "common/base/banned.h"

static const uint32_t NONE = UINT32_MAX;

struct set {
    uint64_t sum;
    uint32_t n_items;
    uint32_t first; /* chain of items, in the order in which they were merged */
    uint32_t last;
    uint32_t below; /* the next set of the state, or NONE */
};

struct state {
    uint32_t top; /* sets, fullest first */
    uint32_t n_sets; /* that are not empty */
    uint64_t largest;
    uint64_t smallest; /* 0 while a set is empty */
};

struct job {
    const uint32_t *value;
    uint32_t k;
    struct set *set;
    uint32_t *next; /* [n] in the chain of a set */
    struct state *state;
    uint32_t *heap; /* states, the one to merge next on top */
    uint32_t n_heap;
    uint32_t *left; /* [k] scratch of a merge */
    uint32_t *right;
    uint32_t *merged;
    uint32_t *sorted;
};

/* Is set a before set b in rising order of (sum, count, items)? */
static bool set_below(const struct job *j, uint32_t a, uint32_t b)
{
    const struct set *x = &j->set[a];
    const struct set *y = &j->set[b];
    uint32_t i = x->first;
    uint32_t k = y->first;

    if (x->sum != y->sum) {
        return x->sum < y->sum;
    }
    if (x->n_items != y->n_items) {
        return x->n_items < y->n_items;
    }
    while (i != NONE && i == k) {
        i = j->next[i];
        k = j->next[k];
    }
    return i != NONE && i < k;
}

/* Is state a merged before state b? The larger spread first, then the larger set. */
static bool state_before(const struct job *j, uint32_t a, uint32_t b)
{
    const struct state *x = &j->state[a];
    const struct state *y = &j->state[b];
    const uint64_t spread_x = x->largest - x->smallest;
    const uint64_t spread_y = y->largest - y->smallest;

    if (spread_x != spread_y) {
        return spread_x > spread_y;
    }
    return set_below(j, y->top, x->top);
}

static void heap_push(struct job *j, uint32_t state)
{
    uint32_t at = j->n_heap++;

    while (at > 0 && state_before(j, state, j->heap[(at - 1) / 2])) {
        j->heap[at] = j->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    j->heap[at] = state;
}

static uint32_t heap_pop(struct job *j)
{
    const uint32_t top = j->heap[0];
    const uint32_t moved = j->heap[--j->n_heap];
    uint32_t at = 0;

    for (;;) {
        uint32_t child = 2 * at + 1;

        if (child >= j->n_heap) {
            break;
        }
        if (child + 1 < j->n_heap &&
            state_before(j, j->heap[child + 1], j->heap[child])) {
            child++;
        }
        if (!state_before(j, j->heap[child], moved)) {
            break;
        }
        j->heap[at] = j->heap[child];
        at = child;
    }
    j->heap[at] = moved;
    return top;
}

/* Fullest first, by merging runs of doubling length. The result is in j->merged. */
static void sort_sets(struct job *j, uint32_t n)
{
    for (uint32_t run = 1; run < n; run *= 2) {
        uint32_t *swap = j->merged;

        for (uint32_t at = 0; at < n; at += 2 * run) {
            const uint32_t middle = at + run < n ? at + run : n;
            const uint32_t end = at + 2 * run < n ? at + 2 * run : n;
            uint32_t a = at;
            uint32_t b = middle;

            for (uint32_t out = at; out < end; out++) {
                const bool take_b =
                    a == middle ||
                    (b < end && set_below(j, j->merged[a], j->merged[b]));

                j->sorted[out] = take_b ? j->merged[b++] : j->merged[a++];
            }
        }
        j->merged = j->sorted;
        j->sorted = swap;
    }
}

/* Make the n sets in j->merged, fullest first, the state's. */
static void link_sets(struct job *j, struct state *state, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        j->set[j->merged[i]].below = i + 1 < n ? j->merged[i + 1] : NONE;
    }
    state->top = j->merged[0];
    state->n_sets = n;
    state->largest = j->set[j->merged[0]].sum;
    state->smallest = n == j->k ? j->set[j->merged[n - 1]].sum : 0;
}

static uint32_t list_sets(const struct job *j, const struct state *state, uint32_t *ret)
{
    uint32_t n = 0;

    for (uint32_t at = state->top; at != NONE; at = j->set[at].below) {
        ret[n++] = at;
    }
    return n;
}

/* a takes b's sets: the i-th fullest of a meets the i-th emptiest of b. */
static void merge_states(struct job *j, uint32_t a, uint32_t b)
{
    const uint32_t n_a = list_sets(j, &j->state[a], j->left);
    const uint32_t n_b = list_sets(j, &j->state[b], j->right);
    /* Sets 0 .. n_a - 1 of a are filled, and those from k - n_b on meet one of b. */
    const uint32_t first_met = j->k - n_b;
    uint32_t n = 0;

    for (uint32_t i = 0; i < j->k; i++) {
        const bool has_a = i < n_a;
        const bool has_b = i >= first_met;

        if (has_a && has_b) {
            struct set *to = &j->set[j->left[i]];
            const struct set *from = &j->set[j->right[j->k - 1 - i]];

            to->sum += from->sum;
            to->n_items += from->n_items;
            j->next[to->last] = from->first;
            to->last = from->last;
            j->merged[n++] = j->left[i];
        } else if (has_a) {
            j->merged[n++] = j->left[i];
        } else if (has_b) {
            j->merged[n++] = j->right[j->k - 1 - i];
        }
    }
    sort_sets(j, n);
    link_sets(j, &j->state[a], n);
}

/* States of one item, or of k in turn, from the numbers in rising order. */
static void make_states(struct job *j, const uint64_t *rising, uint32_t n,
                        uint32_t n_each)
{
    for (uint32_t at = 0; at < n; at += n_each) {
        const uint32_t state = at / n_each;

        for (uint32_t i = 0; i < n_each; i++) {
            const uint32_t item = (uint32_t)rising[at + i];

            j->set[at + i] = (struct set){j->value[item], 1, item, item, NONE};
            j->next[item] = NONE;
            j->merged[i] = at + i;
        }
        sort_sets(j, n_each);
        link_sets(j, &j->state[state], n_each);
        heap_push(j, state);
    }
}

static bool take_arrays(struct job *j, uint32_t n, struct hyd_arena *arena)
{
    j->set = hyd_arena_take(arena, n, sizeof *j->set);
    j->next = hyd_arena_take(arena, n, sizeof *j->next);
    j->state = hyd_arena_take(arena, n, sizeof *j->state);
    j->heap = hyd_arena_take(arena, n, sizeof *j->heap);
    j->left = hyd_arena_take(arena, j->k, sizeof *j->left);
    j->right = hyd_arena_take(arena, j->k, sizeof *j->right);
    j->merged = hyd_arena_take(arena, j->k, sizeof *j->merged);
    j->sorted = hyd_arena_take(arena, j->k, sizeof *j->sorted);
    return j->set != NULL && j->next != NULL && j->state != NULL && j->heap != NULL &&
           j->left != NULL && j->right != NULL && j->merged != NULL &&
           j->sorted != NULL;
}

hyd_status hyd_partition_differencing(const uint32_t *value, uint32_t n, uint32_t k,
                                      bool equal_count, struct hyd_arena *arena,
                                      uint32_t *ret_part)
{
    const struct hyd_arena_mark mark = hyd_arena_mark(arena);
    uint64_t *rising = hyd_arena_take(arena, n, sizeof *rising);
    uint64_t *scratch = hyd_arena_take(arena, n, sizeof *scratch);
    struct job j = {.value = value, .k = k};
    uint32_t part = 0;

    if (rising == NULL || scratch == NULL || !take_arrays(&j, n, arena)) {
        return HYD_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < n; i++) {
        rising[i] = (uint64_t)value[i] << 32 | i;
    }
    hyd_sort_u64(rising, scratch, n);
    make_states(&j, rising, n, equal_count ? k : 1);
    while (j.n_heap > 1) {
        const uint32_t a = heap_pop(&j);
        const uint32_t b = heap_pop(&j);

        merge_states(&j, a, b);
        heap_push(&j, a);
    }
    for (uint32_t at = j.state[j.heap[0]].top; at != NONE; at = j.set[at].below) {
        for (uint32_t i = j.set[at].first; i != NONE; i = j.next[i]) {
            ret_part[i] = part;
        }
        part++;
    }
    hyd_arena_rewind(arena, mark);
    return HYD_OK;
}

hyd_status hyd_partition_first_fit(const uint32_t *value, uint32_t n, uint64_t room,
                                   struct hyd_arena *arena, uint32_t *ret_part,
                                   uint32_t *ret_n_parts)
{
    const struct hyd_arena_mark mark = hyd_arena_mark(arena);
    uint64_t *used = hyd_arena_take(arena, n, sizeof *used);
    uint32_t n_parts = 0;

    if (used == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t p = 0;

        while (p < n_parts && used[p] + value[i] > room) {
            p++;
        }
        if (p == n_parts) {
            used[n_parts++] = 0;
        }
        used[p] += value[i];
        ret_part[i] = p;
    }
    hyd_arena_rewind(arena, mark);
    *ret_n_parts = n_parts;
    return HYD_OK;
}
