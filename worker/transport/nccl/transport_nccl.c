/* transport_nccl.c - see transport_nccl.h: the table, and the life of a communicator. */
#include "worker/transport/nccl/transport_nccl.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "worker/compute/cuda/cuda_probe.h"
#include "worker/transport/circle.h"
#include "worker/transport/nccl/nccl_impl.h"

enum { CHANNELS_PER_PEER = 8, MAX_CTAS = 16 };

/* How often NCCL is asked about: often while it takes a group, for then the next one waits;
 * seldom while groups run, for then the stream tells and only errors have to be found. */
enum {
    JOINING_TICK_NS = 1000 * 1000,
    LAUNCHING_TICK_NS = 50 * 1000,
    RUNNING_TICK_NS = 10 * 1000 * 1000
};

hyd_status hyd_nccl_status(ncclResult_t result)
{
    switch (result) {
    case ncclSuccess:
    case ncclInProgress:
        return HYD_OK;
    case ncclUnhandledCudaError:
    case ncclSystemError:
    case ncclRemoteError:
        return HYD_ERR_UNAVAILABLE;
    case ncclInvalidArgument:
        return HYD_ERR_INVALID;
    case ncclInternalError:
    case ncclInvalidUsage:
    default:
        return HYD_ERR_INTERNAL;
    }
}

hyd_status hyd_nccl_cuda_status(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return HYD_OK;
    case cudaErrorMemoryAllocation:
        return HYD_ERR_NO_MEMORY;
    case cudaErrorInvalidValue:
        return HYD_ERR_INVALID;
    default:
        return HYD_ERR_UNAVAILABLE;
    }
}

static bool nccl_moves(enum hyd_mem mem)
{
    return mem == HYD_MEM_CUDA;
}

static hyd_status cuda_error(struct hyd_error *err, const char *what, cudaError_t error)
{
    return hyd_error_set(err, hyd_nccl_cuda_status(error), "cuda: %s: %s", what,
                         cudaGetErrorString(error));
}

static hyd_status make_descriptors(struct hyd_transport *transport,
                                   struct hyd_error *err)
{
    struct epoll_event event = {.events = EPOLLIN};

    transport->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    transport->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    transport->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (transport->wake_fd < 0 || transport->timer_fd < 0 || transport->poll_fd < 0 ||
        epoll_ctl(transport->poll_fd, EPOLL_CTL_ADD, transport->wake_fd, &event) != 0 ||
        epoll_ctl(transport->poll_fd, EPOLL_CTL_ADD, transport->timer_fd, &event) !=
            0) {
        return hyd_error_set(err, HYD_ERR_IO, "making descriptors: %s",
                             strerror(errno));
    }
    return HYD_OK;
}

static hyd_status make_device(struct hyd_transport *transport, struct hyd_error *err)
{
    int least = 0;
    int greatest = 0;
    cudaError_t error = cudaSetDevice(transport->config.device);

    if (error == cudaSuccess) {
        error = cudaDeviceGetStreamPriorityRange(&least, &greatest);
    }
    if (error == cudaSuccess) {
        error = cudaStreamCreateWithPriority(&transport->stream, cudaStreamNonBlocking,
                                             greatest);
        transport->has_stream = error == cudaSuccess;
    }
    for (int i = 0; i < HYD_NCCL_QUEUE && error == cudaSuccess; i++) {
        error =
            cudaEventCreateWithFlags(&transport->entry[i].done, cudaEventDisableTiming);
    }
    if (error == cudaSuccess) {
        error = cudaMalloc(&transport->warm_buf, 2 * (size_t)HYD_NCCL_WARM_BYTES);
    }
    return error == cudaSuccess ? HYD_OK : cuda_error(err, "preparing", error);
}

static void release(void *ctx)
{
    struct hyd_transport *transport = ctx;

    (void)cudaSetDevice(transport->config.device);
    if (transport->has_stream) {
        /* Callbacks of on_stream must be over before the descriptors go. */
        (void)cudaStreamSynchronize(transport->stream);
        (void)cudaStreamDestroy(transport->stream);
    }
    for (int i = 0; i < HYD_NCCL_QUEUE; i++) {
        if (transport->entry[i].done != NULL) {
            (void)cudaEventDestroy(transport->entry[i].done);
        }
    }
    (void)cudaFree(transport->warm_buf);
    for (int i = 0; i < 3; i++) {
        const int fd = (const int[]){transport->poll_fd, transport->timer_fd,
                                     transport->wake_fd}[i];

        if (fd >= 0) {
            (void)close(fd);
        }
    }
    hyd_alloc_free(hyd_alloc_system(), transport);
}

