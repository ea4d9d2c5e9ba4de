/*
 * lane.h - the words that CUDA kernels are written in.
 *
 * What     Kernels (*.inl) are written in a subset of C that nvcc and a plain C compiler
 *          both take, on top of these words: thread and block numbers, barriers, warp
 *          collectives, the tensor core's product, asynchronous copies, loads and stores.
 *          Here they are PTX and CUDA. The tests give the same
 *          words on the host (tests/emu/emu.h), where each is checked: convergence,
 *          alignment, ranges, races.
 *          Every access to global or shared memory goes through one of these words.
 * Shapes   hyd_mma: c[16][8] += a[16][16] b[16][8], fragments as PTX lays them out for
 *          mma.m16n8k16: lane = 4 g + t; c[0..1] row g, columns 2t and 2t+1; c[2..3] row
 *          g + 8; a[0] row g, columns 2t..; a[1] row g + 8; a[2], a[3] the same 8 columns
 *          on; b0 rows 2t.., column g; b1 8 rows on.
 *          hyd_ldsm4: four 8x8 matrices, lane i gives the address of row i % 8 of matrix
 *          i / 8; _t transposes each.
 */
#ifndef HYD_WORKER_COMPUTE_CUDA_LANE_H
#define HYD_WORKER_COMPUTE_CUDA_LANE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "worker/compute/cuda/args.h"

typedef uint16_t hyd_bf16;

#ifdef __CUDACC__

#define HYD_KERNEL extern "C" __global__ void
#define HYD_BOUNDS(threads, blocks) __launch_bounds__(threads, blocks)
#define HYD_ARGS(type) const __grid_constant__ type
#define HYD_DEVICE static __device__ __forceinline__
#define HYD_UNROLL _Pragma("unroll")
#define HYD_UNROLL_TEXT(x) #x
#define HYD_UNROLL_BY(n) _Pragma(HYD_UNROLL_TEXT(unroll(n)))
#define HYD_SHARED(name) extern __shared__ __align__(16) unsigned char name[]

HYD_DEVICE int hyd_tid(void)
{
    return (int)threadIdx.x;
}

/* The same, but the compiler does not know it: what is worked out of it is not kept in
 * registers over a loop. */
HYD_DEVICE int hyd_tid_afresh(void)
{
    int tid;

    asm volatile("mov.u32 %0,%%tid.x;" : "=r"(tid));
    return tid;
}

HYD_DEVICE int hyd_block_x(void)
{
    return (int)blockIdx.x;
}

HYD_DEVICE int hyd_block_y(void)
{
    return (int)blockIdx.y;
}

HYD_DEVICE int hyd_blocks_x(void)
{
    return (int)gridDim.x;
}

HYD_DEVICE int hyd_threads(void)
{
    return (int)blockDim.x;
}

HYD_DEVICE void hyd_block_sync(void)
{
    __syncthreads();
}

HYD_DEVICE void hyd_warp_sync(void)
{
    __syncwarp();
}

HYD_DEVICE float hyd_shfl_xor(float x, int mask)
{
    return __shfl_xor_sync(0xffffffffu, x, mask);
}

HYD_DEVICE float hyd_shfl(float x, int lane)
{
    return __shfl_sync(0xffffffffu, x, lane);
}

HYD_DEVICE bool hyd_any(bool x)
{
    return __any_sync(0xffffffffu, x) != 0;
}

HYD_DEVICE void hyd_ldsm4(uint32_t *r, const hyd_bf16 *shared)
{
    const unsigned at = (unsigned)__cvta_generic_to_shared(shared);

    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

HYD_DEVICE void hyd_ldsm4_t(uint32_t *r, const hyd_bf16 *shared)
{
    const unsigned at = (unsigned)__cvta_generic_to_shared(shared);

    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3},[%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

HYD_DEVICE void hyd_mma(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* 16 bytes from global to shared memory, or zeros; in flight until waited for. */
HYD_DEVICE void hyd_cp16(hyd_bf16 *shared, const hyd_bf16 *global, bool valid)
{
    const unsigned at = (unsigned)__cvta_generic_to_shared(shared);

    asm volatile("cp.async.cg.shared.global [%0],[%1],16,%2;" ::"r"(at), "l"(global),
                 "r"(valid ? 16 : 0)
                 : "memory");
}

/* The same with 4 bytes. */
HYD_DEVICE void hyd_cp4(float *shared, const float *global, bool valid)
{
    const unsigned at = (unsigned)__cvta_generic_to_shared(shared);

    asm volatile("cp.async.ca.shared.global [%0],[%1],4,%2;" ::"r"(at), "l"(global),
                 "r"(valid ? 4 : 0)
                 : "memory");
}

HYD_DEVICE void hyd_cp_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Wait until at most `left` (0 or 1) committed groups of this thread are in flight. */
#define hyd_cp_wait(left) asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory")

HYD_DEVICE uint32_t hyd_pack2(float low, float high)
{
    uint32_t r;

    asm("cvt.rn.bf16x2.f32 %0,%1,%2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

/* 2^x; -inf gives 0. */
HYD_DEVICE float hyd_exp2(float x)
{
    float y;

    asm("ex2.approx.ftz.f32 %0,%1;" : "=f"(y) : "f"(x));
    return y;
}

HYD_DEVICE float hyd_load(const float *global)
{
    return *global;
}

HYD_DEVICE void hyd_store(float *global, float x)
{
    *global = x;
}

HYD_DEVICE void hyd_load2(float *x, const float *global)
{
    const float2 v = *(const float2 *)global;

    x[0] = v.x;
    x[1] = v.y;
}

HYD_DEVICE void hyd_store2(float *global, float x, float y)
{
    *(float2 *)global = make_float2(x, y);
}

HYD_DEVICE hyd_bf16 hyd_load_bf16(const hyd_bf16 *global)
{
    return *global;
}

HYD_DEVICE void hyd_store_bf16(hyd_bf16 *global, hyd_bf16 x)
{
    *global = x;
}

HYD_DEVICE uint32_t hyd_load_u32(const uint32_t *global)
{
    return *global;
}

HYD_DEVICE void hyd_store_u32(uint32_t *global, uint32_t x)
{
    *global = x;
}

/* `bytes` (16, 4 or 1) bytes from one place in global memory to another. */
HYD_DEVICE void hyd_copy_bytes(unsigned char *to, const unsigned char *from,
                               uint32_t bytes)
{
    if (bytes == 16) {
        *(uint4 *)to = *(const uint4 *)from;
    } else if (bytes == 4) {
        *(uint32_t *)to = *(const uint32_t *)from;
    } else {
        *to = *from;
    }
}

HYD_DEVICE float hyd_shared_load(const float *shared)
{
    return *shared;
}

HYD_DEVICE void hyd_shared_store(float *shared, float x)
{
    *shared = x;
}

/* Two elements that hyd_pack2 made. */
HYD_DEVICE void hyd_shared_store_pair(hyd_bf16 *shared, uint32_t pair)
{
    *(uint32_t *)shared = pair;
}

#endif

#endif
