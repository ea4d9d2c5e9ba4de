/* nccl_queue.c - see nccl_impl.h: posting groups and finding out what became of them. */
#include "worker/transport/nccl/nccl_impl.h"

#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct hyd_nccl_entry *at(struct hyd_transport *transport, uint32_t i)
{
    return &transport->entry[(transport->first + i) % HYD_NCCL_QUEUE];
}

static void settle(struct hyd_op_group *group, hyd_status status, uint32_t peer)
{
    group->n_pending = 0;
    if (status != HYD_OK && group->status == HYD_OK) {
        group->status = status;
        group->failed_peer = peer;
    }
}

static void retire_first(struct hyd_transport *transport, hyd_status status)
{
    const struct hyd_nccl_entry *entry = at(transport, 0);
    struct hyd_transport_counters *counters = &transport->counters;

    settle(entry->group, status, transport->failed_peer);
    for (size_t i = 0;
         status == HYD_OK && entry->group != &transport->warm_group && i < entry->n_ops;
         i++) {
        if (entry->op[i].bytes == 0) {
            continue;
        }
        if (entry->op[i].kind == HYD_OP_SEND) {
            counters->sent_bytes += entry->op[i].bytes;
            counters->sent_messages++;
        } else {
            counters->received_bytes += entry->op[i].bytes;
            counters->received_messages++;
        }
    }
    transport->first = (transport->first + 1) % HYD_NCCL_QUEUE;
    transport->n_queued--;
    if (transport->n_launched > 0) {
        transport->n_launched--;
    }
}

void hyd_nccl_fail(struct hyd_transport *transport, hyd_status status, uint32_t peer)
{
    if (transport->failed == HYD_OK) {
        transport->failed = status;
        transport->failed_peer = peer;
    }
    if (transport->comm != NULL) {
        const double limit_s = transport->config.end_limit_s;

        transport->ending =
            hyd_nccl_ending_begin(transport->comm, transport->config.device,
                                  limit_s > 0.0 ? limit_s : HYD_NCCL_END_S);
        transport->comm = NULL;
    }
    transport->connecting = false;
    while (transport->n_queued > 0) {
        retire_first(transport, transport->failed);
    }
}

/* Is NCCL ready for the next call? Fails the transport when it reports an error. */
static bool comm_ready(struct hyd_transport *transport)
{
    ncclResult_t state = ncclSuccess;
    ncclResult_t result = ncclSuccess;

    if (transport->comm == NULL) {
        return false;
    }
    result = ncclCommGetAsyncError(transport->comm, &state);
    if (result == ncclSuccess && state == ncclInProgress) {
        return false;
    }
    if (result != ncclSuccess || state != ncclSuccess) {
        hyd_nccl_fail(transport,
                      hyd_nccl_status(result != ncclSuccess ? result : state),
                      transport->config.rank);
        return false;
    }
    transport->connecting = false;
    return true;
}

static void on_stream(void *arg)
{
    struct hyd_transport *transport = arg;

    (void)eventfd_write(transport->wake_fd, 1);
}

static void launch(struct hyd_transport *transport, struct hyd_nccl_entry *entry)
{
    ncclResult_t result = ncclGroupStart();
    ncclResult_t end = ncclSuccess;

    for (size_t i = 0;
         i < entry->n_ops && (result == ncclSuccess || result == ncclInProgress); i++) {
        const struct hyd_op *op = &entry->op[i];

        result = op->kind == HYD_OP_SEND
                     ? ncclSend(op->at, op->bytes, ncclInt8, (int)op->peer,
                                transport->comm, transport->stream)
                     : ncclRecv(op->at, op->bytes, ncclInt8, (int)op->peer,
                                transport->comm, transport->stream);
    }
    end = ncclGroupEnd();
    if (result == ncclSuccess || result == ncclInProgress) {
        result = end;
    }
    if (result != ncclSuccess && result != ncclInProgress) {
        hyd_nccl_fail(transport, hyd_nccl_status(result), transport->config.rank);
        return;
    }
    entry->stage = HYD_NCCL_LAUNCHING;
    transport->n_launched++;
}

