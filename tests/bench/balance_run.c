/* balance_run.c - see balance_run.h. */
#include "tests/bench/balance_run.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/rng.h"
#include "worker/attn/attn.h"
#include "worker/transport/self/transport_self.h"

#include "common/base/banned.h"

enum { Q, K, V, O, DOUT, DQ, DK, DV, N_TENSORS };

struct balance_rank {
    uint32_t number;
    struct hyd_compute *dev;
    struct hyd_transport *transport;
    struct hyd_attn *attn;
    struct hyd_group *group;
    struct hyd_attn_figures *figures;
    struct hyd_attn_step step;
    struct hyd_buf tensor[N_TENSORS]; /* of the cell at work */
    bool busy;
};

struct run {
    const struct hyd_balance_in *in;
    struct hyd_attn_model model;
    struct hyd_attn_limits limits;
    uint32_t most_rows;
    struct balance_rank rank[HYD_BALANCE_RANKS];
};

static uint32_t heads_of(const struct run *run, size_t tensor)
{
    const bool kv = tensor == K || tensor == V || tensor == DK || tensor == DV;

    return kv ? run->model.n_kv_heads : run->model.n_heads;
}

/* This rank's groups, and what its cells hold at most. */
static bool take_groups(struct run *run, struct balance_rank *rank)
{
    const struct hyd_balance_plan *plan = run->in->plan;

    rank->group = calloc(plan->n_groups + 1, sizeof *rank->group);
    rank->figures = calloc(plan->n_groups + 1, sizeof *rank->figures);
    if (rank->group == NULL || rank->figures == NULL) {
        return false;
    }
    rank->step = (struct hyd_attn_step){
        .group = rank->group, .figures = rank->figures, .backward = true};
    for (size_t i = 0; i < plan->n_groups; i++) {
        const struct hyd_balance_group *from = &plan->group[i];
        const struct hyd_group group = {from->microbatch,   from->u,    from->r,
                                        from->n_seqs,       from->rank, from->id,
                                        from->length_tokens};
        uint32_t member;

        if (hyd_group_member(&group, rank->number, &member)) {
            rank->group[rank->step.n_groups++] = group;
        }
    }
    for (size_t i = 1; i < rank->step.n_groups; i++) {
        for (size_t j = i;
             j > 0 && hyd_group_compare(&rank->group[j - 1], &rank->group[j]) > 0;
             j--) {
            const struct hyd_group swap = rank->group[j];

            rank->group[j] = rank->group[j - 1];
            rank->group[j - 1] = swap;
        }
    }
    for (uint32_t m = 0; m < plan->n_microbatches; m++) {
        const uint32_t rows = hyd_attn_cell_rows(&rank->step, rank->number, m);

        run->most_rows = rows > run->most_rows ? rows : run->most_rows;
    }
    return true;
}

static const char *open_rank(struct run *run, struct balance_rank *rank)
{
    const struct hyd_compute_config compute = {.n_threads = 1};
    const struct hyd_transport_config net = {.rank = rank->number,
                                             .n_ranks = HYD_BALANCE_RANKS,
                                             .epoch = 1,
                                             .session = "balance"};
    struct hyd_attn_config config = {
        .model = run->model, .limits = run->limits, .compute = run->in->compute};
    hyd_status st = run->in->compute->open(&compute, &rank->dev, NULL);

    if (st == HYD_OK) {
        st = hyd_transport_self.open(&net, &rank->transport, NULL);
    }
    config.dev = rank->dev;
    if (st == HYD_OK) {
        st = hyd_attn_create(&config, hyd_alloc_system(), &rank->attn, NULL);
    }
    for (size_t t = 0; t < N_TENSORS && st == HYD_OK; t++) {
        const size_t bytes = (size_t)run->most_rows * heads_of(run, t) * run->model.d *
                             hyd_dtype_bytes(run->model.dtype);

        st = run->in->compute->mem_alloc(rank->dev, bytes, &rank->tensor[t]);
    }
    if (st == HYD_OK) {
        st = hyd_attn_set_transport(rank->attn, &hyd_transport_self, rank->transport,
                                    rank->number, HYD_BALANCE_RANKS, NULL);
    }
    if (st == HYD_OK) {
        st = hyd_attn_begin_step(rank->attn, &rank->step, NULL);
    }
    return st == HYD_OK ? NULL : hyd_status_name(st);
}

