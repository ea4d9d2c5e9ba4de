/*
 * agent.h - take part in a job: assignments in, attention passes on own buffers, report.
 *
 * What     A trainer links this. One agent per process and node: a background thread
 *          holds the stream to the scheduler, sends heartbeats and wakes the ranks; each
 *          local rank has one thread of the caller's, which does
 *
 *            for (;;) {
 *                hyd_agent_next(agent, rank, -1, &step, &err);
 *                    for each microbatch: for each layer hyd_agent_run forward,
 *                    then for each layer from the last hyd_agent_run backward
 *                hyd_agent_report(agent, rank, NULL, &err);
 *            }
 *
 *          next() also carries out the epoch protocol (makes the transport, connects,
 *          warms links), so call it again soon after a failure. All ranks of a job must
 *          run the passes of a step in the same order; a rank may leave out those in
 *          which it has no row.
 *          Which token of which sequence is in which row of a cell: worker/attn/layout.h
 *          over step->attn.group.
 * Shapes   tensors of a pass: struct hyd_attn_io in worker/attn/attn.h.
 * Units    timeouts in ms, < 0: none.
 * Errors   HYD_ERR_INVALID      arguments, settings (names the field)
 *          HYD_ERR_UNAVAILABLE  run: a peer is gone. create: no such device
 *          HYD_ERR_CANCELLED    run, report: the step was given up; call next. next: the
 *                               agent has left, drained or stopped
 *          HYD_ERR_TIMEOUT      next: nothing came in time; call it again
 *          HYD_ERR_DENIED       next: the scheduler refused us, for good
 *          HYD_ERR_LIMIT        run: the pass needs more than the step said
 *          After a failed run the step is lost; its buffers are the caller's again.
 *          A step that fails here is reported; the scheduler decides what comes next.
 * Owns     the agent: threads, transports, engines. Lent to it: the log, until free. An
 *          assignment is lent until report or the next call of next().
 * Threads  create, free: one thread. next, run, report, fail: the thread of that rank;
 *          different ranks at the same time. stop: any thread, also a signal handler.
 * Source   worker/README.md "Agent".
 */
#ifndef HYD_WORKER_AGENT_AGENT_H
#define HYD_WORKER_AGENT_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/alloc.h"
#include "common/base/error.h"
#include "worker/attn/attn.h"

struct hyd_agent; /* opaque */
struct hyd_log;

enum hyd_agent_verify { HYD_VERIFY_OFF, HYD_VERIFY_SAMPLE, HYD_VERIFY_FULL };

struct hyd_agent_config {
    const char *connect; /* "unix:PATH" or "HOST:PORT" */
    const char *tls_ca, *tls_cert, *tls_key, *token_file; /* NULL: without */
    const char *job;
    const char *node; /* unique in the job */
    const char *compute; /* NULL: "auto" */
    const char *transport; /* NULL: "auto" */
    const char *links; /* ucx: see transport.h; NULL: the usual ones */
    const char *isa; /* cpu; NULL: "auto" */
    const char *fused; /* cuda: "off" or "cudnn"; NULL: "off" */
    struct hyd_log *log; /* NULL: silent */
    uint32_t n_ranks; /* local ranks, 1..64 */
    uint32_t first_rank; /* with fix_first_rank: world rank of local rank 0 */
    uint32_t n_threads; /* per rank; 0: max(1, cores / n_ranks) */
    bool fix_first_rank;
    bool dense; /* tensors of passes have no gaps between rows: saves memory */
};

/* One rank's part of a step. */
struct hyd_agent_assignment {
    uint64_t step;
    uint32_t epoch;
    bool backward; /* the pass is train, not forward */
    uint32_t n_microbatches;
    uint32_t n_layers; /* attention layers to run; a trainer runs its own number */
    uint64_t seed;
    enum hyd_agent_verify verify;
    double verify_flop; /* 0: not said */
    uint32_t rank; /* in the world */
    uint32_t n_ranks; /* of the world */
    struct hyd_attn_model model;
    struct hyd_attn_step attn; /* the groups that hold this rank, in order */
    const uint32_t *plan_group; /* [attn.n_groups]: position in its microbatch */
    size_t predicted_peak_bytes; /* of the engine's arena on this rank */
};

