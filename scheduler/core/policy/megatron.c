/*
 * megatron.c - Megatron-Core's default_dynamic_cp, third generation (packing aware).
 *
 * Degrees come from memory: the smallest power of two that holds the sequence. Longest
 * first, each sequence takes the group, new or old, at its degree or a wider one, that
 * raises the hottest rank least; the first found wins. Ranks left empty are filled by
 * widening groups. With virtual pipeline stages microbatches are cut in two, from the
 * last one backwards, until their number is a multiple of vpp_group.
 *
 * Since all ranks of a group carry the same load, "the hottest rank if this group took
 * the sequence" is the larger of two numbers: the same decisions as walking over all
 * ranks, without the walk. A candidate that does not raise the hottest rank cannot be
 * beaten, so the search ends there.
 *
 * Where the original fails, on pools or smallest degrees that are no powers of two, the
 * plan goes on in the way it says in its note.
 */
#include "scheduler/core/policy.h"

#include "scheduler/core/policy_help.h"
#include "scheduler/core/row.h"

#include "common/base/banned.h"

/* How far packing may go beyond what the longest sequence can weigh on a rank. */
static const double WORK_ALLOWANCE = 1.05;

enum { MAX_SIZES = 48 };

/* Groups of one size, in the order in which they were opened. */
struct size_class {
    uint32_t n_ranks;
    uint32_t first; /* index of a group, or HYD_ROW_END */
    uint32_t last;
};

/* A finished microbatch: its groups; their sequences are linked in row.next. */
struct cut {
    struct hyd_row_group *group;
    uint32_t n_groups;
};

struct job {
    const struct hyd_plan_input *in;
    struct hyd_arena *arena;
    struct hyd_error *err;
    struct hyd_row row;
    struct size_class size[MAX_SIZES];
    uint32_t n_sizes;
    uint32_t *next_group; /* [n_ranks] in the size class */
    struct cut *cut; /* [n_cuts] microbatches so far */
    uint32_t n_cuts;
    uint32_t cut_room;
    const char *note;
};

struct choice {
    double hottest;
    struct hyd_row_group *group; /* NULL: open a new one */
    uint32_t n_ranks;
    bool found;
};

static uint32_t needed(struct job *j, uint32_t seq)
{
    const uint32_t n_ranks = j->in->pool.n_ranks;
    uint32_t n = hyd_policy_ranks_needed(j->in->batch.length_tokens[seq],
                                         j->in->limits.cap_tokens);

    if (n < j->in->limits.min_degree) {
        n = j->in->limits.min_degree;
    }
    if (n > n_ranks) {
        j->note = "Megatron-Core refuses this batch: a degree rounded up to a power of "
                  "two exceeds the pool; here the whole pool is taken";
        n = n_ranks;
    }
    return n;
}

static struct size_class *class_of(struct job *j, uint32_t n_ranks)
{
    for (uint32_t k = 0; k < j->n_sizes; k++) {
        if (j->size[k].n_ranks == n_ranks) {
            return &j->size[k];
        }
    }
    return NULL;
}

static struct hyd_row_group *open_group(struct job *j, uint32_t n_ranks)
{
    struct hyd_row_group *group = hyd_row_open(&j->row, n_ranks);
    const uint32_t at = (uint32_t)(group - j->row.group);
    struct size_class *size = class_of(j, n_ranks);

    if (size == NULL) {
        /* Sizes are min_degree and powers of two, each doubled: at most 2 * 17. */
        size = &j->size[j->n_sizes++];
        *size = (struct size_class){n_ranks, at, at};
    } else {
        j->next_group[size->last] = at;
        size->last = at;
    }
    j->next_group[at] = HYD_ROW_END;
    return group;
}

/* The better of `best` and the groups of one size; strictly better only. */
static void try_size(struct job *j, double work, double tokens, double limit,
                     struct choice *best)
{
    const struct hyd_row *row = &j->row;
    const double cap = j->in->limits.cap_tokens;
    const uint32_t n_ranks = best->n_ranks;
    const struct size_class *size = class_of(j, n_ranks);
    uint32_t at = size != NULL ? size->first : HYD_ROW_END;
    struct choice found = *best;

    for (; at != HYD_ROW_END; at = j->next_group[at]) {
        struct hyd_row_group *group = &row->group[at];
        double hottest = group->load + work;

        if (group->tokens + tokens > cap) {
            continue;
        }
        hottest = hottest > row->max_load ? hottest : row->max_load;
        if (hottest <= limit && (!found.found || hottest < found.hottest)) {
            found = (struct choice){hottest, group, n_ranks, true};
            if (hottest <= row->max_load) {
                break;
            }
        }
    }
    if (row->n_ranks - row->n_used >= n_ranks) {
        const double hottest = work > row->max_load ? work : row->max_load;

        if (hottest <= limit && (!found.found || hottest < found.hottest)) {
            found = (struct choice){hottest, NULL, n_ranks, true};
        }
    }
    *best = found;
}

