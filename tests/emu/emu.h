/*
 * emu.h - thread blocks on the host: the words of worker/compute/cuda/lane.h, checked.
 *
 * What     A kernel is compiled by the C compiler and run block by block. Every thread is
 *          a fiber; the scheduler runs one warp picked at random as far as it gets while
 *          the others starve, so that a missing barrier shows. Warp collectives are exact
 *          to the lane (fragment layouts of the PTX manual) and end the launch when lanes
 *          of a warp meet at different ones.
 *          Also ended, with a text: reads or writes outside what the test has declared;
 *          misaligned accesses; shared memory read while an asynchronous copy to it is in
 *          flight, or written and read by different threads without a barrier between;
 *          global words written by two threads, or written by one and read by another;
 *          threads that wait for ever.
 *          An asynchronous copy happens as late as it may: at the wait that needs it.
 *          Shared memory and the stacks of threads (registers) begin as NaN in every
 *          block. On demand it counts bank conflicts and sectors of global memory.
 * Does not show: speed, registers, occupancy, memory order between warps beyond what
 *          barriers say.
 * Threads  one emulator a process, one thread.
 */
#ifndef HYD_TESTS_EMU_EMU_H
#define HYD_TESTS_EMU_EMU_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/compute/cuda/lane.h"

/* Declare memory that kernels may touch; a launch checks every access against the list. */
void emu_forget(void);
void emu_may_read(const void *at, size_t bytes);
void emu_may_write(void *at, size_t bytes);
/* Close a part of what was declared, or open it again: rows that nobody may touch. Both
 * ends on words of 4 bytes. */
void emu_forbid(const void *at, size_t bytes);
void emu_permit(const void *at, size_t bytes);

struct emu_launch {
    unsigned blocks_x, blocks_y;
    unsigned threads; /* a multiple of 32, at most 256 */
    size_t shared_bytes;
    uint64_t seed; /* of the scheduler */
    void (*kernel)(const void *args);
    const void *args;
};

/* NULL when all blocks ran to their end; else what went wrong, static. */
const char *emu_run(const struct emu_launch *launch);

/* What warps asked of memory. Shared memory takes 128 bytes a pass, less when two lanes
 * want different words of one of its 32 banks; global memory moves sectors of 32 bytes. */
struct emu_traffic {
    uint64_t passes, least_passes;
    uint64_t sectors, least_sectors;
    uint64_t products; /* hyd_mma */
};

/* Add up from now on; NULL: no more. */
void emu_count(struct emu_traffic *traffic);

/* The words. */
#define HYD_KERNEL static void
#define HYD_BOUNDS(threads, blocks)
#define HYD_ARGS(type) const type
#define HYD_DEVICE static inline __attribute__((unused))
#define HYD_UNROLL
#define HYD_UNROLL_BY(n)
#define HYD_SHARED(name) unsigned char *const name = emu_shared()

int hyd_tid(void);
int hyd_tid_afresh(void);
int hyd_block_x(void);
int hyd_block_y(void);
int hyd_blocks_x(void);
int hyd_threads(void);
unsigned char *emu_shared(void);
void hyd_block_sync(void);
void hyd_warp_sync(void);
float hyd_shfl_xor(float x, int mask);
float hyd_shfl(float x, int lane);
bool hyd_any(bool x);
void hyd_ldsm4(uint32_t *r, const hyd_bf16 *shared);
void hyd_ldsm4_t(uint32_t *r, const hyd_bf16 *shared);
void hyd_mma(float *c, const uint32_t *a, uint32_t b0, uint32_t b1);
void hyd_cp16(hyd_bf16 *shared, const hyd_bf16 *global, bool valid);
void hyd_cp4(float *shared, const float *global, bool valid);
void hyd_cp_commit(void);
void hyd_cp_wait(unsigned left);
uint32_t hyd_pack2(float low, float high);
float hyd_exp2(float x);
float hyd_load(const float *global);
void hyd_store(float *global, float x);
void hyd_load2(float *x, const float *global);
void hyd_store2(float *global, float x, float y);
hyd_bf16 hyd_load_bf16(const hyd_bf16 *global);
void hyd_store_bf16(hyd_bf16 *global, hyd_bf16 x);
uint32_t hyd_load_u32(const uint32_t *global);
void hyd_store_u32(uint32_t *global, uint32_t x);
void hyd_copy_bytes(unsigned char *to, const unsigned char *from, uint32_t bytes);
float hyd_shared_load(const float *shared);
void hyd_shared_store(float *shared, float x);
void hyd_shared_store_pair(hyd_bf16 *shared, uint32_t pair);

#endif
