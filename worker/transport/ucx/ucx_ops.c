/* ucx_ops.c - see ucx.h: posting, completing and cancelling operations.
 *
 * A tag receive in UCX belongs to no endpoint, so it does not fail when its peer does: we
 * keep a list of pending operations per peer and cancel the receives ourselves. Sends
 * fail with the endpoint once it is closed by force.
 *
 * Every operation completes through a callback (no immediate completion), which may run
 * inside the call that posts it; `in_call` tells the two apart. */
#include "worker/transport/ucx/ucx.h"

#include "common/base/alloc.h"
#include "common/base/check.h"

enum { CHUNK_OPS = 128 };

struct hyd_ucx_chunk {
    struct hyd_ucx_chunk *next;
    struct hyd_ucx_op op[CHUNK_OPS];
};

hyd_status hyd_ucx_reserve_ops(struct hyd_transport *transport, uint32_t n)
{
    uint32_t n_spare = 0;

    for (const struct hyd_ucx_op *op = transport->spare; op != NULL && n_spare < n;
         op = op->next) {
        n_spare++;
    }
    while (n_spare < n) {
        struct hyd_ucx_chunk *chunk =
            hyd_alloc_zeroed(hyd_alloc_system(), 1, sizeof *chunk);

        if (chunk == NULL) {
            return HYD_ERR_NO_MEMORY;
        }
        chunk->next = transport->chunk;
        transport->chunk = chunk;
        for (int i = 0; i < CHUNK_OPS; i++) {
            chunk->op[i].next = transport->spare;
            transport->spare = &chunk->op[i];
        }
        n_spare += CHUNK_OPS;
    }
    return HYD_OK;
}

void hyd_ucx_free_ops(struct hyd_transport *transport)
{
    struct hyd_ucx_chunk *chunk = transport->chunk;

    while (chunk != NULL) {
        struct hyd_ucx_chunk *next = chunk->next;

        hyd_alloc_free(hyd_alloc_system(), chunk);
        chunk = next;
    }
    transport->chunk = NULL;
    transport->spare = NULL;
}

static void group_fail(struct hyd_op_group *group, hyd_status status, uint32_t peer)
{
    if (group->status == HYD_OK) {
        group->status = status;
        group->failed_peer = peer;
    }
}

/* Take a finished operation off its peer's list, settle its group, keep the record. */
static void op_retire(struct hyd_ucx_op *op)
{
    struct hyd_transport *transport = op->transport;
    struct hyd_ucx_peer *peer = &transport->peer[op->peer];
    /* What warming moves is not counted; links are there as long as it goes on. */
    const bool counted = op->bytes > 0 && transport->warm.link == NULL;

    if (op->prev != NULL) {
        op->prev->next = op->next;
    } else {
        peer->pending = op->next;
    }
    if (op->next != NULL) {
        op->next->prev = op->prev;
    }
    if (op->status != HYD_OK) {
        group_fail(op->group, op->status, op->peer);
    } else if (counted && op->is_recv) {
        transport->counters.received_bytes += op->bytes;
        transport->counters.received_messages++;
    } else if (counted) {
        transport->counters.sent_bytes += op->bytes;
        transport->counters.sent_messages++;
    }
    op->group->n_pending--;
    transport->n_pending--;
    transport->n_completed++;
    op->request = NULL;
    op->next = transport->spare;
    transport->spare = op;
}

/* Why an operation that UCX gave up failed, in the words of the contract. */
static hyd_status op_status(const struct hyd_ucx_op *op, ucs_status_t status)
{
    const struct hyd_ucx_peer *peer = &op->transport->peer[op->peer];

    if (status == UCS_OK) {
        return HYD_OK;
    }
    if (peer->failed != HYD_OK) {
        return peer->failed;
    }
    return hyd_ucx_status(status);
}

static void op_complete(struct hyd_ucx_op *op, hyd_status status)
{
    op->status = status;
    op->done = true;
    if (!op->in_call) {
        op_retire(op);
    }
}

