/*
 * transport_self.c - see transport_self.h: matching what was posted.
 *
 * Only the first unfinished group of a rank runs. Two operations match when they are the
 * first open ones of their pair and direction in the running groups of both ends; the
 * bytes move at that moment and not before, so a send buffer that is reused too early, or
 * a receive buffer that is read too early, shows.
 */
#include <string.h>
#include <unistd.h>

#include "common/base/alloc.h"
#include "common/base/rng.h"
#include "worker/transport/self/self.h"

#include "common/base/banned.h"

void hyd_self_wake(struct hyd_transport *transport)
{
    const uint64_t one = 1;

    if (transport == NULL) {
        return;
    }
    transport->news = true;
    if (write(transport->fd, &one, sizeof one) < 0) {
        /* The counter is full: it is readable anyway. */
        return;
    }
}

static hyd_status self_probe(struct hyd_error *err)
{
    (void)err;
    return HYD_OK;
}

static bool self_moves(enum hyd_mem mem)
{
    return mem == HYD_MEM_HOST;
}

static hyd_status self_address(struct hyd_transport *transport, const void **ret_bytes,
                               size_t *ret_n_bytes)
{
    (void)transport;
    *ret_bytes = "";
    *ret_n_bytes = 0;
    return HYD_OK;
}

static hyd_status self_connect(struct hyd_transport *transport,
                               const void *const *address, const size_t *address_bytes,
                               struct hyd_error *err)
{
    (void)transport;
    (void)address;
    (void)address_bytes;
    (void)err;
    return HYD_OK;
}

/* Links need no making; what remains is to see that everybody came. */
static hyd_status self_warm(struct hyd_transport *transport, bool *ret_done,
                            struct hyd_error *err)
{
    struct hyd_self_world *world = transport->world;
    hyd_status st = HYD_OK;
    bool all = true;

    (void)pthread_mutex_lock(&world->lock);
    for (uint32_t i = 0; i < world->n_ranks && st == HYD_OK; i++) {
        all = all && (world->member[i].transport != NULL || world->member[i].gone);
        if (transport->aborted) {
            st = HYD_ERR_CANCELLED;
        } else if (transport->cancelled[i]) {
            st = hyd_error_set(err, HYD_ERR_UNAVAILABLE, "rank %u is gone", i);
        }
    }
    (void)pthread_mutex_unlock(&world->lock);
    if (st == HYD_OK) {
        *ret_done = all;
    }
    return st;
}

static hyd_status check_ops(const struct hyd_transport *transport,
                            const struct hyd_op *op, size_t n_ops)
{
    size_t n[2] = {0, 0};

    for (size_t i = 0; i < n_ops; i++) {
        if (op[i].peer >= transport->world->n_ranks || op[i].peer == transport->rank ||
            (op[i].at == NULL && op[i].bytes > 0)) {
            return HYD_ERR_INVALID;
        }
        n[op[i].kind == HYD_OP_SEND ? 0 : 1]++;
    }
    return n[0] > HYD_GROUP_MAX_OPS || n[1] > HYD_GROUP_MAX_OPS ? HYD_ERR_LIMIT
                                                                : HYD_OK;
}

static bool peer_lost(const struct hyd_transport *transport, uint32_t peer)
{
    return transport->cancelled[peer] || transport->world->member[peer].gone;
}

static void end_op(struct hyd_self_record *record, uint32_t i, hyd_status status)
{
    struct hyd_op_group *group = record->group;

    record->done[i] = true;
    record->n_open--;
    group->n_pending--;
    if (group->status == HYD_OK && status != HYD_OK) {
        group->status = status;
        group->failed_peer = record->op[i].peer;
    }
}

/* Take finished groups off the front, so that the next one runs. */
static void pop_done(struct hyd_transport *transport)
{
    while (transport->first != NULL && transport->first->n_open == 0) {
        struct hyd_self_record *record = transport->first;

        transport->first = record->next;
        if (transport->first == NULL) {
            transport->last = NULL;
        }
        record->next = transport->spare;
        transport->spare = record;
    }
}

static struct hyd_self_record *take_record(struct hyd_transport *transport)
{
    struct hyd_self_record *record = transport->spare;

    if (record == NULL) {
        return hyd_alloc_zeroed(hyd_alloc_system(), 1, sizeof *record);
    }
    transport->spare = record->next;
    return record;
}

static hyd_status self_post_group(struct hyd_transport *transport,
                                  const struct hyd_op *op, size_t n_ops,
                                  struct hyd_op_group *group)
{
    struct hyd_self_record *record;
    hyd_status st = check_ops(transport, op, n_ops);

