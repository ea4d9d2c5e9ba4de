/* follow.c - see impl.h: a rank's thread in next(), doing what the order wants. */
#include <string.h>

#include "worker/agent/impl.h"

/* First guess of how many sequences of a cell are spread over ranks; pass.c asks for
 * more when a step needs it. */
enum { SPLIT_SEQS_MIN = 64, SPLIT_SEQS_SHARE = 8 };

/* Warming goes on by itself so often when there is no news. */
enum { WARM_AGAIN_MS = 100 };

static hyd_status open_transport(struct hyd_agent_rank *rank,
                                 const struct hyd_agent_order *order,
                                 struct hyd_error *err)
{
    const struct hyd_agent *agent = rank->agent;
    const struct hyd_transport_config config = {
        .rank = order->rank,
        .n_ranks = order->n_ranks,
        .epoch = order->epoch,
        .mem = agent->compute->mem,
        .device = (int)rank->local,
        .session = agent->config.job,
        .links = agent->config.links,
    };
    struct hyd_transport *transport = NULL;
    const void *bytes = NULL;
    size_t n_bytes = 0;
    void *copy = NULL;
    hyd_status st = agent->transport->open(&config, &transport, err);

    if (st != HYD_OK) {
        return st;
    }
    st = agent->transport->address(transport, &bytes, &n_bytes);
    if (st == HYD_OK && n_bytes > 0) {
        copy = hyd_alloc_array(agent->alloc, n_bytes, 1);
        st = copy != NULL ? HYD_OK : HYD_ERR_NO_MEMORY;
    }
    if (st != HYD_OK) {
        agent->transport->close(transport);
        return hyd_error_set(err, st, "the transport has no address");
    }
    if (n_bytes > 0) {
        memcpy(copy, bytes, n_bytes);
    }
    (void)pthread_mutex_lock(&rank->lock);
    hyd_alloc_free(agent->alloc, rank->address);
    rank->address = copy;
    rank->address_bytes = n_bytes;
    rank->transport = transport;
    if (!rank->order.live || rank->order.generation != rank->generation) {
        agent->transport->abort(transport); /* the order changed meanwhile */
    }
    (void)pthread_mutex_unlock(&rank->lock);
    return HYD_OK;
}

static void follow_open(struct hyd_agent_rank *rank,
                        const struct hyd_agent_order *order)
{
    struct hyd_error err = {.text = ""};
    uint32_t split_seqs = order->job.cell_tokens / SPLIT_SEQS_SHARE;
    hyd_status st = HYD_OK;

    hyd_agent_rank_close_transport(rank);
    rank->generation = order->generation;
    rank->failed = false;
    rank->epoch = order->epoch;
    rank->world_rank = order->rank;
    rank->n_ranks = order->n_ranks;
    if (split_seqs < SPLIT_SEQS_MIN) {
        split_seqs = SPLIT_SEQS_MIN;
    }
    st = hyd_agent_rank_open_device(rank, &err);
    if (st == HYD_OK &&
        (rank->attn == NULL || !hyd_agent_job_equal(&rank->job, &order->job))) {
        st = hyd_agent_rank_make_engine(rank, &order->job, split_seqs, &err);
    }
    if (st == HYD_OK) {
        st = open_transport(rank, order, &err);
    }
    if (st != HYD_OK) {
        (void)hyd_agent_rank_lose(rank, st == HYD_ERR_UNAVAILABLE ? HYD_ERR_IO : st,
                                  &err);
        return;
    }
    hyd_agent_rank_tell(rank, HYD_AGENT_EV_OPENED, HYD_OK, NULL);
}

/* For the heartbeats: whom this rank waits for. */
static void tell_missing(struct hyd_agent_rank *rank)
{
    uint32_t missing[HYD_AGENT_MAX_MISSING];
    const size_t n = rank->agent->transport->missing(rank->transport, missing,
                                                     HYD_AGENT_MAX_MISSING);

    (void)pthread_mutex_lock(&rank->lock);
    if (rank->order.generation == rank->generation) {
        memcpy(rank->missing, missing, n * sizeof *missing);
        rank->n_missing = n;
    }
    (void)pthread_mutex_unlock(&rank->lock);
}

static hyd_status warm(struct hyd_agent_rank *rank, struct hyd_error *err)
{
    const struct hyd_transport_ops *ops = rank->agent->transport;
    bool done = false;

    for (;;) {
        hyd_status st = ops->warm(rank->transport, &done, err);
        int fd = -1;

        if (st != HYD_OK || done) {
            tell_missing(rank);
            return st;
        }
        if (!hyd_agent_rank_live(rank)) {
            return HYD_ERR_CANCELLED;
        }
        if (ops->progress(rank->transport)) {
            continue;
        }
        st = ops->arm_fd(rank->transport, &fd);
        if (st != HYD_OK) {
            return st;
        }
        tell_missing(rank);
        if (fd >= 0) {
            hyd_agent_rank_block(rank, &fd, 1, WARM_AGAIN_MS);
        }
    }
}

