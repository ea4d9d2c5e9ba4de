/*
 * relax.c - Relax: one context-parallel degree for a whole microbatch.
 *
 * The pool is cut into static groups of `cp` ranks. Sequences are dealt to the groups by
 * Karmarkar-Karp on tokens; each group packs its share into the same number of
 * microbatches, again by Karmarkar-Karp, by first fit where that breaks the capacity.
 * With dynamic=on, groups sort their microbatches by longest sequence, and each
 * microbatch is run at the degree that its longest sequence over all groups needs,
 * doubled until no sub-group is empty; sub-groups are cut by tokens or by count.
 *
 * The cap is kept for the static group as a whole only, which is what Relax does: a cell
 * may hold more, and the figures count such cells. A group with too few sequences for
 * all microbatches runs a copy of its lightest one as a dummy; here it has none to run.
 * Relax's groups wait for each other twice a microbatch to agree on the degree: plan with
 * dp_barrier to see that.
 */
#include "scheduler/core/policy.h"

#include <string.h>

#include "common/base/sort.h"
#include "scheduler/core/partition.h"
#include "scheduler/core/plan_build.h"
#include "scheduler/core/policy_help.h"

#include "common/base/banned.h"

/* One static group: its sequences, and which microbatch each is in. */
struct share {
    uint32_t *seq; /* [n] ascending ids */
    uint32_t *tokens; /* [n] */
    uint32_t *part; /* [n] microbatch, in the order of forming */
    uint32_t n;
    uint32_t n_parts; /* that are real; the rest of the K are dummies */
    uint32_t *order; /* [K] order[m] = the part that runs m-th */
    uint32_t lightest; /* the part that dummies copy */
};

struct job {
    const struct hyd_plan_input *in;
    struct hyd_arena *arena;
    struct hyd_error *err;
    uint32_t cp;
    uint32_t n_shares; /* DP */
    uint64_t room; /* tokens of a static group in a microbatch */
    struct share *share;
    uint32_t n_microbatches; /* K */
    uint32_t *member; /* [n_seqs] scratch: indexes of one part */
    uint32_t *member_tokens;
    uint32_t *member_part;
    const char *note;
};

static hyd_status no_memory(const struct job *j)
{
    return hyd_error_set(j->err, HYD_ERR_NO_MEMORY, "no memory for the microbatches");
}

/* The largest degree: given, or derived from the longest context there can be. */
static hyd_status choose_cp(struct job *j)
{
    const struct hyd_plan_input *in = j->in;
    uint32_t context = in->options.max_context_tokens;

    for (size_t i = 0; context == 0 && i < in->batch.n_seqs; i++) {
        const uint32_t tokens = in->batch.length_tokens[i];

        j->cp = hyd_policy_ranks_needed(tokens, in->limits.cap_tokens) > j->cp
                    ? hyd_policy_ranks_needed(tokens, in->limits.cap_tokens)
                    : j->cp;
    }
    if (context != 0) {
        j->cp = hyd_policy_ranks_needed(context, in->limits.cap_tokens);
    }
    if (in->options.cp != 0) {
        j->cp = in->options.cp;
    } else if (in->pool.n_ranks % j->cp != 0) {
        return hyd_error_value(
            j->err, HYD_ERR_INVALID, "ranks",
            "a multiple of cp: raise cap_tokens or give a smaller cp",
            "%u with a derived cp of %u", in->pool.n_ranks, j->cp);
    }
    if (in->options.dynamic && (j->cp & (j->cp - 1)) != 0) {
        return hyd_error_value(j->err, HYD_ERR_INVALID, "cp",
                               "a power of two with dynamic=on", "%u", j->cp);
    }
    return hyd_policy_check_cp(in, j->cp, j->err);
}

