/* fake_card.c - see fake_gpu.h: the card and its memory. One lock and one condition for everything:
 * simple, and slow enough that races get their chance. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "tests/fake_gpu/fake_gpu.h"

struct block {
    struct block *next;
    unsigned char *at;
    size_t bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static const struct fake_gpu_card sound = {.driver = 13000,
                                           .runtime = 13000,
                                           .n_devices = 64,
                                           .major = 9,
                                           .shared_bytes = 227 << 10,
                                           .bytes = (size_t)1 << 30};
static struct fake_gpu_card card = {.driver = 13000,
                                    .runtime = 13000,
                                    .n_devices = 64,
                                    .major = 9,
                                    .shared_bytes = 227 << 10,
                                    .bytes = (size_t)1 << 30};
static struct block *blocks;
static size_t used_bytes, n_left;

void fake_gpu_enter(void)
{
    (void)pthread_mutex_lock(&lock);
}

void fake_gpu_leave(void)
{
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
}

void fake_gpu_wait(pthread_cond_t *news)
{
    (void)pthread_cond_wait(news != NULL ? news : &changed, &lock);
}

cudaError_t fake_gpu_broken(void)
{
    return card.broken;
}

bool fake_gpu_stalled(void)
{
    return card.stalled;
}

void fake_gpu_made(int n)
{
    n_left += (size_t)n;
}

void fake_gpu_set_card(const struct fake_gpu_card *new_card)
{
    fake_gpu_enter();
    card = *new_card;
    fake_gpu_leave();
}

/* HYDRA_FAKE_DRIVER: the version that the driver speaks, for programs that no test links. */
struct fake_gpu_card fake_gpu_card(void)
{
    const char *driver = getenv("HYDRA_FAKE_DRIVER");
    struct fake_gpu_card copy;

    fake_gpu_enter();
    copy = card;
    fake_gpu_leave();
    if (driver != NULL) {
        copy.driver = (int)strtol(driver, NULL, 10);
    }
    return copy;
}

void fake_gpu_reset(void)
{
    fake_gpu_set_card(&sound);
    fake_nccl_reset();
}

size_t fake_gpu_left(void)
{
    size_t n;

    fake_gpu_enter();
    n = n_left;
    fake_gpu_leave();
    return n + fake_nccl_left();
}

/* --- the card --- */

const char *cudaGetErrorString(cudaError_t code)
{
    return code == cudaErrorInsufficientDriver ? "CUDA driver version is insufficient"
           : code == cudaErrorMemoryAllocation ? "out of memory"
           : code == cudaErrorIllegalAddress   ? "an illegal memory access"
                                               : "a fake error";
}

static _Thread_local cudaError_t last_error = cudaSuccess;

cudaError_t fake_gpu_said(cudaError_t code)
{
    if (code != cudaSuccess) {
        last_error = code;
    }
    return code;
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t code = last_error;

    last_error = cudaSuccess;
    return code;
}

