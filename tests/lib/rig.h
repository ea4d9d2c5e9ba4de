/*
 * rig.h - the parts of an engine rig; private to engine_rig.c, rig_threads.c and
 *         rig_tensors.c.
 *
 * What     engine_rig.c opens, advances, checks and closes one rank, and goes round all of
 *          them; rig_threads.c gives each a thread. rig_tensors.c makes the caller's
 *          tensors from a counter-based generator, compares results and looks for bytes
 *          that nobody may touch.
 *          Functions that return a text return NULL, or why they failed.
 * Threads  one at a time per rank; rig_check and rig_compare when all have stopped, and
 *          behind rig_fetch_tensors.
 */
#ifndef HYD_TESTS_LIB_RIG_H
#define HYD_TESTS_LIB_RIG_H

#include "tests/lib/engine_rig.h"
#include "tests/lib/fault_alloc.h"

enum { RIG_N_TENSORS = 8 };

/* Order of struct hyd_attn_io. */
enum rig_tensor { RIG_Q, RIG_K, RIG_V, RIG_O, RIG_DOUT, RIG_DQ, RIG_DK, RIG_DV };

struct rig_rank {
    struct hyd_compute *dev;
    const struct hyd_transport_ops *net;
    struct hyd_transport *transport;
    struct hyd_transport_counters before; /* warming counts too */
    struct hyd_attn *attn;
    struct hyd_fault_alloc alloc;
    size_t n_allocs; /* when the step began, host and device */
    struct hyd_group group[HYD_RIG_MAX_GROUPS];
    size_t n_groups;
    struct hyd_attn_figures figures[HYD_RIG_MAX_GROUPS];
    struct hyd_attn_step step;
    /* What the test fills and reads, and what the engine is given: the same where the
     * device's memory is the host's. */
    struct hyd_buf buf[HYD_RIG_MAX_MICROBATCHES][HYD_RIG_MAX_LAYERS][RIG_N_TENSORS];
    struct hyd_buf lent[HYD_RIG_MAX_MICROBATCHES][HYD_RIG_MAX_LAYERS][RIG_N_TENSORS];
    uint32_t next_pass;
    enum hyd_attn_state state; /* of the last advance */
    bool in_pass;
    bool finished;
};

void rig_reset(struct hyd_rig *rig);

/* A rank's transport inside this process; with chaos if the rig has it. */
struct hyd_transport *rig_open_self(const struct hyd_rig *rig, uint32_t i,
                                    uint32_t epoch);

/* Begin a step; makes the engine when there is none. The transport stays the caller's. A rank that failed to open is to be closed, too. */
const char *rig_open(const struct hyd_rig *rig, struct rig_rank *rank, uint32_t i,
                     const struct hyd_transport_ops *net,
                     struct hyd_transport *transport);
/* Once nothing is posted any more. */
void rig_close(const struct hyd_rig *rig, struct rig_rank *rank);

/* One advance; *ret_moved is set when it was not in vain. */
const char *rig_advance(const struct hyd_rig *rig, struct rig_rank *rank,
                        bool *ret_moved);

/* Bytes and memory of a rank that has finished; its transport is still open. */
const char *rig_check(struct hyd_rig *rig, const struct rig_rank *rank, uint32_t i);

void rig_make_tensors(const struct hyd_rig *rig, struct rig_rank *rank, uint32_t own);
/* Bring what the engine wrote back to where the test reads it. */
void rig_fetch_tensors(const struct hyd_rig *rig, struct rig_rank *rank);
void rig_free_tensors(const struct hyd_rig *rig, struct rig_rank *rank);

struct hyd_attn_io rig_io(const struct hyd_rig *rig, struct rig_rank *rank,
                          const struct hyd_attn_pass *pass);

const char *rig_check_padding(const struct hyd_rig *rig, const struct rig_rank *rank,
                              uint32_t own);

const char *rig_compare(struct hyd_rig *rig, struct rig_rank *rank);

#endif
