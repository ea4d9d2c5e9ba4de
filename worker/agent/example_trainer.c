/* example_trainer.c - a small trainer: how to link hydra_agent.
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

enum { MAX_RANKS = 64, N_TENSORS = 8 };

struct rank {
    struct hyd_agent *agent;
    uint32_t local;
    unsigned long n_steps;
    pthread_t thread;
    unsigned char *memory; /* of all tensors of a cell */
};

/* Memory for the largest cell; a real trainer takes it once, from the job's cap. */
static struct hyd_attn_io take_tensors(struct rank *rank,
                                       const struct hyd_agent_assignment *step)
{
    struct hyd_attn_io io;
    struct hyd_attn_tensor *const tensor[N_TENSORS] = {&io.q, &io.o, &io.dout, &io.dq,
                                                       &io.k, &io.v, &io.dk,   &io.dv};
    const size_t head = step->model.d * sizeof(float);
    size_t rows = 1, at = 0;

    for (uint32_t m = 0; m < step->n_microbatches; m++) {
        const uint32_t here = hyd_attn_cell_rows(&step->attn, step->rank, m);

        rows = here > rows ? here : rows;
    }
    free(rank->memory);
    rank->memory =
        calloc(4 * rows * (step->model.n_heads + step->model.n_kv_heads), head);
    if (rank->memory == NULL) {
        abort();
    }
    for (int i = 0; i < N_TENSORS; i++) {
        const size_t bytes =
            rows * head * (i < 4 ? step->model.n_heads : step->model.n_kv_heads);

        *tensor[i] = (struct hyd_attn_tensor){
            .buf = {rank->memory + at, bytes, HYD_MEM_HOST}}; /* rows without gaps */
        at += bytes;
    }
    return io;
}

/* A trainer would gather embeddings here; any function of (sequence, token) will do. */
static void fill(const struct hyd_agent_assignment *step, uint32_t microbatch,
                 const struct hyd_attn_tensor *tensor, size_t width, float salt)
{
    float *row = tensor->buf.at;

    for (size_t g = 0; g < step->attn.n_groups; g++) {
        const struct hyd_group *group = &step->attn.group[g];
        uint32_t me = 0, seq = 0, token = 0;

        if (group->microbatch != microbatch ||
            !hyd_group_member(group, step->rank, &me)) {
            continue;
        }
        for (uint32_t i = 0; hyd_layout_token(group, me, i, &seq, &token) == HYD_OK;
             i++, row += width) {
            for (size_t x = 0; x < width; x++) {
                row[x] = sinf(salt * (float)(group->id[seq] + 1) + 0.1F * (float)token +
                              0.37F * (float)x);
            }
        }
    }
}

static hyd_status microbatch(struct rank *rank, const struct hyd_agent_assignment *step,
                             const struct hyd_attn_io *io, uint32_t m, double *loss)
{
    const size_t width = (size_t)step->model.n_heads * step->model.d;
    const size_t kv_width = (size_t)step->model.n_kv_heads * step->model.d;
    const size_t n_out = hyd_attn_cell_rows(&step->attn, step->rank, m) * width;
    struct hyd_attn_pass pass = {m, 0, HYD_DIRECTION_FORWARD};
    const float *o = io->o.buf.at;
    hyd_status st;

    fill(step, m, &io->q, width, 1.0F);
    fill(step, m, &io->k, kv_width, 2.0F);
    fill(step, m, &io->v, kv_width, 3.0F);
    st = hyd_agent_run(rank->agent, rank->local, &pass, io, NULL);
    for (size_t i = 0; i < n_out && st == HYD_OK; i++) {
        *loss += 0.5 * (double)o[i] * (double)o[i];
        ((float *)io->dout.buf.at)[i] = o[i];
    }
    if (st == HYD_OK && step->backward) {
        pass.pass = HYD_DIRECTION_BACKWARD;
        st = hyd_agent_run(rank->agent, rank->local, &pass, io, NULL);
        /* dq, dk, dv now hold the gradients, row by row like q, k, v. */
    }
    return st;
}

static void *rank_main(void *arg)
{
    struct rank *rank = arg;
    const struct hyd_agent_assignment *step = NULL;

    while (rank->n_steps > 0 &&
           hyd_agent_next(rank->agent, rank->local, -1, &step, NULL) == HYD_OK) {
        const struct hyd_attn_io io = take_tensors(rank, step);
        double loss = 0.0;
        hyd_status st = HYD_OK;

        for (uint32_t m = 0; m < step->n_microbatches && st == HYD_OK; m++) {
            st = microbatch(rank, step, &io, m, &loss);
        }
        if (st != HYD_OK) {
            continue; /* the step is lost; the scheduler decides what comes next */
        }
        (void)printf("step %llu rank %u loss %.9g\n", (unsigned long long)step->step,
                     step->rank, loss);
        (void)fflush(stdout);
        if (hyd_agent_report(rank->agent, rank->local, NULL, NULL) == HYD_OK) {
            rank->n_steps--;
        }
    }
    free(rank->memory);
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
        rank[i] = (struct rank){
            .agent = agent, .local = i, .n_steps = strtoul(argv[5], NULL, 10)};
        if (pthread_create(&rank[i].thread, NULL, rank_main, &rank[i]) != 0) {
            return 1;
        }
    }
    for (uint32_t i = 0; i < config.n_ranks; i++) {
        (void)pthread_join(rank[i].thread, NULL);
    }
    hyd_agent_free(agent);
    return 0;
}
