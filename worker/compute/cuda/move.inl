/* move.inl - strided copies, rounding and sums; see lane.h and struct hyd_copy.
 *
 * Block row y does copy y; blocks and threads of a row share its elements out. */

HYD_DEVICE size_t hyd_first(void)
{
    return (size_t)hyd_block_x() * (size_t)hyd_threads() + (size_t)hyd_tid();
}

HYD_DEVICE size_t hyd_step_all(void)
{
    return (size_t)hyd_blocks_x() * (size_t)hyd_threads();
}

/* All places and lengths of a copy or'ed together: what they are all multiples of. */
HYD_DEVICE size_t hyd_grain(const struct hyd_cuda_copies *a, const struct hyd_copy *c)
{
    return (size_t)(uintptr_t)(a->dst + c->dst_offset_bytes) |
           (size_t)(uintptr_t)(a->src + c->src_offset_bytes) | c->dst_stride_bytes |
           c->src_stride_bytes | c->row_bytes;
}

HYD_KERNEL HYD_BOUNDS(256, 1) hyd_cuda_copy(HYD_ARGS(struct hyd_cuda_copies) a)
{
    const struct hyd_copy *const c = &a.copy[hyd_block_y()];
    const size_t grain = hyd_grain(&a, c);
    const uint32_t bytes = (grain & 15) == 0 ? 16 : (grain & 3) == 0 ? 4 : 1;
    const size_t per_row = c->row_bytes / bytes;

    for (size_t i = hyd_first(); i < per_row * c->n_rows; i += hyd_step_all()) {
        const size_t row = i / per_row, at = i % per_row * bytes;

        hyd_copy_bytes(a.dst + c->dst_offset_bytes + row * c->dst_stride_bytes + at,
                       a.src + c->src_offset_bytes + row * c->src_stride_bytes + at,
                       bytes);
    }
}

HYD_KERNEL HYD_BOUNDS(256, 1) hyd_cuda_round(HYD_ARGS(struct hyd_cuda_copies) a)
{
    const struct hyd_copy *const c = &a.copy[hyd_block_y()];
    const bool pairs = (hyd_grain(&a, c) & 7) == 0;
    const size_t width = pairs ? 2 : 1;
    const size_t per_row = c->row_bytes / sizeof(float) / width;

    for (size_t i = hyd_first(); i < per_row * c->n_rows; i += hyd_step_all()) {
        const size_t row = i / per_row, at = i % per_row * width;
        const float *const from = (const float *)(a.src + c->src_offset_bytes +
                                                  row * c->src_stride_bytes) +
                                  at;
        hyd_bf16 *const to =
            (hyd_bf16 *)(a.dst + c->dst_offset_bytes + row * c->dst_stride_bytes) + at;
        float x[2];

        if (pairs) {
            hyd_load2(x, from);
            hyd_store_u32((uint32_t *)to, hyd_pack2(x[0], x[1]));
        } else {
            hyd_store_bf16(to, (hyd_bf16)hyd_pack2(hyd_load(from), 0.0f));
        }
    }
}

HYD_KERNEL HYD_BOUNDS(256, 1) hyd_cuda_add(HYD_ARGS(struct hyd_cuda_copies) a)
{
    const struct hyd_copy *const c = &a.copy[hyd_block_y()];
    const bool pairs = (hyd_grain(&a, c) & 7) == 0;
    const size_t width = pairs ? 2 : 1;
    const size_t per_row = c->row_bytes / sizeof(float) / width;

    for (size_t i = hyd_first(); i < per_row * c->n_rows; i += hyd_step_all()) {
        const size_t row = i / per_row, at = i % per_row * width;
        const float *const from = (const float *)(a.src + c->src_offset_bytes +
                                                  row * c->src_stride_bytes) +
                                  at;
        float *const to =
            (float *)(a.dst + c->dst_offset_bytes + row * c->dst_stride_bytes) + at;

        if (pairs) {
            float x[2], y[2];

            hyd_load2(x, from);
            hyd_load2(y, to);
            hyd_store2(to, x[0] + y[0], x[1] + y[1]);
        } else {
            hyd_store(to, hyd_load(to) + hyd_load(from));
        }
    }
}
