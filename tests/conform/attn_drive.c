/* attn_drive.c - see attn_drive.h. */
#include "tests/conform/attn_drive.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/test.h"

static double slack(const struct attn_case *c)
{
    return c->slack > 0.0 ? c->slack : 1.0;
}

static bool is_loose(const struct device *on, const struct attn_case *c)
{
    return on->ops->mem != HYD_MEM_HOST && c->shape.dtype == HYD_DTYPE_BF16;
}

/* Lend the scratch that the case needs; the caller frees. */
static struct hyd_buf lend_scratch(const struct device *on, const struct attn_case *c)
{
    struct hyd_buf scratch = {.mem = on->ops->mem};
    const size_t bytes =
        on->ops->scratch_bytes(on->dev, &c->shape, c->q_rows, c->kv_rows);

    if (bytes != 0) {
        assert_int_equal(on->ops->mem_alloc(on->dev, bytes, &scratch), HYD_OK);
    }
    assert_int_equal(on->ops->set_scratch(on->dev, scratch), HYD_OK);
    return scratch;
}

static void return_scratch(const struct device *on, struct hyd_buf *scratch)
{
    const struct hyd_buf none = {.mem = on->ops->mem};

    assert_int_equal(on->ops->set_scratch(on->dev, none), HYD_OK);
    on->ops->mem_free(on->dev, scratch);
}

static const double unnamed = 12345.0; /* in rows of outputs that nobody may touch */

/* The start of o_acc or lse: `unnamed` in unnamed rows, NaN where the first call will
 * write, `empty` in rows that only later calls name. */
static double *start_image(const struct attn_case *c, size_t n, double empty,
                           bool is_lse)
{
    double *x = malloc((n + 1) * sizeof *x);
    const size_t row_elements = (size_t)c->shape.n_heads * c->shape.d;

    assert_non_null(x);
    for (size_t i = 0; i < n; i++) {
        const size_t row = is_lse ? i % c->lse_stride : i / row_elements;

        x[i] = row < c->q_rows && c->q_named[row] ? empty : unnamed;
        for (size_t u = 0; u < c->call[0].n_units; u++) {
            const struct hyd_rows q = c->call[0].unit[u].q;

            if (row >= q.row && row < (size_t)q.row + q.n) {
                x[i] = nan("");
            }
        }
    }
    return x;
}

/* What must be there at the end: the answer in named rows, else what was. */
static double *end_image(const struct attn_case *c, const double *answer, size_t n,
                         bool is_lse)
{
    double *x = malloc((n + 1) * sizeof *x);
    const size_t row_elements = (size_t)c->shape.n_heads * c->shape.d;

    assert_non_null(x);
    for (size_t i = 0; i < n; i++) {
        const size_t row = is_lse ? i % c->lse_stride : i / row_elements;

        x[i] = row < c->q_rows && c->q_named[row] ? answer[i] : nan("");
    }
    return x;
}

/* Compare named rows with tolerance, unnamed ones exactly. */
static void expect_rows(const struct attn_case *c, const char *what,
                        const struct guarded *g, const double *answer, double tolerance)
{
    double *got = guarded_get(g);
    double *want = end_image(c, answer, g->n, answer == c->lse);

    for (size_t i = 0; i < g->n; i++) {
        if (!isnan(want[i])) {
            continue;
        }
        if (got[i] < unnamed || got[i] > unnamed) {
            fail_msg("%s: %s[%zu] of a row that no unit names was written", c->name,
                     what, i);
        }
        got[i] = want[i] = 0.0;
    }
    guarded_expect(c->name, what, got, want, g->n, tolerance);
    free(want);
    free(got);
}

static void check_forward(const struct device *on, const struct attn_case *c)
{
    const size_t nq = attn_q_elements(c), nkv = attn_kv_elements(c);
    const size_t n_lse = c->lse_stride * c->shape.n_heads;
    const size_t row = (size_t)c->shape.n_heads * c->shape.d;
    const size_t kv_row = (size_t)c->shape.n_kv_heads * c->shape.d;
    const enum hyd_dtype dtype = c->shape.dtype;
    double *o_start = start_image(c, nq, 0.0, false);
    double *lse_start = start_image(c, n_lse, -(double)INFINITY, true);
    struct guarded q = guarded_put(on, dtype, c->q, nq, c->q_named, row);
    struct guarded k = guarded_put(on, dtype, c->k, nkv, c->kv_named, kv_row);
    struct guarded v = guarded_put(on, dtype, c->v, nkv, c->kv_named, kv_row);
    struct guarded o = guarded_put(on, HYD_DTYPE_F32, o_start, nq, NULL, 1);
    struct guarded lse = guarded_put(on, HYD_DTYPE_F32, lse_start, n_lse, NULL, 1);
    struct hyd_buf scratch = lend_scratch(on, c);

    for (size_t i = 0; i < c->n_calls; i++) {
        const struct hyd_attn_forward args = {.shape = c->shape,
                                              .unit = c->call[i].unit,
                                              .n_units = c->call[i].n_units,
                                              .q = q.buf,
                                              .k = k.buf,
                                              .v = v.buf,
                                              .o_acc = o.buf,
                                              .lse = lse.buf,
                                              .lse_stride = c->lse_stride,
                                              .first = i == 0};

        assert_int_equal(on->ops->attn_forward(on->dev, &args), HYD_OK);
    }
    expect_rows(c, "o", &o, c->o, (is_loose(on, c) ? 8e-3 : 2e-6) * slack(c));
    expect_rows(c, "lse", &lse, c->lse, (is_loose(on, c) ? 1e-3 : 2e-6) * slack(c));
    return_scratch(on, &scratch);
    guarded_release(&q);
    guarded_release(&k);
    guarded_release(&v);
    guarded_release(&o);
    guarded_release(&lse);
    free(o_start);
    free(lse_start);
}

