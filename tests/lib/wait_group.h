/*
 * wait_group.h - block until a transport's group is done, as an engine does it.
 *
 * What     Progress until 0, arm, block on the descriptor; never spins. A deadline ends
 *          the wait with HYD_ERR_TIMEOUT, so that a broken transport fails a test and
 *          does not hang it.
 * Threads  the transport's thread.
 */
#ifndef HYD_TESTS_LIB_WAIT_GROUP_H
#define HYD_TESTS_LIB_WAIT_GROUP_H

#include "worker/transport/transport.h"

enum { HYD_TEST_WAIT_MS = 20000 };

/* Block until there may be news; TIMEOUT after limit_ms. */
hyd_status hyd_test_wait_news(const struct hyd_transport_ops *ops,
                              struct hyd_transport *transport, int limit_ms);

/* The group's status once it is done. */
hyd_status hyd_test_wait_group(const struct hyd_transport_ops *ops,
                               struct hyd_transport *transport,
                               struct hyd_op_group *group);

hyd_status hyd_test_wait_warm(const struct hyd_transport_ops *ops,
                              struct hyd_transport *transport, struct hyd_error *err);

/* Post and wait. */
hyd_status hyd_test_run_group(const struct hyd_transport_ops *ops,
                              struct hyd_transport *transport, const struct hyd_op *op,
                              size_t n_ops);

#endif