/* Deal sequences to the static groups by Karmarkar-Karp on tokens. */
static hyd_status deal(struct job *j)
{
    const struct hyd_batch *batch = &j->in->batch;
    const uint32_t n = (uint32_t)batch->n_seqs;
    const bool equal = n % j->n_shares == 0;
    uint32_t *part = hyd_arena_take(j->arena, n, sizeof *part);

    if (part == NULL || hyd_partition_differencing(batch->length_tokens, n, j->n_shares,
                                                   equal, j->arena, part) != HYD_OK) {
        return no_memory(j);
    }
    if (!equal) {
        j->note = "Relax refuses this batch: the sequences do not divide by its data "
                  "parallel size; here shares have unequal counts";
    }
    for (uint32_t i = 0; i < n; i++) {
        j->share[part[i]].n++;
    }
    for (uint32_t s = 0; s < j->n_shares; s++) {
        struct share *share = &j->share[s];

        share->seq = hyd_arena_take(j->arena, share->n, sizeof *share->seq);
        share->tokens = hyd_arena_take(j->arena, share->n, sizeof *share->tokens);
        share->part = hyd_arena_take(j->arena, share->n, sizeof *share->part);
        if (share->seq == NULL || share->tokens == NULL || share->part == NULL) {
            return no_memory(j);
        }
        share->n = 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct share *share = &j->share[part[i]];

        share->seq[share->n] = i;
        share->tokens[share->n++] = batch->length_tokens[i];
    }
    return HYD_OK;
}

/* The largest number of first-fit bins that any group needs, rounded up. */
static hyd_status count_microbatches(struct job *j)
{
    const uint32_t multiple = j->in->pool.vpp_group;

    for (uint32_t s = 0; s < j->n_shares; s++) {
        struct share *share = &j->share[s];
        uint32_t n_bins = 0;

        if (hyd_partition_first_fit(share->tokens, share->n, j->room, j->arena,
                                    share->part, &n_bins) != HYD_OK) {
            return no_memory(j);
        }
        j->n_microbatches = n_bins > j->n_microbatches ? n_bins : j->n_microbatches;
    }
    j->n_microbatches = (j->n_microbatches + multiple - 1) / multiple * multiple;
    return HYD_OK;
}

/* Tokens and sequences of each part of a share. */
static void sum_parts(const struct share *share, uint64_t *ret_sum, uint32_t *ret_n)
{
    memset(ret_sum, 0, share->n_parts * sizeof *ret_sum);
    memset(ret_n, 0, share->n_parts * sizeof *ret_n);
    for (uint32_t i = 0; i < share->n; i++) {
        ret_sum[share->part[i]] += share->tokens[i];
        ret_n[share->part[i]]++;
    }
}

/* Move the longest sequence of the fullest part that has several to a new part. */
static bool split_fullest(struct share *share, uint64_t *sum, uint32_t *n)
{
    uint32_t fullest = share->n_parts;
    uint32_t longest = share->n;

    for (uint32_t p = 0; p < share->n_parts; p++) {
        if (n[p] > 1 && (fullest == share->n_parts || sum[p] > sum[fullest])) {
            fullest = p;
        }
    }
    if (fullest == share->n_parts) {
        return false;
    }
    for (uint32_t i = 0; i < share->n; i++) {
        if (share->part[i] == fullest &&
            (longest == share->n || share->tokens[i] > share->tokens[longest])) {
            longest = i;
        }
    }
    share->part[longest] = share->n_parts;
    sum[share->n_parts] = share->tokens[longest];
    n[share->n_parts] = 1;
    sum[fullest] -= share->tokens[longest];
    n[fullest]--;
    share->n_parts++;
    return true;
}

/* Pack one share into min(n, K) parts. */
static hyd_status pack(struct job *j, struct share *share)
{
    const uint32_t n_wanted =
        share->n < j->n_microbatches ? share->n : j->n_microbatches;
    uint64_t *sum = hyd_arena_take(j->arena, share->n, sizeof *sum);
    uint32_t *n = hyd_arena_take(j->arena, share->n, sizeof *n);
    bool over = false;

    if (sum == NULL || n == NULL) {
        return no_memory(j);
    }
    share->n_parts = n_wanted;
    if (n_wanted == 0) {
        return HYD_OK;
    }
    if (hyd_partition_differencing(share->tokens, share->n, n_wanted, false, j->arena,
                                   share->part) != HYD_OK) {
        return no_memory(j);
    }
    sum_parts(share, sum, n);
    for (uint32_t p = 0; p < n_wanted; p++) {
        over = over || (sum[p] > j->room && n[p] > 1);
    }
    if (over) {
        if (hyd_partition_first_fit(share->tokens, share->n, j->room, j->arena,
                                    share->part, &share->n_parts) != HYD_OK) {
            return no_memory(j);
        }
        sum_parts(share, sum, n);
        while (share->n_parts < n_wanted && split_fullest(share, sum, n)) {
        }
    }
    for (uint32_t p = 1; p < share->n_parts; p++) {
        share->lightest = sum[p] < sum[share->lightest] ? p : share->lightest;
    }
    return HYD_OK;
}

