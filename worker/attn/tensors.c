/* tensors.c - see attn.h: how large the caller's tensors are, and a place for each. */
#include "worker/attn/attn.h"

#include "common/base/banned.h"

enum { TENSOR_ALIGN_BYTES = 64 };

uint32_t hyd_attn_cell_rows(const struct hyd_attn_step *step, uint32_t rank,
                            uint32_t microbatch)
{
    uint32_t n_rows = 0;

    for (size_t i = 0; i < step->n_groups; i++) {
        uint32_t member;

        if (step->group[i].microbatch == microbatch &&
            hyd_group_member(&step->group[i], rank, &member)) {
            n_rows += hyd_group_rows(&step->group[i], member);
        }
    }
    return n_rows;
}

uint32_t hyd_attn_most_rows(const struct hyd_attn_step *step, uint32_t rank)
{
    uint32_t most = 0;

    for (size_t i = 0; i < step->n_groups; i++) {
        uint32_t microbatch = step->group[i].microbatch;

        if (i == 0 || step->group[i - 1].microbatch != microbatch) {
            uint32_t n_rows = hyd_attn_cell_rows(step, rank, microbatch);

            most = n_rows > most ? n_rows : most;
        }
    }
    return most;
}

static size_t tensor_bytes(const struct hyd_attn_model *model, uint32_t n_rows, bool kv)
{
    size_t bytes = (size_t)n_rows * (kv ? model->n_kv_heads : model->n_heads) *
                   model->d * hyd_dtype_bytes(model->dtype);

    return (bytes + TENSOR_ALIGN_BYTES - 1) / TENSOR_ALIGN_BYTES * TENSOR_ALIGN_BYTES;
}

size_t hyd_attn_io_bytes(const struct hyd_attn_model *model, uint32_t n_rows)
{
    return 4 * tensor_bytes(model, n_rows, false) +
           4 * tensor_bytes(model, n_rows, true);
}

static struct hyd_attn_tensor take(struct hyd_buf *rest, size_t bytes)
{
    struct hyd_attn_tensor tensor = {.buf = {rest->at, bytes, rest->mem}};

    if (bytes > 0) {
        rest->at = (unsigned char *)rest->at + bytes;
        rest->bytes -= bytes;
    }
    return tensor;
}

struct hyd_attn_io hyd_attn_io_place(const struct hyd_attn_model *model,
                                     uint32_t n_rows, struct hyd_buf buf)
{
    size_t q = tensor_bytes(model, n_rows, false);
    size_t kv = tensor_bytes(model, n_rows, true);
    struct hyd_attn_io io;

    io.q = take(&buf, q);
    io.k = take(&buf, kv);
    io.v = take(&buf, kv);
    io.o = take(&buf, q);
    io.dout = take(&buf, q);
    io.dq = take(&buf, q);
    io.dk = take(&buf, kv);
    io.dv = take(&buf, kv);
    return io;
}
