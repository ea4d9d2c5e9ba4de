/* victim.c - see victim.h. */
#include "tests/lib/victim.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/agent/agent.h"

enum { N_RANKS = 2, LIFE_S = 120 };

struct rank {
    struct hyd_agent *agent;
    uint32_t local;
    const char *where;
    int signal_number;
};

/* Rank 1 strikes at its place; true when this is it. */
static void strike(const struct rank *rank, const char *place)
{
    if (rank->local == 1 && strcmp(rank->where, place) == 0) {
        (void)kill(getpid(), rank->signal_number);
    }
}

static struct hyd_attn_tensor tensor(struct hyd_compute *dev,
                                     const struct hyd_compute_ops *ops, size_t bytes)
{
    struct hyd_attn_tensor out = {.row_stride_bytes = 0};

    if (ops->mem_alloc(dev, bytes, &out.buf) != HYD_OK) {
        abort();
    }
    memset(out.buf.at, 0, bytes);
    return out;
}

static hyd_status run_step(const struct rank *rank,
                           const struct hyd_agent_assignment *step)
{
    const struct hyd_compute_ops *ops = NULL;
    struct hyd_compute *dev = hyd_agent_device(rank->agent, rank->local, &ops);
    const size_t bytes = (size_t)(1 + hyd_attn_cell_rows(&step->attn, step->rank, 0)) *
                         step->model.n_heads * step->model.d *
                         hyd_dtype_bytes(step->model.dtype);
    struct hyd_attn_io io;
    struct hyd_attn_tensor *each[] = {&io.q,    &io.k,  &io.v,  &io.o,
                                      &io.dout, &io.dq, &io.dk, &io.dv};
    struct hyd_attn_pass pass = {.pass = HYD_DIRECTION_FORWARD};
    hyd_status st = HYD_OK;

    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++) {
        *each[i] = tensor(dev, ops, bytes);
    }
    strike(rank, "forward");
    st = hyd_agent_run(rank->agent, rank->local, &pass, &io, NULL);
    if (st == HYD_OK && step->backward) {
        pass.pass = HYD_DIRECTION_BACKWARD;
        strike(rank, "backward");
        st = hyd_agent_run(rank->agent, rank->local, &pass, &io, NULL);
    }
    strike(rank, "report");
    if (st == HYD_OK) {
        st = hyd_agent_report(rank->agent, rank->local, NULL, NULL);
    }
    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++) {
        ops->mem_free(dev, &each[i]->buf);
    }
    return st;
}

static void *rank_main(void *arg)
{
    const struct rank *rank = arg;

    for (;;) {
        const struct hyd_agent_assignment *step = NULL;

        if (hyd_agent_next(rank->agent, rank->local, -1, &step, NULL) != HYD_OK) {
            return NULL;
        }
        (void)run_step(rank, step);
    }
}

void hyd_victim_main(int argc, char **argv)
{
    struct hyd_agent_config config = {
        .job = "test", .n_ranks = N_RANKS, .n_threads = 1};
    struct rank rank[N_RANKS];
    pthread_t thread[N_RANKS];
    struct hyd_error err = {.text = ""};
    struct hyd_agent *agent = NULL;

    if (argc != 6 || strcmp(argv[1], "--victim") != 0) {
        return;
    }
    (void)alarm(LIFE_S);
    config.connect = argv[4];
    config.node = argv[5];
    if (hyd_agent_create(&config, hyd_alloc_system(), &agent, &err) != HYD_OK) {
        (void)fprintf(stderr, "victim: %s\n", err.text);
        exit(3);
    }
    for (uint32_t i = 0; i < N_RANKS; i++) {
        rank[i] = (struct rank){agent, i, argv[2], (int)strtol(argv[3], NULL, 10)};
        if (pthread_create(&thread[i], NULL, rank_main, &rank[i]) != 0) {
            exit(3);
        }
    }
    for (uint32_t i = 0; i < N_RANKS; i++) {
        (void)pthread_join(thread[i], NULL);
    }
    hyd_agent_free(agent);
    exit(0);
}
