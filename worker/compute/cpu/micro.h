/*
 * micro.h - the register tile that every product of the kernels is made of.
 *
 * What     c[i][v] = sum over k of a(i, k) * b(k, v), m rows of one or two vectors. Rows
 *          of `a` are broadcast, columns of `b` are vectors; m and n_vectors are
 *          constants where this is called, so that c stays in registers.
 *          HYD_FOR_ROWS walks rows in the sizes for which such constants exist.
 * Shapes   a(i, k) = a[i * a_row + k * a_col]; b(k, v) at b[k * b_row + v * lanes]
 */
#ifndef HYD_WORKER_COMPUTE_CPU_MICRO_H
#define HYD_WORKER_COMPUTE_CPU_MICRO_H

#include "worker/compute/cpu/lanes.h"

struct hyd_micro_in {
    const float *a;
    size_t a_row, a_col;
    const float *b;
    size_t b_row;
    uint32_t n_k;
};

/* Groups of three rows share a pointer: base, base + row and base + 2 * row are all
 * addressing modes, so twelve rows need four registers. */
enum { HYD_MICRO_GROUPS = (HYD_TILE_ROWS + 2) / 3 };

HYD_INLINE void hyd_micro(const int m, const int n_vectors,
                          const struct hyd_micro_in *in, hyd_vf c[HYD_TILE_ROWS][2])
{
    const size_t a_row = in->a_row, a_col = in->a_col, b_row = in->b_row;
    const float *a[HYD_MICRO_GROUPS];
    const float *b = in->b;

    HYD_UNROLL
    for (int g = 0; g < (m + 2) / 3; g++) {
        a[g] = in->a + 3 * (size_t)g * a_row;
    }
    HYD_UNROLL
    for (int i = 0; i < m; i++) {
        c[i][0] = (hyd_vf){0};
        c[i][1] = (hyd_vf){0};
    }
#pragma GCC unroll 4
    for (uint32_t k = 0; k < in->n_k; k++) {
        const hyd_vf b0 = hyd_vload(b);
        const hyd_vf b1 = n_vectors == 2 ? hyd_vload(b + HYD_LANES) : b0;

        HYD_UNROLL
        for (int i = 0; i < m; i++) {
            const hyd_vf x = hyd_vset(a[i / 3][(size_t)(i % 3) * a_row]);

            c[i][0] = hyd_vfma(x, b0, c[i][0]);
            if (n_vectors == 2) {
                c[i][1] = hyd_vfma(x, b1, c[i][1]);
            }
        }
        HYD_UNROLL
        for (int g = 0; g < (m + 2) / 3; g++) {
            a[g] += a_col;
        }
        b += b_row;
    }
}

/*
 * Do `call(m, i)` for rows begin to end - 1, m rows from i on at a time. m is a constant
 * in each of the calls, which `call` must be able to use: it is a macro.
 */
#define HYD_FOR_ROWS(i, begin, end, call)                            \
    do {                                                             \
        uint32_t i = (begin);                                        \
        for (; (i) + HYD_TILE_ROWS <= (end); (i) += HYD_TILE_ROWS) { \
            call(HYD_TILE_ROWS, (i));                                \
        }                                                            \
        if (HYD_TILE_ROWS > 8 && (i) + 8 <= (end)) {                 \
            call((HYD_TILE_ROWS > 8 ? 8 : 1), (i));                  \
            (i) += 8;                                                \
        }                                                            \
        if ((i) + 4 <= (end)) {                                      \
            call(4, (i));                                            \
            (i) += 4;                                                \
        }                                                            \
        if ((i) + 2 <= (end)) {                                      \
            call(2, (i));                                            \
            (i) += 2;                                                \
        }                                                            \
        if ((i) < (end)) {                                           \
            call(1, (i));                                            \
        }                                                            \
    } while (0)

#endif
