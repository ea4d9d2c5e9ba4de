/*
 * attn.h - runs one rank's part of a step on a compute and a transport object.
 *
 * What     Ulysses inside a ring, forward and backward, for any groups that this rank is
 *          in. The engine runs *passes*: forward or backward of one layer of one
 *          microbatch, over all groups of the rank's cell, in the order of
 *          hyd_group_compare. A pass is a state machine: `advance` does a bounded piece
 *          and never blocks, so that its thread can wait on file descriptors.
 *          What backward needs of forward (the exchanged q, k, v and o, the lse) is
 *          kept in the engine's arena. Groups of one rank need no network; they run
 *          while others wait.
 *
 *            hyd_attn_create                    once; sizes and takes all memory
 *            hyd_attn_set_transport             once an epoch
 *            hyd_attn_begin_step                groups of this rank
 *              hyd_attn_start, advance ... DONE   each (microbatch, layer, pass)
 *            hyd_attn_end_step
 *
 *          Every rank of the world must start the same passes in the same order (it may
 *          leave out those in which it has no group). With one stage that is: for each
 *          microbatch forward of layers 0..L-1, then backward of layers L-1..0; a
 *          pipeline may have several microbatches between forward and backward
 *          (n_saved).
 * Shapes   A tensor of a cell is [cell rows][heads][d], row order as in layout.h, heads
 *          of all of the rank's tensor-parallel share; consecutive heads are adjacent,
 *          rows are row_stride_bytes apart (a slice of a fused qkv is fine).
 *          q, o, dout, dq: n_heads; k, v, dk, dv: n_kv_heads.
 * Units    bytes; seconds by the clock that was handed in.
 * Errors   HYD_ERR_INVALID      arguments; the text names the group and the value
 *          HYD_ERR_LIMIT        the step needs more than the limits allow for
 *          HYD_ERR_UNSUPPORTED  shape that the compute backend lacks
 *          HYD_ERR_UNAVAILABLE  a peer is gone; HYD_ERR_CANCELLED: transport aborted
 *          HYD_ERR_NO_MEMORY    hyd_attn_create only
 *          After an error from advance the step is lost: close the transport (posted
 *          buffers are lent to it until then), hyd_attn_end_step, and go on in the next
 *          epoch with the same engine.
 * Owns     the engine: its arena. Lent to it: compute and transport objects; the arrays
 *          of a step until end_step; the tensors of a pass until it is done.
 * Threads  one thread at a time; hyd_attn_progress from any thread.
 * Cost     memory does not depend on r (worker/README.md equation 14); nothing is
 *          allocated after create.
 * Source   worker/README.md "Mathematics", "Program", "Order", "Memory".
 */
#ifndef HYD_WORKER_ATTN_ATTN_H
#define HYD_WORKER_ATTN_ATTN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/alloc.h"
#include "common/base/error.h"
#include "worker/attn/layout.h"
#include "worker/attn/program.h"
#include "worker/compute/compute.h"
#include "worker/transport/transport.h"

/* What the arena is sized for. */
struct hyd_attn_limits {
    uint32_t cell_tokens; /* cap C: sum of l/d over the sequences of a cell */
    /* Sequences of a cell with d > 1; each may hold 2 rows more, and be some parts with
     * places of their own (schedule.h). */
    uint32_t split_seqs;
    uint32_t max_u; /* largest Ulysses degree; <= min(16, n_heads) */
    uint32_t max_r; /* largest ring degree; 0: any. 1 saves the buffers of rings */
    bool dense; /* tensors have no gaps between rows: with u = 1 nothing is copied */
    /* Passes between their forward and their backward: layers * microbatches in
     * flight. 0: forward only, nothing is kept. */
    uint32_t n_saved;
};

/* Seconds from any start; must not run backwards. `now_s` NULL: times stay 0. */
struct hyd_attn_clock {
    double (*now_s)(void *ctx);
    void *ctx;
};

/* How long advance may compute in one go; 0 stands for the default. */
struct hyd_attn_slices {
    double flop; /* 1e10: 0.2 s of a fast core */
    double fill_flop; /* 1.5e9: of a group of one rank, put into a wait of another */
    uint32_t min_rows; /* 256: queries that share the kernel's preparation of keys */
};

struct hyd_attn_config {
    struct hyd_attn_model model;
    struct hyd_attn_limits limits;
    const struct hyd_compute_ops *compute;
    struct hyd_compute *dev; /* lent until free; set_scratch is the engine's */
    struct hyd_attn_clock clock;
    struct hyd_attn_slices slices;
};

/* What one group's shard cost on this rank. Added into, over all passes of a step. */
struct hyd_attn_figures {
    double compute_s; /* inside kernels, all threads */
    double copy_s; /* packing, placing, summing, rounding */
    double wait_s; /* nothing to compute, data not here */
    uint64_t sent_bytes;
    uint64_t received_bytes;
    /* Received bytes whose wait found them missing: not hidden behind compute. Their
     * seconds are wait_s. With several parts under way a wait is for one of them. */
    uint64_t exposed_bytes;
    uint64_t pairs; /* visible (query, key) pairs times local q heads, forward */
};

