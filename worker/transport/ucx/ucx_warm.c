/* ucx_warm.c - see ucx.h: UCX makes a link with the first message; here each pair sends
 * one, round by round after the circle method, and checks that it talks to the rank and
 * epoch it means. */
#include "worker/transport/circle.h"
#include "worker/transport/ucx/ucx.h"

static const uint32_t MAGIC = 0x68796472U; /* "hydr" */

static hyd_status warm_post(struct hyd_transport *transport, uint32_t partner)
{
    struct hyd_ucx_warm *warm = &transport->warm;
    struct hyd_op op[] = {
        {HYD_OP_RECV, partner, &warm->theirs, sizeof warm->theirs},
        {HYD_OP_SEND, partner, &warm->mine, sizeof warm->mine},
    };

    warm->mine = (struct hyd_ucx_warm_note){
        .magic = MAGIC,
        .epoch = transport->epoch,
        .rank = transport->rank,
        .n_ranks = transport->n_ranks,
    };
    return hyd_ucx_post_group(transport, op, 2, &warm->group);
}

static hyd_status warm_check(const struct hyd_transport *transport, uint32_t partner,
                             struct hyd_error *err)
{
    const struct hyd_ucx_warm_note *got = &transport->warm.theirs;

    if (got->magic != MAGIC || got->epoch != transport->epoch || got->rank != partner ||
        got->n_ranks != transport->n_ranks) {
        return hyd_error_set(err, HYD_ERR_INTERNAL,
                             "the link to rank %u leads to rank %u of %u in epoch %u",
                             partner, got->rank, got->n_ranks, got->epoch);
    }
    return HYD_OK;
}

hyd_status hyd_ucx_warm(struct hyd_transport *transport, bool *ret_done,
                        struct hyd_error *err)
{
    struct hyd_ucx_warm *warm = &transport->warm;
    const uint32_t n_rounds = hyd_circle_rounds(transport->n_ranks);

    while (warm->round < n_rounds) {
        const uint32_t partner =
            hyd_circle_partner(transport->n_ranks, transport->rank, warm->round);
        hyd_status st = HYD_OK;

        if (partner == transport->rank) {
            warm->round++;
            continue;
        }
        if (!warm->posted) {
            st = warm_post(transport, partner);
            if (st != HYD_OK) {
                return hyd_error_set(err, st, "warming the link to rank %u failed",
                                     partner);
            }
            warm->posted = true;
        }
        if (warm->group.n_pending > 0) {
            *ret_done = false;
            return HYD_OK;
        }
        if (warm->group.status != HYD_OK) {
            return hyd_error_set(err, warm->group.status,
                                 "warming the link to rank %u failed (%s)", partner,
                                 hyd_status_name(warm->group.status));
        }
        st = warm_check(transport, partner, err);
        if (st != HYD_OK) {
            return st;
        }
        warm->posted = false;
        warm->round++;
    }
    *ret_done = true;
    return HYD_OK;
}
