/* fake_nccl.c - see fake_gpu.h: communicators between threads of this process. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "tests/fake_gpu/fake_gpu.h"

enum { MAX_OPS = 64, MAX_RANKS = 16, MOST_POLLS = 4 };

struct op {
    struct op *next; /* in its pair's queue */
    bool is_recv;
    int peer;
    void *at;
    size_t bytes;
    bool done;
};

struct queue {
    struct op *first, **end;
};

struct world {
    struct world *next;
    ncclUniqueId id;
    int n_ranks, n_joined, n_left;
    struct queue sends[MAX_RANKS][MAX_RANKS]; /* [source][target] */
    struct queue recvs[MAX_RANKS][MAX_RANKS];
    bool linked[MAX_RANKS][MAX_RANKS][2];
};

struct group {
    struct ncclComm *comm;
    cudaStream_t stream;
    int n_ops;
    struct op op[MAX_OPS];
};

struct ncclComm {
    struct world *world;
    int rank;
    bool aborted;
    int n_running; /* groups in the stream */
    struct group *launching;
    int polls_left;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct world *worlds;
static struct fake_nccl_knobs knobs;
static struct fake_nccl_seen seen;
static size_t n_comms;
static unsigned n_ids, n_polls;

/* The group between ncclGroupStart and ncclGroupEnd of this thread. */
static _Thread_local struct group *building;
static _Thread_local bool in_group;

static void enter(void)
{
    (void)pthread_mutex_lock(&lock);
}

static void leave(void)
{
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
}

void fake_nccl_set_knobs(const struct fake_nccl_knobs *new_knobs)
{
    enter();
    knobs = *new_knobs;
    leave();
}

struct fake_nccl_seen fake_nccl_seen(void)
{
    struct fake_nccl_seen copy;

    enter();
    copy = seen;
    leave();
    return copy;
}

void fake_nccl_reset(void)
{
    enter();
    knobs = (struct fake_nccl_knobs){0};
    seen = (struct fake_nccl_seen){0};
    leave();
}

size_t fake_nccl_left(void)
{
    size_t n;

    enter();
    n = n_comms;
    leave();
    return n;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclRemoteError ? "remote process exited" : "a fake error";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *ret_id)
{
    memset(ret_id, 0, sizeof *ret_id);
    enter();
    n_ids++;
    memcpy(ret_id->internal, &n_ids, sizeof n_ids);
    leave();
    return ncclSuccess;
}

static struct world *world_of(const ncclUniqueId *id, int n_ranks)
{
    struct world *world = worlds;