struct hyd_attn_step {
    const struct hyd_group *group; /* [n_groups] that hold this rank, in order */
    size_t n_groups;
    struct hyd_attn_figures *figures; /* [n_groups], or NULL; zeroed by begin_step */
    bool backward; /* passes have a backward */
};

struct hyd_attn_tensor {
    struct hyd_buf buf; /* of the compute object's memory */
    size_t row_stride_bytes; /* 0: dense */
};

/*
 * Tensors of one pass, cell rows. Forward reads q, k, v and writes o. Backward reads q,
 * k, v, o as forward left them, and dout, and writes dq, dk, dv. Outputs overlap nothing.
 * A cell without rows may leave the buffers empty.
 */
struct hyd_attn_io {
    struct hyd_attn_tensor q, k, v, o, dout, dq, dk, dv;
};

struct hyd_attn_pass {
    uint32_t microbatch;
    uint32_t layer;
    enum hyd_direction pass;
};

enum hyd_attn_state {
    HYD_ATTN_DONE, /* the pass is complete; its outputs may be read */
    HYD_ATTN_BUSY, /* call advance again */
    HYD_ATTN_WAIT_NETWORK, /* nothing to do until the transport's fd says so */
    HYD_ATTN_WAIT_DEVICE, /* nothing to do until the device's fd says so */
};

struct hyd_attn_memory {
    size_t arena_bytes; /* allocated: hyd_attn_arena_bytes and the kernels' scratch */
    size_t scratch_bytes; /* of these, for kernels */
    size_t peak_bytes; /* most that was in use, scratch included, since begin_step */
};

struct hyd_attn; /* opaque */

/* Device bytes that the limits ask for, without the kernels' scratch: an upper bound of
 * hyd_attn_step_bytes over every step that keeps the limits (equations 13-15). */
size_t hyd_attn_arena_bytes(const struct hyd_attn_model *model,
                            const struct hyd_attn_limits *limits);

/* Device bytes that a step will use at its peak on `rank`: the prediction that
 * hyd_attn_memory's peak is held against. `layers`: passes of each microbatch. */
size_t hyd_attn_step_bytes(const struct hyd_attn_model *model,
                           const struct hyd_attn_step *step, uint32_t rank,
                           uint32_t layers);

HYD_MUST_CHECK hyd_status hyd_attn_create(const struct hyd_attn_config *config,
                                          const struct hyd_alloc *alloc,
                                          struct hyd_attn **ret_attn,
                                          struct hyd_error *err);
/* NULL is fine. Nothing may be posted any more. */
void hyd_attn_free(struct hyd_attn *attn);

/* Be this rank of this world from now on; not inside a step. Lent until the next call or
 * free. ops and transport may be NULL: then every group must have one rank. */
HYD_MUST_CHECK hyd_status hyd_attn_set_transport(struct hyd_attn *attn,
                                                 const struct hyd_transport_ops *ops,
                                                 struct hyd_transport *transport,
                                                 uint32_t rank, uint32_t n_ranks,
                                                 struct hyd_error *err);

HYD_MUST_CHECK hyd_status hyd_attn_begin_step(struct hyd_attn *attn,
                                              const struct hyd_attn_step *step,
                                              struct hyd_error *err);
/* Forgets what was kept; fine after errors, and when no step was begun. In the middle of
 * a pass it waits for the device. */
void hyd_attn_end_step(struct hyd_attn *attn);

/* Rows of this rank's cell of a microbatch: what the tensors of a pass must hold. */
uint32_t hyd_attn_cell_rows(const struct hyd_attn_step *step, uint32_t rank,
                            uint32_t microbatch);

/* The largest of its cells. */
uint32_t hyd_attn_most_rows(const struct hyd_attn_step *step, uint32_t rank);

/* Bytes of the eight tensors of a cell of n_rows, and these one behind the other in a
 * buffer of as many bytes, rows without gaps. For callers whose tensors need no place of
 * their own. */
size_t hyd_attn_io_bytes(const struct hyd_attn_model *model, uint32_t n_rows);
struct hyd_attn_io hyd_attn_io_place(const struct hyd_attn_model *model,
                                     uint32_t n_rows, struct hyd_buf buf);

/* Begin a pass; the one before must be done. Backward needs its own forward before. A
 * microbatch without groups is done at once. */
HYD_MUST_CHECK hyd_status hyd_attn_start(struct hyd_attn *attn,
                                         const struct hyd_attn_pass *pass,
                                         const struct hyd_attn_io *io,
                                         struct hyd_error *err);

HYD_MUST_CHECK hyd_status hyd_attn_advance(struct hyd_attn *attn,
                                           enum hyd_attn_state *ret_state,
                                           struct hyd_error *err);

/* Grows whenever something was done: the rank's progress counter. */
uint64_t hyd_attn_progress(const struct hyd_attn *attn);

void hyd_attn_memory(const struct hyd_attn *attn, struct hyd_attn_memory *ret_memory);

#endif
