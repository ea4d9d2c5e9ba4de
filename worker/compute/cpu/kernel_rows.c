/* kernel_rows.c - loading, adding and rounding of rows; the table of one instruction set.
 * See kernels.h. */
#include "worker/compute/bf16.h"
#include "worker/compute/cpu/kernel_names.h"
#include "worker/compute/cpu/kernels.h"
#include "worker/compute/cpu/lanes.h"

HYD_INLINE hyd_vf load(const void *at, enum hyd_dtype dtype, size_t element)
{
    return dtype == HYD_DTYPE_F32 ? hyd_vload((const float *)at + element)
                                  : hyd_vload_bf16((const uint16_t *)at + element);
}

void hyd_cpu_load_rows(float *rows, const struct hyd_cpu_rows *from)
{
    const size_t ld = hyd_cpu_ld(from->d);

    for (uint32_t i = 0; i < from->n; i++) {
        for (uint32_t x = 0; x < from->d; x += HYD_LANES) {
            hyd_vstore(rows + i * ld + x,
                       load(from->at, from->dtype, i * from->stride + x));
        }
    }
}

/* Row i of a panel becomes its column i; rows beyond the last are 0. */
static void load_column(float *panel, const struct hyd_cpu_rows *from, uint32_t row,
                        float scale)
{
    for (uint32_t x = 0; x < from->d; x += HYD_LANES) {
        hyd_vf part = {0};

        if (row < from->n) {
            part =
                load(from->at, from->dtype, row * from->stride + x) * hyd_vset(scale);
        }
        for (uint32_t lane = 0; lane < HYD_LANES; lane++) {
            panel[(size_t)(x + lane) * HYD_PANEL] = part[lane];
        }
    }
}

void hyd_cpu_load_panels(float *panels, const struct hyd_cpu_rows *from, float scale)
{
    for (uint32_t first = 0; first < from->n; first += HYD_PANEL) {
        for (uint32_t i = 0; i < HYD_PANEL; i++) {
            load_column(panels + (size_t)first * from->d + i, from, first + i, scale);
        }
    }
}

void hyd_cpu_add_rows(float *to, size_t to_stride, const float *rows, uint32_t n,
                      uint32_t d, float scale)
{
    const size_t ld = hyd_cpu_ld(d);

    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t x = 0; x < d; x += HYD_LANES) {
            float *at = to + i * to_stride + x;

            hyd_vstore(at, hyd_vfma(hyd_vload(rows + i * ld + x), hyd_vset(scale),
                                    hyd_vload(at)));
        }
    }
}

void hyd_cpu_dot_rows(float *to, const struct hyd_cpu_rows *a,
                      const struct hyd_cpu_rows *b)
{
    for (uint32_t i = 0; i < a->n; i++) {
        hyd_vf sum = {0};
        float total = 0.0f;

        for (uint32_t x = 0; x < a->d; x += HYD_LANES) {
            sum = hyd_vfma(load(a->at, a->dtype, i * a->stride + x),
                           load(b->at, b->dtype, i * b->stride + x), sum);
        }
        for (int lane = 0; lane < HYD_LANES; lane++) {
            total += sum[lane];
        }
        to[i] = total;
    }
}

void hyd_cpu_round(uint16_t *to, const float *from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = hyd_bf16_encode(from[i]);
    }
}

const struct hyd_cpu_kernels hyd_cpu_kernels = {
    .name = HYD_ISA_NAME,
    .panel = HYD_PANEL,
    .load_rows = hyd_cpu_load_rows,
    .load_panels = hyd_cpu_load_panels,
    .forward = hyd_cpu_forward,
    .backward = hyd_cpu_backward,
    .add_rows = hyd_cpu_add_rows,
    .dot_rows = hyd_cpu_dot_rows,
    .round = hyd_cpu_round,
};