static void nccl_close(struct hyd_transport *transport)
{
    struct hyd_nccl_ending *ending = NULL;
    bool later = false;

    if (transport == NULL) {
        return;
    }
    hyd_nccl_fail(transport, HYD_ERR_CANCELLED, transport->config.rank);
    ending = transport->ending;
    if (ending != NULL) {
        /* Its kernel may still run on the stream and write to the descriptors. */
        later = hyd_nccl_ending_then(ending, release, transport);
        hyd_nccl_ending_drop(ending);
    }
    if (!later) {
        release(transport);
    }
}

static hyd_status nccl_open(const struct hyd_transport_config *config,
                            struct hyd_transport **ret_transport, struct hyd_error *err)
{
    struct hyd_transport *transport = NULL;
    ncclResult_t result = ncclSuccess;
    hyd_status st = HYD_OK;

    if (config->mem != HYD_MEM_CUDA) {
        return hyd_error_set(err, HYD_ERR_UNSUPPORTED, "nccl moves device memory only");
    }
    transport = hyd_alloc_zeroed(hyd_alloc_system(), 1, sizeof *transport);
    if (transport == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    transport->config = *config;
    transport->wake_fd = -1;
    transport->timer_fd = -1;
    transport->poll_fd = -1;
    st = make_descriptors(transport, err);
    if (st == HYD_OK) {
        st = make_device(transport, err);
    }
    if (st == HYD_OK && config->rank == 0) {
        result = ncclGetUniqueId(&transport->id);
        if (result != ncclSuccess) {
            st = hyd_error_set(err, hyd_nccl_status(result), "nccl: making the id: %s",
                               ncclGetErrorString(result));
        }
    }
    if (st != HYD_OK) {
        nccl_close(transport);
        return st;
    }
    *ret_transport = transport;
    return HYD_OK;
}

static double now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static hyd_status nccl_address(struct hyd_transport *transport, const void **ret_bytes,
                               size_t *ret_n_bytes)
{
    *ret_bytes = &transport->id;
    *ret_n_bytes = transport->config.rank == 0 ? sizeof transport->id : 0;
    return HYD_OK;
}

static hyd_status nccl_connect(struct hyd_transport *transport,
                               const void *const *address, const size_t *address_bytes,
                               struct hyd_error *err)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    ncclResult_t result = ncclSuccess;

    if (address_bytes[0] != sizeof id) {
        return hyd_error_field(err, HYD_ERR_INVALID, "address",
                               "rank 0 sent %zu bytes, an id of NCCL has %zu",
                               address_bytes[0], sizeof id);
    }
    memcpy(&id, address[0], sizeof id);
    config.blocking = 0;
    config.nChannelsPerNetPeer = CHANNELS_PER_PEER;
    config.maxCTAs = MAX_CTAS;
    config.commName = "hydra";
    (void)cudaSetDevice(transport->config.device);
    result = ncclCommInitRankConfig(&transport->comm, (int)transport->config.n_ranks,
                                    id, (int)transport->config.rank, &config);
    if (result != ncclSuccess && result != ncclInProgress) {
        transport->comm = NULL;
        return hyd_error_set(err, hyd_nccl_status(result), "nccl: joining: %s",
                             ncclGetErrorString(result));
    }
    transport->connecting = true;
    transport->join_by_s =
        now_s() + (transport->config.join_limit_s > 0.0 ? transport->config.join_limit_s
                                                        : HYD_NCCL_JOIN_S);
    return HYD_OK;
}

static hyd_status warm_post(struct hyd_transport *transport, uint32_t partner)
{
    unsigned char *at = transport->warm_buf;
    const struct hyd_op op[2] = {
        {HYD_OP_RECV, partner, at + HYD_NCCL_WARM_BYTES, HYD_NCCL_WARM_BYTES},
        {HYD_OP_SEND, partner, at, HYD_NCCL_WARM_BYTES},
    };

    transport->warm_group = (struct hyd_op_group){0};
    transport->warm_posted = true;
    return hyd_nccl_post(transport, op, 2, &transport->warm_group);
}

