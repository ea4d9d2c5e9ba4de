/* compute_naive.c - see compute_naive.h. */
#include "tests/lib/compute_naive.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "tests/lib/naive.h"

static float bf16_value(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;

    memcpy(&value, &wide, sizeof value);
    return value;
}

static double element(struct hyd_buf buf, enum hyd_dtype dtype, size_t i)
{
    hyd_assert((i + 1) * (dtype == HYD_DTYPE_F32 ? 4 : 2) <= buf.bytes);
    return dtype == HYD_DTYPE_F32 ? (double)((const float *)buf.at)[i]
                                  : (double)bf16_value(((const uint16_t *)buf.at)[i]);
}

static float *f32(struct hyd_buf buf, size_t i)
{
    hyd_assert((i + 1) * sizeof(float) <= buf.bytes);
    return (float *)buf.at + i;
}

static hyd_status naive_probe(struct hyd_error *err)
{
    (void)err;
    return HYD_OK;
}

static hyd_status naive_open(const struct hyd_compute_config *config,
                             struct hyd_compute **ret_dev, struct hyd_error *err)
{
    (void)config;
    (void)err;
    *ret_dev = calloc(1, sizeof **ret_dev);
    return *ret_dev == NULL ? HYD_ERR_NO_MEMORY : HYD_OK;
}

static void naive_close(struct hyd_compute *dev)
{
    naive_drop_queue(dev);
    free(dev);
}

static const char *naive_describe(const struct hyd_compute *dev)
{
    (void)dev;
    return "naive loops in double";
}

static hyd_status naive_mem_alloc(struct hyd_compute *dev, size_t bytes,
                                  struct hyd_buf *ret_buf)
{
    void *at = malloc(bytes + 1);

