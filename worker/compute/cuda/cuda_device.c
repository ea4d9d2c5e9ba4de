/* cuda_device.c - see cuda_device.h: the object's life and its memory. */
#include "worker/compute/cuda/cuda_device.h"

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "worker/compute/cuda/cuda_probe.h"
#include "worker/compute/cuda/kernels.h"

static const double GIB = 1024.0 * 1024.0 * 1024.0;

hyd_status hyd_cuda_set_error(struct hyd_error *err, cudaError_t code,
                              const char *doing)
{
    return hyd_error_set(err, hyd_cuda_status(code), "%s: %s", doing,
                         cudaGetErrorString(code));
}

void hyd_cuda_close(struct hyd_compute *dev)
{
    if (dev == NULL) {
        return;
    }
    (void)cudaSetDevice(dev->device);
    if (dev->has_stream) {
        /* Callbacks of arm_fd must be over before the descriptor goes, and what cuDNN runs
         * before its plans go. */
        (void)cudaStreamSynchronize(dev->stream);
        hyd_cudnn_close(dev->cudnn);
        (void)cudaStreamDestroy(dev->stream);
    }
    hyd_cuda_clock_close(&dev->compute);
    hyd_cuda_clock_close(&dev->copy);
    for (int i = 0; i < 3; i++) {
        const int fd = (const int[]){dev->poll_fd, dev->timer_fd, dev->news_fd}[i];

        if (fd >= 0) {
            (void)close(fd);
        }
    }
    hyd_alloc_free(dev->alloc, dev);
}

static hyd_status check_device(const struct hyd_compute *dev,
                               struct cudaDeviceProp *ret_prop, struct hyd_error *err)
{
    cudaError_t code = cudaSetDevice(dev->device);

    if (code == cudaSuccess) {
        code = cudaGetDeviceProperties(ret_prop, dev->device);
    }
    if (code != cudaSuccess) {
        return hyd_error_set(err, hyd_cuda_status(code),
                             "cannot use CUDA device %d: %s", dev->device,
                             cudaGetErrorString(code));
    }
    if (ret_prop->major < HYD_CUDA_LEAST_MAJOR) {
        return hyd_error_set(err, HYD_ERR_UNSUPPORTED,
                             "%s has compute capability %d.%d, at least %d.0 is needed",
                             ret_prop->name, ret_prop->major, ret_prop->minor,
                             HYD_CUDA_LEAST_MAJOR);
    }
    return HYD_OK;
}

static hyd_status make_descriptors(struct hyd_compute *dev, struct hyd_error *err)
{
    struct epoll_event event = {.events = EPOLLIN};

    dev->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    dev->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    dev->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (dev->news_fd < 0 || dev->timer_fd < 0 || dev->poll_fd < 0 ||
        epoll_ctl(dev->poll_fd, EPOLL_CTL_ADD, dev->news_fd, &event) != 0 ||
        epoll_ctl(dev->poll_fd, EPOLL_CTL_ADD, dev->timer_fd, &event) != 0) {
        return hyd_error_set(err, HYD_ERR_IO, "no descriptors to wait on: errno %d",
                             errno);
    }
    return HYD_OK;
}

/* Stream, descriptors and clocks; what was made is there when it fails. */
static hyd_status make_parts(struct hyd_compute *dev, struct hyd_error *err)
{
    cudaError_t code = cudaStreamCreateWithFlags(&dev->stream, cudaStreamNonBlocking);
    int shared_bytes = 0;
    hyd_status st;

    dev->has_stream = code == cudaSuccess;
    if (code == cudaSuccess) {
        code = cudaDeviceGetAttribute(
            &shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, dev->device);
    }
    if (code == cudaSuccess) {
        dev->shared_bytes = (uint32_t)shared_bytes;
        code = (cudaError_t)hyd_cuda_kernels_prepare(dev->shared_bytes);
    }
    if (code != cudaSuccess) {
        return hyd_cuda_set_error(err, code, "cannot prepare the CUDA device");
    }
    st = make_descriptors(dev, err);
    if (st != HYD_OK) {
        return st;
    }
    st = hyd_cuda_clock_open(&dev->compute);
    if (st == HYD_OK) {
        st = hyd_cuda_clock_open(&dev->copy);
    }
    return st == HYD_OK ? st : hyd_error_set(err, st, "cannot make CUDA events");
}

hyd_status hyd_cuda_open(const struct hyd_compute_config *config,
                         struct hyd_compute **ret_dev, struct hyd_error *err)
{
    const struct hyd_alloc *alloc =
        config->alloc != NULL ? config->alloc : hyd_alloc_system();
    struct hyd_compute *dev = hyd_alloc_zeroed(alloc, 1, sizeof *dev);
    struct cudaDeviceProp prop = {0};
    hyd_status st;
    int n;

    if (dev == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for the CUDA device");
    }
    dev->alloc = alloc;
    dev->device = config->device;
    dev->news_fd = dev->timer_fd = dev->poll_fd = -1;
    st = check_device(dev, &prop, err);
    if (st == HYD_OK) {
        st = make_parts(dev, err);
    }
    if (st != HYD_OK) {
        hyd_cuda_close(dev);
        return st;
    }
    n = snprintf(dev->describe, sizeof dev->describe,
                 "cuda %d %.80s, sm_%d%d, %d processors, %.1f GiB", dev->device,
                 prop.name, prop.major, prop.minor, prop.multiProcessorCount,
                 (double)prop.totalGlobalMem / GIB);
    dev->card = n > 0 ? (size_t)n : 0;
    *ret_dev = dev;
    return HYD_OK;
}

const char *hyd_cuda_describe(const struct hyd_compute *dev)
{
    return dev->describe;
}

/* What the card had to give, behind its name: who reports the refusal prints it. */
static void note_refusal(struct hyd_compute *dev, size_t bytes)
{
    size_t free_bytes = 0, all_bytes = 0;

    if (cudaMemGetInfo(&free_bytes, &all_bytes) == cudaSuccess) {
        (void)snprintf(dev->describe + dev->card, sizeof dev->describe - dev->card,
                       ", %.2f GiB of it free when %.2f GiB were asked for",
                       (double)free_bytes / GIB, (double)bytes / GIB);
    }
}

hyd_status hyd_cuda_mem_alloc(struct hyd_compute *dev, size_t bytes,
                              struct hyd_buf *ret_buf)
{
    void *at = NULL;
    cudaError_t code = cudaSetDevice(dev->device);

    if (code == cudaSuccess) {
        code = cudaMalloc(&at, bytes);
    }
    if (code == cudaSuccess) {
        *ret_buf = (struct hyd_buf){at, bytes, HYD_MEM_CUDA};
        dev->describe[dev->card] = '\0';
        return HYD_OK;
    }
    (void)cudaGetLastError(); /* a refusal is not an error of later calls */
    note_refusal(dev, bytes);
    return hyd_cuda_status(code);
}

void hyd_cuda_mem_free(struct hyd_compute *dev, struct hyd_buf *buf)
{
    if (buf->at != NULL) {
        (void)cudaSetDevice(dev->device);
        (void)cudaFree(buf->at);
    }
    *buf = (struct hyd_buf){0};
}
