/* backward.c - the backward pass over tiles; see device.h. A task holds up to
 * BLOCK_TILES tiles of query rows of one head and walks over what they see; for each kv
 * tile it sums its share of dk and dv and adds it when its turn has come. */
#include <math.h>
#include <string.h>

#include "worker/compute/cpu/device.h"

enum { BLOCK_TILES = 4 };

struct backward {
    struct hyd_cpu_job job; /* first: the pool hands out its address */
    const struct hyd_attn_backward *args;
};

struct q_tile {
    float *q_panels, *dout_panels, *q, *dout, *dq, *lse2, *delta;
};

struct area {
    float *p, *ds, *dk, *dv;
    struct q_tile tile[BLOCK_TILES];
};

static size_t place(float **at, unsigned char *base, size_t used, size_t n)
{
    if (base != NULL) {
        *at = (float *)(void *)(base + used);
    }
    return used + n * sizeof(float);
}

static size_t lay_out(struct area *area, unsigned char *base, uint32_t d)
{
    const size_t square = (size_t)HYD_TILE_Q * HYD_TILE_KV;
    const size_t panels = (size_t)HYD_TILE_Q * d;
    const size_t rows = HYD_TILE_Q * hyd_cpu_ld(d);
    size_t used = 0;

    used = place(&area->p, base, used, square);
    used = place(&area->ds, base, used, square);
    used = place(&area->dk, base, used, rows);
    used = place(&area->dv, base, used, rows);
    for (int i = 0; i < BLOCK_TILES; i++) {
        struct q_tile *t = &area->tile[i];

        used = place(&t->q_panels, base, used, panels);
        used = place(&t->dout_panels, base, used, panels);
        used = place(&t->q, base, used, rows);
        used = place(&t->dout, base, used, rows);
        used = place(&t->dq, base, used, rows);
        used = place(&t->lse2, base, used, HYD_TILE_Q);
        used = place(&t->delta, base, used, HYD_TILE_Q);
    }
    return used;
}

size_t hyd_cpu_backward_bytes(uint32_t d)
{
    struct area area = {0};

    return lay_out(&area, NULL, d);
}

/* Rows of tile t of the task. */
static struct hyd_rows tile_rows(const struct hyd_cpu_task *task, uint32_t t)
{
    const uint32_t first = t * HYD_TILE_Q;
    struct hyd_rows rows = {.row = task->q.row + first, .pos = task->q.pos + first};

    if (first < task->q.n) {
        rows.n = task->q.n - first < HYD_TILE_Q ? task->q.n - first : HYD_TILE_Q;
    }
    return rows;
}

static void load_tile(const struct backward *b, uint32_t head, struct hyd_rows q,
                      const struct q_tile *t)
{
    const struct hyd_attn_shape *s = b->job.shape;
    const struct hyd_cpu_kernels *kernels = b->job.dev->kernels;
    const size_t stride = (size_t)s->n_heads * s->d;
    const size_t at =
        (q.row * stride + (size_t)head * s->d) * hyd_dtype_bytes(s->dtype);
    struct hyd_cpu_rows rows = {
        .dtype = s->dtype, .stride = stride, .n = q.n, .d = s->d};
    const size_t stat = head * b->args->lse_stride + q.row;

    rows.at = (const unsigned char *)b->args->q.at + at;
    kernels->load_panels(t->q_panels, &rows, (float)((double)s->scale * M_LOG2E));
    kernels->load_rows(t->q, &rows);
    rows.at = (const unsigned char *)b->args->dout.at + at;
    kernels->load_panels(t->dout_panels, &rows, 1.0f);
    kernels->load_rows(t->dout, &rows);
    memset(t->dq, 0, q.n * hyd_cpu_ld(s->d) * sizeof(float));
    for (uint32_t i = 0; i < HYD_TILE_Q; i++) {
        const float lse =
            i < q.n ? ((const float *)b->args->lse.at)[stat + i] : -INFINITY;

        /* A row that saw nothing anywhere: weights exp2(s - inf) = 0. */
        t->lse2[i] = lse == -INFINITY ? INFINITY : (float)((double)lse * M_LOG2E);
        t->delta[i] = i < q.n ? ((const float *)b->args->delta.at)[stat + i] : 0.0f;
    }
}

/* This kv tile's share of dk and dv from the task's query rows; false when none of them
 * sees it. */
