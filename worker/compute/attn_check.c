/* attn_check.c - see attn_check.h. */
#include "worker/compute/attn_check.h"

#include <math.h>

static const uint32_t sizes[] = {64, 80, 96, 128, 192, 256};

static hyd_status check_size(uint32_t d, struct hyd_error *err)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i] == d) {
            return HYD_OK;
        }
    }
    return hyd_error_field(err, HYD_ERR_INVALID, "head_dim",
                           "head size %u, must be 64, 80, 96, 128, 192 or 256", d);
}

static hyd_status check_heads(const struct hyd_attn_shape *s, struct hyd_error *err)
{
    uint64_t last;

    if (s->n_heads == 0 || s->n_kv_heads == 0 || s->heads_per_kv == 0) {
        return hyd_error_set(err, HYD_ERR_INVALID,
                             "%u heads, %u kv heads, %u heads per kv head: none may "
                             "be 0",
                             s->n_heads, s->n_kv_heads, s->heads_per_kv);
    }
    last = ((uint64_t)s->head_first + s->n_heads - 1) / s->heads_per_kv;
    if (s->head_first / s->heads_per_kv < s->kv_head_first ||
        last - s->kv_head_first >= s->n_kv_heads) {
        return hyd_error_set(err, HYD_ERR_INVALID,
                             "heads %u+%u need kv heads %u to %u, but %u+%u are here",
                             s->head_first, s->n_heads, s->head_first / s->heads_per_kv,
                             (unsigned)last, s->kv_head_first, s->n_kv_heads);
    }
    return HYD_OK;
}

hyd_status hyd_attn_check_shape(const struct hyd_attn_shape *shape,
                                struct hyd_error *err)
{
    hyd_status st = check_size(shape->d, err);

    if (st != HYD_OK) {
        return st;
    }
    if (!isfinite(shape->scale) || shape->scale <= 0.0f) {
        return hyd_error_set(err, HYD_ERR_INVALID, "scale %g must be above 0",
                             (double)shape->scale);
    }
    if (shape->see == HYD_SEE_WINDOW && shape->window_tokens == 0) {
        return hyd_error_field(err, HYD_ERR_INVALID, "window",
                               "a window of 0 tokens sees nothing");
    }
    return check_heads(shape, err);
}

/* The rows that a buffer of [rows][width] elements has room for. */
static size_t rows_of(struct hyd_buf buf, size_t width, size_t element_bytes)
{
    const size_t row_bytes = width * element_bytes;

    return row_bytes != 0 ? buf.bytes / row_bytes : 0;
}

static bool is_inside(struct hyd_rows rows, size_t n_rows)
{
    return (uint64_t)rows.row + rows.n <= n_rows &&
           (uint64_t)rows.pos + rows.n <= UINT32_MAX;
}

static hyd_status check_units(const struct hyd_attn_unit *unit, size_t n_units,
                              size_t q_rows, size_t kv_rows, struct hyd_error *err)
{
    for (size_t i = 0; i < n_units; i++) {
        if (unit[i].n_kv > 2) {
            return hyd_error_set(err, HYD_ERR_INVALID,
                                 "unit %zu has %u kv intervals, at most 2", i,
                                 unit[i].n_kv);
        }
        if (!is_inside(unit[i].q, q_rows)) {
            return hyd_error_set(err, HYD_ERR_INVALID,
                                 "unit %zu: q rows %u+%u are not inside %zu rows", i,
                                 unit[i].q.row, unit[i].q.n, q_rows);
        }
        for (uint32_t j = 0; j < unit[i].n_kv; j++) {
            if (!is_inside(unit[i].kv[j], kv_rows)) {
                return hyd_error_set(err, HYD_ERR_INVALID,
                                     "unit %zu: kv rows %u+%u are not inside %zu rows",
                                     i, unit[i].kv[j].row, unit[i].kv[j].n, kv_rows);
            }
        }
    }
    return HYD_OK;
}

static size_t least(const size_t *n, size_t count)
{
    size_t low = n[0];

    for (size_t i = 1; i < count; i++) {
        low = n[i] < low ? n[i] : low;
    }
    return low;
}

static hyd_status check_mem(const struct hyd_buf *buf, size_t n_bufs, enum hyd_mem mem,
                            struct hyd_error *err)
{
    for (size_t i = 0; i < n_bufs; i++) {
        if (buf[i].mem != mem) {
            return hyd_error_set(err, HYD_ERR_INVALID,
                                 "buffer %zu is not memory of this device", i);
        }
    }
    return HYD_OK;
}

