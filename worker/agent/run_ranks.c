/* run_ranks.c - see agent.h: a thread for each local rank. */
#include "worker/agent/impl.h"

struct seat {
    struct hyd_agent *agent;
    hyd_status (*body)(struct hyd_agent *agent, uint32_t local_rank, void *ctx);
    void *ctx;
    uint32_t local_rank;
    pthread_t thread;
    hyd_status end;
};

static void *seat_main(void *arg)
{
    struct seat *seat = arg;

    seat->end = seat->body(seat->agent, seat->local_rank, seat->ctx);
    return NULL;
}

static hyd_status end_of(const struct seat *seat)
{
    return seat->end == HYD_ERR_CANCELLED ? HYD_OK : seat->end;
}

hyd_status hyd_agent_run_ranks(struct hyd_agent *agent,
                               hyd_status (*body)(struct hyd_agent *agent,
                                                  uint32_t local_rank, void *ctx),
                               void *ctx, struct hyd_error *err)
{
    uint32_t n_ranks = agent->config.n_ranks;
    struct seat *seat = hyd_alloc_zeroed(agent->alloc, n_ranks, sizeof *seat);
    uint32_t n = 0;
    hyd_status st = HYD_OK;

    if (seat == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (; n < n_ranks; n++) {
        seat[n] =
            (struct seat){.agent = agent, .body = body, .ctx = ctx, .local_rank = n};
        if (pthread_create(&seat[n].thread, NULL, seat_main, &seat[n]) != 0) {
            st = hyd_error_set(err, HYD_ERR_UNAVAILABLE, "no thread for local rank %u",
                               n);
            hyd_agent_stop(agent);
            break;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        (void)pthread_join(seat[i].thread, NULL);
        st = st == HYD_OK ? end_of(&seat[i]) : st;
    }
    hyd_alloc_free(agent->alloc, seat);
    return st;
}