static void on_sent(void *request, ucs_status_t status, void *user)
{
    struct hyd_ucx_op *op = user;

    ucp_request_free(request);
    op_complete(op, op_status(op, status));
}

static void on_received(void *request, ucs_status_t status,
                        const ucp_tag_recv_info_t *info, void *user)
{
    struct hyd_ucx_op *op = user;
    hyd_status st = op_status(op, status);

    /* The peer sent less than we expect: an order bug, whatever the bytes are. */
    if (st == HYD_OK && info->length != op->bytes) {
        st = HYD_ERR_INTERNAL;
    }
    ucp_request_free(request);
    op_complete(op, st);
}

static ucp_tag_t make_tag(uint32_t epoch, uint32_t source, uint32_t sequence)
{
    return (ucp_tag_t)(epoch & 0xffffU) << 48 | (ucp_tag_t)(source & 0xffffU) << 32 |
           sequence;
}

static void *op_start(struct hyd_transport *transport, struct hyd_ucx_op *op, void *at)
{
    struct hyd_ucx_peer *peer = &transport->peer[op->peer];
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .user_data = op,
    };
    ucp_tag_t tag = 0;

    if (op->is_recv) {
        tag = make_tag(transport->epoch, op->peer, peer->recv_sequence++);
        param.cb.recv = on_received;
        return ucp_tag_recv_nbx(transport->worker, at, op->bytes, tag, ~(ucp_tag_t)0,
                                &param);
    }
    if (hyd_ucx_dial(transport, op->peer) != HYD_OK) {
        return UCS_STATUS_PTR(UCS_ERR_UNREACHABLE);
    }
    tag = make_tag(transport->epoch, transport->rank, peer->send_sequence++);
    param.cb.send = on_sent;
    return ucp_tag_send_nbx(peer->ep, at, op->bytes, tag, &param);
}

static void op_post(struct hyd_transport *transport, const struct hyd_op *what,
                    struct hyd_op_group *group)
{
    struct hyd_ucx_peer *peer = &transport->peer[what->peer];
    struct hyd_ucx_op *op = transport->spare;
    void *request = NULL;

    hyd_assert(op != NULL);
    transport->spare = op->next;
    *op = (struct hyd_ucx_op){
        .next = peer->pending,
        .transport = transport,
        .group = group,
        .bytes = what->bytes,
        .peer = what->peer,
        .is_recv = what->kind == HYD_OP_RECV,
        .in_call = true,
    };
    if (peer->pending != NULL) {
        peer->pending->prev = op;
    }
    peer->pending = op;
    group->n_pending++;
    transport->n_pending++;
    request = op_start(transport, op, what->at);
    op->in_call = false;
    if (UCS_PTR_IS_ERR(request)) {
        op->status = op_status(op, UCS_PTR_STATUS(request));
        op->done = true;
    }
    if (op->done) {
        op_retire(op);
    } else {
        op->request = request;
    }
}

static hyd_status group_check(const struct hyd_transport *transport,
                              const struct hyd_op *op, size_t n_ops)
{
    uint32_t n_sends = 0;
    uint32_t n_recvs = 0;

    for (size_t i = 0; i < n_ops; i++) {
        if (op[i].peer >= transport->n_ranks || op[i].peer == transport->rank ||
            (op[i].at == NULL && op[i].bytes > 0)) {
            return HYD_ERR_INVALID;
        }
        if (op[i].kind == HYD_OP_SEND) {
            n_sends++;
        } else {
            n_recvs++;
        }
    }
    if (n_sends > HYD_GROUP_MAX_OPS || n_recvs > HYD_GROUP_MAX_OPS) {
        return HYD_ERR_LIMIT;
    }
    return HYD_OK;
}

