/* blas.c - see blas.h. */
#include "tests/bench/blas.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/rng.h"

#ifndef HYDRA_BENCH_OPENBLAS
#define HYDRA_BENCH_OPENBLAS "" /* the build found none */
#endif

/* CBLAS's own numbers. */
enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111 };

typedef void sgemm(int order, int trans_a, int trans_b, int m, int n, int k,
                   float alpha, const float *a, int lda, const float *b, int ldb,
                   float beta, float *c, int ldc);

/* A data pointer that is a function's: C has no cast for it, POSIX promises it works. */
static bool find(void *library, const char *name, void *ret_function)
{
    void *at = dlsym(library, name);

    memcpy(ret_function, &at, sizeof at);
    return at != NULL;
}

static const char *core_for(const char *isa)
{
    static const char *const names[][2] = {
        {"sse2", "Nehalem"}, {"avx2", "Haswell"}, {"avx512", "SkylakeX"}};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i][0], isa) == 0) {
            return names[i][1];
        }
    }
    return NULL;
}

static float *matrix(int n, uint64_t key)
{
    const size_t count = (size_t)n * (size_t)n;
    float *m = aligned_alloc(64, count * sizeof *m);

    for (size_t i = 0; m != NULL && i < count; i++) {
        m[i] = hyd_rng_signed_at(key, i);
    }
    return m;
}

bool hyd_blas_open(const char *isa, int n, struct hyd_blas *ret_blas)
{
    struct hyd_blas blas = {.n = n};
    const char *(*core_name)(void);
    sgemm *product;

    if (core_for(isa) != NULL) {
        (void)setenv("OPENBLAS_CORETYPE", core_for(isa), 0);
    }
    (void)setenv("OPENBLAS_NUM_THREADS", "1", 1);
    blas.library = dlopen(HYDRA_BENCH_OPENBLAS, RTLD_NOW | RTLD_LOCAL);
    if (HYDRA_BENCH_OPENBLAS[0] == '\0' || blas.library == NULL) {
        return false;
    }
    blas.a = matrix(n, 1);
    blas.b = matrix(n, 2);
    blas.c = matrix(n, 3);
    if (!find(blas.library, "openblas_get_corename", &core_name) ||
        !find(blas.library, "cblas_sgemm", &product) || blas.a == NULL ||
        blas.b == NULL || blas.c == NULL) {
        hyd_blas_close(&blas);
        return false;
    }
    blas.core = core_name();
    *ret_blas = blas;
    return true;
}

void hyd_blas_close(struct hyd_blas *blas)
{
    free(blas->a);
    free(blas->b);
    free(blas->c);
    if (blas->library != NULL) {
        (void)dlclose(blas->library);
    }
    *blas = (struct hyd_blas){0};
}

static double thread_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double hyd_blas_time_s(const struct hyd_blas *blas)
{
    const int n = blas->n;
    sgemm *product;
    double begin_s;

    (void)find(blas->library, "cblas_sgemm", &product);
    begin_s = thread_s();
    product(ROW_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, n, n, n, 1.0f, blas->a, n, blas->b,
            n, 0.0f, blas->c, n);
    return thread_s() - begin_s;
}
