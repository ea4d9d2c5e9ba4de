/* batch.c - see batch.h. */
#include "worker/attn/batch.h"

#include "common/base/banned.h"

void hyd_batch_flush(struct hyd_batch *batch)
{
    const struct hyd_compute_ops *ops = batch->attn->config.compute;
    struct hyd_compute *dev = batch->attn->config.dev;

    if (batch->status != HYD_OK || batch->n == 0) {
        return;
    }
    switch (batch->kind) {
    case HYD_BATCH_COPY:
        batch->status = ops->copy(dev, batch->dst, batch->src, batch->copy, batch->n);
        break;
    case HYD_BATCH_CONVERT:
        batch->status =
            ops->convert(dev, batch->dst, batch->to, batch->src, batch->copy, batch->n);
        break;
    case HYD_BATCH_ADD:
        batch->status = ops->add(dev, batch->dst, batch->src, batch->copy, batch->n);
        break;
    }
    batch->n = 0;
}

void hyd_batch_push(struct hyd_batch *batch, struct hyd_copy copy)
{
    if (copy.n_rows == 0 || copy.row_bytes == 0) {
        return;
    }
    if (batch->n == HYD_BATCH_COPIES) {
        hyd_batch_flush(batch);
    }
    batch->copy[batch->n++] = copy;
}

/* What goes out of the caller's tensors (IN), or comes back to them (OUT). */
uint32_t hyd_items_of(const struct hyd_attn *attn, const struct hyd_lane *lane,
                      enum hyd_program_phase phase,
                      struct hyd_item ret_item[HYD_MAX_ITEMS])
{
    const struct hyd_attn_io *io = &attn->io;
    const struct hyd_attn_model *model = &attn->config.model;
    size_t e = hyd_dtype_bytes(model->dtype);
    uint32_t u = lane->in.group->u;
    enum hyd_region acc = hyd_program_acc_final(&attn->config.model, lane->in.group);
    uint64_t acc_v =
        (uint64_t)lane->n_ring_rows * lane->heads.n_kv * model->d * sizeof(float);

    if (phase == HYD_PHASE_IN && lane->program.pass == HYD_DIRECTION_FORWARD) {
        ret_item[0] = (struct hyd_item){&io->q, HYD_REGION_Q, 0, false, e};
        ret_item[1] = (struct hyd_item){&io->k, HYD_REGION_K, 0, true, e};
        ret_item[2] = (struct hyd_item){&io->v, HYD_REGION_V, 0, true, e};
        return 3;
    }
    if (phase == HYD_PHASE_IN) {
        ret_item[0] = (struct hyd_item){&io->dout, HYD_REGION_DOUT, 0, false, e};
        return 1;
    }
    if (lane->program.pass == HYD_DIRECTION_FORWARD) {
        ret_item[0] = (struct hyd_item){&io->o, HYD_REGION_O_ACC, 0, false, e};
        return 1;
    }
    ret_item[0] = (struct hyd_item){&io->dq, HYD_REGION_DQ_ACC, 0, false, e};
    e = hyd_program_grad_bytes(model, u);
    ret_item[1] = (struct hyd_item){&io->dk, acc, 0, true, e};
    ret_item[2] = (struct hyd_item){&io->dv, acc, acc_v, true, e};
    return 3;
}

uint32_t hyd_item_heads(const struct hyd_attn *attn, const struct hyd_item *item)
{
    return item->kv ? attn->config.model.n_kv_heads : attn->config.model.n_heads;
}

/* The group's rows of a tensor of the caller. */
struct hyd_buf hyd_item_rows(const struct hyd_attn *attn, const struct hyd_lane *lane,
                             const struct hyd_item *item, size_t *ret_stride_bytes)
{
    struct hyd_buf buf = item->tensor->buf;
    size_t skip;

    *ret_stride_bytes = hyd_tensor_stride(&attn->config.model, item->tensor,
                                          hyd_item_heads(attn, item));
    skip = lane->n_rows > 0 ? lane->part->cell_row * *ret_stride_bytes : 0;
    buf.at = skip > 0 ? (unsigned char *)buf.at + skip : buf.at;
    buf.bytes -= skip;
    return buf;
}
