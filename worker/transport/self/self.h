/*
 * self.h - worlds and posted groups of the transport inside one process; private.
 *
 * What     world.c opens and closes ranks, transport_self.c matches operations.
 * Owns     a world its list of ranks; a transport its records, the posted and the spare.
 * Threads  everything behind the world's lock.
 */
#ifndef HYD_WORKER_TRANSPORT_SELF_SELF_H
#define HYD_WORKER_TRANSPORT_SELF_SELF_H

#include <pthread.h>

#include "worker/transport/self/transport_self.h"

enum { HYD_SELF_NAME_BYTES = 64 };

/* A posted group; freed records are kept for the next. */
struct hyd_self_record {
    struct hyd_self_record *next;
    struct hyd_op_group *group; /* the caller's; not touched once n_open is 0 */
    struct hyd_op op[2 * HYD_GROUP_MAX_OPS];
    bool done[2 * HYD_GROUP_MAX_OPS];
    uint32_t n_ops;
    uint32_t n_open;
};

struct hyd_self_member {
    struct hyd_transport *transport; /* NULL before open and after close */
    bool gone; /* was open once */
};

struct hyd_self_world {
    struct hyd_self_world *next;
    char session[HYD_SELF_NAME_BYTES];
    uint32_t epoch;
    uint32_t n_ranks;
    uint32_t n_open;
    pthread_mutex_t lock;
    struct hyd_self_member *member; /* [n_ranks] */
};

struct hyd_transport {
    struct hyd_self_world *world;
    uint32_t rank;
    int fd;
    bool aborted;
    bool news; /* something happened that its thread has not seen */
    bool *cancelled; /* [n_ranks]: cancel_peer */
    struct hyd_self_record *first; /* posted; the first one runs */
    struct hyd_self_record *last;
    struct hyd_self_record *spare;
    struct hyd_transport_counters counters;
    uint64_t chaos; /* 0: none; else the state of its numbers */
};

hyd_status hyd_self_open(const struct hyd_transport_config *config,
                         struct hyd_transport **ret_transport, struct hyd_error *err);
void hyd_self_close(struct hyd_transport *transport);

/* Tell a rank's thread that there is news. Under the lock. */
void hyd_self_wake(struct hyd_transport *transport);

#endif
