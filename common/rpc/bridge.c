/*
 * bridge.c - see bridge.h.
 *
 * The callback completion queue would spare the thread, but in the packaged library no
 * thread of its own polls: callbacks come when a deadline expires. A second polling
 * thread was measured and is slower on small machines.
 */
#include "common/rpc/bridge.h"

#include <signal.h>
#include <stdlib.h>

#include <grpc/support/log.h>

#include "common/base/check.h"
#include "common/rpc/core.h"

#include "common/base/banned.h"

/* From any thread. True: the list was empty, so the loop must be woken. */
static bool push(struct hyd_bridge *bridge, struct hyd_tag *tag)
{
    struct hyd_tag *head = atomic_load_explicit(&bridge->inbox, memory_order_relaxed);

    do {
        tag->next = head;
    } while (!atomic_compare_exchange_weak_explicit(
        &bridge->inbox, &head, tag, memory_order_release, memory_order_relaxed));
    return head == NULL;
}

/* Run what has come until the list is empty; tags may start batches of their own. */
static void run_inbox(struct hyd_bridge *bridge)
{
    struct hyd_tag *newest = NULL;

    while ((newest = atomic_exchange_explicit(&bridge->inbox, NULL,
                                              memory_order_acquire)) != NULL) {
        struct hyd_tag *oldest = NULL;

        while (newest != NULL) {
            struct hyd_tag *next = newest->next;

            newest->next = oldest;
            oldest = newest;
            newest = next;
        }
        while (oldest != NULL) {
            struct hyd_tag *next = oldest->next;

            oldest->run(oldest, oldest->ok);
            oldest = next;
        }
    }
}

static void on_async(uv_async_t *async)
{
    run_inbox(async->data);
}

static void *poll_queue(void *ctx)
{
    struct hyd_bridge *bridge = ctx;
    const gpr_timespec forever = gpr_inf_future(GPR_CLOCK_MONOTONIC);

    for (;;) {
        const grpc_event event =
            grpc_completion_queue_next(bridge->queue, forever, NULL);
        struct hyd_tag *tag = event.tag;

        if (event.type == GRPC_QUEUE_SHUTDOWN) {
            return NULL;
        }
        if (event.type != GRPC_OP_COMPLETE) {
            continue;
        }
        HYD_TSAN_ACQUIRE(tag);
        tag->ok = event.success != 0;
        if (push(bridge, tag)) {
            (void)uv_async_send(&bridge->async);
        }
    }
}

static void drop_log(gpr_log_func_args *args)
{
    (void)args;
}

/* A library does not write to stderr: what matters comes back as a status. gRPC's own
 * variable turns its messages on, for somebody who looks for a fault. */
static void quiet(void)
{
    const char *asked = getenv("GRPC_VERBOSITY");

    if (asked == NULL || asked[0] == '\0') {
        gpr_set_log_function(drop_log);
    }
}

/* gRPC's threads inherit the mask: signals are the loop's. */
static int start_threads(struct hyd_bridge *bridge)
{
    sigset_t all;
    sigset_t before;
    int rc = 0;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    quiet();
    grpc_init();
    bridge->queue = grpc_completion_queue_create_for_next(NULL);
    rc = pthread_create(&bridge->thread, NULL, poll_queue, bridge);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

static void on_closed(uv_handle_t *handle)
{
    struct hyd_bridge *bridge = handle->data;

    hyd_alloc_free(bridge->alloc, bridge);
}

hyd_status hyd_bridge_create(struct uv_loop_s *loop, const struct hyd_alloc *alloc,
                             struct hyd_bridge **ret_bridge, struct hyd_error *err)
{
    struct hyd_bridge *bridge = hyd_alloc_zeroed(alloc, 1, sizeof *bridge);
    int rc = 0;

    if (bridge == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for the rpc bridge");
    }
    bridge->alloc = alloc;
    atomic_init(&bridge->inbox, NULL);
    rc = uv_async_init(loop, &bridge->async, on_async);
    if (rc != 0) {
        hyd_alloc_free(alloc, bridge);
        return hyd_error_set(err, HYD_ERR_INTERNAL, "cannot start the rpc bridge: %s",
                             uv_strerror(rc));
    }
    bridge->async.data = bridge;
    rc = start_threads(bridge);
    if (rc != 0) {
        grpc_completion_queue_shutdown(bridge->queue);
        grpc_completion_queue_destroy(bridge->queue);
        grpc_shutdown();
        uv_close((uv_handle_t *)&bridge->async, on_closed);
        return hyd_error_set(err, HYD_ERR_INTERNAL, "cannot start the rpc thread: %s",
                             uv_strerror(uv_translate_sys_error(rc)));
    }
    *ret_bridge = bridge;
    return HYD_OK;
}

void hyd_bridge_close(struct hyd_bridge *bridge)
{
    if (bridge == NULL) {
        return;
    }
    hyd_assert(bridge->n_users == 0);
    grpc_completion_queue_shutdown(bridge->queue);
    (void)pthread_join(bridge->thread, NULL);
    run_inbox(bridge);
    grpc_completion_queue_destroy(bridge->queue);
    grpc_shutdown();
    uv_close((uv_handle_t *)&bridge->async, on_closed);
}

void hyd_batch(grpc_call *call, const grpc_op *ops, size_t n_ops, struct hyd_tag *tag)
{
    grpc_call_error error = GRPC_CALL_OK;

    HYD_TSAN_RELEASE(tag);
    error = grpc_call_start_batch(call, ops, n_ops, tag, NULL);
    hyd_assert(error == GRPC_CALL_OK);
}