    if (st != HYD_OK) {
        return st;
    }
    (void)pthread_mutex_lock(&transport->world->lock);
    record = take_record(transport);
    if (record == NULL) {
        (void)pthread_mutex_unlock(&transport->world->lock);
        return HYD_ERR_NO_MEMORY;
    }
    *record = (struct hyd_self_record){
        .group = group, .n_ops = (uint32_t)n_ops, .n_open = (uint32_t)n_ops};
    *group = (struct hyd_op_group){.n_pending = (uint32_t)n_ops};
    for (size_t i = 0; i < n_ops; i++) {
        record->op[i] = op[i];
        if (transport->chaos != 0 && op[i].kind == HYD_OP_RECV && op[i].bytes > 0) {
            memset(op[i].at, 0xff, op[i].bytes);
        }
        if (transport->aborted) {
            end_op(record, (uint32_t)i, HYD_ERR_CANCELLED);
        } else if (peer_lost(transport, op[i].peer)) {
            end_op(record, (uint32_t)i, HYD_ERR_UNAVAILABLE);
        }
    }
    if (transport->last != NULL) {
        transport->last->next = record;
    } else {
        transport->first = record;
    }
    transport->last = record;
    pop_done(transport);
    (void)pthread_mutex_unlock(&transport->world->lock);
    return HYD_OK;
}

/* The first open operation of the running group with this peer in this direction. */
static bool first_open(const struct hyd_transport *transport, enum hyd_op_kind kind,
                       uint32_t peer, uint32_t *ret_i)
{
    const struct hyd_self_record *record = transport->first;

    for (uint32_t i = 0; record != NULL && i < record->n_ops; i++) {
        if (!record->done[i] && record->op[i].kind == kind &&
            record->op[i].peer == peer) {
            *ret_i = i;
            return true;
        }
    }
    return false;
}

/* Partner of operation i: the peer, and the number of its operation. */
static bool find_partner(const struct hyd_transport *transport, uint32_t i,
                         uint32_t *ret_j)
{
    const struct hyd_op *op = &transport->first->op[i];
    const struct hyd_transport *peer = transport->world->member[op->peer].transport;
    enum hyd_op_kind other = op->kind == HYD_OP_SEND ? HYD_OP_RECV : HYD_OP_SEND;
    uint32_t own;

    return peer != NULL && first_open(transport, op->kind, op->peer, &own) &&
           own == i && first_open(peer, other, transport->rank, ret_j);
}

/* Something can be done about operation i right now. */
static bool ready(const struct hyd_transport *transport, uint32_t i)
{
    uint32_t j;

    return !transport->first->done[i] &&
           (peer_lost(transport, transport->first->op[i].peer) ||
            find_partner(transport, i, &j));
}

static void count(struct hyd_transport *from, struct hyd_transport *to, size_t bytes)
{
    if (bytes > 0) {
        from->counters.sent_bytes += bytes;
        from->counters.sent_messages++;
        to->counters.received_bytes += bytes;
        to->counters.received_messages++;
    }
}

/* Do what `ready` promised. */
static void settle(struct hyd_transport *transport, uint32_t i)
{
    struct hyd_self_record *record = transport->first;
    const struct hyd_op *own = &record->op[i];
    struct hyd_transport *peer = transport->world->member[own->peer].transport;
    const struct hyd_op *other;
    hyd_status st = HYD_OK;
    uint32_t j;

    if (peer_lost(transport, own->peer)) {
        end_op(record, i, HYD_ERR_UNAVAILABLE);
        return;
    }
    if (!find_partner(transport, i, &j)) {
        return;
    }
    other = &peer->first->op[j];
    if (own->bytes != other->bytes) {
        st = HYD_ERR_INTERNAL;
    } else if (own->kind == HYD_OP_SEND) {
        count(transport, peer, own->bytes);
    } else {
        count(peer, transport, own->bytes);
    }
    if (st == HYD_OK && own->bytes > 0) {
        memcpy(own->kind == HYD_OP_RECV ? own->at : other->at,
               own->kind == HYD_OP_RECV ? other->at : own->at, own->bytes);
    }
    end_op(record, i, st);
    end_op(peer->first, j, st);
    pop_done(peer);
    hyd_self_wake(peer);
}

