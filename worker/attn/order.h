/*
 * order.h - a rank's whole step as one list of operations, and the proof that the lists
 *           of all ranks fit together.
 *
 * What     hyd_step_cursor walks a step in the order in which every rank runs it:
 *          microbatch, then forward of layers 0.., then backward of layers ..0, then the
 *          groups' parts (schedule.h). hyd_order_check runs the lists of all ranks against each other under
 *          the strictest contract (nothing is buffered, a rank's posted groups run one
 *          after the other): both ends of every pair must post the same sizes in the
 *          same order, and nobody may wait for ever.
 * Shapes   hyd_order_rank: one a rank, storage of the caller; each may see other groups
 *          (its own part of a plan, as it was told it).
 * Units    bytes.
 * Errors   HYD_ERR_INVALID   hyd_step_cursor_start: a group of the rank is malformed or
 *                            out of order
 *          HYD_ERR_LIMIT     more messages in one direction than HYD_GROUP_MAX_OPS
 *          HYD_ERR_INTERNAL  two ends disagree about a size, or a deadlock; the text
 *                            names both ends
 * Owns     nothing; model and groups are lent while a cursor is used.
 * Threads  reentrant.
 * Cost     O(messages * ranks) time, no memory.
 * Source   worker/README.md "Order".
 */
#ifndef HYD_WORKER_ATTN_ORDER_H
#define HYD_WORKER_ATTN_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "worker/attn/schedule.h"

/* The part of a step that a rank was told about; groups without it are skipped. */
struct hyd_step_in {
    const struct hyd_attn_model *model;
    const struct hyd_group *group; /* [n_groups], in the order of hyd_group_compare */
    size_t n_groups;
    uint32_t n_layers;
    bool backward;
};

struct hyd_step_cursor {
    struct hyd_step_in in;
    uint32_t rank;
    size_t first; /* groups of the current microbatch: [first, end) */
    size_t end;
    uint32_t number; /* pass inside the microbatch */
    struct hyd_schedule schedule; /* of the pass */
    struct hyd_schedule_item item;
    bool has_program; /* of the item */
    struct hyd_group_part part;
    struct hyd_program program;
};

/* Where in a step an operation belongs. */
struct hyd_step_place {
    size_t group; /* index into hyd_step_in.group */
    uint32_t part; /* of the group's n_parts */
    uint32_t n_parts;
    uint32_t microbatch;
    uint32_t layer;
    enum hyd_direction pass;
};

HYD_MUST_CHECK hyd_status hyd_step_cursor_start(struct hyd_step_cursor *cursor,
                                                const struct hyd_step_in *in,
                                                uint32_t rank, uint32_t n_ranks,
                                                struct hyd_error *err);

/* The next operation and its place; false at the end. */
bool hyd_step_next(struct hyd_step_cursor *cursor, struct hyd_program_op *ret_op,
                   struct hyd_step_place *ret_place);

/*
 * One line for people, without a line feed, cut to fit:
 *   m0 forward layer 0 group 1 part 0: post ring t=0 rank 3 <- ring0+0 2048 B, ...
 * The part is left out where a group has one only.
 * Returns the length that the whole line has.
 */
size_t hyd_step_print(const struct hyd_step_place *place,
                      const struct hyd_program_op *op, char *text, size_t text_bytes);

struct hyd_order_rank {
    struct hyd_step_cursor cursor; /* started by the caller */
    /* private */
    struct hyd_program_op op; /* the posted group that runs */
    struct hyd_step_place place;
    uint32_t n_open;
    bool done[HYD_PROGRAM_MAX_MESSAGES];
    bool finished;
};

struct hyd_order_figures {
    uint64_t n_groups; /* posted */
    uint64_t n_messages;
    uint64_t n_bytes;
    uint32_t most_messages; /* of one posted group in one direction */
};

/* rank[i] is rank i. *ret_figures is written on HYD_OK; may be NULL. */
HYD_MUST_CHECK hyd_status hyd_order_check(struct hyd_order_rank *rank, uint32_t n_ranks,
                                          struct hyd_order_figures *ret_figures,
                                          struct hyd_error *err);

#endif