/* Somebody who never comes must not hold the others for ever. */
static hyd_status join_in_time(struct hyd_transport *transport, struct hyd_error *err)
{
    if (now_s() < transport->join_by_s) {
        return HYD_OK;
    }
    (void)hyd_error_set(
        err, HYD_ERR_TIMEOUT, "nccl: %u ranks have not all come in time (%s %u of %u)",
        transport->config.n_ranks,
        transport->connecting ? "joining, round" : "warming up, round",
        transport->warm_round, hyd_circle_rounds(transport->config.n_ranks));
    hyd_nccl_fail(transport, HYD_ERR_TIMEOUT, transport->config.rank);
    return HYD_ERR_TIMEOUT;
}

static hyd_status nccl_warm(struct hyd_transport *transport, bool *ret_done,
                            struct hyd_error *err)
{
    const uint32_t n = transport->config.n_ranks;
    hyd_status st = HYD_OK;

    *ret_done = false;
    (void)hyd_nccl_progress(transport);
    while (transport->failed == HYD_OK &&
           transport->warm_round < hyd_circle_rounds(n)) {
        const uint32_t partner =
            hyd_circle_partner(n, transport->config.rank, transport->warm_round);

        if (partner != transport->config.rank && !transport->warm_posted) {
            st = warm_post(transport, partner);
            if (st != HYD_OK) {
                return st;
            }
        }
        if (transport->warm_posted && transport->warm_group.n_pending > 0) {
            return join_in_time(transport, err);
        }
        transport->warm_posted = false;
        transport->warm_round++;
    }
    if (transport->failed != HYD_OK) {
        return hyd_error_set(err, transport->failed, "nccl: warming up with %u ranks",
                             n);
    }
    *ret_done = !transport->connecting;
    return *ret_done ? HYD_OK : join_in_time(transport, err);
}

static hyd_status nccl_test(struct hyd_transport *transport, struct hyd_op_group *group,
                            bool *ret_done)
{
    (void)transport;
    *ret_done = group->n_pending == 0;
    return *ret_done ? group->status : HYD_OK;
}

/* Nanoseconds between two questions; 0: nothing to ask about. */
static long tick_ns(const struct hyd_transport *transport)
{
    if (transport->failed != HYD_OK || transport->comm == NULL) {
        return 0;
    }
    if (transport->connecting) {
        return JOINING_TICK_NS;
    }
    if (hyd_nccl_is_launching(transport)) {
        return LAUNCHING_TICK_NS;
    }
    return transport->n_queued > 0 ? RUNNING_TICK_NS : 0;
}

static hyd_status nccl_arm_fd(struct hyd_transport *transport, int *ret_fd)
{
    struct itimerspec every = {0};
    eventfd_t count = 0;

    (void)eventfd_read(transport->wake_fd, &count);
    if (hyd_nccl_progress(transport)) {
        *ret_fd = -1;
        return HYD_OK;
    }
    every.it_value.tv_nsec = every.it_interval.tv_nsec = tick_ns(transport);
    (void)timerfd_settime(transport->timer_fd, 0, &every, NULL);
    *ret_fd = transport->poll_fd;
    return HYD_OK;
}

static void nccl_cancel_peer(struct hyd_transport *transport, uint32_t peer)
{
    hyd_nccl_fail(transport, HYD_ERR_UNAVAILABLE, peer);
}

static void nccl_abort(struct hyd_transport *transport)
{
    atomic_store(&transport->aborted, true);
    (void)eventfd_write(transport->wake_fd, 1);
}

static void nccl_counters(const struct hyd_transport *transport,
                          struct hyd_transport_counters *ret_counters)
{
    *ret_counters = transport->counters;
}

/* Joining is one act of all ranks: NCCL does not say which one is waited for. */
static size_t nccl_missing(const struct hyd_transport *transport, uint32_t *ret_rank,
                           size_t max)
{
    (void)transport;
    (void)ret_rank;
    (void)max;
    return 0;
}

const struct hyd_transport_ops hyd_transport_nccl = {
    .name = "nccl",
    .probe = hyd_cuda_probe,
    .moves = nccl_moves,
    .open = nccl_open,
    .close = nccl_close,
    .address = nccl_address,
    .connect = nccl_connect,
    .warm = nccl_warm,
    .missing = nccl_missing,
    .post_group = hyd_nccl_post,
    .test = nccl_test,
    .progress = hyd_nccl_progress,
    .arm_fd = nccl_arm_fd,
    .cancel_peer = nccl_cancel_peer,
    .abort = nccl_abort,
    .counters = nccl_counters,
};
