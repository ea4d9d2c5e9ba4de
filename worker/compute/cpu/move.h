/*
 * move.h - the ops of the CPU backend that only move or convert elements.
 *
 * What     See the slots of the same names in worker/compute/compute.h. No range checks:
 *          compute_cpu.c makes them.
 * Threads  reentrant.
 */
#ifndef HYD_WORKER_COMPUTE_CPU_MOVE_H
#define HYD_WORKER_COMPUTE_CPU_MOVE_H

#include "worker/compute/compute.h"

/* dst and src are the starts of the buffers; the copy's offsets count from there. */
void hyd_cpu_copy(unsigned char *dst, const unsigned char *src,
                  const struct hyd_copy *copy);
/* fp32 to bf16, nearest even. */
void hyd_cpu_round(unsigned char *dst, const unsigned char *src,
                   const struct hyd_copy *copy);
void hyd_cpu_add(unsigned char *dst, const unsigned char *src,
                 const struct hyd_copy *copy);

#endif