static void close_rank(const struct run *run, struct balance_rank *rank)
{
    hyd_transport_self.close(rank->transport);
    if (rank->attn != NULL) {
        hyd_attn_end_step(rank->attn);
    }
    hyd_attn_free(rank->attn);
    for (size_t t = 0; t < N_TENSORS && rank->dev != NULL; t++) {
        run->in->compute->mem_free(rank->dev, &rank->tensor[t]);
    }
    run->in->compute->close(rank->dev);
    free(rank->group);
    free(rank->figures);
}

/* Call `visit` for each row of the rank's cell, with a key of (sequence, token). */
static void each_row(const struct run *run, const struct balance_rank *rank,
                     uint32_t microbatch,
                     void (*visit)(const struct run *run,
                                   const struct balance_rank *rank, uint32_t row,
                                   uint64_t key, void *ctx),
                     void *ctx)
{
    uint32_t first = 0;

    for (size_t i = 0; i < rank->step.n_groups; i++) {
        const struct hyd_group *group = &rank->group[i];
        uint32_t member = 0;

        if (group->microbatch != microbatch ||
            !hyd_group_member(group, rank->number, &member)) {
            continue;
        }
        for (uint32_t row = 0; row < hyd_group_rows(group, member); row++) {
            uint32_t seq = 0, token = 0;

            if (hyd_layout_token(group, member, row, &seq, &token) == HYD_OK) {
                visit(run, rank, first + row, hyd_rng_mix(group->id[seq], token), ctx);
            }
        }
        first += hyd_group_rows(group, member);
    }
}

static void make_row(const struct run *run, const struct balance_rank *rank,
                     uint32_t row, uint64_t key, void *ctx)
{
    static const size_t inputs[] = {Q, K, V, DOUT};

    (void)ctx;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        const size_t t = inputs[i];
        const size_t n = (size_t)heads_of(run, t) * run->model.d;
        float *at = (float *)rank->tensor[t].at + row * n;

        for (size_t x = 0; x < n; x++) {
            at[x] = hyd_rng_signed_at(hyd_rng_mix(key, t), x);
        }
    }
}

struct sums {
    double sum[HYD_BALANCE_SUMS], size[HYD_BALANCE_SUMS];
};

static void sum_row(const struct run *run, const struct balance_rank *rank,
                    uint32_t row, uint64_t key, void *ctx)
{
    static const size_t outputs[HYD_BALANCE_SUMS] = {O, DQ, DK, DV};
    struct sums *sums = ctx;

    for (size_t i = 0; i < HYD_BALANCE_SUMS; i++) {
        const size_t t = outputs[i];
        const size_t n = (size_t)heads_of(run, t) * run->model.d;
        const float *at = (const float *)rank->tensor[t].at + row * n;

        for (size_t x = 0; x < n; x++) {
            const double part =
                (double)at[x] * (double)hyd_rng_signed_at(hyd_rng_mix(key, 99), x);

            sums->sum[i] += part;
            sums->size[i] += fabs(part);
        }
    }
}

static struct hyd_attn_io io_of(const struct balance_rank *rank)
{
    const struct hyd_buf *t = rank->tensor;

    return (struct hyd_attn_io){.q = {.buf = t[Q]},
                                .k = {.buf = t[K]},
                                .v = {.buf = t[V]},
                                .o = {.buf = t[O]},
                                .dout = {.buf = t[DOUT]},
                                .dq = {.buf = t[DQ]},
                                .dk = {.buf = t[DK]},
                                .dv = {.buf = t[DV]}};
}