/* What a rank's owner adds to the measured figures. */
struct hyd_agent_check {
    uint32_t by_reference; /* sequences compared with the double reference */
    uint32_t by_single_rank; /* ... with a single rank's engine */
    uint32_t sampled_rows;
    uint32_t unchecked;
    double max_error; /* largest |difference| / largest |value| */
    uint64_t digest; /* of outputs, order-free: a sum */
};

HYD_MUST_CHECK hyd_status hyd_agent_create(const struct hyd_agent_config *config,
                                           const struct hyd_alloc *alloc,
                                           struct hyd_agent **ret_agent,
                                           struct hyd_error *err);

/* Leaves the job at once and waits for the background thread; no rank's thread may be
 * inside a call. NULL is fine. */
void hyd_agent_free(struct hyd_agent *agent);

/* Leave after the step that runs; called again: leave now. next() then fails with
 * HYD_ERR_CANCELLED. */
void hyd_agent_stop(struct hyd_agent *agent);

/* Wait for this rank's next assignment. */
HYD_MUST_CHECK hyd_status hyd_agent_next(
    struct hyd_agent *agent, uint32_t local_rank, int timeout_ms,
    const struct hyd_agent_assignment **ret_assignment, struct hyd_error *err);

/* Run one pass over this rank's cell to its end. A cell without rows is done at once. On a
 * card: what fills the tensors must have finished, since our streams wait for nobody's; they
 * begin at multiples of 16 bytes; what is written is there on return. */
HYD_MUST_CHECK hyd_status hyd_agent_run(struct hyd_agent *agent, uint32_t local_rank,
                                        const struct hyd_attn_pass *pass,
                                        const struct hyd_attn_io *io,
                                        struct hyd_error *err);

/* This rank's step is done. check may be NULL. */
HYD_MUST_CHECK hyd_status hyd_agent_report(struct hyd_agent *agent, uint32_t local_rank,
                                           const struct hyd_agent_check *check,
                                           struct hyd_error *err);

/* The owner cannot go on with this step (its own failure, no peer's). */
void hyd_agent_fail(struct hyd_agent *agent, uint32_t local_rank, const char *reason);

/* The rank's device, for memory of its kind (struct hyd_buf). Valid after the first
 * next() of the rank returned an assignment. */
struct hyd_compute *hyd_agent_device(struct hyd_agent *agent, uint32_t local_rank,
                                     const struct hyd_compute_ops **ret_ops);

/*
 * Exchange outside of passes, on the same links and under the same contract (order,
 * sizes, at most 16 operations a direction): post and wait. For gathering outputs; every
 * member of the exchange must make it at the same point between its passes.
 */
HYD_MUST_CHECK hyd_status hyd_agent_exchange(struct hyd_agent *agent,
                                             uint32_t local_rank,
                                             const struct hyd_op *op, size_t n_ops,
                                             struct hyd_error *err);

/*
 * Run `body` for each local rank in a thread of its own, and come back when all have ended.
 * For callers without threads of theirs.
 *
 * Returns  the status of the first rank whose body ended with neither HYD_OK nor
 *          HYD_ERR_CANCELLED (it left, or was asked to), else HYD_OK;
 *          HYD_ERR_UNAVAILABLE: no thread for a rank; the agent is stopped then
 */
HYD_MUST_CHECK hyd_status hyd_agent_run_ranks(
    struct hyd_agent *agent,
    hyd_status (*body)(struct hyd_agent *agent, uint32_t local_rank, void *ctx),
    void *ctx, struct hyd_error *err);

/* Tell the scheduler's eye that this rank is busy with work of its own (making data,
 * checking): its progress counter moves. Any thread. */
void hyd_agent_touch(struct hyd_agent *agent, uint32_t local_rank);

/* HYD_ERR_CANCELLED when the step was given up: for long work between passes. */
HYD_MUST_CHECK hyd_status hyd_agent_still_wanted(struct hyd_agent *agent,
                                                 uint32_t local_rank);

#endif
