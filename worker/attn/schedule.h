/*
 * schedule.h - in which order a rank works through the groups of one pass.
 *
 * What     A group with an exchange is worked through in parts, some of its sequences
 *          and, where these are too many rows, some of their heads at a time; and each
 *          part in three stretches: send (pack and post the exchange in), work (ring and
 *          kernels, up to the post of the exchange out), take (what the exchange out
 *          brought). A rank does, over its groups of several ranks,
 *
 *            send the first part of every group;
 *            for each group, for each of its parts:
 *                send the part after it, work, take the part before it;
 *            take the last part;
 *
 *          and then its groups of one rank. So the exchange of a part travels while the
 *          one before it is computed. Which posts come after which is the same for all
 *          ranks (worker/README.md "Order"): it is the order of the groups, twice.
 *          How many parts: the one rule is in schedule.c, equation P1.
 * Errors   none; groups must be in the order of hyd_group_compare.
 * Owns     nothing; groups are lent while a cursor is used.
 * Threads  reentrant.
 * Cost     O(groups) to start, O(1) for an item apart from groups that are skipped.
 * Source   worker/README.md "Program" (equations P1, P2) and "Order".
 */
#ifndef HYD_WORKER_ATTN_SCHEDULE_H
#define HYD_WORKER_ATTN_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/attn/program.h"

/* A part of a group is at least this many rows of a member with all their heads, or the
 * whole group: below that a message is all latency. */
enum { HYD_PART_MIN_ROWS = 32, HYD_MAX_PARTS = 4 };

/* Parts of as many sequences at most, HYD_MAX_PARTS of heads for each; HYD_MAX_PARTS - 1
 * more than by sequences alone. */
enum { HYD_MAX_GROUP_PARTS = 2 * HYD_MAX_PARTS - 1 };

struct hyd_group_part {
    struct hyd_group group; /* of the part's sequences */
    struct hyd_head_cut cut; /* its heads */
};

/* 1 for a group without exchange (u = 1). */
uint32_t hyd_group_n_parts(const struct hyd_attn_model *model,
                           const struct hyd_group *group);

/* Parts follow each other in listing order of their sequences, so that rows of a shard
 * do, too; those of the same sequences in the order of their heads. */
struct hyd_group_part hyd_group_part(const struct hyd_attn_model *model,
                                     const struct hyd_group *group, uint32_t part);

/* Is the part after it one of other sequences? */
bool hyd_group_part_is_last(const struct hyd_group_part *part);

/* Most parts with an exchange or a ring in a cell of so many rows and split sequences. */
uint32_t hyd_cell_most_parts(const struct hyd_attn_model *model, uint64_t n_rows,
                             uint32_t split_seqs);

struct hyd_schedule_item {
    size_t group;
    uint32_t part;
    uint32_t number; /* of the part, over the rank's groups of several ranks; of a group
                        of one rank it means nothing */
    enum hyd_stretch stretch;
};

/* Fields are private. */
struct hyd_schedule {
    const struct hyd_attn_model *model;
    const struct hyd_group *group;
    size_t first, end;
    uint32_t rank;
    uint32_t phase;
    uint32_t step; /* of the current part */
    struct hyd_schedule_item now, last;
    bool has_last;
};

/* Groups [first, end) of one microbatch; those without the rank are skipped. */
void hyd_schedule_start(struct hyd_schedule *schedule,
                        const struct hyd_attn_model *model,
                        const struct hyd_group *group, const size_t first_end[2],
                        uint32_t rank);

/* The next stretch of a part; false at the end. Of a group of one rank there is one
 * item, to be run to the end of its program. */
bool hyd_schedule_next(struct hyd_schedule *schedule,
                       struct hyd_schedule_item *ret_item);

#endif
