/*
 * impl.h - inside of the agent, shared by its files.
 *
 * What     agent.c   making and freeing
 *          loop.c    the background thread: machine, timer, notes from the ranks, the end
 *          attach.c  the stream: what the scheduler says becomes events
 *          send.c    what we say to it
 *          rank.c    a rank: orders from the loop, blocking, device and engine
 *          follow.c  a rank's thread in next(): follow the order, make the transport
 *          pass.c    a rank's thread in run(), exchange(), report()
 *
 *          The loop tells a rank what to do by writing its `order` and waking it; a rank
 *          answers with a note. Nothing else is shared but what says so here.
 * Threads  as marked at each field.
 */
#ifndef HYD_WORKER_AGENT_IMPL_H
#define HYD_WORKER_AGENT_IMPL_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include <uv.h>

#include "common/base/arena.h"
#include "common/rpc/bridge.h"
#include "common/rpc/client.h"
#include "common/sys/log.h"
#include "worker/agent/agent.h"
#include "worker/agent/convert.h"
#include "worker/agent/step.h"

/* Memory of a message that the loop and several ranks use; the last one frees it. */
struct hyd_agent_shared {
    atomic_uint n_users;
    struct hyd_arena arena;
    uint64_t start_ns; /* an assignment's: when it came */
    struct hyd_agent_plan plan;
    /* Members: addresses by world rank, and the first rank of each one's node. */
    const void **address;
    size_t *address_bytes;
    uint32_t *node_first;
};

/* What the loop wants from a rank. */
struct hyd_agent_order {
    uint64_t generation; /* 0: none yet */
    bool live; /* false: drop the generation */
    uint32_t epoch;
    uint32_t rank; /* in the world */
    uint32_t n_ranks;
    struct hyd_agent_job job;
    struct hyd_agent_shared *members; /* NULL: do not connect yet */
    struct hyd_agent_shared *work; /* NULL: no step */
    bool ended;
    hyd_status end_status;
    char end_reason[HYD_ERROR_TEXT_BYTES];
};

/* What a rank tells the loop. */
struct hyd_agent_note {
    struct hyd_agent_note *next;
    struct hyd_agent_event event;
    char reason[HYD_ERROR_TEXT_BYTES];
};

enum {
    HYD_AGENT_MAX_FDS = 2, /* that a rank waits for: device, network */
    HYD_AGENT_MAX_MISSING = 32, /* ranks that a heartbeat names, and a rank */
};

struct hyd_agent_rank {
    struct hyd_agent *agent;
    uint32_t local;
    int news_fd; /* eventfd: the order changed */
    atomic_ullong live; /* generation of the order while it is live, else 0 */
    atomic_ullong progress; /* for heartbeats */

    pthread_mutex_t lock; /* guards what follows, up to the blank line */
    struct hyd_agent_order order; /* written by the loop */
    struct hyd_transport *transport; /* written by the rank; the loop may abort it */
    void *address; /* copied from the transport */
    size_t address_bytes;
    uint32_t missing[HYD_AGENT_MAX_MISSING]; /* world ranks it does not reach yet */
    size_t n_missing;

    /* The rank's thread alone. */
    uint64_t generation; /* of the transport */
    bool joined;
    bool failed; /* told the loop that this generation is lost */
    uint32_t world_rank;
    uint32_t n_ranks;
    uint32_t epoch;
    struct hyd_compute *dev;
    struct hyd_attn *attn;
    struct hyd_agent_job job; /* that attn was made for */
    uint32_t split_seqs; /* ditto */
    struct hyd_agent_shared *work; /* the step that runs, or the last one */
    bool running;
    struct hyd_arena arena; /* of the step */
    struct hyd_agent_assignment assignment;
    double *blocked_s; /* [n_microbatches] */
    uint64_t blocked_ns; /* in the current pass */
    /* Written by the rank before its DONE note, read by the loop after it, and not
     * touched before the loop starts the next step. */
    struct hyd_agent_measured measured;
};

struct hyd_agent {
    const struct hyd_alloc *alloc;
    struct hyd_arena texts; /* copies of the config's */
    struct hyd_agent_config config;
    const struct hyd_compute_ops *compute;
    const struct hyd_transport_ops *transport;
    struct hyd_agent_rank *rank; /* [n_ranks] */
    pthread_t thread;
    bool thread_runs;
    sem_t started;
    struct hyd_error start_error;
    hyd_status start_status;
    atomic_uint n_stops; /* asked for by stop() */
    atomic_bool quit; /* by free() */

