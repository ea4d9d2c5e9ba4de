/* example_trainer.c - a small trainer: how to link hydra_agent.
 *
 *   hydra-example-trainer ADDRESS JOB NODE RANKS STEPS
 *
 * Its one layer is attention alone. It owns q, k, v and lends them for a pass; the loss is
 * half the sum of squares of the output, so the gradient that goes back in is the output
 * itself. Ends after STEPS steps and prints each rank's part of the loss: whatever the
 * plan, the parts add up to the same. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker/agent/agent.h"

/* A trainer would gather embeddings here; any function of (sequence, token) will do. */
static void fill(const struct hyd_agent_assignment *step, uint32_t microbatch,
                 const struct hyd_attn_tensor *tensor, size_t width, float salt)
{
    struct hyd_layout_rows rows;
    struct hyd_layout_place at;

    hyd_layout_rows_start(&rows, step->attn.group, step->attn.n_groups, microbatch,
                          step->rank);
    while (hyd_layout_rows_next(&rows, &at)) {
        float *row = (float *)tensor->buf.at + at.row * width;

        for (size_t x = 0; x < width; x++) {
            row[x] = sinf(salt * (float)(at.id + 1) + 0.1F * (float)at.token +
                          0.37F * (float)x);
        }
    }
}

static hyd_status microbatch(struct hyd_agent *agent, uint32_t local_rank,
                             const struct hyd_agent_assignment *step,
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
    st = hyd_agent_run(agent, local_rank, &pass, io, NULL);
    for (size_t i = 0; i < n_out && st == HYD_OK; i++) {
        *loss += 0.5 * (double)o[i] * (double)o[i];
        ((float *)io->dout.buf.at)[i] = o[i];
    }
    if (st == HYD_OK && step->backward) {
        pass.pass = HYD_DIRECTION_BACKWARD;
        st = hyd_agent_run(agent, local_rank, &pass, io, NULL);
        /* dq, dk, dv now hold the gradients, row by row like q, k, v. */
    }
    return st;
}

/* The thread of a rank. */
static hyd_status train(struct hyd_agent *agent, uint32_t local_rank, void *n_steps)
{
    const struct hyd_agent_assignment *step = NULL;
    unsigned long n_left = *(const unsigned long *)n_steps;
    hyd_status st = HYD_OK;

    while (n_left > 0 &&
           (st = hyd_agent_next(agent, local_rank, -1, &step, NULL)) == HYD_OK) {
        const uint32_t n_rows = hyd_attn_most_rows(&step->attn, step->rank);
        const size_t bytes = hyd_attn_io_bytes(&step->model, n_rows);
        void *memory = malloc(bytes + 1);
        const struct hyd_attn_io io = hyd_attn_io_place(
            &step->model, n_rows, (struct hyd_buf){memory, bytes, HYD_MEM_HOST});
        double loss = 0.0;

        if (memory == NULL) {
            return HYD_ERR_NO_MEMORY;
        }
        for (uint32_t m = 0; m < step->n_microbatches && st == HYD_OK; m++) {
            st = microbatch(agent, local_rank, step, &io, m, &loss);
        }
        free(memory);
        if (st != HYD_OK) {
            continue; /* the step is lost; the scheduler decides what comes next */
        }
        (void)printf("step %llu rank %u loss %.9g\n", (unsigned long long)step->step,
                     step->rank, loss);
        (void)fflush(stdout);
        n_left -= hyd_agent_report(agent, local_rank, NULL, NULL) == HYD_OK;
    }
    return st;
}

int main(int argc, char **argv)
{
    struct hyd_agent_config config = {.dense = true};
    struct hyd_error err = {.text = ""};
    struct hyd_agent *agent = NULL;
    unsigned long n_steps;
    hyd_status st;

    if (argc != 6) {
        (void)fprintf(stderr, "usage: %s ADDRESS JOB NODE RANKS STEPS\n", argv[0]);
        return 2;
    }
    config.connect = argv[1];
    config.job = argv[2];
    config.node = argv[3];
    config.n_ranks = (uint32_t)strtoul(argv[4], NULL, 10);
    n_steps = strtoul(argv[5], NULL, 10);
    st = hyd_agent_create(&config, hyd_alloc_system(), &agent, &err);
    if (st == HYD_OK) {
        st = hyd_agent_run_ranks(agent, train, &n_steps, &err);
    }
    if (st != HYD_OK) {
        (void)fprintf(stderr, "%s: %s\n", hyd_status_name(st), err.text);
    }
    hyd_agent_free(agent);
    return st == HYD_OK ? 0 : 1;
}
