/* guarded.c - see guarded.h. */
#include "tests/conform/guarded.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"
#include "worker/compute/bf16.h"

enum { GUARD = 0xa5 };

static const size_t guard_bytes = 64;

static void encode(unsigned char *to, enum hyd_dtype dtype, size_t i, double x)
{
    const float f = (float)x;
    const uint16_t b = hyd_bf16_encode(f);

    if (dtype == HYD_DTYPE_F32) {
        memcpy(to + 4 * i, &f, 4);
    } else {
        memcpy(to + 2 * i, &b, 2);
    }
}

static double decode(const unsigned char *from, enum hyd_dtype dtype, size_t i)
{
    float f;
    uint16_t b;

    if (dtype == HYD_DTYPE_F32) {
        memcpy(&f, from + 4 * i, 4);
        return (double)f;
    }
    memcpy(&b, from + 2 * i, 2);
    return (double)hyd_bf16_decode(b);
}

static struct guarded upload(const struct device *on, enum hyd_dtype dtype,
                             unsigned char *image, size_t n)
{
    const size_t bytes = n * hyd_dtype_bytes(dtype);
    struct guarded g = {.on = on, .dtype = dtype, .n = n};

    memset(image, GUARD, guard_bytes);
    memset(image + guard_bytes + bytes, GUARD, guard_bytes);
    assert_int_equal(on->ops->mem_alloc(on->dev, bytes + 2 * guard_bytes, &g.whole),
                     HYD_OK);
    assert_int_equal(on->ops->upload(on->dev, g.whole, image, bytes + 2 * guard_bytes),
                     HYD_OK);
    g.buf = hyd_buf_part(g.whole, guard_bytes, bytes);
    return g;
}

struct guarded guarded_put(const struct device *on, enum hyd_dtype dtype,
                           const double *x, size_t n, const bool *rows_named,
                           size_t row)
{
    unsigned char *image = malloc(n * hyd_dtype_bytes(dtype) + 2 * guard_bytes);
    struct guarded g;

    assert_non_null(image);
    for (size_t i = 0; i < n; i++) {
        const bool named = rows_named == NULL || rows_named[i / row];

        encode(image + guard_bytes, dtype, i, named ? x[i] : nan(""));
    }
    g = upload(on, dtype, image, n);
    free(image);
    return g;
}

struct guarded guarded_fill(const struct device *on, enum hyd_dtype dtype, double value,
                            size_t n)
{
    unsigned char *image = malloc(n * hyd_dtype_bytes(dtype) + 2 * guard_bytes);
    struct guarded g;

    assert_non_null(image);
    for (size_t i = 0; i < n; i++) {
        encode(image + guard_bytes, dtype, i, value);
    }
    g = upload(on, dtype, image, n);
    free(image);
    return g;
}

double *guarded_get(const struct guarded *g)
{
    const struct device *on = g->on;
    const size_t bytes = g->n * hyd_dtype_bytes(g->dtype);
    unsigned char *image = malloc(bytes + 2 * guard_bytes);
    double *x = malloc((g->n + 1) * sizeof *x);

    assert_non_null(image);
    assert_non_null(x);
    assert_int_equal(on->ops->sync(on->dev, NULL), HYD_OK);
    assert_int_equal(
        on->ops->download(on->dev, image, g->whole, bytes + 2 * guard_bytes), HYD_OK);
    for (size_t i = 0; i < guard_bytes; i++) {
        assert_int_equal(image[i], GUARD);
        assert_int_equal(image[guard_bytes + bytes + i], GUARD);
    }
    for (size_t i = 0; i < g->n; i++) {
        x[i] = decode(image + guard_bytes, g->dtype, i);
    }
    free(image);
    return x;
}

void guarded_release(struct guarded *g)
{
    g->on->ops->mem_free(g->on->dev, &g->whole);
}

void guarded_expect(const char *name, const char *what, const double *got,
                    const double *want, size_t n, double tolerance)
{
    /* What cancels to nothing keeps the rounding errors of its terms, which have size 1;
     * a loose tolerance leaves room for them. */
    double top = tolerance > 1e-4 ? 1.0 / 32.0 : 1.0;

    for (size_t i = 0; i < n; i++) {
        if (isfinite(want[i])) {
            top = fmax(top, fabs(want[i]));
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (!hyd_test_close(got[i], want[i], tolerance * top, 0.0)) {
            fail_msg("%s: %s[%zu] is %.9g, not %.9g (largest %.3g, tolerance %.1e)",
                     name, what, i, got[i], want[i], top, tolerance);
        }
    }
}
