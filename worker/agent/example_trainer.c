/* example_trainer.c - a trainer in a hundred lines: how to link hydra_agent.
 *
 *   hydra-example-trainer ADDRESS JOB NODE RANKS STEPS
 *
 * Its one layer is attention alone. It owns q, k, v and lends them for a pass; the loss is
 * half the sum of squares of the output, so the gradient that goes back in is the output
 * itself. Which token is in which row it learns from the layout's maps. Ends after STEPS
 * steps and prints each rank's part of the loss: whatever the plan, the parts add up to
 * the same. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker/agent/agent.h"

enum { MAX_RANKS = 64, Q = 0, K, V, O, DOUT, DQ, DK, DV, N_TENSORS };

struct rank {
    struct hyd_agent *agent;
    uint32_t local;
    unsigned long n_steps;
    pthread_t thread;
    struct hyd_buf tensor[N_TENSORS];
};

static bool is_kv(int tensor)
{
    return tensor == K || tensor == V || tensor == DK || tensor == DV;
}

/* A trainer would gather embeddings here; any function of (sequence, token) will do. */
static void fill(const struct hyd_agent_assignment *step, uint32_t microbatch,
                 int tensor, float *row)
{
    const size_t width = (size_t)step->model.d *
                         (is_kv(tensor) ? step->model.n_kv_heads : step->model.n_heads);

    for (size_t g = 0; g < step->attn.n_groups; g++) {
        const struct hyd_group *group = &step->attn.group[g];
        uint32_t me = 0;

        if (group->microbatch != microbatch ||
            !hyd_group_member(group, step->rank, &me)) {
            continue;
        }
        for (uint32_t i = 0; i < hyd_group_rows(group, me); i++, row += width) {
            uint32_t seq = 0;
            uint32_t token = 0;

            if (hyd_layout_token(group, me, i, &seq, &token) != HYD_OK) {
                abort();
            }
            for (size_t x = 0; x < width; x++) {
                row[x] = sinf((float)(tensor + 1) * (float)(group->id[seq] + 1) +
                              0.1F * (float)token + 0.37F * (float)x);
            }
        }
    }
}

static struct hyd_attn_tensor lend(struct rank *rank, int tensor)
{
    return (struct hyd_attn_tensor){.buf = rank->tensor[tensor]};
}

static hyd_status microbatch(struct rank *rank, const struct hyd_agent_assignment *step,
                             uint32_t m, double *loss, struct hyd_error *err)
{
    const uint32_t rows = hyd_attn_cell_rows(&step->attn, step->rank, m);
    const size_t n_out = (size_t)rows * step->model.n_heads * step->model.d;
    const struct hyd_attn_io io = {lend(rank, Q),  lend(rank, K),    lend(rank, V),
                                   lend(rank, O),  lend(rank, DOUT), lend(rank, DQ),
                                   lend(rank, DK), lend(rank, DV)};
    struct hyd_attn_pass pass = {m, 0, HYD_DIRECTION_FORWARD};
    const float *o = rank->tensor[O].at;
    hyd_status st = HYD_OK;

    for (int tensor = Q; tensor <= V; tensor++) {
        fill(step, m, tensor, rank->tensor[tensor].at);
    }
    st = hyd_agent_run(rank->agent, rank->local, &pass, &io, err);
    for (size_t i = 0; i < n_out && st == HYD_OK; i++) {
        *loss += 0.5 * (double)o[i] * (double)o[i];
        ((float *)rank->tensor[DOUT].at)[i] = o[i];
    }
    if (st == HYD_OK && step->backward) {
        pass.pass = HYD_DIRECTION_BACKWARD;
        st = hyd_agent_run(rank->agent, rank->local, &pass, &io, err);
        /* dq, dk, dv now hold the gradients, row by row like q, k, v. */
    }
    return st;
}

/* Memory for the largest cell; a real trainer takes it once, from the job's cap. */
static void take_tensors(struct rank *rank, const struct hyd_agent_assignment *step)
{
    const struct hyd_compute_ops *ops = NULL;
    struct hyd_compute *dev = hyd_agent_device(rank->agent, rank->local, &ops);
    uint32_t rows = 1;

    for (uint32_t m = 0; m < step->n_microbatches; m++) {
        const uint32_t here = hyd_attn_cell_rows(&step->attn, step->rank, m);

        rows = here > rows ? here : rows;
    }
    for (int i = 0; i < N_TENSORS; i++) {
        const size_t heads = is_kv(i) ? step->model.n_kv_heads : step->model.n_heads;

        ops->mem_free(dev, &rank->tensor[i]);
        if (ops->mem != HYD_MEM_HOST ||
            ops->mem_alloc(dev, rows * heads * step->model.d * sizeof(float),
                           &rank->tensor[i]) != HYD_OK) {
            (void)fprintf(stderr, "no host memory for %u rows\n", rows);
            exit(1);
        }
    }
}

static void *rank_main(void *arg)
{
    struct rank *rank = arg;
    const struct hyd_agent_assignment *step = NULL;
    struct hyd_error err = {.text = ""};

    while (rank->n_steps > 0 &&
           hyd_agent_next(rank->agent, rank->local, -1, &step, &err) == HYD_OK) {
        double loss = 0.0;
        hyd_status st = HYD_OK;

        take_tensors(rank, step);
        for (uint32_t m = 0; m < step->n_microbatches && st == HYD_OK; m++) {
            st = microbatch(rank, step, m, &loss, &err);
        }
        if (st != HYD_OK) {
            (void)fprintf(stderr, "step lost: %s\n", err.text);
            continue; /* the scheduler decides what comes next */
        }
        (void)printf("step %llu rank %u loss %.9g\n", (unsigned long long)step->step,
                     step->rank, loss);
        (void)fflush(stdout);
        if (hyd_agent_report(rank->agent, rank->local, NULL, &err) == HYD_OK) {
            rank->n_steps--;
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct hyd_agent_config config = {.dense = true};
    struct rank rank[MAX_RANKS] = {{.agent = NULL}};
    struct hyd_error err = {.text = ""};
    struct hyd_agent *agent = NULL;

    if (argc != 6) {
        (void)fprintf(stderr, "usage: %s ADDRESS JOB NODE RANKS STEPS\n", argv[0]);
        return 2;
    }
    config.connect = argv[1];
    config.job = argv[2];
    config.node = argv[3];
    config.n_ranks = (uint32_t)strtoul(argv[4], NULL, 10);
    if (hyd_agent_create(&config, hyd_alloc_system(), &agent, &err) != HYD_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (uint32_t i = 0; i < config.n_ranks; i++) {
        rank[i].agent = agent;
        rank[i].local = i;
        rank[i].n_steps = strtoul(argv[5], NULL, 10);
        if (pthread_create(&rank[i].thread, NULL, rank_main, &rank[i]) != 0) {
            return 1;
        }
    }
    for (uint32_t i = 0; i < config.n_ranks; i++) {
        const struct hyd_compute_ops *ops = NULL;

        (void)pthread_join(rank[i].thread, NULL);
        for (int t = 0; t < N_TENSORS; t++) {
            struct hyd_compute *dev = hyd_agent_device(agent, i, &ops);

            ops->mem_free(dev, &rank[i].tensor[t]);
        }
    }
    hyd_agent_free(agent);
    return 0;
}