/* A dummy runs what the lightest part holds; it counts for the degree, as in Relax. */
static uint32_t part_at(const struct share *share, uint32_t m)
{
    return share->order[m] < share->n_parts ? share->order[m] : share->lightest;
}

static uint32_t longest_of(const struct share *share, uint32_t part, uint32_t *ret_n)
{
    uint32_t longest = 0;

    *ret_n = 0;
    for (uint32_t i = 0; i < share->n; i++) {
        if (share->part[i] == part) {
            longest = share->tokens[i] > longest ? share->tokens[i] : longest;
            ++*ret_n;
        }
    }
    return longest;
}

/* The order in which a share's microbatches run. */
static hyd_status order_parts(struct job *j, struct share *share)
{
    const uint32_t n = j->n_microbatches;
    uint64_t *key = hyd_arena_take(j->arena, n, sizeof *key);
    uint64_t *scratch = hyd_arena_take(j->arena, n, sizeof *scratch);

    share->order = hyd_arena_take(j->arena, n, sizeof *share->order);
    if (key == NULL || scratch == NULL || share->order == NULL) {
        return no_memory(j);
    }
    for (uint32_t m = 0; m < n; m++) {
        share->order[m] = m;
    }
    if (!j->in->options.dynamic || share->n == 0) {
        return HYD_OK;
    }
    for (uint32_t m = 0; m < n; m++) {
        uint32_t n_members = 0;

        key[m] = (uint64_t)longest_of(share, part_at(share, m), &n_members) << 32 | m;
    }
    hyd_sort_u64(key, scratch, n);
    for (uint32_t m = 0; m < n; m++) {
        share->order[m] = (uint32_t)key[m];
    }
    return HYD_OK;
}

/* The degree of microbatch m for the whole pool. */
static uint32_t degree_at(const struct job *j, uint32_t m)
{
    uint32_t longest = 0;
    uint32_t fewest = UINT32_MAX;
    uint32_t degree = 0;

    if (!j->in->options.dynamic) {
        return j->cp;
    }
    for (uint32_t s = 0; s < j->n_shares; s++) {
        const struct share *share = &j->share[s];
        uint32_t n = 0;
        uint32_t here = 0;

        if (share->n > 0) {
            here = longest_of(share, part_at(share, m), &n);
            longest = here > longest ? here : longest;
            fewest = n < fewest ? n : fewest;
        }
    }
    degree = hyd_policy_ranks_needed(longest, j->in->limits.cap_tokens);
    while (degree < j->cp && j->cp / degree > fewest) {
        degree *= 2;
    }
    return degree < j->cp ? degree : j->cp;
}