/* Today nothing, or one message only? */
static bool chaos_says_no(struct hyd_transport *transport)
{
    struct hyd_rng rng = {transport->chaos};
    bool no;

    if (transport->chaos == 0) {
        return false;
    }
    no = hyd_rng_below(&rng, 2) == 0;
    transport->chaos = rng.state | 1;
    return no;
}

static bool settle_some(struct hyd_transport *transport)
{
    struct hyd_self_record *record = transport->first;
    bool any = false;

    for (uint32_t i = 0; record != NULL && i < record->n_ops; i++) {
        if (!ready(transport, i)) {
            continue;
        }
        settle(transport, i);
        any = true;
        if (transport->chaos != 0) {
            break;
        }
    }
    if (any) {
        pop_done(transport);
    }
    return any;
}

static bool self_progress(struct hyd_transport *transport)
{
    bool any;

    (void)pthread_mutex_lock(&transport->world->lock);
    any = transport->news;
    transport->news = false;
    if (!chaos_says_no(transport)) {
        any = settle_some(transport) || any;
    }
    (void)pthread_mutex_unlock(&transport->world->lock);
    return any;
}

static hyd_status self_test(struct hyd_transport *transport, struct hyd_op_group *group,
                            bool *ret_done)
{
    hyd_status st;

    (void)pthread_mutex_lock(&transport->world->lock);
    *ret_done = group->n_pending == 0;
    st = *ret_done ? group->status : HYD_OK;
    (void)pthread_mutex_unlock(&transport->world->lock);
    return st;
}

static hyd_status self_arm_fd(struct hyd_transport *transport, int *ret_fd)
{
    uint64_t counter;
    bool work;

    (void)pthread_mutex_lock(&transport->world->lock);
    work = transport->news;
    for (uint32_t i = 0; transport->first != NULL && i < transport->first->n_ops; i++) {
        work = work || ready(transport, i);
    }
    if (!work && read(transport->fd, &counter, sizeof counter) < 0) {
        work = false; /* nothing to take back */
    }
    (void)pthread_mutex_unlock(&transport->world->lock);
    *ret_fd = work ? -1 : transport->fd;
    return HYD_OK;
}

/* Every open operation of all groups that `peer` concerns, or of all when it is NULL. */
static void fail_ops(struct hyd_transport *transport, const uint32_t *peer,
                     hyd_status status)
{
    for (struct hyd_self_record *record = transport->first; record != NULL;
         record = record->next) {
        for (uint32_t i = 0; i < record->n_ops; i++) {
            if (!record->done[i] && (peer == NULL || record->op[i].peer == *peer)) {
                end_op(record, i, status);
            }
        }
    }
    pop_done(transport);
    hyd_self_wake(transport);
}

static void self_cancel_peer(struct hyd_transport *transport, uint32_t peer)
{
    if (peer >= transport->world->n_ranks) {
        return;
    }
    (void)pthread_mutex_lock(&transport->world->lock);
    transport->cancelled[peer] = true;
    fail_ops(transport, &peer, HYD_ERR_UNAVAILABLE);
    (void)pthread_mutex_unlock(&transport->world->lock);
}

static void self_abort(struct hyd_transport *transport)
{
    (void)pthread_mutex_lock(&transport->world->lock);
    transport->aborted = true;
    fail_ops(transport, NULL, HYD_ERR_CANCELLED);
    (void)pthread_mutex_unlock(&transport->world->lock);
}

static void self_counters(const struct hyd_transport *transport,
                          struct hyd_transport_counters *ret_counters)
{
    (void)pthread_mutex_lock(&transport->world->lock);
    *ret_counters = transport->counters;
    (void)pthread_mutex_unlock(&transport->world->lock);
}

void hyd_transport_self_chaos(struct hyd_transport *transport, uint64_t seed)
{
    transport->chaos = seed == 0 ? 0 : seed | 1;
}

/* All ranks are in this process: none is out of reach. */
static size_t self_missing(const struct hyd_transport *transport, uint32_t *ret_rank,
                           size_t max)
{
    (void)transport;
    (void)ret_rank;
    (void)max;
    return 0;
}

const struct hyd_transport_ops hyd_transport_self = {
    .name = "self",
    .probe = self_probe,
    .moves = self_moves,
    .open = hyd_self_open,
    .close = hyd_self_close,
    .address = self_address,
    .connect = self_connect,
    .warm = self_warm,
    .missing = self_missing,
    .post_group = self_post_group,
    .test = self_test,
    .progress = self_progress,
    .arm_fd = self_arm_fd,
    .cancel_peer = self_cancel_peer,
    .abort = self_abort,
    .counters = self_counters,
};
