/*
 * blas.h - OpenBLAS's sgemm as a yardstick, loaded at run time.
 *
 * What     The build knows where the library is or that there is none. It is told, before
 *          it is loaded, to use one thread and the kernels of the instruction set that is
 *          under test: left alone, an older OpenBLAS takes a CPU that it does not know
 *          for one from 2004, and anything looks fast beside it. OPENBLAS_CORETYPE from
 *          outside wins.
 * Errors   hyd_blas_open gives false where there is no library.
 * Threads  one thread.
 */
#ifndef HYD_TESTS_BENCH_BLAS_H
#define HYD_TESTS_BENCH_BLAS_H

#include <stdbool.h>

struct hyd_blas {
    void *library; /* NULL: none */
    const char *core; /* kernels in use, as the library names them */
    int n; /* order of the matrices */
    float *a, *b, *c;
};

/* isa: as in `--isa`, or "auto" for what the library itself would take. */
bool hyd_blas_open(const char *isa, int n, struct hyd_blas *ret_blas);
void hyd_blas_close(struct hyd_blas *blas);

/* One product; thread-CPU seconds. 2 n^3 FLOP. */
double hyd_blas_time_s(const struct hyd_blas *blas);

#endif