/* NCCL took the group: mark its place in the stream, and be told when it is passed. */
static void mark(struct hyd_transport *transport, struct hyd_nccl_entry *entry)
{
    cudaError_t error = cudaEventRecord(entry->done, transport->stream);

    if (error == cudaSuccess) {
        error = cudaLaunchHostFunc(transport->stream, on_stream, transport);
    }
    if (error != cudaSuccess) {
        hyd_nccl_fail(transport, hyd_nccl_cuda_status(error), transport->config.rank);
        return;
    }
    entry->stage = HYD_NCCL_RUNNING;
}

/* Retire the head when the stream has passed it. */
static bool retire_done(struct hyd_transport *transport)
{
    cudaError_t error = cudaSuccess;

    if (transport->n_launched == 0 || at(transport, 0)->stage != HYD_NCCL_RUNNING) {
        return false;
    }
    error = cudaEventQuery(at(transport, 0)->done);
    if (error == cudaErrorNotReady) {
        (void)cudaGetLastError(); /* not an error of later calls */
        return false;
    }
    if (error != cudaSuccess) {
        hyd_nccl_fail(transport, hyd_nccl_cuda_status(error), transport->config.rank);
        return true;
    }
    retire_first(transport, HYD_OK);
    return true;
}

bool hyd_nccl_is_launching(const struct hyd_transport *transport)
{
    const uint32_t last = transport->first + transport->n_launched - 1;

    return transport->n_launched > 0 &&
           transport->entry[last % HYD_NCCL_QUEUE].stage == HYD_NCCL_LAUNCHING;
}

static bool advance(struct hyd_transport *transport)
{
    bool moved = false;

    while (retire_done(transport)) {
        moved = true;
    }
    while (transport->failed == HYD_OK && comm_ready(transport)) {
        const uint32_t last = transport->n_launched;

        if (last > 0 && at(transport, last - 1)->stage == HYD_NCCL_LAUNCHING) {
            mark(transport, at(transport, last - 1));
        } else if (last < transport->n_queued) {
            launch(transport, at(transport, last));
        } else {
            break;
        }
        moved = true;
    }
    return moved;
}

bool hyd_nccl_progress(struct hyd_transport *transport)
{
    const bool was_well = transport->failed == HYD_OK;
    bool moved = false;

    (void)cudaSetDevice(transport->config.device);
    if (was_well && atomic_load(&transport->aborted)) {
        hyd_nccl_fail(transport, HYD_ERR_CANCELLED, transport->config.rank);
        return true;
    }
    moved = advance(transport);
    /* A failure is news, too: it has ended every group. */
    return moved || (was_well && transport->failed != HYD_OK);
}

static hyd_status check_ops(const struct hyd_transport *transport,
                            const struct hyd_op *op, size_t n_ops)
{
    size_t n[2] = {0, 0};

    for (size_t i = 0; i < n_ops; i++) {
        if (op[i].peer >= transport->config.n_ranks ||
            op[i].peer == transport->config.rank ||
            (op[i].at == NULL && op[i].bytes > 0)) {
            return HYD_ERR_INVALID;
        }
        if (++n[op[i].kind] > HYD_GROUP_MAX_OPS) {
            return HYD_ERR_LIMIT;
        }
    }
    return HYD_OK;
}

hyd_status hyd_nccl_post(struct hyd_transport *transport, const struct hyd_op *op,
                         size_t n_ops, struct hyd_op_group *group)
{
    struct hyd_nccl_entry *entry = NULL;
    hyd_status st = check_ops(transport, op, n_ops);

    if (st != HYD_OK) {
        return st;
    }
    if (transport->failed != HYD_OK) {
        settle(group, transport->failed, transport->failed_peer);
        return HYD_OK;
    }
    if (transport->n_queued == HYD_NCCL_QUEUE) {
        return HYD_ERR_LIMIT;
    }
    if (n_ops == 0) {
        return HYD_OK;
    }
    entry = at(transport, transport->n_queued);
    memcpy(entry->op, op, n_ops * sizeof *op);
    entry->n_ops = n_ops;
    entry->group = group;
    entry->stage = HYD_NCCL_QUEUED;
    group->n_pending = (uint32_t)n_ops;
    transport->n_queued++;
    (void)hyd_nccl_progress(transport);
    return HYD_OK;
}
