/*
 * row.h - one microbatch of groups that stand side by side in the pool.
 *
 * What     Groups fill the pool from rank 0 on in the order in which they were opened;
 *          free ranks are at the end. Each holds a list of sequences, in order. When
 *          ranks are left over, groups are widened until none is: Megatron-Core's way of
 *          having no empty rank.
 * Shapes   group[n_ranks]; next[n_seqs] and before[n_seqs] link the sequences of a group.
 * Errors   HYD_ERR_NO_MEMORY
 * Owns     arrays come from the arena.
 * Threads  one thread at a time.
 */
#ifndef HYD_SCHEDULER_CORE_ROW_H
#define HYD_SCHEDULER_CORE_ROW_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "scheduler/core/plan_build.h"

static const uint32_t HYD_ROW_END = UINT32_MAX;

struct hyd_row_group {
    uint32_t n_ranks;
    uint32_t n_seqs;
    uint32_t first_seq; /* HYD_ROW_END: none */
    uint32_t last_seq;
    double load; /* whatever the policy counts, of each rank */
    double tokens; /* of each rank */
};

struct hyd_row {
    uint32_t n_ranks;
    uint32_t n_used; /* ranks in groups */
    uint32_t n_groups;
    struct hyd_row_group *group;
    uint32_t *next;
    uint32_t *before;
    double max_load;
};

HYD_MUST_CHECK hyd_status hyd_row_init(struct hyd_row *row, uint32_t n_ranks,
                                       size_t n_seqs, struct hyd_arena *arena,
                                       struct hyd_error *err);

/* Close all groups. */
void hyd_row_clear(struct hyd_row *row);

/* Open a group on the first free ranks, of which there must be enough. */
struct hyd_row_group *hyd_row_open(struct hyd_row *row, uint32_t n_ranks);

/* Put a sequence at the end of a group. load and tokens are what it adds to each rank. */
void hyd_row_add(struct hyd_row *row, struct hyd_row_group *group, uint32_t seq,
                 double load, double tokens);

/* Take a group's last sequence away again; the group must not be empty. */
uint32_t hyd_row_take_last(struct hyd_row *row, struct hyd_row_group *group,
                           double load);

enum hyd_row_widened {
    HYD_ROW_WIDENED,
    HYD_ROW_NO_ROOM, /* the group itself would leave the pool */
    HYD_ROW_PUSHED_OUT, /* a group behind it would: here Megatron-Core fails */
};

/*
 * Widen the first group of the smallest size to twice its ranks, at most the pool, and
 * push the groups behind it. Nothing is done when the free ranks do not suffice.
 */
enum hyd_row_widened hyd_row_widen(struct hyd_row *row);

/* The same, taking what is free when that is less. There must be a group and a free
 * rank. */
void hyd_row_widen_some(struct hyd_row *row);

/* Append the row to a plan as its next microbatch. */
void hyd_row_emit(const struct hyd_row *row, struct hyd_plan_builder *builder);

#endif
