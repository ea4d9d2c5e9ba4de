/*
 * lanes.h - vectors of fp32 for one instruction set, chosen by the compiler's flags.
 *
 * What     hyd_vf is HYD_LANES floats. Written with the compilers' vector extensions, so
 *          that any machine works; intrinsics only where the extensions have no word
 *          (fused multiply-add, maximum). Included by the kernel files alone, which are
 *          compiled once for each instruction set.
 * Shapes   HYD_TILE_ROWS x 2 vectors of accumulators fill the register file and leave
 *          room for two columns and a broadcast.
 * Numerics hyd_vfma is one rounding where the machine has it. Everything here depends on
 *          IEEE rules; -ffast-math breaks it.
 */
#ifndef HYD_WORKER_COMPUTE_CPU_LANES_H
#define HYD_WORKER_COMPUTE_CPU_LANES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __FAST_MATH__
#error "the kernels need IEEE arithmetic"
#endif

#if defined(__AVX512F__)
#include <immintrin.h>
enum { HYD_LANES = 16, HYD_TILE_ROWS = 12 };
#define HYD_VECTOR_BYTES 64
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
enum { HYD_LANES = 8, HYD_TILE_ROWS = 6 };
#define HYD_VECTOR_BYTES 32
#else
enum { HYD_LANES = 4, HYD_TILE_ROWS = 6 };
#define HYD_VECTOR_BYTES 16
#endif

/* Columns of a packed panel: two vectors. */
enum { HYD_PANEL = 2 * HYD_LANES };

typedef float hyd_vf __attribute__((vector_size(HYD_VECTOR_BYTES)));
typedef int32_t hyd_vi __attribute__((vector_size(HYD_VECTOR_BYTES)));
typedef uint32_t hyd_vu __attribute__((vector_size(HYD_VECTOR_BYTES)));
typedef uint16_t hyd_vh __attribute__((vector_size(HYD_VECTOR_BYTES / 2)));
typedef float hyd_vf_anywhere
    __attribute__((vector_size(HYD_VECTOR_BYTES), aligned(4), may_alias));

/* Before a loop over accumulators: they stay in registers only when it is unrolled. */
#if defined(__clang__)
#define HYD_UNROLL _Pragma("clang loop unroll(full)")
#else
#define HYD_UNROLL _Pragma("GCC unroll 16")
#endif

#define HYD_INLINE static inline __attribute__((always_inline))

HYD_INLINE hyd_vf hyd_vload(const float *p)
{
    return *(const hyd_vf_anywhere *)p;
}

HYD_INLINE void hyd_vstore(float *p, hyd_vf v)
{
    *(hyd_vf_anywhere *)p = v;
}

HYD_INLINE hyd_vf hyd_vset(float x)
{
    return x - (hyd_vf){0};
}

HYD_INLINE hyd_vi hyd_viset(int32_t x)
{
    return x - (hyd_vi){0};
}

/* Lane numbers 0, 1, ... */
HYD_INLINE hyd_vi hyd_vlane(void)
{
    hyd_vi v = {0};

    for (int i = 0; i < HYD_LANES; i++) {
        v[i] = i;
    }
    return v;
}

/* a where the mask is set, else b. */
HYD_INLINE hyd_vf hyd_vselect(hyd_vi mask, hyd_vf a, hyd_vf b)
{
    return (hyd_vf)((mask & (hyd_vi)a) | (~mask & (hyd_vi)b));
}

/* a * b + c */
HYD_INLINE hyd_vf hyd_vfma(hyd_vf a, hyd_vf b, hyd_vf c)
{
#if defined(__AVX512F__)
    return (hyd_vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__) && defined(__FMA__)
    return (hyd_vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

/* The larger; b where either is NaN. */
HYD_INLINE hyd_vf hyd_vmax(hyd_vf a, hyd_vf b)
{
#if defined(__AVX512F__)
    return (hyd_vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__) && defined(__FMA__)
    return (hyd_vf)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return hyd_vselect(a > b, a, b);
#endif
}

/* HYD_LANES bf16 as floats. */
HYD_INLINE hyd_vf hyd_vload_bf16(const uint16_t *p)
{
    hyd_vh h;

    memcpy(&h, p, sizeof h);
    return (hyd_vf)(__builtin_convertvector(h, hyd_vu) << 16);
}

/*
 * 2^x, relative error below 2e-7. Below -126 the result is 0, so -inf gives 0; NaN stays
 * NaN. Not for x > 127.
 *
 * Adding 1.5 * 2^23 rounds x to an integer, which is then in the low bits; the fraction
 * in [-0.5, 0.5] goes through the Taylor-like minimax polynomial of degree 6; the integer
 * is added to the exponent.
 */
HYD_INLINE hyd_vf hyd_vexp2(hyd_vf x)
{
    const hyd_vf big = hyd_vset(12582912.0f);
    const hyd_vi keep = ~(x < hyd_vset(-126.0f));
    const hyd_vf bounded = hyd_vmax(hyd_vset(-126.0f), x);
    const hyd_vf shifted = bounded + big;
    const hyd_vf r = bounded - (shifted - big);
    hyd_vf p = hyd_vset(1.5403530393e-4f);

    p = hyd_vfma(p, r, hyd_vset(1.3333558146e-3f));
    p = hyd_vfma(p, r, hyd_vset(9.6181291076e-3f));
    p = hyd_vfma(p, r, hyd_vset(5.5504108665e-2f));
    p = hyd_vfma(p, r, hyd_vset(2.4022650696e-1f));
    p = hyd_vfma(p, r, hyd_vset(6.9314718056e-1f));
    p = hyd_vfma(p, r, hyd_vset(1.0f));
    return (hyd_vf)(((hyd_vu)p + ((hyd_vu)shifted << 23)) & (hyd_vu)keep);
}

#endif
