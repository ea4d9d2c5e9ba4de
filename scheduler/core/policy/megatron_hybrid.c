/*
 * megatron_hybrid.c - Megatron-Core's hybrid context parallelism, the first generation.
 *
 * A microbatch of the plan is one of its phases: every rank runs the sequences of its
 * group one after the other, unpacked, and all ranks meet at the end of the phase. So
 * the cap holds for a sequence, not for a cell, and the figures always have a barrier.
 * Sequences wait in buckets of like work, longest first; a phase takes from the first
 * bucket whose head finds a group or free ranks, and ends when the loads are level after
 * a smaller degree was used, or when nothing can be placed. Overload is then trimmed and
 * ranks left empty are filled by widening groups.
 *
 * Loads are counted as length^2 / ranks, exact in a double.
 */
#include "scheduler/core/policy.h"

#include "common/base/check.h"
#include "scheduler/core/policy_help.h"
#include "scheduler/core/row.h"

#include "common/base/banned.h"

/* Loads within this share of the largest count as level. */
static const double LEVEL = 0.05;
/* A bucket ends when the next sequence would lift it above this much of its target. */
static const double BUCKET_ALLOWANCE = 1.1;

struct job {
    const struct hyd_plan_input *in;
    struct hyd_row row;
    const uint32_t *seq; /* [n] what is left, in order */
    size_t n;
    size_t *bucket_end; /* bucket b is seq[head[b] .. bucket_end[b]) */
    size_t *head;
    size_t n_buckets;
    uint32_t *left; /* [n] what the phase leaves over */
    size_t n_left;
    const char *note;
};

static uint32_t needed(const struct job *j, uint32_t seq)
{
    return hyd_policy_ranks_needed(j->in->batch.length_tokens[seq],
                                   j->in->limits.cap_tokens);
}

static double work_on(const struct job *j, uint32_t seq, uint32_t n_ranks)
{
    const double l = j->in->batch.length_tokens[seq];

    return l * l / n_ranks;
}

/* Buckets of consecutive sequences with about the same work. */
static void make_buckets(struct job *j)
{
    uint64_t sizes = 0; /* bit k: some sequence needs 2^k ranks */
    double total = 0.0;
    double in_bucket = 0.0;
    size_t n_sizes = 0;
    size_t n_to_come = 0;

    for (size_t i = 0; i < j->n; i++) {
        const uint32_t n = needed(j, j->seq[i]);

        total += work_on(j, j->seq[i], n);
        n_sizes += (sizes & n) == 0 ? 1 : 0;
        sizes |= n;
    }
    n_to_come = n_sizes;
    j->n_buckets = 0;
    j->head[0] = 0;
    for (size_t i = 0; i < j->n; i++) {
        const double work = work_on(j, j->seq[i], needed(j, j->seq[i]));
        const bool full = in_bucket + work > total / (double)n_sizes * BUCKET_ALLOWANCE;

        /* Both sides move at each end of a bucket, as in the original. */
        if (i > j->head[j->n_buckets] &&
            (full || j->n - i + j->n_buckets <= n_to_come)) {
            j->bucket_end[j->n_buckets++] = i;
            j->head[j->n_buckets] = i;
            in_bucket = 0.0;
            n_to_come -= n_to_come > 0 ? 1 : 0;
        }
        in_bucket += work;
    }
    j->bucket_end[j->n_buckets++] = j->n;
}

/* The least loaded group of exactly this size, the first of equals; NULL: none. */
static struct hyd_row_group *least_loaded(const struct job *j, uint32_t n_ranks)
{
    struct hyd_row_group *found = NULL;

    for (uint32_t g = 0; g < j->row.n_groups; g++) {
        struct hyd_row_group *group = &j->row.group[g];

        if (group->n_ranks == n_ranks && (found == NULL || group->load < found->load)) {
            found = group;
        }
    }
    return found;
}