/* Place one sequence where it raises the hottest rank least; false: nowhere. */
static bool place(struct job *j, uint32_t seq, double limit)
{
    const double l = j->in->batch.length_tokens[seq];
    struct choice best = {.found = false};
    uint32_t taken = 0;

    for (uint32_t n = needed(j, seq); n <= j->row.n_ranks; n *= 2) {
        struct choice here = best;

        here.n_ranks = n;
        try_size(j, l * l / n, l / n, limit, &here);
        if (here.found && (!best.found || here.hottest < best.hottest)) {
            best = here;
            taken = n;
        }
        if (best.found && best.hottest <= j->row.max_load) {
            break;
        }
    }
    if (!best.found) {
        return false;
    }
    if (best.group == NULL) {
        best.group = open_group(j, taken);
    }
    hyd_row_add(&j->row, best.group, seq, l * l / taken, l / taken);
    return true;
}

/* All ranks in one group, filled with what fits in the order given. */
static size_t fill_pool(struct job *j, const uint32_t *seq, size_t n,
                        uint32_t *ret_left)
{
    const double n_ranks = j->row.n_ranks;
    struct hyd_row_group *all = NULL;
    size_t n_left = 0;

    hyd_row_clear(&j->row);
    all = hyd_row_open(&j->row, j->row.n_ranks);
    for (size_t i = 0; i < n; i++) {
        const double l = j->in->batch.length_tokens[seq[i]];

        if (all->tokens + l / n_ranks <= j->in->limits.cap_tokens) {
            hyd_row_add(&j->row, all, seq[i], l * l / n_ranks, l / n_ranks);
        } else {
            ret_left[n_left++] = seq[i];
        }
    }
    return n_left;
}

/*
 * One microbatch from the n sequences in seq, longest first. What is left over comes
 * back in ret_left, in order; the two may not overlap. Gives how many.
 */
static size_t fill_row(struct job *j, const uint32_t *seq, size_t n, uint32_t *ret_left)
{
    const double longest = j->in->batch.length_tokens[seq[0]];
    const double limit = longest * j->in->limits.cap_tokens * WORK_ALLOWANCE;
    const uint32_t n_first = needed(j, seq[0]);
    size_t n_left = 0;

    hyd_row_clear(&j->row);
    j->n_sizes = 0;
    hyd_row_add(&j->row, open_group(j, n_first), seq[0], longest * longest / n_first,
                longest / n_first);
    for (size_t i = 1; i < n; i++) {
        if (!place(j, seq[i], limit)) {
            ret_left[n_left++] = seq[i];
        }
    }
    while (j->row.n_used < j->row.n_ranks) {
        const enum hyd_row_widened widened = hyd_row_widen(&j->row);

        if (widened == HYD_ROW_PUSHED_OUT) {
            j->note =
                "Megatron-Core fails on this batch: filling empty ranks would "
                "leave the pool; here such a microbatch is one group of all ranks";
        }
        if (widened != HYD_ROW_WIDENED) {
            return fill_pool(j, seq, n, ret_left);
        }
    }
    return n_left;
}

/* Keep the row's groups as microbatch number `at`. */
static hyd_status keep(struct job *j, uint32_t at)
{
    struct hyd_row_group *group =
        hyd_arena_take(j->arena, j->row.n_groups, sizeof *group);

    if (group == NULL) {
        return hyd_error_set(j->err, HYD_ERR_NO_MEMORY, "no memory for a microbatch");
    }
    for (uint32_t g = 0; g < j->row.n_groups; g++) {
        group[g] = j->row.group[g];
    }
    j->cut[at] = (struct cut){group, j->row.n_groups};
    return HYD_OK;
}

/* Groups first .. last - 1 of a cut, widened to the pool, as microbatch number `at`. */
static hyd_status keep_part(struct job *j, struct cut cut, uint32_t first,
                            uint32_t last, uint32_t at)
{
    hyd_row_clear(&j->row);
    for (uint32_t g = first; g < last; g++) {
        *hyd_row_open(&j->row, cut.group[g].n_ranks) = cut.group[g];
    }
    while (j->row.n_used < j->row.n_ranks) {
        if (hyd_row_widen(&j->row) != HYD_ROW_WIDENED) {
            j->note = "Megatron-Core never ends on this batch: halves of a microbatch "
                      "cannot be doubled to fill the pool; here they are filled up";
            hyd_row_widen_some(&j->row);
        }
    }
    return keep(j, at);
}

/* Cut the microbatch at the first border from the middle on; false: one group only. */
static hyd_status cut_in_two(struct job *j, uint32_t at, bool *ret_done)
{
    const struct cut cut = j->cut[at];
    uint32_t n_ranks = 0;
    uint32_t g = 0;
    hyd_status st = HYD_OK;

    *ret_done = false;
    if (cut.n_groups < 2) {
        return HYD_OK;
    }
    while (n_ranks < j->row.n_ranks / 2) {
        n_ranks += cut.group[g++].n_ranks;
    }
    if (g == cut.n_groups) {
        g--;
    }
    st = keep_part(j, cut, 0, g, j->n_cuts);
    if (st == HYD_OK) {
        j->n_cuts++;
        st = keep_part(j, cut, g, cut.n_groups, at);
        *ret_done = true;
    }
    return st;
}