cudaError_t cudaDriverGetVersion(int *ret_version)
{
    *ret_version = fake_gpu_card().driver;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *ret_version)
{
    *ret_version = fake_gpu_card().runtime;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *ret_n)
{
    const struct fake_gpu_card now = fake_gpu_card();

    if (now.driver < now.runtime) {
        return cudaErrorInsufficientDriver;
    }
    *ret_n = now.n_devices;
    return now.n_devices > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaSetDevice(int device)
{
    return device >= 0 && device < fake_gpu_card().n_devices ? cudaSuccess
                                                             : cudaErrorInvalidDevice;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *ret_prop, int device)
{
    const struct fake_gpu_card now = fake_gpu_card();

    (void)device;
    *ret_prop = (struct cudaDeviceProp){.name = "fake card",
                                        .totalGlobalMem = now.bytes,
                                        .major = now.major,
                                        .minor = now.minor,
                                        .multiProcessorCount = 1};
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *ret_value, enum cudaDeviceAttr attr, int device)
{
    const struct fake_gpu_card now = fake_gpu_card();

    (void)device;
    *ret_value = attr == cudaDevAttrComputeCapabilityMajor   ? now.major
                 : attr == cudaDevAttrComputeCapabilityMinor ? now.minor
                                                             : now.shared_bytes;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *ret_least, int *ret_greatest)
{
    *ret_least = 0;
    *ret_greatest = -5;
    return cudaSuccess;
}

/* --- memory --- */

static struct block *find(const void *at)
{
    const unsigned char *p = at;

    for (struct block *block = blocks; block != NULL; block = block->next) {
        if (p >= block->at && p < block->at + block->bytes) {
            return block;
        }
    }
    return NULL;
}

size_t fake_gpu_room(const void *at)
{
    const struct block *block;
    size_t room = 0;

    fake_gpu_enter();
    block = find(at);
    if (block != NULL) {
        room = (size_t)(block->at + block->bytes - (const unsigned char *)at);
    }
    fake_gpu_leave();
    return room;
}

cudaError_t cudaMalloc(void **ret_at, size_t bytes)
{
    struct block *block = NULL;
    cudaError_t code = cudaErrorMemoryAllocation;

    fake_gpu_enter();
    if (bytes <= card.bytes - used_bytes) {
        block = malloc(sizeof *block);
        hyd_assert(block != NULL);
        block->at = aligned_alloc(256, (bytes + 511) / 256 * 256);
        hyd_assert(block->at != NULL);
        memset(block->at, 0xff, bytes);
        block->bytes = bytes > 0 ? bytes : 1;
        block->next = blocks;
        blocks = block;
        used_bytes += bytes;
        n_left++;
        *ret_at = block->at;
        code = cudaSuccess;
    }
    fake_gpu_leave();
    return fake_gpu_said(code);
}

cudaError_t cudaFree(void *at)
{
    cudaError_t code = at == NULL ? cudaSuccess : cudaErrorInvalidValue;

    fake_gpu_enter();
    for (struct block **link = &blocks; at != NULL && *link != NULL;
         link = &(*link)->next) {
        struct block *block = *link;

        if (block->at == at) {
            *link = block->next;
            used_bytes -= block->bytes;
            n_left--;
            free(block->at);
            free(block);
            code = cudaSuccess;
            break;
        }
    }
    fake_gpu_leave();
    return code;
}

cudaError_t cudaMemGetInfo(size_t *ret_free, size_t *ret_all)
{
    fake_gpu_enter();
    *ret_free = card.bytes - used_bytes;
    *ret_all = card.bytes;
    fake_gpu_leave();
    return cudaSuccess;
}

struct move {
    void *dst;
    const void *src; /* NULL: fill */
    size_t bytes;
    int value;
};

static void run_move(void *ctx)
{
    struct move *move = ctx;

    if (fake_gpu_card().broken != cudaSuccess) {
        free(move); /* a broken card does nothing more */
        return;
    }
    if (move->src != NULL) {
        memcpy(move->dst, move->src, move->bytes);
    } else {
        memset(move->dst, move->value, move->bytes);
    }
    free(move);
}

static cudaError_t put_move(const struct move *from, cudaStream_t stream)
{
    struct move *move = malloc(sizeof *move);

    hyd_assert(move != NULL);
    *move = *from;
    return fake_stream_put(stream, run_move, move);
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes,
                            enum cudaMemcpyKind kind, cudaStream_t stream)
{
    (void)kind;
    if (fake_gpu_room(dst) < bytes && fake_gpu_room(src) < bytes) {
        return cudaErrorInvalidValue; /* neither side is the device's */
    }
    return put_move(&(struct move){dst, src, bytes, 0}, stream);
}

cudaError_t cudaMemsetAsync(void *at, int value, size_t bytes, cudaStream_t stream)
{
    if (fake_gpu_room(at) < bytes) {
        return cudaErrorInvalidValue;
    }
    return put_move(&(struct move){at, NULL, bytes, value}, stream);
}