/* Is the difference between the loads small, counting free ranks as 0? */
static double least_load(const struct job *j)
{
    double least = j->row.n_used < j->row.n_ranks ? 0.0 : j->row.group[0].load;

    for (uint32_t g = 0; g < j->row.n_groups; g++) {
        least = j->row.group[g].load < least ? j->row.group[g].load : least;
    }
    return least;
}

static double most_load(const struct job *j, const struct hyd_row_group *less,
                        double by)
{
    double most = 0.0;

    for (uint32_t g = 0; g < j->row.n_groups; g++) {
        const struct hyd_row_group *group = &j->row.group[g];
        double load = group->load;

        load -= group == less ? by : 0.0;
        most = load > most ? load : most;
    }
    return most;
}

/* The first bucket whose head can be placed; n_buckets: none. */
static size_t pick_bucket(const struct job *j, size_t first)
{
    for (size_t b = first; b < j->n_buckets; b++) {
        uint32_t n = 0;

        if (j->head[b] == j->bucket_end[b]) {
            continue;
        }
        n = needed(j, j->seq[j->head[b]]);
        if (j->row.n_ranks - j->row.n_used >= n || least_loaded(j, n) != NULL) {
            return b;
        }
    }
    return j->n_buckets;
}

static void fill_phase(struct job *j)
{
    size_t first = 0;
    uint32_t first_size = 0;
    bool may_end = false;

    while (first < j->n_buckets) {
        const size_t b = pick_bucket(j, first);
        struct hyd_row_group *group = NULL;
        uint32_t seq = 0;
        uint32_t n = 0;

        if (b == j->n_buckets) {
            break;
        }
        seq = j->seq[j->head[b]];
        n = needed(j, seq);
        first_size = first_size == 0 ? n : first_size;
        /* New groups as long as ranks are free: an old one always carries something. */
        group = j->row.n_ranks - j->row.n_used >= n ? hyd_row_open(&j->row, n)
                                                    : least_loaded(j, n);
        hyd_assert(group != NULL);
        hyd_row_add(&j->row, group, seq, work_on(j, seq, n), 0.0);
        j->head[b]++;
        while (first < j->n_buckets && j->head[first] == j->bucket_end[first]) {
            first++;
        }
        may_end = may_end || n < first_size;
        if (may_end && first < j->n_buckets &&
            most_load(j, NULL, 0.0) - least_load(j) <=
                LEVEL * most_load(j, NULL, 0.0)) {
            break;
        }
    }
    for (size_t b = 0; b < j->n_buckets; b++) {
        while (j->head[b] < j->bucket_end[b]) {
            j->left[j->n_left++] = j->seq[j->head[b]++];
        }
    }
}

/* Take last sequences from the hottest group while that levels the loads. */
static void trim_overload(struct job *j)
{
    for (;;) {
        const double most = most_load(j, NULL, 0.0);
        const double least = least_load(j);
        struct hyd_row_group *hottest = &j->row.group[0];
        double work = 0.0;
        double new_least = 0.0;

        if (most - least <= LEVEL * most || !(least > 0.0)) {
            return;
        }
        for (uint32_t g = 0; g < j->row.n_groups && hottest->load < most; g++) {
            hottest = &j->row.group[g];
        }
        if (hottest->n_seqs <= 1) {
            return;
        }
        work = work_on(j, hottest->last_seq, hottest->n_ranks);
        new_least = hottest->load - work < least ? hottest->load - work : least;
        if (most_load(j, hottest, work) - new_least >= most - least) {
            return;
        }
        j->left[j->n_left++] = hyd_row_take_last(&j->row, hottest, work);
    }
}

static void run_phase(struct job *j, struct hyd_plan_builder *builder)
{
    hyd_row_clear(&j->row);
    j->n_left = 0;
    make_buckets(j);
    fill_phase(j);
    trim_overload(j);
    while (j->row.n_used < j->row.n_ranks) {
        if (hyd_row_widen(&j->row) != HYD_ROW_WIDENED) {
            j->note = "Megatron-Core fails on this batch: filling empty ranks would "
                      "leave the pool; here the last group takes what is free";
            hyd_row_widen_some(&j->row);
        }
    }
    hyd_row_emit(&j->row, builder);
}

