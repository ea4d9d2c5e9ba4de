/* merge.inl - a partial result of somebody else's forward, merged; see lane.h.
 *
 * A warp a row and head: o (bf16) and lse of some keys join what o_acc and lse hold
 * (worker/README.md, merge). */

HYD_KERNEL HYD_BOUNDS(32 * HYD_FP32_WARPS, 1)
    hyd_cuda_merge(HYD_ARGS(struct hyd_cuda_merge) a)
{
    const uint32_t head = (uint32_t)hyd_block_y();
    const uint32_t row =
        (uint32_t)hyd_block_x() * HYD_FP32_WARPS + (uint32_t)(hyd_tid() >> 5);
    const size_t part = (size_t)row * a.shape.n_heads + head;
    const size_t whole = ((size_t)a.q_row + row) * a.shape.n_heads + head;
    float *const lse = a.lse + (size_t)head * a.shape.lse_stride + a.q_row + row;
    const uint32_t *const from = (const uint32_t *)((const hyd_bf16 *)a.part +
                                                    part * a.shape.d);
    float *const to = a.o + whole * a.shape.d;
    float before, here, top, old, fresh;

    if (row >= a.n_rows) {
        return;
    }
    before = hyd_load(lse);
    here = hyd_load(a.part_lse + part);
    top = fmaxf(before, here);
    old = before == -INFINITY ? 0.0f : expf(before - top);
    fresh = here == -INFINITY ? 0.0f : expf(here - top);
    hyd_warp_sync(); /* every lane has read lse */
    if (fresh <= 0.0f) {
        return; /* adds nothing, and part may hold anything */
    }
    if ((hyd_tid() & 31) == 0) {
        hyd_store(lse, top + logf(old + fresh));
    }
    for (uint32_t c = 2 * (uint32_t)(hyd_tid() & 31); c < a.shape.d; c += 64) {
        const uint32_t pair = hyd_load_u32(from + c / 2);
        const float w = fresh / (old + fresh);
        float x[2] = {0.0f, 0.0f};

        if (old > 0.0f) {
            hyd_load2(x, to + c);
        }
        hyd_store2(to + c,
                   x[0] * (old / (old + fresh)) + hyd_widen((hyd_bf16)(pair & 0xffff)) * w,
                   x[1] * (old / (old + fresh)) + hyd_widen((hyd_bf16)(pair >> 16)) * w);
    }
}