static void follow_join(struct hyd_agent_rank *rank,
                        const struct hyd_agent_shared *members)
{
    struct hyd_agent *agent = rank->agent;
    struct hyd_error err = {.text = ""};
    hyd_status st = agent->transport->connect(rank->transport, members->address,
                                              members->address_bytes, &err);

    if (st == HYD_OK) {
        st = warm(rank, &err);
    }
    if (st == HYD_OK) {
        st = hyd_attn_set_transport(rank->attn, agent->transport, rank->transport,
                                    rank->world_rank, rank->n_ranks, &err);
    }
    if (st != HYD_OK) {
        (void)hyd_agent_rank_lose(rank, st, &err);
        return;
    }
    rank->joined = true;
    hyd_agent_rank_tell(rank, HYD_AGENT_EV_JOINED, HYD_OK, NULL);
}

/* What the order says now, with the right to use what it points to. */
static struct hyd_agent_order read_order(struct hyd_agent_rank *rank)
{
    struct hyd_agent_order order;

    (void)pthread_mutex_lock(&rank->lock);
    order = rank->order;
    (void)hyd_agent_shared_use(order.members);
    (void)hyd_agent_shared_use(order.work);
    (void)pthread_mutex_unlock(&rank->lock);
    return order;
}

enum followed { FOLLOWED, NOTHING_TO_DO, STEP_BEGUN };

/* Do the one thing that the order wants next. */
static enum followed follow(struct hyd_agent_rank *rank,
                            const struct hyd_agent_order *order, struct hyd_error *err)
{
    if (!order->live) {
        if (rank->transport != NULL) {
            hyd_agent_rank_close_transport(rank);
            return FOLLOWED;
        }
        return NOTHING_TO_DO;
    }
    if (order->generation != rank->generation) {
        follow_open(rank, order);
        return FOLLOWED;
    }
    if (rank->failed) {
        return NOTHING_TO_DO; /* told; the loop is about to drop the generation */
    }
    if (order->members != NULL && !rank->joined) {
        follow_join(rank, order->members);
        return FOLLOWED;
    }
    if (order->work != NULL && order->work != rank->work) {
        hyd_agent_shared_drop(rank->agent, rank->work);
        rank->work = hyd_agent_shared_use(order->work);
        return hyd_agent_pass_begin(rank, err) == HYD_OK ? STEP_BEGUN : FOLLOWED;
    }
    return NOTHING_TO_DO;
}

static hyd_status check_rank(const struct hyd_agent *agent, uint32_t local,
                             struct hyd_error *err)
{
    if (local >= agent->config.n_ranks) {
        return hyd_error_value(err, HYD_ERR_INVALID, "local_rank",
                               "below the local ranks", "%u", local);
    }
    return HYD_OK;
}

hyd_status hyd_agent_next(struct hyd_agent *agent, uint32_t local_rank, int timeout_ms,
                          const struct hyd_agent_assignment **ret_assignment,
                          struct hyd_error *err)
{
    const uint64_t from_ms = hyd_clock_mono_ms(hyd_clock_system());
    struct hyd_agent_rank *rank = NULL;
    hyd_status st = check_rank(agent, local_rank, err);

    if (st != HYD_OK) {
        return st;
    }
    rank = &agent->rank[local_rank];
    if (rank->running) {
        hyd_agent_fail(agent, local_rank, "the owner left the step without a report");
    }
    for (;;) {
        const struct hyd_agent_order order = read_order(rank);
        const uint64_t spent_ms = hyd_clock_mono_ms(hyd_clock_system()) - from_ms;
        enum followed what = order.ended ? NOTHING_TO_DO : follow(rank, &order, err);

        hyd_agent_shared_drop(agent, order.members);
        hyd_agent_shared_drop(agent, order.work);
        if (order.ended) {
            hyd_agent_rank_close_transport(rank);
            return hyd_error_set(
                err, order.end_status == HYD_OK ? HYD_ERR_CANCELLED : order.end_status,
                "%s", order.end_reason);
        }
        if (what == STEP_BEGUN) {
            *ret_assignment = &rank->assignment;
            return HYD_OK;
        }
        if (what == FOLLOWED) {
            continue;
        }
        if (timeout_ms >= 0 && spent_ms >= (uint64_t)timeout_ms) {
            return hyd_error_set(err, HYD_ERR_TIMEOUT, "no assignment in %d ms",
                                 timeout_ms);
        }
        hyd_agent_rank_block(rank, NULL, 0,
                             timeout_ms >= 0 ? timeout_ms - (int)spent_ms : -1);
    }
}