/* Cut one microbatch of one share into sub-groups, and write them. */
static hyd_status write_part(struct job *j, struct hyd_plan_builder *builder,
                             uint32_t s, uint32_t m, uint32_t degree)
{
    const struct share *share = &j->share[s];
    const uint32_t n_groups = j->cp / degree;
    uint32_t n = 0;

    if (share->order[m] >= share->n_parts) {
        return HYD_OK; /* a dummy */
    }
    for (uint32_t i = 0; i < share->n; i++) {
        if (share->part[i] == share->order[m]) {
            j->member[n] = share->seq[i];
            j->member_tokens[n] = share->tokens[i];
            /* By count: the first n % n_groups get one more. */
            n++;
        }
    }
    if (n_groups == 1) {
        memset(j->member_part, 0, n * sizeof *j->member_part);
    } else if (j->in->options.split == HYD_SPLIT_COUNT) {
        const uint32_t each = n / n_groups;
        const uint32_t longer = n % n_groups * (each + 1);

        for (uint32_t i = 0; i < n; i++) {
            j->member_part[i] =
                i < longer ? i / (each + 1) : n % n_groups + (i - longer) / each;
        }
    } else if (hyd_partition_differencing(j->member_tokens, n, n_groups, false,
                                          j->arena, j->member_part) != HYD_OK) {
        return no_memory(j);
    }
    for (uint32_t g = 0; g < n_groups; g++) {
        hyd_plan_build_block(builder, s * j->cp + g * degree, degree);
        for (uint32_t i = 0; i < n; i++) {
            if (j->member_part[i] == g) {
                hyd_plan_build_id(builder, j->member[i]);
            }
        }
    }
    return HYD_OK;
}

static hyd_status form_microbatches(struct job *j)
{
    const size_t n_seqs = j->in->batch.n_seqs;
    hyd_status st = HYD_OK;

    j->share = hyd_arena_take_zeroed(j->arena, j->n_shares, sizeof *j->share);
    j->member = hyd_arena_take(j->arena, n_seqs, sizeof *j->member);
    j->member_tokens = hyd_arena_take(j->arena, n_seqs, sizeof *j->member_tokens);
    j->member_part = hyd_arena_take(j->arena, n_seqs, sizeof *j->member_part);
    if (j->share == NULL || j->member == NULL || j->member_tokens == NULL ||
        j->member_part == NULL) {
        return no_memory(j);
    }
    st = deal(j);
    if (st == HYD_OK) {
        st = count_microbatches(j);
    }
    for (uint32_t s = 0; st == HYD_OK && s < j->n_shares; s++) {
        st = pack(j, &j->share[s]);
        if (st == HYD_OK) {
            st = order_parts(j, &j->share[s]);
        }
    }
    return st;
}

static hyd_status relax_plan(const struct hyd_plan_input *in, struct hyd_arena *arena,
                             struct hyd_plan *ret_plan, struct hyd_error *err)
{
    struct job j = {.in = in, .arena = arena, .err = err, .cp = 1};
    struct hyd_plan_builder builder;
    hyd_status st = hyd_policy_check_no_min(in, err);

    if (st == HYD_OK) {
        st = choose_cp(&j);
    }
    if (st == HYD_OK) {
        st = hyd_policy_check_fit(in, j.cp, err);
    }
    if (st != HYD_OK) {
        return st;
    }
    j.n_shares = in->pool.n_ranks / j.cp;
    j.room = (uint64_t)in->limits.cap_tokens * j.cp;
    if (in->batch.n_seqs < j.n_shares) {
        return hyd_error_value(err, HYD_ERR_INFEASIBLE, "lengths",
                               "at least one sequence for each data-parallel rank",
                               "%zu with ranks / cp = %u", in->batch.n_seqs,
                               j.n_shares);
    }
    st = form_microbatches(&j);
    if (st != HYD_OK) {
        return st;
    }
    hyd_plan_build_begin(&builder, arena, in);
    for (uint32_t m = 0; st == HYD_OK && m < j.n_microbatches; m++) {
        const uint32_t degree = degree_at(&j, m);

        hyd_plan_build_microbatch(&builder);
        for (uint32_t s = 0; st == HYD_OK && s < j.n_shares; s++) {
            st = write_part(&j, &builder, s, m, degree);
        }
    }
    if (st == HYD_OK) {
        st = hyd_plan_build_finish(&builder, ret_plan, err);
    }
    if (st == HYD_OK) {
        ret_plan->note = j.note;
    }
    return st;
}

const struct hyd_policy_ops hyd_policy_relax = {
    .name = "relax",
    .summary = "one degree a microbatch for the whole pool; caps kept by static groups",
    .reproduces = "Relax (redai-studio) cp_utils 55634dac, data 0011f56b",
    .options = "cp max_context_tokens split dynamic",
    .cap_rule = HYD_CAP_BLOCK,
    .plan = relax_plan,
};
