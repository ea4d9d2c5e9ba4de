/* emu_words.c - what the words of lane.h mean, and the checks on memory; see emu.h. */
#include <stdlib.h>
#include <string.h>

#include "tests/emu/emu.h"
#include "tests/emu/emu_impl.h"
#include "worker/compute/bf16.h"

enum {
    MAX_RANGES = 32,
    MAX_PENDING = 4096,
    MAX_SHARED = 232448,
    NOBODY = -1,
    MANY = -2
};

/* Memory of the device that a kernel may touch. */
struct range {
    unsigned char *at;
    size_t bytes;
    bool writable;
    uint32_t *writer; /* [bytes / 4] 1 + global thread number; 0: nobody */
};

/* One word of shared memory: who touched it since the last barrier. */
struct word {
    unsigned write_epoch, read_epoch;
    int writer, reader;
    bool in_flight;
};

struct copy {
    unsigned char *to;
    const unsigned char *from; /* NULL: zeros */
    size_t bytes;
    unsigned thread;
    unsigned group; /* of its thread */
};

static struct {
    struct range range[MAX_RANGES];
    size_t n_ranges;
    unsigned char *shared; /* 16-byte aligned */
    size_t shared_bytes;
    struct word word[MAX_SHARED / 4];
    struct copy copy[MAX_PENDING];
    size_t n_copies;
    unsigned group[EMU_MAX_THREADS]; /* committed so far */
    uint32_t n_blocks; /* so far in this launch */
} memory;

void emu_forget(void)
{
    for (size_t i = 0; i < memory.n_ranges; i++) {
        free(memory.range[i].writer);
    }
    memory.n_ranges = 0;
}

static void declare(void *at, size_t bytes, bool writable)
{
    struct range *r = &memory.range[memory.n_ranges++];

    if (memory.n_ranges > MAX_RANGES) {
        abort();
    }
    *r = (struct range){.at = at, .bytes = bytes, .writable = writable};
    r->writer = calloc(bytes / 4 + 1, sizeof *r->writer);
    if (r->writer == NULL) {
        abort();
    }
}

void emu_may_read(const void *at, size_t bytes)
{
    declare((void *)(uintptr_t)at, bytes, false);
}

void emu_may_write(void *at, size_t bytes)
{
    declare(at, bytes, true);
}

void emu_memory_launch(void)
{
    memory.n_blocks = 0;
    for (size_t i = 0; i < memory.n_ranges; i++) {
        memset(memory.range[i].writer, 0,
               (memory.range[i].bytes / 4 + 1) * sizeof *memory.range[i].writer);
    }
}

void emu_memory_begin(size_t shared_bytes)
{
    static const uint16_t poison = 0x7fff; /* NaN as bf16, and in pairs as fp32 */

    if (memory.shared == NULL) {
        memory.shared = aligned_alloc(128, (size_t)(MAX_SHARED + 127) / 128 * 128);
    }
    if (memory.shared == NULL || shared_bytes > MAX_SHARED) {
        abort();
    }
    memory.shared_bytes = shared_bytes;
    for (size_t i = 0; i + 2 <= shared_bytes; i += 2) {
        memcpy(memory.shared + i, &poison, 2);
    }
    memset(memory.word, 0, shared_bytes / 4 * sizeof *memory.word);
    memset(memory.group, 0, sizeof memory.group);
    memory.n_copies = 0;
    memory.n_blocks++;
}

void emu_memory_end(void)
{
    /* Copies that nobody waited for are harmless when nobody reads them; none is left
     * over in our kernels but empty groups. */
    memory.n_copies = 0;
}

static struct range *find_range(const void *at, size_t bytes, bool write)
{
    const uintptr_t begin = (uintptr_t)at;

    if (begin % bytes != 0) {
        emu_fail("access of %zu bytes at an odd address", bytes);
    }
    for (size_t i = 0; i < memory.n_ranges; i++) {
        struct range *r = &memory.range[i];

        if (begin >= (uintptr_t)r->at && begin + bytes <= (uintptr_t)r->at + r->bytes) {
            if (write && !r->writable) {
                emu_fail("write to memory that is only read");
            }
            return r;
        }
    }
    emu_fail("%s of %zu bytes outside all memory of the test", write ? "write" : "read",
             bytes);
}

/* 1 + number of the thread in the launch. */
static uint32_t global_thread(void)
{
    return memory.n_blocks * EMU_MAX_THREADS + emu_thread() + 1;
}

static void check_global(const void *at, size_t bytes, bool write)
{
    struct range *r = find_range(at, bytes, write);
    const size_t first = ((uintptr_t)at - (uintptr_t)r->at) / 4;

    for (size_t i = first; i < first + (bytes + 3) / 4; i++) {
        if (bytes >= 4 && r->writer[i] != 0 && r->writer[i] != global_thread()) {
            emu_fail("%s of a global word that another thread of the launch wrote",
                     write ? "write" : "read");
        }
        if (write) {
            r->writer[i] = global_thread();
        }
    }
}

static struct word *check_shared(const void *at, size_t bytes)
{
    const uintptr_t begin = (uintptr_t)at, base = (uintptr_t)memory.shared;

    if (begin % bytes != 0) {
        emu_fail("access of %zu bytes of shared memory at an odd address", bytes);
    }
    if (begin < base || begin + bytes > base + memory.shared_bytes) {
        emu_fail("access outside shared memory");
    }
    return &memory.word[(begin - base) / 4];
}