hyd_status hyd_ucx_post_group(struct hyd_transport *transport, const struct hyd_op *op,
                              size_t n_ops, struct hyd_op_group *group)
{
    hyd_status st = group_check(transport, op, n_ops);

    if (st != HYD_OK) {
        return st;
    }
    st = hyd_ucx_reserve_ops(transport, (uint32_t)n_ops);
    if (st != HYD_OK) {
        return st;
    }
    *group = (struct hyd_op_group){.status = HYD_OK};
    if (atomic_load(&transport->aborted)) {
        group_fail(group, HYD_ERR_CANCELLED, transport->rank);
        return HYD_OK;
    }
    for (size_t i = 0; i < n_ops; i++) {
        if (transport->peer[op[i].peer].failed != HYD_OK) {
            group_fail(group, transport->peer[op[i].peer].failed, op[i].peer);
            return HYD_OK;
        }
    }
    /* Receives first: a message that finds its buffer is not copied twice. */
    for (int pass = 0; pass < 2; pass++) {
        const enum hyd_op_kind kind = pass == 0 ? HYD_OP_RECV : HYD_OP_SEND;

        for (size_t i = 0; i < n_ops; i++) {
            if (op[i].kind == kind) {
                op_post(transport, &op[i], group);
            }
        }
    }
    return HYD_OK;
}

hyd_status hyd_ucx_test(struct hyd_transport *transport, struct hyd_op_group *group,
                        bool *ret_done)
{
    (void)transport;
    *ret_done = group->n_pending == 0;
    return *ret_done ? group->status : HYD_OK;
}

void hyd_ucx_fail_peer(struct hyd_transport *transport, uint32_t rank, hyd_status why)
{
    struct hyd_ucx_peer *peer = &transport->peer[rank];
    const ucp_request_param_t by_force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                          .flags = UCP_EP_CLOSE_FLAG_FORCE};
    struct hyd_ucx_op *op = peer->pending;
    void *request = NULL;

    if (peer->must_close) {
        peer->must_close = false;
        transport->n_must_close--;
    }
    if (peer->failed == HYD_OK) {
        peer->failed = why;
    }
    while (op != NULL) {
        struct hyd_ucx_op *next = op->next; /* cancelling may retire op at once */

        if (op->is_recv && op->request != NULL) {
            ucp_request_cancel(transport->worker, op->request);
        }
        op = next;
    }
    if (peer->ep != NULL) {
        request = ucp_ep_close_nbx(peer->ep, &by_force);
        peer->ep = NULL;
        if (UCS_PTR_IS_PTR(request)) {
            ucp_request_free(request); /* it ends by itself inside progress */
        }
    }
}

void hyd_ucx_cancel_peer(struct hyd_transport *transport, uint32_t peer)
{
    if (peer < transport->n_ranks && peer != transport->rank) {
        hyd_ucx_fail_peer(transport, peer, HYD_ERR_UNAVAILABLE);
    }
}

bool hyd_ucx_progress(struct hyd_transport *transport)
{
    const uint64_t n_before = transport->n_completed;
    bool moved = false;

    /* First, and before UCX looks at what has come: peers that know of the abort already
     * may be gone. */
    if (atomic_load(&transport->aborted) && !transport->abort_done) {
        transport->abort_done = true;
        for (uint32_t rank = 0; rank < transport->n_ranks; rank++) {
            if (rank != transport->rank) {
                hyd_ucx_fail_peer(transport, rank, HYD_ERR_CANCELLED);
            }
        }
        moved = true;
    }
    moved |= ucp_worker_progress(transport->worker) > 0;
    for (uint32_t rank = 0; transport->n_must_close > 0 && rank < transport->n_ranks;
         rank++) {
        if (transport->peer[rank].must_close) {
            hyd_ucx_fail_peer(transport, rank, HYD_ERR_UNAVAILABLE);
            moved = true;
        }
    }
    moved |= transport->n_completed != n_before;
    transport->n_busy = moved ? 0 : transport->n_busy;
    return moved;
}