static hyd_status check_input(const struct hyd_plan_input *in, struct hyd_error *err)
{
    hyd_status st = hyd_policy_check_no_min(in, err);

    if (st == HYD_OK) {
        st = hyd_policy_check_no_max(in, err);
    }
    if (st == HYD_OK) {
        st = hyd_policy_check_fit(in, in->pool.n_ranks, err);
    }
    if (st == HYD_OK && in->pool.pp > 1) {
        st = hyd_error_value(err, HYD_ERR_INVALID, "pp",
                             "1: phases of unequal length cannot be pipelined", "%u",
                             in->pool.pp);
    }
    for (size_t i = 0; st == HYD_OK && i < in->batch.n_seqs; i++) {
        const uint32_t n =
            hyd_policy_ranks_needed(in->batch.length_tokens[i], in->limits.cap_tokens);

        if (n > in->pool.n_ranks) {
            st = hyd_error_value(err, HYD_ERR_INFEASIBLE, "ranks",
                                 "at least the power of two that the longest needs",
                                 "%u, sequence %zu needs %u", in->pool.n_ranks, i, n);
        }
    }
    return st;
}

static hyd_status take_arrays(struct job *j, struct hyd_arena *arena,
                              uint32_t **ret_seq, struct hyd_error *err)
{
    const size_t n = j->in->batch.n_seqs;
    uint32_t *seq = hyd_arena_take(arena, n, sizeof *seq);
    hyd_status st = hyd_row_init(&j->row, j->in->pool.n_ranks, n, arena, err);

    j->left = hyd_arena_take(arena, n, sizeof *j->left);
    j->head = hyd_arena_take(arena, n + 1, sizeof *j->head);
    j->bucket_end = hyd_arena_take(arena, n + 1, sizeof *j->bucket_end);
    if (st != HYD_OK || seq == NULL || j->left == NULL || j->head == NULL ||
        j->bucket_end == NULL ||
        hyd_policy_longest_first(&j->in->batch, arena, seq) != HYD_OK) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for the sequences");
    }
    *ret_seq = seq;
    return HYD_OK;
}

static hyd_status megatron_hybrid_plan(const struct hyd_plan_input *in,
                                       struct hyd_arena *arena,
                                       struct hyd_plan *ret_plan, struct hyd_error *err)
{
    struct job j = {.in = in, .n = in->batch.n_seqs};
    struct hyd_plan_builder builder;
    uint32_t *seq = NULL;
    uint32_t n_phases = 0;
    hyd_status st = check_input(in, err);

    if (st == HYD_OK) {
        st = take_arrays(&j, arena, &seq, err);
    }
    if (st != HYD_OK) {
        return st;
    }
    hyd_plan_build_begin(&builder, arena, in);
    while (j.n > 0) {
        uint32_t *swap = seq;

        j.seq = seq;
        run_phase(&j, &builder);
        n_phases++;
        seq = j.left;
        j.left = swap;
        j.n = j.n_left;
    }
    if (n_phases % in->pool.vpp_group != 0) {
        return hyd_error_value(err, HYD_ERR_INVALID, "vpp_group",
                               "1: this policy knows no virtual stages", "%u",
                               in->pool.vpp_group);
    }
    st = hyd_plan_build_finish(&builder, ret_plan, err);
    if (st == HYD_OK) {
        ret_plan->note = j.note;
    }
    return st;
}

const struct hyd_policy_ops hyd_policy_megatron_hybrid = {
    .name = "megatron-hybrid",
    .summary = "first generation: phases of unpacked sequences with a barrier; pp 1",
    .reproduces = "Megatron-LM main d98e8a64 (2026-08), hybrid context parallelism",
    .options = "",
    .cap_rule = HYD_CAP_SHARD,
    .exclusive = true,
    .barrier = true,
    .plan = megatron_hybrid_plan,
};