    while (world != NULL && memcmp(&world->id, id, sizeof *id) != 0) {
        world = world->next;
    }
    if (world == NULL) {
        world = calloc(1, sizeof *world);
        hyd_assert(world != NULL && n_ranks <= MAX_RANKS);
        world->id = *id;
        world->n_ranks = n_ranks;
        for (int i = 0; i < n_ranks * n_ranks; i++) {
            struct queue *pair[2] = {&world->sends[i / n_ranks][i % n_ranks],
                                     &world->recvs[i / n_ranks][i % n_ranks]};

            for (int side = 0; side < 2; side++) {
                pair[side]->end = &pair[side]->first;
            }
        }
        world->next = worlds;
        worlds = world;
    }
    return world;
}

static void leave_world(struct world *world)
{
    if (++world->n_left < world->n_joined) {
        return;
    }
    for (struct world **link = &worlds; *link != NULL; link = &(*link)->next) {
        if (*link == world) {
            *link = world->next;
            free(world);
            return;
        }
    }
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *ret_comm, int n_ranks, ncclUniqueId id,
                                    int rank, ncclConfig_t *config)
{
    struct ncclComm *comm = calloc(1, sizeof *comm);

    hyd_assert(comm != NULL && config->blocking == 0);
    enter();
    seen.config = *config;
    comm->world = world_of(&id, n_ranks);
    comm->rank = rank;
    comm->world->n_joined++;
    n_comms++;
    leave();
    *ret_comm = comm;
    return ncclInProgress;
}

/* Take what both ends have posted, in order. */
static void match(struct world *world, int source, int target)
{
    struct queue *sends = &world->sends[source][target];
    struct queue *recvs = &world->recvs[source][target];

    while (sends->first != NULL && recvs->first != NULL) {
        struct op *send = sends->first, *recv = recvs->first;

        hyd_assert(send->bytes == recv->bytes); /* NCCL would hang or mix data */
        if (send->bytes > 0) {
            memcpy(recv->at, send->at, send->bytes);
        }
        sends->first = send->next;
        recvs->first = recv->next;
        if (sends->first == NULL) {
            sends->end = &sends->first;
        }
        if (recvs->first == NULL) {
            recvs->end = &recvs->first;
        }
        send->done = recv->done = true;
    }
}

static struct queue *queue_of(const struct ncclComm *comm, const struct op *op)
{
    return op->is_recv ? &comm->world->recvs[op->peer][comm->rank]
                       : &comm->world->sends[comm->rank][op->peer];
}

static void withdraw(const struct ncclComm *comm, struct op *op)
{
    struct queue *queue = queue_of(comm, op);

    for (struct op **link = &queue->first; *link != NULL; link = &(*link)->next) {
        if (*link == op) {
            *link = op->next;
            if (*link == NULL) {
                queue->end = link;
            }
            return;
        }
    }
}

static bool all_done(const struct group *group)
{
    for (int i = 0; i < group->n_ops; i++) {
        if (!group->op[i].done) {
            return false;
        }
    }
    return true;
}

/* On the stream's thread: block it until all is matched, or the communicator ends. */
static void run_group(void *ctx)
{
    struct group *group = ctx;
    struct ncclComm *comm = group->comm;

    enter();
    for (int i = 0; i < group->n_ops && !comm->aborted; i++) {
        struct op *op = &group->op[i];
        struct queue *queue = queue_of(comm, op);

        op->next = NULL;
        *queue->end = op;
        queue->end = &op->next;
        match(comm->world, op->is_recv ? op->peer : comm->rank,
              op->is_recv ? comm->rank : op->peer);
    }
    (void)pthread_cond_broadcast(&changed);
    while (!comm->aborted && !all_done(group)) {
        (void)pthread_cond_wait(&changed, &lock);
    }
    for (int i = 0; i < group->n_ops; i++) {
        if (!group->op[i].done) {
            withdraw(comm, &group->op[i]);
        }
    }
    comm->n_running--;
    leave();
    free(group);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *ret_state)
{
    struct group *ready = NULL;

    enter();
    *ret_state = ncclSuccess;
    if (knobs.async_error != ncclSuccess) {
        *ret_state = knobs.async_error;
    } else if (knobs.never_joins || comm->world->n_joined < comm->world->n_ranks ||
               (comm->launching != NULL && comm->polls_left-- > 0)) {
        *ret_state = ncclInProgress;
    } else {
        ready = comm->launching;
        comm->launching = NULL;
    }
    if (ready != NULL) {
        comm->n_running++;
    }
    leave();
    if (ready != NULL) {
        (void)fake_stream_put(ready->stream, run_group, ready);
    }
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    enter();
    seen.n_aborts++;
    comm->aborted = true;
    (void)pthread_cond_broadcast(&changed);
    while (knobs.abort_hangs || comm->n_running > 0) {
        (void)pthread_cond_wait(&changed, &lock);
    }
    leave_world(comm->world);
    free(comm->launching);
    free(comm);
    n_comms--;
    leave();
    return ncclSuccess;
}

/* NCCL's own header declares these two without a prototype. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

ncclResult_t ncclGroupStart(void)
{
    hyd_assert(!in_group);
    in_group = true;
    return ncclSuccess;
}

static ncclResult_t add(struct op op, ncclComm_t comm, cudaStream_t stream)
{
    hyd_assert(
        in_group); /* never alone: only grouped calls cannot wait for each other */
    if (building == NULL) {
        building = calloc(1, sizeof *building);
        hyd_assert(building != NULL);
        building->comm = comm;
        building->stream = stream;
    }
    hyd_assert(building->n_ops < MAX_OPS && building->comm == comm &&
               building->stream == stream);
    if (op.peer < 0 || op.peer >= comm->world->n_ranks || op.peer == comm->rank ||
        (op.bytes > 0 && fake_gpu_room(op.at) < op.bytes)) {
        return ncclInvalidArgument;
    }
    building->op[building->n_ops++] = op;
    return ncclSuccess;
}

ncclResult_t ncclSend(const void *at, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    (void)type;
    return add((struct op){.peer = peer, .at = (void *)(uintptr_t)at, .bytes = count},
               comm, stream);
}

ncclResult_t ncclRecv(void *at, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    (void)type;
    return add((struct op){.is_recv = true, .peer = peer, .at = at, .bytes = count},
               comm, stream);
}

/* What a group shows to a test. */
static void note(const struct group *group)
{
    uint32_t n[2] = {0, 0};

    for (int i = 0; i < group->n_ops; i++) {
        const struct op *op = &group->op[i];
        bool *linked =
            &group->comm->world->linked[group->comm->rank][op->peer][op->is_recv];

        n[op->is_recv]++;
        seen.n_links += !*linked;
        *linked = true;
    }
    seen.n_groups++;
    for (int side = 0; side < 2; side++) {
        seen.most_ops = n[side] > seen.most_ops ? n[side] : seen.most_ops;
    }
}

ncclResult_t ncclGroupEnd(void)
{
    struct group *group = building;
    ncclResult_t result = ncclInProgress;

    hyd_assert(in_group);
    in_group = false;
    building = NULL;
    if (group == NULL) {
        return ncclSuccess;
    }
    enter();
    if (group->comm->launching != NULL ||
        group->comm->world->n_joined < group->comm->world->n_ranks) {
        free(group); /* the communicator is in progress: no call but a question */
        result = ncclInvalidUsage;
    } else {
        note(group);
        group->comm->launching = group;
        group->comm->polls_left = (int)(n_polls++ % MOST_POLLS);
    }
    leave();
    return result;
}