/* One pass on all ranks, a piece each in turn. */
static const char *run_pass(struct run *run, const struct hyd_attn_pass *pass)
{
    uint32_t n_busy = HYD_BALANCE_RANKS;

    for (uint32_t i = 0; i < HYD_BALANCE_RANKS; i++) {
        struct balance_rank *rank = &run->rank[i];
        const struct hyd_attn_io io = io_of(rank);

        if (hyd_attn_start(rank->attn, pass, &io, NULL) != HYD_OK) {
            return "a pass does not start";
        }
        rank->busy = true;
    }
    while (n_busy > 0) {
        for (uint32_t i = 0; i < HYD_BALANCE_RANKS; i++) {
            struct balance_rank *rank = &run->rank[i];
            enum hyd_attn_state state = HYD_ATTN_DONE;

            if (rank->busy && hyd_attn_advance(rank->attn, &state, NULL) != HYD_OK) {
                return "a pass fails";
            }
            if (rank->busy && state == HYD_ATTN_DONE) {
                rank->busy = false;
                n_busy--;
            }
        }
    }
    return NULL;
}

static const char *run_microbatch(struct run *run, uint32_t microbatch,
                                  struct sums *sums)
{
    struct hyd_attn_pass pass = {.microbatch = microbatch,
                                 .pass = HYD_DIRECTION_FORWARD};
    const char *why;

    for (uint32_t i = 0; i < HYD_BALANCE_RANKS; i++) {
        each_row(run, &run->rank[i], microbatch, make_row, NULL);
    }
    why = run_pass(run, &pass);
    pass.pass = HYD_DIRECTION_BACKWARD;
    why = why == NULL ? run_pass(run, &pass) : why;
    for (uint32_t i = 0; i < HYD_BALANCE_RANKS && why == NULL; i++) {
        each_row(run, &run->rank[i], microbatch, sum_row, sums);
    }
    return why;
}

static void note_cells(const struct run *run, double *cell_s)
{
    const uint32_t n = run->in->plan->n_microbatches;

    for (uint32_t i = 0; i < HYD_BALANCE_RANKS; i++) {
        const struct balance_rank *rank = &run->rank[i];

        for (uint32_t m = 0; m < n; m++) {
            double took_s = 0.0;

            for (size_t g = 0; g < rank->step.n_groups; g++) {
                took_s +=
                    rank->group[g].microbatch == m ? rank->figures[g].compute_s : 0.0;
            }
            cell_s[i * n + m] = fmin(cell_s[i * n + m], took_s);
        }
    }
}

static uint32_t count_split(const struct balance_rank *rank)
{
    uint32_t n = 0;

    for (size_t i = 0; i < rank->step.n_groups; i++) {
        n += hyd_group_degree(&rank->group[i]) > 1 ? rank->group[i].n_seqs : 0;
    }
    return n;
}

const char *hyd_balance_run(const struct hyd_balance_in *in, double *cell_s,
                            double ret_sum[HYD_BALANCE_SUMS],
                            double ret_size[HYD_BALANCE_SUMS])
{
    struct run run = {.in = in,
                      .model = {.dtype = in->shape->dtype,
                                .d = in->shape->d,
                                .n_heads = in->shape->n_heads,
                                .n_kv_heads = in->shape->n_kv_heads,
                                .see = HYD_SEE_CAUSAL}};
    struct sums sums = {.sum = {0.0}};
    const char *why = NULL;

    run.limits = (struct hyd_attn_limits){
        .max_u = HYD_BALANCE_RANKS, .dense = true, .n_saved = 1};
    for (uint32_t i = 0; i < HYD_BALANCE_RANKS && why == NULL; i++) {
        run.rank[i].number = i;
        why = take_groups(&run, &run.rank[i]) ? NULL : "no memory";
        run.limits.split_seqs += count_split(&run.rank[i]);
    }
    run.limits.cell_tokens = run.most_rows + 1;
    for (uint32_t i = 0; i < HYD_BALANCE_RANKS && why == NULL; i++) {
        why = open_rank(&run, &run.rank[i]);
    }
    for (uint32_t m = 0; m < in->plan->n_microbatches && why == NULL; m++) {
        why = run_microbatch(&run, m, &sums);
    }
    if (why == NULL) {
        note_cells(&run, cell_s);
    }
    for (size_t i = 0; i < HYD_BALANCE_SUMS; i++) {
        ret_sum[i] = sums.sum[i];
        ret_size[i] = sums.size[i];
    }
    for (uint32_t i = 0; i < HYD_BALANCE_RANKS; i++) {
        close_rank(&run, &run.rank[i]);
    }
    return why;
}
