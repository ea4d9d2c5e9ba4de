/* outbox.c - see core.h. */
#include <string.h>

#include "common/rpc/core.h"

#include "common/base/banned.h"

static hyd_status grow(struct hyd_outbox *outbox, const struct hyd_alloc *alloc)
{
    const uint32_t capacity = outbox->capacity == 0 ? 4 : outbox->capacity * 2;
    grpc_slice *ring = hyd_alloc_array(alloc, capacity, sizeof *ring);

    if (ring == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < outbox->n_slices; i++) {
        ring[i] = outbox->ring[(outbox->head + i) % outbox->capacity];
    }
    hyd_alloc_free(alloc, outbox->ring);
    outbox->ring = ring;
    outbox->capacity = capacity;
    outbox->head = 0;
    return HYD_OK;
}

hyd_status hyd_outbox_push(struct hyd_outbox *outbox, const struct hyd_alloc *alloc,
                           grpc_slice take_slice)
{
    if (outbox->n_slices == outbox->capacity && grow(outbox, alloc) != HYD_OK) {
        return HYD_ERR_NO_MEMORY;
    }
    outbox->ring[(outbox->head + outbox->n_slices) % outbox->capacity] = take_slice;
    outbox->n_slices++;
    outbox->bytes += GRPC_SLICE_LENGTH(take_slice);
    return HYD_OK;
}

bool hyd_outbox_pop(struct hyd_outbox *outbox, grpc_slice *ret_slice)
{
    if (outbox->n_slices == 0) {
        return false;
    }
    *ret_slice = outbox->ring[outbox->head];
    outbox->head = (outbox->head + 1) % outbox->capacity;
    outbox->n_slices--;
    outbox->bytes -= GRPC_SLICE_LENGTH(*ret_slice);
    return true;
}

void hyd_outbox_clear(struct hyd_outbox *outbox, const struct hyd_alloc *alloc)
{
    grpc_slice slice;

    while (hyd_outbox_pop(outbox, &slice)) {
        grpc_slice_unref(slice);
    }
    hyd_alloc_free(alloc, outbox->ring);
    *outbox = (struct hyd_outbox){0};
}
