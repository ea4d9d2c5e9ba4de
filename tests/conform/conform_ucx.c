/* UCX buffers small messages: what was sent before the other end posted lands in order.
 * The contract itself is held in conform_transport.c, for every transport. */
#include "worker/transport/ucx/transport_ucx.h"

#include "tests/lib/test.h"
#include "tests/lib/wait_group.h"
#include "tests/lib/world.h"

static struct hyd_world world_of(uint32_t n_ranks, hyd_world_body *body)
{
    return (struct hyd_world){
        .ops = &hyd_transport_ucx, .n_ranks = n_ranks, .epoch = 7, .body = body};
}

/* Rank 0 sends 16 messages before rank 1 posts; they land in the order of posting. */
static const char *fifo_body(struct hyd_world_rank *self)
{
    uint32_t value[HYD_GROUP_MAX_OPS];
    struct hyd_op op[HYD_GROUP_MAX_OPS];
    const enum hyd_op_kind kind = self->rank == 0 ? HYD_OP_SEND : HYD_OP_RECV;
    hyd_status st = HYD_OK;

    for (uint32_t i = 0; i < HYD_GROUP_MAX_OPS; i++) {
        value[i] = self->rank == 0 ? i : 999;
        op[i] = (struct hyd_op){kind, 1 - self->rank, &value[i], sizeof value[i]};
    }
    if (self->rank == 0) {
        st = hyd_test_run_group(self->ops, self->transport, op, HYD_GROUP_MAX_OPS);
    }
    (void)pthread_barrier_wait(self->together);
    if (self->rank == 1) {
        /* Two groups on this side match one on the other: order is per pair. */
        st = hyd_test_run_group(self->ops, self->transport, op, 5);
        if (st == HYD_OK) {
            st = hyd_test_run_group(self->ops, self->transport, op + 5,
                                    HYD_GROUP_MAX_OPS - 5);
        }
        for (uint32_t i = 0; i < HYD_GROUP_MAX_OPS; i++) {
            if (value[i] != i) {
                return hyd_world_reason("message %u holds %u", i, value[i]);
            }
        }
    }
    (void)pthread_barrier_wait(self->together);
    return st == HYD_OK ? NULL : hyd_status_name(st);
}

static void ucx_keeps_order_when_messages_arrive_before_receives(void **state)
{
    const struct hyd_world world = world_of(2, fifo_body);

    (void)state;
    assert_null(hyd_world_run_threads(&world));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ucx_keeps_order_when_messages_arrive_before_receives),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
