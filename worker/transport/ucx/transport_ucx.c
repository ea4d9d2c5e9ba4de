/* transport_ucx.c - see transport.h and ucx.h: the table, and the life of a transport.
 *
 * Settings are written into UCX's configuration object and never into the environment, so
 * that a process may use UCX for other things too:
 *   TLS=posix,tcp,self       shared memory in a machine, TCP between machines. No cma:
 *                            there a survivor aborts when its peer dies under a copy.
 *   MM_ERROR_HANDLING=y      shared memory endpoints notice a dead peer ...
 *   KEEPALIVE_INTERVAL=1s    ... within a second; the default is 20.
 *   MEMTYPE_CACHE=n          no memory hooks: this transport moves host memory only. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "common/base/alloc.h"
#include "worker/transport/ucx/transport_ucx.h"
#include "worker/transport/ucx/ucx.h"
#include "worker/transport/ucx/ucx_hold.h"

/* Times that UCX is busy and moves nothing before its caller yields, and sleeps. */
enum { BUSY_YIELDS = 4, BUSY_SLEEPS = 200, PAUSE_STEP_US = 10, MAX_PAUSE_US = 2000 };

/* Longest time that close gives to messages that are still on their way. */
static const double FLUSH_S = 0.5;

/* UCX reads its configuration and loads its modules in process-wide tables. */
static pthread_mutex_t library_lock = PTHREAD_MUTEX_INITIALIZER;

hyd_status hyd_ucx_status(ucs_status_t status)
{
    switch ((int)status) {
    case UCS_OK:
        return HYD_OK;
    case UCS_ERR_NO_MEMORY:
        return HYD_ERR_NO_MEMORY;
    case UCS_ERR_CANCELED:
        return HYD_ERR_CANCELLED;
    case UCS_ERR_MESSAGE_TRUNCATED:
        return HYD_ERR_INTERNAL;
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_INVALID_ADDR:
        return HYD_ERR_INVALID;
    default:
        return HYD_ERR_UNAVAILABLE; /* the many ways in which a link can be down */
    }
}

double hyd_ucx_now_s(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static hyd_status ucx_error(struct hyd_error *err, const char *what,
                            ucs_status_t status)
{
    return hyd_error_set(err, hyd_ucx_status(status), "ucx: %s: %s", what,
                         ucs_status_string(status));
}

static hyd_status ucx_probe(struct hyd_error *err)
{
    (void)err;
    return HYD_OK; /* linked in; shared memory or TCP exists on every machine */
}

static bool ucx_moves(enum hyd_mem mem)
{
    return mem == HYD_MEM_HOST;
}

static hyd_status make_context(struct hyd_transport *transport, const char *links,
                               struct hyd_error *err)
{
    const char *const tls = links != NULL ? links : "posix,tcp,self";
    const char *const setting[][2] = {
        {"TLS", tls},
        {"KEEPALIVE_INTERVAL", "1s"},
        {"MEMTYPE_CACHE", "n"},
        {"MM_ERROR_HANDLING", "y"},
    };
    /* UCX warns of a setting that no transport in use reads. */
    const size_t n_settings = strstr(tls, "posix") != NULL ? 4 : 3;
    const ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS |
                      UCP_PARAM_FIELD_NAME,
        .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
        .estimated_num_eps = transport->n_ranks,
        .name = "hydra",
    };
    ucp_config_t *config = NULL;
    ucs_status_t ucs = ucp_config_read(NULL, NULL, &config);

    if (ucs != UCS_OK) {
        return ucx_error(err, "reading its configuration", ucs);
    }
    for (size_t i = 0; i < n_settings && ucs == UCS_OK; i++) {
        ucs = ucp_config_modify(config, setting[i][0], setting[i][1]);
    }
    if (ucs == UCS_OK) {
        ucs = ucp_init(&params, config, &transport->context);
    }
    ucp_config_release(config);
    return ucs == UCS_OK ? HYD_OK : ucx_error(err, "starting", ucs);
}

