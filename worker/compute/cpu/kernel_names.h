/*
 * kernel_names.h - one set of names for each instruction set.
 *
 * What     The kernel files are compiled several times into one library; HYD_ISA (sse2,
 *          avx2, avx512, native) comes from the build and ends every global name.
 */
#ifndef HYD_WORKER_COMPUTE_CPU_KERNEL_NAMES_H
#define HYD_WORKER_COMPUTE_CPU_KERNEL_NAMES_H

#define HYD_JOIN2(name, isa) name##_##isa
#define HYD_JOIN(name, isa) HYD_JOIN2(name, isa)
#define HYD_TEXT2(x) #x
#define HYD_TEXT(x) HYD_TEXT2(x)

#define HYD_ISA_NAME HYD_TEXT(HYD_ISA)
#define hyd_cpu_forward HYD_JOIN(hyd_cpu_forward, HYD_ISA)
#define hyd_cpu_backward HYD_JOIN(hyd_cpu_backward, HYD_ISA)
#define hyd_cpu_load_rows HYD_JOIN(hyd_cpu_load_rows, HYD_ISA)
#define hyd_cpu_load_panels HYD_JOIN(hyd_cpu_load_panels, HYD_ISA)
#define hyd_cpu_add_rows HYD_JOIN(hyd_cpu_add_rows, HYD_ISA)
#define hyd_cpu_dot_rows HYD_JOIN(hyd_cpu_dot_rows, HYD_ISA)
#define hyd_cpu_round HYD_JOIN(hyd_cpu_round, HYD_ISA)
#define hyd_cpu_kernels HYD_JOIN(hyd_cpu_kernels, HYD_ISA)

#include "worker/compute/cpu/kernels.h"

void hyd_cpu_forward(const struct hyd_cpu_forward_tile *tile);
void hyd_cpu_backward(const struct hyd_cpu_backward_tile *tile);
void hyd_cpu_load_rows(float *rows, const struct hyd_cpu_rows *from);
void hyd_cpu_load_panels(float *panels, const struct hyd_cpu_rows *from, float scale);
void hyd_cpu_add_rows(float *to, size_t to_stride, const float *rows, uint32_t n,
                      uint32_t d, float scale);
void hyd_cpu_dot_rows(float *to, const struct hyd_cpu_rows *a,
                      const struct hyd_cpu_rows *b);
void hyd_cpu_round(uint16_t *to, const float *from, size_t n);

extern const struct hyd_cpu_kernels hyd_cpu_kernels;

#endif