    if (at == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    dev->knobs.n_allocs++;
    memset(at, 0xff, bytes);
    *ret_buf = (struct hyd_buf){at, bytes, HYD_MEM_HOST};
    return HYD_OK;
}

static void naive_mem_free(struct hyd_compute *dev, struct hyd_buf *buf)
{
    (void)dev;
    free(buf->at);
    *buf = (struct hyd_buf){0};
}

static hyd_status naive_upload(struct hyd_compute *dev, struct hyd_buf dst,
                               const void *host, size_t bytes)
{
    (void)dev;
    memcpy(dst.at, host, bytes);
    return HYD_OK;
}

static hyd_status naive_download(struct hyd_compute *dev, void *host,
                                 struct hyd_buf src, size_t bytes)
{
    (void)dev;
    memcpy(host, src.at, bytes);
    return HYD_OK;
}

static size_t naive_scratch_bytes(const struct hyd_compute *dev,
                                  const struct hyd_attn_shape *shape,
                                  uint32_t max_q_rows, uint32_t max_kv_rows)
{
    (void)dev;
    (void)shape;
    (void)max_q_rows;
    (void)max_kv_rows;
    return 64;
}

static hyd_status naive_set_scratch(struct hyd_compute *dev, struct hyd_buf scratch)
{
    (void)dev;
    return scratch.bytes >= 64 ? HYD_OK : HYD_ERR_INVALID;
}

static hyd_status naive_supports(const struct hyd_compute *dev,
                                 const struct hyd_attn_shape *shape,
                                 struct hyd_error *err)
{
    (void)dev;
    if (shape->d > 256) {
        return hyd_error_field(err, HYD_ERR_INVALID, "head_dim",
                               "head size is %u, at most 256", shape->d);
    }
    return HYD_OK;
}

static bool sees(const struct hyd_attn_shape *shape, uint32_t q_pos, uint32_t k_pos)
{
    if (shape->see == HYD_SEE_FULL) {
        return true;
    }
    return k_pos <= q_pos &&
           (shape->see == HYD_SEE_CAUSAL || q_pos - k_pos < shape->window_tokens);
}

/* One query row and head against a unit's keys: calls back with every visible key. */
struct row {
    const struct hyd_attn_shape *shape;
    struct hyd_buf q, k;
    size_t q_at; /* first element of the query row and head */
    uint32_t q_pos;
    uint32_t kv_head;
};

static double score(const struct row *row, size_t k_at)
{
    double sum = 0.0;

    for (uint32_t x = 0; x < row->shape->d; x++) {
        sum += element(row->q, row->shape->dtype, row->q_at + x) *
               element(row->k, row->shape->dtype, k_at + x);
    }
    return sum * (double)row->shape->scale;
}

static struct row row_of(const struct hyd_attn_shape *shape, struct hyd_buf q,
                         struct hyd_buf k, const struct hyd_rows *rows,
                         const uint32_t i_head[2])
{
    size_t at = (size_t)(rows->row + i_head[0]) * shape->n_heads + i_head[1];
    uint32_t kv_head =
        (shape->head_first + i_head[1]) / shape->heads_per_kv - shape->kv_head_first;

    hyd_assert(kv_head < shape->n_kv_heads);
    return (struct row){shape, q, k, at * shape->d, rows->pos + i_head[0], kv_head};
}

static size_t key_at(const struct row *row, const struct hyd_rows *kv, uint32_t j)
{
    return ((size_t)(kv->row + j) * row->shape->n_kv_heads + row->kv_head) *
           row->shape->d;
}

/* Largest visible score of the row in one interval. */
static double largest(const struct row *row, const struct hyd_rows *kv)
{
    double most = -(double)INFINITY;

    for (uint32_t j = 0; j < kv->n; j++) {
        if (sees(row->shape, row->q_pos, kv->pos + j)) {
            most = fmax(most, score(row, key_at(row, kv, j)));
        }
    }
    return most;
}

/* Add exp(score - most) v to o, and return the sum of the exponentials. */
static double weigh(struct hyd_compute *dev, const struct row *row,
                    const struct hyd_rows *kv, double most, struct hyd_buf v, double *o)
{
    const struct hyd_attn_shape *shape = row->shape;
    double sum = 0.0;

    for (uint32_t j = 0; j < kv->n; j++) {
        size_t at = key_at(row, kv, j);
        double p;

        if (!sees(shape, row->q_pos, kv->pos + j)) {
            continue;
        }
        dev->compute_s += 1e-9;
        p = exp(score(row, at) - most);
        sum += p;
        for (uint32_t x = 0; x < shape->d; x++) {
            o[x] += p * element(v, shape->dtype, at + x);
        }
    }
    return sum;
}

/* o and lse over the keys of one unit, in double. */
static double forward_row(struct hyd_compute *dev, const struct row *row,
                          const struct hyd_attn_unit *unit, struct hyd_buf v, double *o)
{
    const struct hyd_attn_shape *shape = row->shape;
    double sum = 0.0;
    double most = -(double)INFINITY;

    memset(o, 0, shape->d * sizeof *o);
    for (uint32_t side = 0; side < unit->n_kv; side++) {
        most = fmax(most, largest(row, &unit->kv[side]));
    }
    for (uint32_t side = 0; side < unit->n_kv; side++) {
        sum += weigh(dev, row, &unit->kv[side], most, v, o);
    }
    for (uint32_t x = 0; x < shape->d && sum > 0.0; x++) {
        o[x] /= sum;
    }
    return sum > 0.0 ? most + log(sum) : -(double)INFINITY;
}

static void merge_row(const struct hyd_attn_forward *args, const struct row *row,
                      const double *o, const double *lse, float *lse_at)
{
    double old = args->first ? -(double)INFINITY : (double)*lse_at;
    double most = fmax(old, *lse);
    double weight[2] = {old == -(double)INFINITY ? 0.0 : exp(old - most),
                        *lse == -(double)INFINITY ? 0.0 : exp(*lse - most)};
    double sum = weight[0] + weight[1];

    for (uint32_t x = 0; x < row->shape->d; x++) {
        float *to = f32(args->o_acc, row->q_at + x);
        double before = weight[0] > 0.0 ? weight[0] * (double)*to : 0.0;

        *to = sum > 0.0 ? (float)((before + weight[1] * o[x]) / sum) : 0.0F;
    }
    *lse_at = sum > 0.0 ? (float)(most + log(sum)) : -INFINITY;
}

hyd_status naive_run_forward(struct hyd_compute *dev,
                             const struct hyd_attn_forward *args)
{
    double o[256];
    hyd_status st = HYD_OK;

    for (size_t n = 0; n < args->n_units && st == HYD_OK; n++) {
        const struct hyd_attn_unit *unit = &args->unit[n];

        for (uint32_t i = 0; i < unit->q.n; i++) {
            for (uint32_t h = 0; h < args->shape.n_heads; h++) {
                const uint32_t i_head[2] = {i, h};
                struct row row =
                    row_of(&args->shape, args->q, args->k, &unit->q, i_head);
                double lse = forward_row(dev, &row, unit, args->v, o);

                merge_row(args, &row, o, &lse,
                          f32(args->lse, h * args->lse_stride + unit->q.row + i));
            }
        }
        st =
            args->between.call == NULL ? HYD_OK : args->between.call(args->between.ctx);
    }
    return st;
}

static void backward_row(struct hyd_compute *dev, const struct hyd_attn_backward *args,
                         const struct row *row, const struct hyd_attn_unit *unit,
                         const double lse_delta[2])
{
    const struct hyd_attn_shape *shape = row->shape;

    for (uint32_t side = 0; side < unit->n_kv; side++) {
        for (uint32_t j = 0; j < unit->kv[side].n; j++) {
            size_t at = key_at(row, &unit->kv[side], j);
            double p, ds = 0.0;

            if (!sees(shape, row->q_pos, unit->kv[side].pos + j)) {
                continue;
            }
            dev->compute_s += 2.5e-9;
            p = exp(score(row, at) - lse_delta[0]);
            for (uint32_t x = 0; x < shape->d; x++) {
                ds += element(args->dout, shape->dtype, row->q_at + x) *
                      element(args->v, shape->dtype, at + x);
            }
            ds = p * (ds - lse_delta[1]) * (double)shape->scale;
            for (uint32_t x = 0; x < shape->d; x++) {
                *f32(args->dq_acc, row->q_at + x) +=
                    (float)(ds * element(args->k, shape->dtype, at + x));
                *f32(args->dk_acc, at + x) +=
                    (float)(ds * element(args->q, shape->dtype, row->q_at + x));
                *f32(args->dv_acc, at + x) +=
                    (float)(p * element(args->dout, shape->dtype, row->q_at + x));
            }
        }
    }
}

hyd_status naive_run_backward(struct hyd_compute *dev,
                              const struct hyd_attn_backward *args)
{
    hyd_status st = HYD_OK;

    for (size_t n = 0; n < args->n_units && st == HYD_OK; n++) {
        const struct hyd_attn_unit *unit = &args->unit[n];

        for (uint32_t i = 0; i < unit->q.n; i++) {
            for (uint32_t h = 0; h < args->shape.n_heads; h++) {
                const uint32_t i_head[2] = {i, h};
                struct row row =
                    row_of(&args->shape, args->q, args->k, &unit->q, i_head);
                size_t at = h * args->lse_stride + unit->q.row + i;
                const double lse_delta[2] = {(double)*f32(args->lse, at),
                                             (double)*f32(args->delta, at)};

                backward_row(dev, args, &row, unit, lse_delta);
            }
        }
        st =
            args->between.call == NULL ? HYD_OK : args->between.call(args->between.ctx);
    }
    return st;
}

void naive_run_delta(const struct hyd_attn_delta *args)
{
    const struct hyd_attn_shape *shape = &args->shape;

    for (uint32_t i = 0; i < args->n_rows; i++) {
        for (uint32_t h = 0; h < shape->n_heads; h++) {
            size_t at = ((size_t)i * shape->n_heads + h) * shape->d;
            double sum = 0.0;

            for (uint32_t x = 0; x < shape->d; x++) {
                sum += element(args->o, shape->dtype, at + x) *
                       element(args->dout, shape->dtype, at + x);
            }
            *f32(args->delta, h * args->lse_stride + i) = (float)sum;
        }
    }
}

static hyd_status naive_arm_fd(struct hyd_compute *dev, int *ret_fd)
{
    (void)dev;
    *ret_fd = -1;
    return HYD_OK;
}

static void naive_charge(struct hyd_compute *dev, double *compute_s, double *copy_s)
{
    dev->charge[0] = compute_s;
    dev->charge[1] = copy_s;
}

static double naive_compute_s(struct hyd_compute *dev)
{
    return dev->compute_s;
}

static double naive_copy_s(struct hyd_compute *dev)
{
    return dev->copy_s;
}

struct hyd_naive_knobs *hyd_compute_naive_knobs(struct hyd_compute *dev)
{
    return &dev->knobs;
}

const struct hyd_compute_ops hyd_compute_naive = {
    .name = "naive",
    .mem = HYD_MEM_HOST,
    .probe = naive_probe,
    .open = naive_open,
    .close = naive_close,
    .describe = naive_describe,
    .mem_alloc = naive_mem_alloc,
    .mem_free = naive_mem_free,
    .upload = naive_upload,
    .download = naive_download,
    .scratch_bytes = naive_scratch_bytes,
    .set_scratch = naive_set_scratch,
    .supports = naive_supports,
    .attn_forward = naive_forward,
    .attn_backward = naive_backward,
    .attn_delta = naive_delta,
    .copy = naive_copy,
    .convert = naive_convert,
    .add = naive_add,
    .zero = naive_zero,
    .sync = naive_sync,
    .test = naive_test,
    .arm_fd = naive_arm_fd,
    .charge = naive_charge,
    .compute_s = naive_compute_s,
    .copy_s = naive_copy_s,
};
