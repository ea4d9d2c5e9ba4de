/* forward.c - the forward pass over tiles; see device.h. A task holds HYD_TILE_Q query
 * rows of one head, walks over what they see, and merges the result with what is in
 * o_acc and lse. */
#include <math.h>
#include <string.h>

#include "worker/compute/cpu/device.h"

struct forward {
    struct hyd_cpu_job job; /* first: the pool hands out its address */
    const struct hyd_attn_forward *args;
};

struct area {
    float *q_panels, *p, *o, *max, *sum, *alpha;
};

static size_t lay_out(struct area *area, unsigned char *base, uint32_t d)
{
    const size_t n[] = {(size_t)HYD_TILE_Q * d,
                        (size_t)HYD_TILE_Q * HYD_TILE_KV,
                        HYD_TILE_Q * hyd_cpu_ld(d),
                        HYD_TILE_Q,
                        HYD_TILE_Q,
                        HYD_TILE_Q};
    float **const at[] = {&area->q_panels, &area->p,   &area->o,
                          &area->max,      &area->sum, &area->alpha};
    size_t used = 0;

    for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
        if (base != NULL) {
            *at[i] = (float *)(void *)(base + used);
        }
        used += n[i] * sizeof(float);
    }
    return used;
}

size_t hyd_cpu_forward_bytes(uint32_t d)
{
    struct area area = {0};

    return lay_out(&area, NULL, d);
}

static void start(const struct forward *f, const struct hyd_cpu_task *task,
                  const struct area *area)
{
    const struct hyd_attn_shape *s = f->job.shape;
    const size_t stride = (size_t)s->n_heads * s->d;
    const size_t at = task->q.row * stride + (size_t)task->head * s->d;
    const struct hyd_cpu_rows rows = {.at = (const unsigned char *)f->args->q.at +
                                            at * hyd_dtype_bytes(s->dtype),
                                      .dtype = s->dtype,
                                      .stride = stride,
                                      .n = task->q.n,
                                      .d = s->d};

    f->job.dev->kernels->load_panels(area->q_panels, &rows,
                                     (float)((double)s->scale * M_LOG2E));
    memset(area->o, 0, task->q.n * hyd_cpu_ld(s->d) * sizeof(float));
    for (int i = 0; i < HYD_TILE_Q; i++) {
        area->max[i] = -INFINITY;
        area->sum[i] = 0.0f;
    }
}

static void walk(struct forward *f, uint32_t thread, const struct hyd_cpu_task *task,
                 const struct area *area)
{
    struct hyd_cpu_job *job = &f->job;
    struct hyd_cpu_forward_tile tile = {.n_q = task->q.n,
                                        .d = job->shape->d,
                                        .q_panels = area->q_panels,
                                        .p = area->p,
                                        .o = area->o,
                                        .max = area->max,
                                        .sum = area->sum,
                                        .alpha = area->alpha};

    for (int i = 0; i < 2; i++) {
        struct hyd_rows left = task->kv[i];

        while (left.n != 0 && atomic_load(&job->status) == HYD_OK) {
            struct hyd_rows kv = left;

            kv.n = left.n < HYD_TILE_KV ? left.n : HYD_TILE_KV;
            tile.n_kv = kv.n;
            tile.k = hyd_cpu_row(job, job->k_rows, kv.row);
            tile.v = hyd_cpu_row(job, job->v_rows, kv.row);
            tile.sight = hyd_cpu_see(job->shape, task->q, kv);
            if (hyd_cpu_sees_any(&tile.sight, tile.n_q, tile.n_kv)) {
                job->dev->kernels->forward(&tile);
                hyd_cpu_job_did(job, thread,
                                (uint64_t)4 * tile.n_q * tile.n_kv * tile.d);
            }
            left.row += kv.n;
            left.pos += kv.n;
            left.n -= kv.n;
        }
    }
}

/* o = o * old + fresh * new; a weight of 0 hides whatever is there. */
static void blend(float *o, const float *fresh, uint32_t d, float old, float new)
{
    for (uint32_t x = 0; x < d; x++) {
        const float before = old > 0.0f ? o[x] * old : 0.0f;

        o[x] = new > 0.0f ? before + fresh[x] * new : before;
    }
}

/* Merge rows with what earlier calls left: worker/README.md "Mathematics", equation 8. */
static void finish(const struct forward *f, const struct hyd_cpu_task *task,
                   const struct area *area)
{
    const struct hyd_attn_shape *s = f->job.shape;
    const struct hyd_attn_forward *args = f->args;
    float *o = (float *)args->o_acc.at +
               ((size_t)task->q.row * s->n_heads + task->head) * s->d;
    float *lse = (float *)args->lse.at + task->head * args->lse_stride + task->q.row;

    for (uint32_t i = 0; i < task->q.n; i++) {
        const double sum = (double)area->sum[i];
        const double before = args->first ? -HUGE_VAL : (double)lse[i];
        const double here =
            sum > 0.0 ? (double)area->max[i] * M_LN2 + log(sum) : -HUGE_VAL;
        const double top = before > here ? before : here;
        double old, new, all;

        if (top == -HUGE_VAL) {
            if (args->first) {
                memset(o, 0, s->d * sizeof(float));
                lse[i] = -INFINITY;
            }
        } else {
            old = exp(before - top);
            new = exp(here - top);
            all = old + new;
            blend(o, area->o + i * hyd_cpu_ld(s->d), s->d, (float)(old / all),
                  new > 0.0 ? (float)(new / all / sum) : 0.0f);
            lse[i] = (float)(top + log(all));
        }
        o += (size_t)s->n_heads * s->d;
    }
}

static void forward_work(void *ctx, uint32_t thread)
{
    struct forward *f = ctx;
    struct hyd_cpu_task task;
    struct area area = {0};

    (void)lay_out(&area, f->job.thread_area + thread * f->job.thread_bytes,
                  f->job.shape->d);
    while (hyd_cpu_job_next(&f->job, thread, &task)) {
        start(f, &task, &area);
        walk(f, thread, &task, &area);
        finish(f, &task, &area);
        hyd_cpu_job_done(&f->job, thread);
    }
}

hyd_status hyd_cpu_attn_forward(struct hyd_compute *dev,
                                const struct hyd_attn_forward *args,
                                double *ret_between_s)
{
    struct forward f = {.args = args,
                        .job = {.dev = dev,
                                .shape = &args->shape,
                                .unit = args->unit,
                                .n_units = args->n_units,
                                .k = args->k.at,
                                .v = args->v.at,
                                .between = args->between}};
    hyd_status st =
        hyd_cpu_job_begin(&f.job, HYD_TILE_Q, hyd_cpu_forward_bytes(args->shape.d));

    if (st == HYD_OK) {
        st = hyd_cpu_job_run(&f.job, forward_work);
    }
    *ret_between_s = f.job.between_s;
    return st;
}