static hyd_status make_worker(struct hyd_transport *transport, struct hyd_error *err)
{
    const ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SINGLE,
    };
    ucs_status_t ucs =
        ucp_worker_create(transport->context, &params, &transport->worker);

    if (ucs != UCS_OK) {
        return ucx_error(err, "making a worker", ucs);
    }
    ucs = ucp_worker_get_address(transport->worker, &transport->address,
                                 &transport->address_bytes);
    return ucs == UCS_OK ? HYD_OK : ucx_error(err, "reading the address", ucs);
}

/* One descriptor to block on: news from UCX or an abort. */
static hyd_status make_descriptors(struct hyd_transport *transport,
                                   struct hyd_error *err)
{
    struct epoll_event event = {.events = EPOLLIN};
    int ucx_fd = -1;
    const ucs_status_t ucs = ucp_worker_get_efd(transport->worker, &ucx_fd);

    if (ucs != UCS_OK) {
        return ucx_error(err, "asking for its descriptor", ucs);
    }
    transport->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    transport->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (transport->wake_fd < 0 || transport->poll_fd < 0 ||
        epoll_ctl(transport->poll_fd, EPOLL_CTL_ADD, transport->wake_fd, &event) != 0 ||
        epoll_ctl(transport->poll_fd, EPOLL_CTL_ADD, ucx_fd, &event) != 0) {
        return hyd_error_set(err, HYD_ERR_IO, "no descriptor to wait on: errno %d",
                             errno);
    }
    return HYD_OK;
}

/* Let what was sent arrive, as long as nobody is in a hurry. */
static void flush(struct hyd_transport *transport)
{
    const double end_s = hyd_ucx_now_s() + FLUSH_S;
    const ucp_request_param_t param = {0};
    void *request = NULL;

    if (atomic_load(&transport->aborted)) {
        return;
    }
    request = ucp_worker_flush_nbx(transport->worker, &param);
    if (!UCS_PTR_IS_PTR(request)) {
        return;
    }
    while (ucp_request_check_status(request) == UCS_INPROGRESS &&
           hyd_ucx_now_s() < end_s) {
        if (!hyd_ucx_progress(transport)) {
            (void)usleep(100);
        }
    }
    ucp_request_free(request);
}

/* End every operation and endpoint, so that nothing points into our memory any more. */
static void settle(struct hyd_transport *transport)
{
    double end_s = 0.0;

    flush(transport);
    for (uint32_t rank = 0; rank < transport->n_ranks; rank++) {
        if (rank != transport->rank) {
            hyd_ucx_fail_peer(transport, rank, HYD_ERR_CANCELLED);
        }
    }
    end_s = hyd_ucx_now_s() + FLUSH_S;
    while (transport->n_pending > 0 && hyd_ucx_now_s() < end_s) {
        (void)hyd_ucx_progress(transport);
    }
}

static void ucx_close(struct hyd_transport *transport)
{
    struct hyd_ucx_segments segments = {.n = 0};

    if (transport == NULL) {
        return;
    }
    if (transport->worker != NULL) {
        settle(transport);
    }
    (void)pthread_mutex_lock(&library_lock);
    hyd_ucx_hold_list(&segments);
    if (transport->address != NULL) {
        ucp_worker_release_address(transport->worker, transport->address);
    }
    if (transport->worker != NULL) {
        ucp_worker_destroy(transport->worker);
    }
    if (transport->context != NULL) {
        ucp_cleanup(transport->context);
    }
    hyd_ucx_hold_closed(&segments);
    (void)pthread_mutex_unlock(&library_lock);
    if (transport->poll_fd >= 0) {
        (void)close(transport->poll_fd);
    }
    if (transport->wake_fd >= 0) {
        (void)close(transport->wake_fd);
    }
    hyd_ucx_free_ops(transport);
    hyd_alloc_free(hyd_alloc_system(), transport->warm.link);
    for (uint32_t rank = 0; transport->peer != NULL && rank < transport->n_ranks;
         rank++) {
        hyd_alloc_free(hyd_alloc_system(), transport->peer[rank].address);
    }
    hyd_alloc_free(hyd_alloc_system(), transport->peer);
    hyd_alloc_free(hyd_alloc_system(), transport);
}