/* Rows of lse or delta: the stride counts only where the buffer holds all heads. */
static size_t stat_rows(struct hyd_buf buf, size_t stride, uint32_t n_heads)
{
    return buf.bytes / sizeof(float) / n_heads >= stride ? stride : 0;
}

hyd_status hyd_attn_check_forward(const struct hyd_attn_forward *args, enum hyd_mem mem,
                                  struct hyd_error *err)
{
    const struct hyd_attn_shape *s = &args->shape;
    const struct hyd_buf buf[] = {args->q, args->k, args->v, args->o_acc, args->lse};
    hyd_status st = hyd_attn_check_shape(s, err);

    if (st == HYD_OK) {
        st = check_mem(buf, sizeof buf / sizeof *buf, mem, err);
    }
    if (st == HYD_OK) {
        const size_t e = hyd_dtype_bytes(s->dtype);
        const size_t wide = (size_t)s->n_heads * s->d;
        const size_t kv_wide = (size_t)s->n_kv_heads * s->d;
        const size_t q_rows[] = {rows_of(args->q, wide, e),
                                 rows_of(args->o_acc, wide, sizeof(float)),
                                 stat_rows(args->lse, args->lse_stride, s->n_heads)};
        const size_t kv_rows[] = {rows_of(args->k, kv_wide, e),
                                  rows_of(args->v, kv_wide, e)};

        st = check_units(args->unit, args->n_units, least(q_rows, 3), least(kv_rows, 2),
                         err);
    }
    return st;
}

hyd_status hyd_attn_check_backward(const struct hyd_attn_backward *args,
                                   enum hyd_mem mem, struct hyd_error *err)
{
    const struct hyd_attn_shape *s = &args->shape;
    const struct hyd_buf buf[] = {args->q,      args->k,      args->v,
                                  args->dout,   args->lse,    args->delta,
                                  args->dq_acc, args->dk_acc, args->dv_acc};
    hyd_status st = hyd_attn_check_shape(s, err);

    if (st == HYD_OK) {
        st = check_mem(buf, sizeof buf / sizeof *buf, mem, err);
    }
    if (st == HYD_OK) {
        const size_t e = hyd_dtype_bytes(s->dtype);
        const size_t wide = (size_t)s->n_heads * s->d;
        const size_t kv_wide = (size_t)s->n_kv_heads * s->d;
        const size_t q_rows[] = {rows_of(args->q, wide, e),
                                 rows_of(args->dout, wide, e),
                                 rows_of(args->dq_acc, wide, sizeof(float)),
                                 stat_rows(args->lse, args->lse_stride, s->n_heads),
                                 stat_rows(args->delta, args->lse_stride, s->n_heads)};
        const size_t kv_rows[] = {rows_of(args->k, kv_wide, e),
                                  rows_of(args->v, kv_wide, e),
                                  rows_of(args->dk_acc, kv_wide, sizeof(float)),
                                  rows_of(args->dv_acc, kv_wide, sizeof(float))};

        st = check_units(args->unit, args->n_units, least(q_rows, 5), least(kv_rows, 4),
                         err);
    }
    return st;
}

hyd_status hyd_attn_check_delta(const struct hyd_attn_delta *args, enum hyd_mem mem,
                                struct hyd_error *err)
{
    const struct hyd_attn_shape *s = &args->shape;
    const struct hyd_buf buf[] = {args->o, args->dout, args->delta};
    hyd_status st = hyd_attn_check_shape(s, err);

    if (st == HYD_OK) {
        st = check_mem(buf, sizeof buf / sizeof *buf, mem, err);
    }
    if (st == HYD_OK) {
        const size_t e = hyd_dtype_bytes(s->dtype);
        const size_t wide = (size_t)s->n_heads * s->d;
        const size_t rows[] = {rows_of(args->o, wide, e), rows_of(args->dout, wide, e),
                               stat_rows(args->delta, args->lse_stride, s->n_heads)};

        if (args->n_rows > least(rows, 3)) {
            st = hyd_error_set(err, HYD_ERR_INVALID, "%u rows are not inside %zu",
                               args->n_rows, least(rows, 3));
        }
    }
    return st;
}
