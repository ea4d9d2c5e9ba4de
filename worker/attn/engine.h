/*
 * engine.h - the engine's state; private to attn.c, lane.c and local.c.
 *
 * What     attn.c owns the engine's life and its steps, pass.c slots and passes; lane.c
 *          follows a schedule (schedule.h) through the programs of parts of groups,
 *          slice.c runs their computes; local.c and exchange.c move rows between the
 *          caller's tensors, the staging and the regions of memory.h.
 * Threads  one thread at a time; `n_done` may be read from any.
 */
#ifndef HYD_WORKER_ATTN_ENGINE_H
#define HYD_WORKER_ATTN_ENGINE_H

#include <stdatomic.h>

#include "worker/attn/attn.h"
#include "worker/attn/memory.h"
#include "worker/attn/schedule.h"

enum { HYD_LANE_UNITS = 256 };

/* A part of a group in a pass, and where its bytes lie. Parts that use the
 * network have places of their own, since several are under way at a time. */
struct hyd_part {
    size_t group; /* of the step */
    struct hyd_group_part of;
    uint64_t work_at; /* arena offsets */
    uint64_t tensor_at;
    uint64_t lse_at;
    uint32_t cell_row; /* first row of the part in the caller's tensors */
    struct hyd_op_group posted;
    bool in_flight;
};

/* A lane works through some groups of the step, all of one microbatch. */
struct hyd_lane {
    struct hyd_schedule schedule;
    struct hyd_schedule_item item;
    struct hyd_part *part; /* of the item */
    bool has_program;
    bool has_op; /* `op` is begun and not finished */
    struct hyd_program program;
    struct hyd_program_op op;
    struct hyd_memory_in in;
    struct hyd_memory_map map;
    struct hyd_heads heads;
    uint32_t n_rows; /* of the shard */
    uint32_t n_ring_rows; /* of the own block */
    /* rectangles of the current compute */
    struct hyd_rects rects;
    struct hyd_attn_unit unit[HYD_LANE_UNITS];
    size_t n_units;
    size_t next_unit;
    bool compute_begun;
    bool blocked; /* the current wait found nothing to do */
    double blocked_from_s;
};

struct hyd_slot {
    bool used;
    bool in_place;
    bool forward_done;
    uint32_t microbatch;
    uint32_t layer;
    uint64_t bytes; /* in use */
};

struct hyd_attn {
    const struct hyd_alloc *alloc;
    struct hyd_attn_config config;
    float scale;
    struct hyd_memory_parts parts;
    struct hyd_buf arena;
    uint64_t scratch_bytes;
    struct hyd_slot *slot; /* [parts.n_slots] */
    struct hyd_part *part; /* [parts.max_parts]: of the pass, that use the network */
    uint32_t n_parts;
    struct hyd_part alone; /* the group of one rank that lane 1 is at */
    const struct hyd_transport_ops *net;
    struct hyd_transport *transport;
    uint32_t rank;
    uint32_t n_ranks;
    bool in_step;
    struct hyd_attn_step step;
    /* the pass */
    bool running;
    hyd_status failed;
    struct hyd_attn_pass pass;
    struct hyd_attn_io io;
    struct hyd_slot *pass_slot;
    struct hyd_lane lane[2]; /* 0: groups that use the network; 1: groups of one rank */
    uint64_t peak_bytes;
    atomic_uint_fast64_t n_done;
};

enum hyd_lane_result {
    HYD_LANE_IDLE,
    HYD_LANE_WORKED,
    HYD_LANE_NETWORK,
    HYD_LANE_DEVICE
};

/* Point a lane at its groups. */
void hyd_lane_begin(const struct hyd_attn *attn, struct hyd_lane *lane, size_t group,
                    size_t end);

/* Do one operation, or one slice of a compute. `slice_flop` bounds the slice. */
HYD_MUST_CHECK hyd_status hyd_lane_run(struct hyd_attn *attn, struct hyd_lane *lane,
                                       double slice_flop,
                                       enum hyd_lane_result *ret_result,
                                       struct hyd_error *err);

/* `bytes` bytes of a region from `offset` on, wherever it lies. */
struct hyd_buf hyd_lane_region(const struct hyd_attn *attn, const struct hyd_lane *lane,
                               enum hyd_region region, uint64_t offset, uint64_t bytes);

/* A slice of the lane's COMPUTE; has_op falls when it was the last. */
HYD_MUST_CHECK hyd_status hyd_compute_run(struct hyd_attn *attn, struct hyd_lane *lane,
                                          double slice_flop);

/* PACK, UNPACK, BEGIN, ADD and FINISH. */
HYD_MUST_CHECK hyd_status hyd_local_run(struct hyd_attn *attn, struct hyd_lane *lane);

/* Of these, PACK and UNPACK. */
HYD_MUST_CHECK hyd_status hyd_exchange_run(struct hyd_attn *attn,
                                           struct hyd_lane *lane);

/* Is anything under way, and has any of it failed? */
bool hyd_lane_in_flight(const struct hyd_attn *attn);
HYD_MUST_CHECK hyd_status hyd_lane_test(struct hyd_attn *attn);

/* Shape of the lane's group for the kernels. */
struct hyd_attn_shape hyd_lane_shape(const struct hyd_attn *attn,
                                     const struct hyd_lane *lane);

struct hyd_attn_figures *hyd_lane_figures(struct hyd_attn *attn,
                                          const struct hyd_lane *lane);

/* The lane waits and there is nothing else to do: from now on it counts. */
void hyd_lane_block(struct hyd_attn *attn, struct hyd_lane *lane);

/* Bytes between rows of a tensor with this many heads. */
size_t hyd_tensor_stride(const struct hyd_attn_model *model,
                         const struct hyd_attn_tensor *tensor, uint32_t n_heads);
bool hyd_tensor_is_dense(const struct hyd_attn_model *model,
                         const struct hyd_attn_tensor *tensor, uint32_t n_heads);

#endif
