/* staged.c - see staged.h. */
#include "worker/agent/staged.h"

#include <string.h>

enum { ALIGN_BYTES = 256, MAX_OPS = 2 * HYD_GROUP_MAX_OPS };

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

static hyd_status ensure_room(struct hyd_staged *staged, size_t bytes,
                              struct hyd_error *err)
{
    const struct hyd_compute_ops *ops = NULL;
    struct hyd_compute *dev = hyd_agent_device(staged->agent, staged->local_rank, &ops);
    hyd_status st = HYD_OK;

    if (staged->room.bytes >= bytes) {
        return HYD_OK;
    }
    ops->mem_free(dev, &staged->room);
    st = ops->mem_alloc(dev, bytes, &staged->room);
    if (st != HYD_OK) {
        return hyd_error_set(err, st, "no %zu bytes to check results with on %s", bytes,
                             ops->describe(dev));
    }
    return HYD_OK;
}

/* The ops again, on places in the room. */
static hyd_status place(struct hyd_staged *staged, const struct hyd_op *op,
                        size_t n_ops, struct hyd_op *ret_placed, struct hyd_error *err)
{
    const struct hyd_compute_ops *ops = NULL;
    struct hyd_compute *dev = hyd_agent_device(staged->agent, staged->local_rank, &ops);
    size_t bytes = 0, at = 0;
    hyd_status st = HYD_OK;

    for (size_t i = 0; i < n_ops; i++) {
        bytes += aligned(op[i].bytes);
    }
    st = ensure_room(staged, bytes, err);
    for (size_t i = 0; i < n_ops && st == HYD_OK; i++) {
        const struct hyd_buf part = hyd_buf_part(staged->room, at, op[i].bytes);

        ret_placed[i] = op[i];
        ret_placed[i].at = part.at;
        if (op[i].kind == HYD_OP_SEND && op[i].bytes > 0) {
            st = ops->upload(dev, part, op[i].at, op[i].bytes);
        }
        at += aligned(op[i].bytes);
    }
    return st;
}

hyd_status hyd_staged_exchange(struct hyd_staged *staged, const struct hyd_op *op,
                               size_t n_ops, struct hyd_error *err)
{
    const struct hyd_compute_ops *ops = NULL;
    struct hyd_compute *dev = hyd_agent_device(staged->agent, staged->local_rank, &ops);
    struct hyd_op placed[MAX_OPS];
    hyd_status st = HYD_OK;

    if (ops->mem == HYD_MEM_HOST) {
        return hyd_agent_exchange(staged->agent, staged->local_rank, op, n_ops, err);
    }
    if (n_ops > MAX_OPS) {
        return HYD_ERR_LIMIT;
    }
    st = place(staged, op, n_ops, placed, err);
    if (st == HYD_OK) {
        st = hyd_agent_exchange(staged->agent, staged->local_rank, placed, n_ops, err);
    }
    for (size_t i = 0; i < n_ops && st == HYD_OK; i++) {
        if (op[i].kind == HYD_OP_RECV && op[i].bytes > 0) {
            const struct hyd_buf from = {placed[i].at, op[i].bytes, ops->mem};

            st = ops->download(dev, op[i].at, from, op[i].bytes);
        }
    }
    return st;
}

void hyd_staged_release(struct hyd_staged *staged)
{
    const struct hyd_compute_ops *ops = NULL;
    struct hyd_compute *dev = NULL;

    if (staged->room.at != NULL) {
        dev = hyd_agent_device(staged->agent, staged->local_rank, &ops);
        ops->mem_free(dev, &staged->room);
    }
}
