/*
 * pipeline.h - the order of operations of a training pipeline, as a flat program.
 *
 * What     For p stages, V chunks a stage and M microbatches: which stage runs which
 *          forward or backward when, in an order in which every operation comes after
 *          what it waits for. 1F1B, interleaved 1F1B in Megatron's order (groups of
 *          vpp_group microbatches walk through the chunks), forward only, and a
 *          zero-bubble order with the backward split in input and weight gradients.
 *          simulate.c runs programs over a plan; bound.c finds critical paths in them.
 * Shapes   op[n_ops]; position k of an operation is a place in the order of execution,
 *          0 .. M-1, not a microbatch number. Results travel between operations in
 *          n_slots slots, each with one writer and one reader at a time.
 * Units    share: part of the microbatch's time on this stage; all shares of a stage and
 *          position add up to 1.
 * Errors   HYD_ERR_INVALID    zero bubble with V > 1, or V > 1 and M no multiple of the
 *                             chunk group: that order would wait for itself
 *          HYD_ERR_LIMIT      more than HYD_MAX_PIPELINE_OPS operations
 *          HYD_ERR_NO_MEMORY
 * Owns     op[] is taken from the arena.
 * Threads  reentrant.
 * Cost     O(p * V * M); zero bubble O(p * p * M).
 * Source   scheduler/README.md "The pipeline".
 */
#ifndef HYD_SCHEDULER_CORE_PIPELINE_H
#define HYD_SCHEDULER_CORE_PIPELINE_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "scheduler/core/types.h"

struct hyd_pipeline {
    uint32_t n_stages; /* p */
    uint32_t n_chunks; /* V */
    uint32_t chunk_group; /* microbatches of a group that walks through the chunks */
    uint32_t n_microbatches; /* M */
    double backward_over_forward; /* 2, or 3 with full recomputation */
    bool forward_only;
    bool zero_bubble; /* needs V = 1 */
    const double *stage_cost; /* [n_stages] relative, borrowed; NULL: all 1 */
};

/* What the stages' costs amount to. */
struct hyd_pipeline_costs {
    double sum;
    double least;
    double most;
};

enum { HYD_NO_SLOT = UINT16_MAX, HYD_MAX_PIPELINE_OPS = 1 << 23 };
static const uint32_t HYD_NO_OP = UINT32_MAX;

struct hyd_pipeline_op {
    uint32_t position;
    uint16_t stage;
    uint16_t kind; /* enum hyd_pipeline_kind: index into share[] */
    uint16_t wait_slot; /* must be over before; HYD_NO_SLOT: nothing but the stage */
    uint16_t
        done_slot; /* gets the end; may equal wait_slot; HYD_NO_SLOT: nobody waits */
    uint32_t stage_op; /* the stage's operation before this one, or HYD_NO_OP */
    uint32_t wait_op; /* the operation that wrote wait_slot, or HYD_NO_OP */
};

enum hyd_pipeline_kind {
    HYD_PIPELINE_FORWARD,
    HYD_PIPELINE_BACKWARD,
    HYD_PIPELINE_WEIGHT,
    HYD_PIPELINE_KINDS
};

struct hyd_pipeline_program {
    struct hyd_pipeline shape;
    double share[HYD_PIPELINE_KINDS]; /* of one operation, on a stage of cost 1 */
    double *stage_share; /* [n_stages][HYD_PIPELINE_KINDS] with the stage's cost */
    struct hyd_pipeline_op *op;
    size_t n_ops;
    uint32_t n_slots;
};

/* The pipeline that an input describes, for M microbatches. Stages that all cost 1 have
 * no stage_cost, whether the input says so or says nothing. */
struct hyd_pipeline hyd_pipeline_of(const struct hyd_plan_input *in,
                                    uint32_t n_microbatches);

double hyd_pipeline_stage_cost(const struct hyd_pipeline *shape, uint32_t stage);

struct hyd_pipeline_costs hyd_pipeline_costs(const struct hyd_pipeline *shape);

/* Can a profile of unequal microbatches be faster than equal ones? Not where there is
 * nothing to fill, and not where equal machines run one after the other. */
bool hyd_pipeline_gains(const struct hyd_pipeline *shape);

/*
 * A cell on its way up through all stages and down again, in cells: weight gradients hold
 * up nobody but the first stage, where the way ends.
 */
double hyd_pipeline_through(const struct hyd_pipeline_program *program);

/* What an operation takes of a cell. */
static inline double hyd_pipeline_share(const struct hyd_pipeline_program *program,
                                        const struct hyd_pipeline_op *op)
{
    return program->stage_share[op->stage * HYD_PIPELINE_KINDS + op->kind];
}

HYD_MUST_CHECK hyd_status hyd_pipeline_program(const struct hyd_pipeline *shape,
                                               struct hyd_arena *arena,
                                               struct hyd_pipeline_program *ret_program,
                                               struct hyd_error *err);

#endif