static hyd_status check_config(const struct hyd_transport_config *config,
                               struct hyd_error *err)
{
    if (config->n_ranks == 0 || config->n_ranks > 0x10000U ||
        config->rank >= config->n_ranks) {
        return hyd_error_field(err, HYD_ERR_INVALID, "rank",
                               "rank %u of %u, at most 65536 ranks", config->rank,
                               config->n_ranks);
    }
    if (config->mem != HYD_MEM_HOST) {
        return hyd_error_set(err, HYD_ERR_UNSUPPORTED,
                             "transport ucx moves host memory only");
    }
    return HYD_OK;
}

static hyd_status ucx_open(const struct hyd_transport_config *config,
                           struct hyd_transport **ret_transport, struct hyd_error *err)
{
    struct hyd_transport *transport = NULL;
    hyd_status st = check_config(config, err);

    if (st != HYD_OK) {
        return st;
    }
    transport = hyd_alloc_zeroed(hyd_alloc_system(), 1, sizeof *transport);
    if (transport == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    transport->rank = config->rank;
    transport->n_ranks = config->n_ranks;
    transport->epoch = config->epoch;
    transport->poll_fd = -1;
    transport->wake_fd = -1;
    atomic_init(&transport->aborted, false);
    transport->peer =
        hyd_alloc_zeroed(hyd_alloc_system(), config->n_ranks, sizeof *transport->peer);
    st = transport->peer != NULL ? hyd_ucx_reserve_ops(transport, 8 * HYD_GROUP_MAX_OPS)
                                 : HYD_ERR_NO_MEMORY;
    if (st == HYD_OK) {
        (void)pthread_mutex_lock(&library_lock);
        st = make_context(transport, config->links, err);
        if (st == HYD_OK) {
            st = make_worker(transport, err);
        }
        (void)pthread_mutex_unlock(&library_lock);
    }
    if (st == HYD_OK) {
        st = make_descriptors(transport, err);
    }
    if (st != HYD_OK) {
        ucx_close(transport);
        return st;
    }
    *ret_transport = transport;
    return HYD_OK;
}

static hyd_status ucx_address(struct hyd_transport *transport, const void **ret_bytes,
                              size_t *ret_n_bytes)
{
    *ret_bytes = transport->address;
    *ret_n_bytes = transport->address_bytes;
    return HYD_OK;
}

/* Runs inside progress; an endpoint must not be closed here. */
static void on_endpoint_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct hyd_ucx_peer *peer = arg;

    (void)ep;
    (void)status;
    if (peer->failed == HYD_OK) {
        peer->failed = HYD_ERR_UNAVAILABLE;
    }
    if (!peer->must_close && peer->ep != NULL) {
        peer->must_close = true;
        peer->transport->n_must_close++;
    }
}

hyd_status hyd_ucx_dial(struct hyd_transport *transport, uint32_t rank)
{
    struct hyd_ucx_peer *peer = &transport->peer[rank];
    const ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = peer->address,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = on_endpoint_error, .arg = peer},
    };

    if (peer->ep != NULL || peer->failed != HYD_OK) {
        return peer->failed;
    }
    if (ucp_ep_create(transport->worker, &params, &peer->ep) != UCS_OK) {
        peer->ep = NULL;
        peer->failed = HYD_ERR_UNAVAILABLE;
    }
    hyd_alloc_free(hyd_alloc_system(), peer->address);
    peer->address = NULL;
    return peer->failed;
}