/* Gradients are added to what is there: 0.5 everywhere at the start. */
static void expect_added(const struct attn_case *c, const char *what, struct guarded *g,
                         const double *answer)
{
    double *got = guarded_get(g);

    for (size_t i = 0; i < g->n; i++) {
        got[i] -= 0.5;
    }
    guarded_expect(c->name, what, got, answer, g->n,
                   (is_loose(g->on, c) ? 2e-2 : 1e-5) * slack(c));
    free(got);
    guarded_release(g);
}

static void check_backward(const struct device *on, const struct attn_case *c)
{
    const size_t nq = attn_q_elements(c), nkv = attn_kv_elements(c);
    const size_t n_lse = c->lse_stride * c->shape.n_heads;
    const size_t row = (size_t)c->shape.n_heads * c->shape.d;
    const size_t kv_row = (size_t)c->shape.n_kv_heads * c->shape.d;
    const enum hyd_dtype dtype = c->shape.dtype;
    struct guarded q = guarded_put(on, dtype, c->q, nq, c->q_named, row);
    struct guarded dout = guarded_put(on, dtype, c->dout, nq, c->q_named, row);
    struct guarded k = guarded_put(on, dtype, c->k, nkv, c->kv_named, kv_row);
    struct guarded v = guarded_put(on, dtype, c->v, nkv, c->kv_named, kv_row);
    struct guarded lse = guarded_put(on, HYD_DTYPE_F32, c->lse, n_lse, NULL, 1);
    struct guarded delta = guarded_put(on, HYD_DTYPE_F32, c->delta, n_lse, NULL, 1);
    struct guarded dq = guarded_fill(on, HYD_DTYPE_F32, 0.5, nq);
    struct guarded dk = guarded_fill(on, HYD_DTYPE_F32, 0.5, nkv);
    struct guarded dv = guarded_fill(on, HYD_DTYPE_F32, 0.5, nkv);
    struct hyd_buf scratch = lend_scratch(on, c);

    for (size_t i = 0; i < c->n_calls; i++) {
        const struct hyd_attn_backward args = {.shape = c->shape,
                                               .unit = c->call[i].unit,
                                               .n_units = c->call[i].n_units,
                                               .q = q.buf,
                                               .k = k.buf,
                                               .v = v.buf,
                                               .dout = dout.buf,
                                               .lse = lse.buf,
                                               .delta = delta.buf,
                                               .lse_stride = c->lse_stride,
                                               .dq_acc = dq.buf,
                                               .dk_acc = dk.buf,
                                               .dv_acc = dv.buf};

        assert_int_equal(on->ops->attn_backward(on->dev, &args), HYD_OK);
    }
    expect_added(c, "dq", &dq, c->dq);
    expect_added(c, "dk", &dk, c->dk);
    expect_added(c, "dv", &dv, c->dv);
    return_scratch(on, &scratch);
    guarded_release(&q);
    guarded_release(&dout);
    guarded_release(&k);
    guarded_release(&v);
    guarded_release(&lse);
    guarded_release(&delta);
}

/* A card may lack the shared memory that a head size needs; the CPU lacks nothing. */
static bool runs_on(const struct device *on, const struct attn_case *c)
{
    struct hyd_error err = {.text = ""};
    const hyd_status st = on->ops->supports(on->dev, &c->shape, &err);

    if (st == HYD_ERR_UNSUPPORTED && on->ops->mem != HYD_MEM_HOST) {
        printf("SKIPPED: %s on %s: %s\n", c->name, on->ops->describe(on->dev),
               err.text);
        return false;
    }
    assert_int_equal(st, HYD_OK);
    return true;
}

static void check_on_all(const struct devices *on, const struct attn_case *c)
{
    for (size_t i = 0; i < on->n; i++) {
        if (runs_on(&on->device[i], c)) {
            check_forward(&on->device[i], c);
            check_backward(&on->device[i], c);
        }
    }
}

void attn_drive_case(const struct devices *on, struct attn_case *c)
{
    struct attn_case again = *c;

    if (!on->no_fp32) {
        attn_case_solve(c, 11);
        check_on_all(on, c);
        attn_case_release(c);
    }
    if (!on->no_bf16) {
        again.shape.dtype = HYD_DTYPE_BF16;
        attn_case_solve(&again, 12);
        check_on_all(on, &again);
        attn_case_release(&again);
    }
}
