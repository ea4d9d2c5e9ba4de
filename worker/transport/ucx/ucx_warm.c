/* ucx_warm.c - see ucx.h: UCX makes a link with the first message; here each pair sends
 * one each way, round by round after the circle method, and checks that it talks to the rank
 * and epoch it means.
 *
 * The lower rank of a pair has dialled and sends at once; the higher one answers, so that a
 * pair has one connection. A round that takes long does not hold up the next ones: every
 * SLOW_S in which nothing happens twice as many may be open, so that soon only those links
 * are missing that cannot be made. That is pace, and decides nothing: a link is never given
 * up here but when UCX says that the peer is gone. */
#include "common/base/alloc.h"
#include "worker/transport/circle.h"
#include "worker/transport/ucx/ucx.h"

static const uint32_t MAGIC = 0x68796472U; /* "hydr" */
static const double SLOW_S = 0.25;

static uint32_t partner_of(const struct hyd_transport *transport, uint32_t round)
{
    return hyd_circle_partner(transport->n_ranks, transport->rank, round);
}

static hyd_status begin(struct hyd_transport *transport)
{
    struct hyd_ucx_warm *warm = &transport->warm;
    const uint32_t n_rounds = hyd_circle_rounds(transport->n_ranks);

    warm->link = hyd_alloc_zeroed(hyd_alloc_system(), n_rounds, sizeof *warm->link);
    if (warm->link == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    warm->mine = (struct hyd_ucx_warm_note){
        .magic = MAGIC,
        .epoch = transport->epoch,
        .rank = transport->rank,
        .n_ranks = transport->n_ranks,
    };
    warm->window = 1;
    warm->moved_s = hyd_ucx_now_s();
    return HYD_OK;
}

static hyd_status open_link(struct hyd_transport *transport, uint32_t partner,
                            struct hyd_ucx_link *link)
{
    const struct hyd_op recv = {HYD_OP_RECV, partner, &link->theirs,
                                sizeof link->theirs};

    return hyd_ucx_post_group(transport, &recv, 1, &link->recv);
}

static hyd_status check_note(const struct hyd_transport *transport, uint32_t partner,
                             const struct hyd_ucx_warm_note *got, struct hyd_error *err)
{
    if (got->magic != MAGIC || got->epoch != transport->epoch || got->rank != partner ||
        got->n_ranks != transport->n_ranks) {
        return hyd_error_set(err, HYD_ERR_INTERNAL,
                             "the link to rank %u leads to rank %u of %u in epoch %u",
                             partner, got->rank, got->n_ranks, got->epoch);
    }
    return HYD_OK;
}

static hyd_status group_result(const struct hyd_op_group *group)
{
    return group->n_pending > 0 ? HYD_OK : group->status;
}

/* Do what can be done now for an open link. */
static hyd_status step_link(struct hyd_transport *transport, uint32_t partner,
                            struct hyd_ucx_link *link, struct hyd_error *err)
{
    const struct hyd_op send = {HYD_OP_SEND, partner, &transport->warm.mine,
                                sizeof transport->warm.mine};
    const bool heard = link->recv.n_pending == 0;
    hyd_status st = group_result(&link->recv);

    if (st == HYD_OK && heard) {
        st = check_note(transport, partner, &link->theirs, err);
    }
    if (st == HYD_OK && !link->sent && (heard || transport->rank < partner)) {
        st = hyd_ucx_post_group(transport, &send, 1, &link->send);
        link->sent = true;
    }
    if (st == HYD_OK && link->sent) {
        st = group_result(&link->send);
    }
    if (st == HYD_ERR_UNAVAILABLE) {
        transport->warm.n_failed++;
        link->ended = true;
        return HYD_OK;
    }
    link->ended = heard && link->sent && link->send.n_pending == 0;
    return st;
}

static hyd_status step_links(struct hyd_transport *transport, struct hyd_error *err)
{
    struct hyd_ucx_warm *warm = &transport->warm;
    uint32_t n_seen = 0;

    for (uint32_t i = warm->n_begun; i-- > 0 && n_seen < warm->n_open;) {
        const uint32_t partner = partner_of(transport, i);
        hyd_status st = HYD_OK;

        if (warm->link[i].ended) {
            continue;
        }
        st = step_link(transport, partner, &warm->link[i], err);
        if (st != HYD_OK) {
            return hyd_error_set(err, st, "warming the link to rank %u failed (%s)",
                                 partner, hyd_status_name(st));
        }
        if (warm->link[i].ended) {
            warm->n_open--;
            warm->moved_s = hyd_ucx_now_s();
        } else {
            n_seen++;
        }
    }
    return HYD_OK;
}

hyd_status hyd_ucx_warm(struct hyd_transport *transport, bool *ret_done,
                        struct hyd_error *err)
{
    struct hyd_ucx_warm *warm = &transport->warm;
    const uint32_t n_rounds = hyd_circle_rounds(transport->n_ranks);
    hyd_status st = HYD_OK;

    *ret_done = n_rounds == 0 || (warm->link == NULL && warm->n_begun == n_rounds);
    if (*ret_done) {
        return HYD_OK;
    }
    if (warm->link == NULL) {
        st = begin(transport);
    }
    if (st == HYD_OK) {
        st = step_links(transport, err);
    }
    if (warm->n_open > 0 && hyd_ucx_now_s() - warm->moved_s > SLOW_S) {
        warm->window = warm->window < n_rounds ? 2 * warm->window : n_rounds;
        warm->moved_s = hyd_ucx_now_s();
    }
    while (st == HYD_OK && warm->n_open < warm->window && warm->n_begun < n_rounds) {
        const uint32_t partner = partner_of(transport, warm->n_begun);
        struct hyd_ucx_link *link = &warm->link[warm->n_begun++];

        link->ended = partner == transport->rank; /* it rests in this round */
        if (!link->ended) {
            warm->n_open++;
            st = open_link(transport, partner, link);
        }
        if (st == HYD_OK && warm->n_open > 0) {
            st = step_links(transport, err);
        }
    }
    if (st == HYD_OK && warm->n_begun == n_rounds && warm->n_open == 0 &&
        warm->n_failed == 0) {
        hyd_alloc_free(hyd_alloc_system(), warm->link);
        warm->link = NULL;
        *ret_done = true;
    }
    return st;
}

size_t hyd_ucx_missing(const struct hyd_transport *transport, uint32_t *ret_rank,
                       size_t max)
{
    const struct hyd_ucx_warm *warm = &transport->warm;
    const uint32_t n_rounds = hyd_circle_rounds(transport->n_ranks);
    size_t n = 0;

    for (uint32_t i = 0; warm->link != NULL && i < n_rounds && n < max; i++) {
        const struct hyd_ucx_link *link = &warm->link[i];
        const uint32_t partner = partner_of(transport, i);
        const bool warm_now =
            link->ended && link->recv.status == HYD_OK && link->send.status == HYD_OK;

        if (!warm_now && partner != transport->rank) {
            ret_rank[n++] = partner;
        }
    }
    return n;
}