/* Two TCP connections of a pair that cross, while one of them is cut, make UCX 1.13 abort
 * the process. So the lower rank dials; the other one does when the first message has come
 * (ucx_warm.c), and UCX takes the connection that is there. A peer that cannot be dialled
 * is missing, see warm. */
static hyd_status ucx_connect(struct hyd_transport *transport,
                              const void *const *address, const size_t *address_bytes,
                              struct hyd_error *err)
{
    for (uint32_t rank = 0; rank < transport->n_ranks; rank++) {
        struct hyd_ucx_peer *peer = &transport->peer[rank];

        peer->transport = transport;
        peer->rank = rank;
        if (rank == transport->rank || peer->ep != NULL || peer->address != NULL) {
            continue;
        }
        if (address[rank] == NULL || address_bytes[rank] == 0) {
            return hyd_error_set(err, HYD_ERR_INVALID, "rank %u has no address", rank);
        }
        peer->address = hyd_alloc_array(hyd_alloc_system(), address_bytes[rank], 1);
        if (peer->address == NULL) {
            return HYD_ERR_NO_MEMORY;
        }
        memcpy(peer->address, address[rank], address_bytes[rank]);
        if (transport->rank < rank) {
            (void)hyd_ucx_dial(transport, rank);
        }
    }
    return HYD_OK;
}

/* UCX has no event for room in a peer's full queue: it calls itself busy until there is
 * some. Who spins meanwhile takes the core from the very peer that must make room, or,
 * when that one is stopped, from everybody. So give way, and sleep when that is no help. */
static void give_way(struct hyd_transport *transport)
{
    const uint32_t n = ++transport->n_busy;

    if (n > BUSY_SLEEPS) {
        const uint32_t over = n - BUSY_SLEEPS;
        const struct timespec pause = {.tv_nsec =
                                           over < MAX_PAUSE_US / PAUSE_STEP_US
                                               ? (long)(over * PAUSE_STEP_US) * 1000
                                               : (long)MAX_PAUSE_US * 1000};

        (void)nanosleep(&pause, NULL);
    } else if (n > BUSY_YIELDS) {
        (void)sched_yield();
    }
}

static hyd_status ucx_arm_fd(struct hyd_transport *transport, int *ret_fd)
{
    ucs_status_t ucs = UCS_OK;

    if (atomic_load(&transport->aborted) && !transport->abort_done) {
        *ret_fd = -1;
        return HYD_OK;
    }
    ucs = ucp_worker_arm(transport->worker);
    if (ucs == UCS_ERR_BUSY) {
        give_way(transport);
        *ret_fd = -1;
        return HYD_OK;
    }
    if (ucs != UCS_OK) {
        return hyd_ucx_status(ucs);
    }
    *ret_fd = transport->poll_fd;
    return HYD_OK;
}

static void ucx_abort(struct hyd_transport *transport)
{
    const uint64_t one = 1;

    atomic_store(&transport->aborted, true);
    /* It stays readable: whoever waits later wakes at once, too. */
    while (write(transport->wake_fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

static void ucx_counters(const struct hyd_transport *transport,
                         struct hyd_transport_counters *ret_counters)
{
    *ret_counters = transport->counters;
}

const struct hyd_transport_ops hyd_transport_ucx = {
    .name = "ucx",
    .probe = ucx_probe,
    .moves = ucx_moves,
    .open = ucx_open,
    .close = ucx_close,
    .address = ucx_address,
    .connect = ucx_connect,
    .warm = hyd_ucx_warm,
    .missing = hyd_ucx_missing,
    .post_group = hyd_ucx_post_group,
    .test = hyd_ucx_test,
    .progress = hyd_ucx_progress,
    .arm_fd = ucx_arm_fd,
    .cancel_peer = hyd_ucx_cancel_peer,
    .abort = ucx_abort,
    .counters = ucx_counters,
};
