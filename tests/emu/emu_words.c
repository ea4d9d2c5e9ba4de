/* emu_words.c - what the words of lane.h mean; see emu.h. */
#include <string.h>

#include "tests/emu/emu.h"
#include "tests/emu/emu_impl.h"
#include "worker/compute/bf16.h"

/* Where the kernel called the word that asks; a macro, so that it is the word's own. */
#define SITE __builtin_return_address(0)

void hyd_block_sync(void)
{
    emu_barrier();
}

void hyd_warp_sync(void)
{
    emu_meet(EMU_OP_SYNC, (struct emu_bring){.in = NULL}, NULL);
}

void hyd_cp16(hyd_bf16 *shared, const hyd_bf16 *global, bool valid)
{
    emu_copy_later(SITE, shared, global, 16, valid);
}

void hyd_cp4(float *shared, const float *global, bool valid)
{
    emu_copy_later(SITE, shared, global, 4, valid);
}

static void act_shuffle(struct emu_bring bring[EMU_WARP])
{
    for (int i = 0; i < EMU_WARP; i++) {
        *(float *)bring[i].out = bring[i ^ bring[i].mask].x;
    }
}

float hyd_shfl_xor(float x, int mask)
{
    float y = 0.0f;

    emu_meet(EMU_OP_SHUFFLE, (struct emu_bring){.x = x, .mask = mask, .out = &y},
             act_shuffle);
    return y;
}

static void act_shuffle_from(struct emu_bring bring[EMU_WARP])
{
    for (int i = 0; i < EMU_WARP; i++) {
        *(float *)bring[i].out = bring[bring[i].mask % EMU_WARP].x;
    }
}

float hyd_shfl(float x, int lane)
{
    float y = 0.0f;

    emu_meet(EMU_OP_SHUFFLE_FROM, (struct emu_bring){.x = x, .mask = lane, .out = &y},
             act_shuffle_from);
    return y;
}

static void act_any(struct emu_bring bring[EMU_WARP])
{
    int any = 0;

    for (int i = 0; i < EMU_WARP; i++) {
        any |= bring[i].mask;
    }
    for (int i = 0; i < EMU_WARP; i++) {
        *(int *)bring[i].out = any;
    }
}

bool hyd_any(bool x)
{
    int y = 0;

    emu_meet(EMU_OP_ANY, (struct emu_bring){.mask = x, .out = &y}, act_any);
    return y != 0;
}

static uint16_t element(const struct emu_bring *bring, int matrix, int row, int col)
{
    uint16_t x;

    memcpy(&x, (const unsigned char *)bring[matrix * 8 + row].in + 2 * (size_t)col, 2);
    return x;
}

static void give_matrices(struct emu_bring bring[EMU_WARP], bool transposed)
{
    for (int lane = 0; lane < EMU_WARP; lane++) {
        for (int m = 0; m < 4; m++) {
            const int g = lane / 4, t = lane % 4;
            const uint16_t low =
                transposed ? element(bring, m, 2 * t, g) : element(bring, m, g, 2 * t);
            const uint16_t high = transposed ? element(bring, m, 2 * t + 1, g)
                                             : element(bring, m, g, 2 * t + 1);

            ((uint32_t *)bring[lane].out)[m] = (uint32_t)low | (uint32_t)high << 16;
        }
    }
}

static void act_matrix(struct emu_bring bring[EMU_WARP])
{
    give_matrices(bring, false);
}

static void act_matrix_t(struct emu_bring bring[EMU_WARP])
{
    give_matrices(bring, true);
}

void hyd_ldsm4(uint32_t *r, const hyd_bf16 *shared)
{
    emu_touch_shared(SITE, shared, 16, false);
    emu_meet(EMU_OP_MATRIX, (struct emu_bring){.in = shared, .out = r}, act_matrix);
}

void hyd_ldsm4_t(uint32_t *r, const hyd_bf16 *shared)
{
    emu_touch_shared(SITE, shared, 16, false);
    emu_meet(EMU_OP_MATRIX_T, (struct emu_bring){.in = shared, .out = r}, act_matrix_t);
}

static float half_of(uint32_t pair, int which)
{
    return hyd_bf16_decode((uint16_t)(pair >> (16 * which)));
}

static void act_mma(struct emu_bring bring[EMU_WARP])
{
    float a[16][16], b[16][8];

    emu_traffic_product();
    for (int lane = 0; lane < EMU_WARP; lane++) {
        const uint32_t *left = bring[lane].in;
        const int g = lane / 4, t = lane % 4;

        for (int r = 0; r < 4; r++) {
            for (int z = 0; z < 2; z++) {
                a[g + 8 * (r & 1)][2 * t + z + 8 * (r >> 1)] = half_of(left[r], z);
            }
        }
        for (int r = 0; r < 2; r++) {
            for (int z = 0; z < 2; z++) {
                b[2 * t + z + 8 * r][g] = half_of(bring[lane].b[r], z);
            }
        }
    }
    for (int lane = 0; lane < EMU_WARP; lane++) {
        float *c = bring[lane].out;

        for (int e = 0; e < 4; e++) {
            const int row = lane / 4 + 8 * (e >> 1), col = 2 * (lane % 4) + (e & 1);

            for (int k = 0; k < 16; k++) {
                c[e] += a[row][k] * b[k][col];
            }
        }
    }
}

void hyd_mma(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
    emu_meet(EMU_OP_MMA, (struct emu_bring){.in = a, .out = c, .b = {b0, b1}}, act_mma);
}

uint32_t hyd_pack2(float low, float high)
{
    return (uint32_t)hyd_bf16_encode(low) | (uint32_t)hyd_bf16_encode(high) << 16;
}

float hyd_exp2(float x)
{
    return exp2f(x);
}

float hyd_load(const float *global)
{
    emu_touch_global(SITE, global, 4, false);
    return *global;
}

void hyd_store(float *global, float x)
{
    emu_touch_global(SITE, global, 4, true);
    *global = x;
}

void hyd_load2(float *x, const float *global)
{
    emu_touch_global(SITE, global, 8, false);
    memcpy(x, global, 8);
}

void hyd_store2(float *global, float x, float y)
{
    emu_touch_global(SITE, global, 8, true);
    global[0] = x;
    global[1] = y;
}

hyd_bf16 hyd_load_bf16(const hyd_bf16 *global)
{
    emu_touch_global(SITE, global, 2, false);
    return *global;
}

void hyd_store_bf16(hyd_bf16 *global, hyd_bf16 x)
{
    emu_touch_global(SITE, global, 2, true);
    *global = x;
}

uint32_t hyd_load_u32(const uint32_t *global)
{
    emu_touch_global(SITE, global, 4, false);
    return *global;
}

void hyd_store_u32(uint32_t *global, uint32_t x)
{
    emu_touch_global(SITE, global, 4, true);
    *global = x;
}

void hyd_copy_bytes(unsigned char *to, const unsigned char *from, uint32_t bytes)
{
    emu_touch_global(SITE, from, bytes, false);
    emu_touch_global(SITE, to, bytes, true);
    memcpy(to, from, bytes);
}

float hyd_shared_load(const float *shared)
{
    emu_touch_shared(SITE, shared, 4, false);
    return *shared;
}

void hyd_shared_store(float *shared, float x)
{
    emu_touch_shared(SITE, shared, 4, true);
    *shared = x;
}

void hyd_shared_store_pair(hyd_bf16 *shared, uint32_t pair)
{
    emu_touch_shared(SITE, shared, 4, true);
    memcpy(shared, &pair, 4);
}
