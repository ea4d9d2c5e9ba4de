/* wait_group.c - see wait_group.h. */
#include "tests/lib/wait_group.h"

#include <poll.h>
#include <time.h>

static int64_t now_ms(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

hyd_status hyd_test_wait_news(const struct hyd_transport_ops *ops,
                              struct hyd_transport *transport, int limit_ms)
{
    struct pollfd wait = {.fd = -1, .events = POLLIN};
    hyd_status st = HYD_OK;

    if (ops->progress(transport)) {
        return HYD_OK;
    }
    st = ops->arm_fd(transport, &wait.fd);
    if (st == HYD_OK && wait.fd >= 0 && poll(&wait, 1, limit_ms) == 0) {
        st = HYD_ERR_TIMEOUT; /* also when there was news that nobody told */
    }
    return st;
}

hyd_status hyd_test_wait_group(const struct hyd_transport_ops *ops,
                               struct hyd_transport *transport,
                               struct hyd_op_group *group)
{
    const int64_t end_ms = now_ms() + HYD_TEST_WAIT_MS;
    bool done = false;

    for (;;) {
        const int64_t left_ms = end_ms - now_ms();
        hyd_status st = ops->test(transport, group, &done);

        if (done) {
            return st;
        }
        if (left_ms <= 0) {
            return HYD_ERR_TIMEOUT;
        }
        st = hyd_test_wait_news(ops, transport, (int)left_ms);
        if (st != HYD_OK) {
            return st;
        }
    }
}

hyd_status hyd_test_wait_warm(const struct hyd_transport_ops *ops,
                              struct hyd_transport *transport, struct hyd_error *err)
{
    const int64_t end_ms = now_ms() + HYD_TEST_WAIT_MS;
    bool done = false;

    for (;;) {
        const int64_t left_ms = end_ms - now_ms();
        hyd_status st = ops->warm(transport, &done, err);

        if (st != HYD_OK || done) {
            return st;
        }
        if (left_ms <= 0) {
            return HYD_ERR_TIMEOUT;
        }
        st = hyd_test_wait_news(ops, transport, (int)left_ms);
        if (st != HYD_OK) {
            return st;
        }
    }
}

hyd_status hyd_test_run_group(const struct hyd_transport_ops *ops,
                              struct hyd_transport *transport, const struct hyd_op *op,
                              size_t n_ops)
{
    struct hyd_op_group group = {0};
    hyd_status st = ops->post_group(transport, op, n_ops, &group);

    return st == HYD_OK ? hyd_test_wait_group(ops, transport, &group) : st;
}