/* Make the number of microbatches a multiple of vpp_group. */
static hyd_status align(struct job *j)
{
    const uint32_t multiple = j->in->pool.vpp_group;
    uint32_t n_missing = (multiple - j->n_cuts % multiple) % multiple;
    uint32_t n_failed = 0;
    uint32_t at = j->n_cuts;

    while (n_missing > 0) {
        bool done = false;
        hyd_status st = HYD_OK;

        if (n_failed == j->n_cuts) {
            return hyd_error_value(j->err, HYD_ERR_INFEASIBLE, "vpp_group",
                                   "a divisor of the microbatches: no more can be cut",
                                   "%u with %u microbatches", multiple, j->n_cuts);
        }
        at = at == 0 ? j->n_cuts - 1 : at - 1;
        st = cut_in_two(j, at, &done);
        if (st != HYD_OK) {
            return st;
        }
        n_failed = done ? 0 : n_failed + 1;
        n_missing -= done ? 1 : 0;
    }
    return HYD_OK;
}

static hyd_status fill_all(struct job *j)
{
    const size_t n_seqs = j->in->batch.n_seqs;
    uint32_t *seq = hyd_arena_take(j->arena, n_seqs, sizeof *seq);
    uint32_t *left = hyd_arena_take(j->arena, n_seqs, sizeof *left);
    size_t n = n_seqs;

    /* Each microbatch takes one sequence at least; cutting makes some more. */
    j->cut_room = (uint32_t)n_seqs + j->in->pool.vpp_group;
    j->cut = hyd_arena_take(j->arena, j->cut_room, sizeof *j->cut);
    j->next_group =
        hyd_arena_take(j->arena, j->in->pool.n_ranks, sizeof *j->next_group);
    if (seq == NULL || left == NULL || j->cut == NULL || j->next_group == NULL ||
        hyd_policy_longest_first(&j->in->batch, j->arena, seq) != HYD_OK) {
        return hyd_error_set(j->err, HYD_ERR_NO_MEMORY, "no memory for the sequences");
    }
    while (n > 0) {
        uint32_t *swap = seq;

        n = fill_row(j, seq, n, left);
        if (keep(j, j->n_cuts) != HYD_OK) {
            return HYD_ERR_NO_MEMORY;
        }
        j->n_cuts++;
        seq = left;
        left = swap;
    }
    return align(j);
}

/* Megatron-Core makes process groups of 2^i < pool, i < log2(pool), and the pool. */
static void note_missing_groups(struct job *j, uint32_t n_ranks)
{
    uint32_t half = 1;

    while (half * 4 <= j->row.n_ranks) {
        half *= 2;
    }
    if (n_ranks != j->row.n_ranks &&
        (n_ranks > half || (n_ranks & (n_ranks - 1)) != 0) && j->note == NULL) {
        j->note = "Megatron-Core cannot run this plan: it makes no process groups of "
                  "some of its sizes";
    }
}

static hyd_status megatron_plan(const struct hyd_plan_input *in,
                                struct hyd_arena *arena, struct hyd_plan *ret_plan,
                                struct hyd_error *err)
{
    struct job j = {.in = in, .arena = arena, .err = err};
    struct hyd_plan_builder builder;
    hyd_status st = hyd_policy_check_no_max(in, err);

    if (st == HYD_OK) {
        st = hyd_policy_check_fit(in, in->pool.n_ranks, err);
    }
    if (st == HYD_OK) {
        st = hyd_row_init(&j.row, in->pool.n_ranks, in->batch.n_seqs, arena, err);
    }
    if (st == HYD_OK) {
        st = fill_all(&j);
    }
    if (st != HYD_OK) {
        return st;
    }
    hyd_plan_build_begin(&builder, arena, in);
    for (uint32_t m = 0; m < j.n_cuts; m++) {
        struct hyd_row row = j.row;

        row.group = j.cut[m].group;
        row.n_groups = j.cut[m].n_groups;
        hyd_row_emit(&row, &builder);
        for (uint32_t g = 0; g < row.n_groups; g++) {
            note_missing_groups(&j, row.group[g].n_ranks);
        }
    }
    st = hyd_plan_build_finish(&builder, ret_plan, err);
    if (st == HYD_OK) {
        ret_plan->note = j.note;
    }
    return st;
}

const struct hyd_policy_ops hyd_policy_megatron = {
    .name = "megatron",
    .summary = "degree from memory, packing aware; aligned power-of-two groups",
    .reproduces = "Megatron-LM dev d48bd6be0 (2026-08), default_dynamic_cp",
    .options = "",
    .cap_rule = HYD_CAP_CELL,
    .exclusive = true,
    .plan = megatron_plan,
};