static bool sum_kv_tile(struct backward *b, uint32_t thread,
                        const struct hyd_cpu_task *task, struct hyd_rows kv,
                        const struct area *area)
{
    struct hyd_cpu_job *job = &b->job;
    const size_t kv_bytes = kv.n * hyd_cpu_ld(job->shape->d) * sizeof(float);
    struct hyd_cpu_backward_tile tile = {.n_kv = kv.n,
                                         .d = job->shape->d,
                                         .k = hyd_cpu_row(job, job->k_rows, kv.row),
                                         .v = hyd_cpu_row(job, job->v_rows, kv.row),
                                         .p = area->p,
                                         .ds = area->ds,
                                         .dk = area->dk,
                                         .dv = area->dv};
    bool any = false;

    memset(area->dk, 0, kv_bytes);
    memset(area->dv, 0, kv_bytes);
    for (uint32_t i = 0; i < BLOCK_TILES; i++) {
        const struct q_tile *t = &area->tile[i];
        const struct hyd_rows q = tile_rows(task, i);

        tile.n_q = q.n;
        tile.sight = hyd_cpu_see(job->shape, q, kv);
        if (!hyd_cpu_sees_any(&tile.sight, q.n, kv.n)) {
            continue;
        }
        tile.q_panels = t->q_panels;
        tile.dout_panels = t->dout_panels;
        tile.q = t->q;
        tile.dout = t->dout;
        tile.lse2 = t->lse2;
        tile.delta = t->delta;
        tile.dq = t->dq;
        job->dev->kernels->backward(&tile);
        hyd_cpu_job_did(job, thread, (uint64_t)10 * q.n * kv.n * tile.d);
        any = true;
    }
    return any;
}

static void add_kv_tile(const struct backward *b, struct hyd_rows kv,
                        const struct area *area)
{
    const struct hyd_attn_shape *s = b->job.shape;
    const size_t stride = (size_t)s->n_kv_heads * s->d;
    const size_t at = kv.row * stride + (size_t)b->job.kv_head * s->d;

    b->job.dev->kernels->add_rows((float *)b->args->dk_acc.at + at, stride, area->dk,
                                  kv.n, s->d, s->scale);
    b->job.dev->kernels->add_rows((float *)b->args->dv_acc.at + at, stride, area->dv,
                                  kv.n, s->d, 1.0f);
}

static void walk(struct backward *b, uint32_t thread, const struct hyd_cpu_task *task,
                 const struct area *area)
{
    struct hyd_cpu_job *job = &b->job;

    for (uint32_t i = 0; i < 2; i++) {
        struct hyd_rows left = task->kv[i];

        while (left.n != 0 && atomic_load(&job->status) == HYD_OK) {
            struct hyd_rows kv = left;

            kv.n = left.n < HYD_TILE_KV ? left.n : HYD_TILE_KV;
            if (sum_kv_tile(b, thread, task, kv, area)) {
                hyd_cpu_job_await(job, thread, kv);
                add_kv_tile(b, kv, area);
            }
            hyd_cpu_job_added(job, thread, i, kv);
            left.row += kv.n;
            left.pos += kv.n;
            left.n -= kv.n;
        }
    }
}

static void finish(const struct backward *b, const struct hyd_cpu_task *task,
                   const struct area *area)
{
    const struct hyd_attn_shape *s = b->job.shape;
    const size_t stride = (size_t)s->n_heads * s->d;

    for (uint32_t i = 0; i < BLOCK_TILES; i++) {
        const struct hyd_rows q = tile_rows(task, i);

        if (q.n != 0) {
            b->job.dev->kernels->add_rows((float *)b->args->dq_acc.at + q.row * stride +
                                              (size_t)task->head * s->d,
                                          stride, area->tile[i].dq, q.n, s->d,
                                          s->scale);
        }
    }
}

static void backward_work(void *ctx, uint32_t thread)
{
    struct backward *b = ctx;
    struct hyd_cpu_task task;
    struct area area = {0};

    (void)lay_out(&area, b->job.thread_area + thread * b->job.thread_bytes,
                  b->job.shape->d);
    while (hyd_cpu_job_next(&b->job, thread, &task)) {
        for (uint32_t i = 0; i < BLOCK_TILES && tile_rows(&task, i).n != 0; i++) {
            load_tile(b, task.head, tile_rows(&task, i), &area.tile[i]);
        }
        walk(b, thread, &task, &area);
        finish(b, &task, &area);
        hyd_cpu_job_done(&b->job, thread);
    }
}

hyd_status hyd_cpu_attn_backward(struct hyd_compute *dev,
                                 const struct hyd_attn_backward *args,
                                 double *ret_between_s)
{
    struct backward b = {.args = args,
                         .job = {.dev = dev,
                                 .shape = &args->shape,
                                 .unit = args->unit,
                                 .n_units = args->n_units,
                                 .k = args->k.at,
                                 .v = args->v.at,
                                 .between = args->between}};
    hyd_status st = hyd_cpu_job_begin(&b.job, BLOCK_TILES * HYD_TILE_Q,
                                      hyd_cpu_backward_bytes(args->shape.d));

    if (st == HYD_OK) {
        st = hyd_cpu_job_run(&b.job, backward_work);
    }
    *ret_between_s = b.job.between_s;
    return st;
}