static void touch_shared(const void *at, size_t bytes, bool write)
{
    struct word *w = check_shared(at, bytes);
    const int self = (int)emu_thread();
    /* Epochs count from 1, so that 0 means never. */
    const unsigned epoch = emu_epoch() + 1;

    for (size_t i = 0; i < bytes / 4; i++, w++) {
        if (w->in_flight) {
            emu_fail("%s of shared memory while a copy to it is in flight",
                     write ? "write" : "read");
        }
        if (w->write_epoch == epoch && w->writer != self) {
            emu_fail("shared memory: thread %d wrote, no barrier since", w->writer);
        }
        if (write && w->read_epoch == epoch && w->reader != self) {
            emu_fail("shared memory: others read, no barrier since, now a write");
        }
        if (write) {
            w->write_epoch = epoch;
            w->writer = self;
        } else if (w->read_epoch != epoch) {
            w->read_epoch = epoch;
            w->reader = self;
        } else if (w->reader != self) {
            w->reader = MANY;
        }
    }
}

unsigned char *emu_shared(void)
{
    return memory.shared;
}

void hyd_block_sync(void)
{
    emu_barrier();
}

void hyd_warp_sync(void)
{
    emu_meet(EMU_OP_SYNC, (struct emu_bring){.in = NULL}, NULL);
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
    touch_shared(shared, 16, false);
    emu_meet(EMU_OP_MATRIX, (struct emu_bring){.in = shared, .out = r}, act_matrix);
}

void hyd_ldsm4_t(uint32_t *r, const hyd_bf16 *shared)
{
    touch_shared(shared, 16, false);
    emu_meet(EMU_OP_MATRIX_T, (struct emu_bring){.in = shared, .out = r}, act_matrix_t);
}

static float half_of(uint32_t pair, int which)
{
    return hyd_bf16_decode((uint16_t)(pair >> (16 * which)));
}

static void act_mma(struct emu_bring bring[EMU_WARP])
{
    float a[16][16], b[16][8];

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

static void copy_later(void *shared, const void *global, size_t bytes, bool valid)
{
    struct word *w = check_shared(shared, bytes);

    if (valid) {
        check_global(global, bytes, false);
    }
    touch_shared(shared, bytes, true);
    for (size_t i = 0; i < bytes / 4; i++) {
        w[i].in_flight = true;
    }
    if (memory.n_copies == MAX_PENDING) {
        emu_fail("more than %d copies in flight", MAX_PENDING);
    }
    memory.copy[memory.n_copies++] = (struct copy){.to = shared,
                                                   .from = valid ? global : NULL,
                                                   .bytes = bytes,
                                                   .thread = emu_thread(),
                                                   .group = memory.group[emu_thread()]};
}

void hyd_cp16(hyd_bf16 *shared, const hyd_bf16 *global, bool valid)
{
    copy_later(shared, global, 16, valid);
}

void hyd_cp4(float *shared, const float *global, bool valid)
{
    copy_later(shared, global, 4, valid);
}

void hyd_cp_commit(void)
{
    memory.group[emu_thread()]++;
}

void hyd_cp_wait(unsigned left)
{
    const unsigned self = emu_thread();
    const unsigned done =
        memory.group[self] > left ? memory.group[self] - left : 0; /* groups below */
    size_t kept = 0;

    for (size_t i = 0; i < memory.n_copies; i++) {
        const struct copy *c = &memory.copy[i];
        struct word *w = &memory.word[(size_t)(c->to - memory.shared) / 4];

        if (c->thread != self || c->group >= done) {
            memory.copy[kept++] = *c;
            continue;
        }
        if (c->from != NULL) {
            memcpy(c->to, c->from, c->bytes);
        } else {
            memset(c->to, 0, c->bytes);
        }
        for (size_t j = 0; j < c->bytes / 4; j++) {
            w[j].in_flight = false;
            w[j].write_epoch = emu_epoch() + 1;
            w[j].writer = (int)self;
        }
    }
    memory.n_copies = kept;
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
    check_global(global, 4, false);
    return *global;
}

void hyd_store(float *global, float x)
{
    check_global(global, 4, true);
    *global = x;
}

void hyd_load2(float *x, const float *global)
{
    check_global(global, 8, false);
    memcpy(x, global, 8);
}

void hyd_store2(float *global, float x, float y)
{
    check_global(global, 8, true);
    global[0] = x;
    global[1] = y;
}

hyd_bf16 hyd_load_bf16(const hyd_bf16 *global)
{
    check_global(global, 2, false);
    return *global;
}

void hyd_store_bf16(hyd_bf16 *global, hyd_bf16 x)
{
    check_global(global, 2, true);
    *global = x;
}

void hyd_store_u32(uint32_t *global, uint32_t x)
{
    check_global(global, 4, true);
    *global = x;
}

void hyd_copy_bytes(unsigned char *to, const unsigned char *from, uint32_t bytes)
{
    check_global(from, bytes, false);
    check_global(to, bytes, true);
    memcpy(to, from, bytes);
}

float hyd_shared_load(const float *shared)
{
    touch_shared(shared, 4, false);
    return *shared;
}

void hyd_shared_store(float *shared, float x)
{
    touch_shared(shared, 4, true);
    *shared = x;
}