    pthread_mutex_t note_lock;
    struct hyd_agent_note *note_first;
    struct hyd_agent_note **note_end;

    /* The background thread alone. */
    uv_loop_t loop;
    uv_async_t wake; /* any thread may send */
    uv_timer_t timer;
    struct hyd_bridge *bridge;
    struct hyd_client *client; /* of the current stream */
    struct hyd_client_call *call;
    unsigned n_clients; /* not yet closed for good */
    unsigned n_stops_seen;
    bool closing;
    struct hyd_agent_machine machine;
    struct hyd_agent_job job; /* of the last Welcome */
    uint32_t world_rank[HYD_AGENT_MAX_RANKS];
    uint32_t n_world;
    struct hyd_agent_shared *members; /* the last that came */
    struct hyd_agent_shared *work;
};

/* --- agent.c --- */

struct hyd_agent_shared *hyd_agent_shared_create(const struct hyd_agent *agent);
struct hyd_agent_shared *hyd_agent_shared_use(struct hyd_agent_shared *shared);
void hyd_agent_shared_drop(struct hyd_agent *agent, struct hyd_agent_shared *shared);

/* --- loop.c --- */

void *hyd_agent_loop_main(void *arg);
void hyd_agent_on_wake(uv_async_t *wake);
struct hyd_agent_note *hyd_agent_take_notes(struct hyd_agent *agent);
/* Background thread: feed an event and carry out what comes of it. */
void hyd_agent_feed(struct hyd_agent *agent, const struct hyd_agent_event *event);
/* Any thread: the same, later. reason may be NULL. */
void hyd_agent_tell(struct hyd_agent *agent, const struct hyd_agent_event *event,
                    const char *reason);

/* --- attach.c, background thread --- */

void hyd_agent_stream_open(struct hyd_agent *agent);
void hyd_agent_stream_close(struct hyd_agent *agent);

/* --- send.c, background thread --- */

void hyd_agent_send_hello(struct hyd_agent *agent);
void hyd_agent_send_address(struct hyd_agent *agent, uint32_t local);
void hyd_agent_send_ready(struct hyd_agent *agent);
void hyd_agent_send_beat(struct hyd_agent *agent);
void hyd_agent_send_report(struct hyd_agent *agent,
                           const struct hyd_agent_update *update);
void hyd_agent_send_leaving(struct hyd_agent *agent);

/* --- rank.c --- */

hyd_status hyd_agent_rank_init(struct hyd_agent *agent, uint32_t local,
                               struct hyd_error *err);
void hyd_agent_rank_release(struct hyd_agent_rank *rank);
/* Background thread: change the order and wake the rank. */
void hyd_agent_rank_open(struct hyd_agent_rank *rank);
void hyd_agent_rank_join(struct hyd_agent_rank *rank);
void hyd_agent_rank_start(struct hyd_agent_rank *rank);
void hyd_agent_rank_abort(struct hyd_agent_rank *rank);
void hyd_agent_rank_end(struct hyd_agent_rank *rank, hyd_status status);
/* The rank's thread. */
bool hyd_agent_rank_live(const struct hyd_agent_rank *rank);
/* Block until the order changes, one of the descriptors has news (-1 never has) or time is
 * over. */
void hyd_agent_rank_block(struct hyd_agent_rank *rank, const int *fd, size_t n_fds,
                          int timeout_ms);
void hyd_agent_rank_tell(struct hyd_agent_rank *rank, enum hyd_agent_event_kind kind,
                         hyd_status status, const char *reason);
/* Close the transport, forget the step, tell the loop unless it knows. Returns status,
 * or CANCELLED when the generation was dropped from outside. */
hyd_status hyd_agent_rank_lose(struct hyd_agent_rank *rank, hyd_status status,
                               struct hyd_error *err);
void hyd_agent_rank_close_transport(struct hyd_agent_rank *rank);
hyd_status hyd_agent_rank_open_device(struct hyd_agent_rank *rank,
                                      struct hyd_error *err);
/* Make the engine anew; not inside a step. */
hyd_status hyd_agent_rank_make_engine(struct hyd_agent_rank *rank,
                                      const struct hyd_agent_job *job,
                                      uint32_t split_seqs, struct hyd_error *err);

/* --- pass.c --- */

/* Begin the step of the order; the assignment is then filled in. */
hyd_status hyd_agent_pass_begin(struct hyd_agent_rank *rank, struct hyd_error *err);

#endif
