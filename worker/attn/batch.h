/*
 * batch.h - gathering row copies, and the tensors they come from; private to the engine.
 *
 * What     hyd_batch gathers copies of one kind between two buffers and hands them to the
 *          device many at a time. hyd_item says, for a phase of a pass, which of the
 *          caller's tensors go where.
 * Errors   the first failure of the device stays in `status`; later pushes do nothing.
 * Threads  one thread at a time.
 */
#ifndef HYD_WORKER_ATTN_BATCH_H
#define HYD_WORKER_ATTN_BATCH_H

#include "worker/attn/engine.h"

enum { HYD_BATCH_COPIES = 64, HYD_MAX_ITEMS = 3 };

enum hyd_batch_kind { HYD_BATCH_COPY, HYD_BATCH_CONVERT, HYD_BATCH_ADD };

struct hyd_batch {
    struct hyd_attn *attn;
    enum hyd_batch_kind kind;
    enum hyd_dtype to; /* HYD_BATCH_CONVERT */
    struct hyd_buf dst;
    struct hyd_buf src;
    struct hyd_copy copy[HYD_BATCH_COPIES];
    size_t n;
    hyd_status status;
};

/* Copies of nothing are dropped. */
void hyd_batch_push(struct hyd_batch *batch, struct hyd_copy copy);
void hyd_batch_flush(struct hyd_batch *batch);

/* One of the tensors that an exchange carries, or that is given back. */
struct hyd_item {
    const struct hyd_attn_tensor *tensor; /* the caller's */
    enum hyd_region region; /* after the exchange (IN), the accumulator (OUT) */
    uint64_t region_offset;
    bool kv;
    size_t element_bytes; /* in messages */
};

/* What goes out of the caller's tensors (IN), or comes back to them (OUT). */
uint32_t hyd_items_of(const struct hyd_attn *attn, const struct hyd_lane *lane,
                      enum hyd_program_phase phase,
                      struct hyd_item ret_item[HYD_MAX_ITEMS]);

/* Heads of the caller's tensor. */
uint32_t hyd_item_heads(const struct hyd_attn *attn, const struct hyd_item *item);

/* The lane's group's rows of the caller's tensor. */
struct hyd_buf hyd_item_rows(const struct hyd_attn *attn, const struct hyd_lane *lane,
                             const struct hyd_item *item, size_t *ret_stride_bytes);

#endif
