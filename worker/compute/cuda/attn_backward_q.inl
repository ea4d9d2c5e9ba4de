/* attn_backward_q.inl - dq for one head size; see lane.h and attn_forward.inl.
 *
 * Before including: HYD_D, HYD_TAG. The kernel is called hyd_cuda_backward_q_<TAG>.
 *
 * A block holds a tile of query rows of one head, with its dO, and walks over what they
 * see: S = Q K^T, P = exp2(S - lse), dP = dO V^T, dS = P (dP - delta), dq += dS K. S and dP
 * are made once more in the kernels for dk and dv: that costs two products of seven and
 * saves atomics, so that the same arguments give the same bytes. */

#define HYD_WARPS HYD_JOIN2(HYD_BACKWARD_Q_WARPS, HYD_TAG)
#define HYD_M HYD_JOIN2(HYD_BACKWARD_Q_M, HYD_TAG)
#define HYD_N HYD_JOIN2(HYD_BACKWARD_Q_N, HYD_TAG)
#define HYD_SPLIT HYD_JOIN2(HYD_BACKWARD_Q_SPLIT, HYD_TAG)
#define HYD_BLOCKS HYD_JOIN2(HYD_BACKWARD_Q_BLOCKS, HYD_TAG)
#define HYD_LOADS HYD_JOIN2(HYD_BACKWARD_Q_LOADS, HYD_TAG)
#define HYD_FN(name) HYD_JOIN3(name, backward_q, HYD_TAG)
#include "worker/compute/cuda/product.inl"

/* Store lse (in log2) and delta of the tile's rows. A row that saw nothing anywhere, or is
 * beyond the tile, gets +inf: its weights are exp2(-inf) = 0. */
HYD_DEVICE void HYD_FN(hyd_load_stats)(float *stats, const struct hyd_cuda_backward *a,
                                       size_t q_row, int n_q)
{
    const size_t at = (size_t)hyd_block_y() * a->shape.lse_stride + q_row;

    for (int row = hyd_tid(); row < HYD_ROWS; row += HYD_THREADS) {
        const float lse = row < n_q ? hyd_load(a->lse + at + row) : -INFINITY;

        hyd_shared_store(stats + row,
                         lse == -INFINITY ? INFINITY : lse * 1.44269504088896341f);
        hyd_shared_store(stats + HYD_ROWS + row,
                         row < n_q ? hyd_load(a->delta + at + row) : 0.0f);
    }
}

/* ds from s and dp, in place of s. */
HYD_DEVICE void HYD_FN(hyd_slope)(HYD_FN(hyd_scores) s, HYD_FN(hyd_scores) dp,
                                  const float *stats, int row0, float scale_log2)
{
    HYD_UNROLL
    for (int m = 0; m < HYD_M; m++) {
        HYD_UNROLL
        for (int h = 0; h < 2; h++) {
            const int row = row0 + 16 * m + ((hyd_tid() & 31) >> 2) + 8 * h;
            const float lse2 = hyd_shared_load(stats + row);
            const float delta = hyd_shared_load(stats + HYD_ROWS + row);

            HYD_UNROLL
            for (int j = 0; j < HYD_N / 8; j++) {
                HYD_UNROLL
                for (int e = 2 * h; e < 2 * h + 2; e++) {
                    s[m][j][e] = hyd_exp2(s[m][j][e] * scale_log2 - lse2) *
                                 (dp[m][j][e] - delta);
                }
            }
        }
    }
}

/* Row g + 8 h of fragment m into dq_acc. */
HYD_DEVICE void HYD_FN(hyd_add)(const struct hyd_cuda_backward *a,
                                HYD_FN(hyd_sums) dq, const int m, const int h,
                                size_t q_row)
{
    float *const to = a->dq + (q_row * a->shape.n_heads + (size_t)hyd_block_y()) * HYD_D;

    HYD_UNROLL
    for (int j = 0; j < HYD_D / 8; j++) {
        float *const at = to + 8 * j + 2 * (hyd_tid() & 3);
        float x[2];

        hyd_load2(x, at);
        hyd_store2(at, x[0] + a->shape.scale * dq[m][j][2 * h],
                   x[1] + a->shape.scale * dq[m][j][2 * h + 1]);
    }
}

HYD_KERNEL HYD_BOUNDS(HYD_THREADS, HYD_BLOCKS)
    HYD_JOIN3(hyd_cuda, backward_q, HYD_TAG)(HYD_ARGS(struct hyd_cuda_backward) a)
{
    HYD_SHARED(shared);
    hyd_bf16 *const q = (hyd_bf16 *)shared;
    hyd_bf16 *const dout = q + HYD_ROWS * HYD_LD;
    hyd_bf16 *const stage = dout + HYD_ROWS * HYD_LD; /* two, each K then V */
    const int stage_elements = 2 * HYD_N * HYD_LD;
    float *const stats = (float *)(stage + 2 * stage_elements);
    const uint32_t head = (uint32_t)hyd_block_y();
    const uint32_t kv_head = hyd_kv_head(&a.shape, head);
    const uint32_t tile = (uint32_t)(hyd_blocks_x() - 1 - hyd_block_x());
    const uint32_t u = hyd_unit_of(&a.units, tile);
    const struct hyd_attn_unit *const unit = &a.units.unit[u];
    const uint32_t q0 = (tile - a.units.first_tile[u]) * HYD_ROWS;
    const int n_q = hyd_min((int)(unit->q.n - q0), HYD_ROWS);
    const int row0 = (hyd_tid() >> 5) * 16 * HYD_M;
    const size_t q_row = unit->q.row + (size_t)q0;
    HYD_FN(hyd_sums) dq;
    struct hyd_walk walk;

    HYD_FN(hyd_clear)(dq);
    hyd_walk_init(&walk, &a.shape, unit, q0, n_q, HYD_N);
    HYD_FN(hyd_load_pair)(q, a.q, a.dout, hyd_element(q_row, a.shape.n_heads, head, HYD_D),
                  a.shape.n_heads, n_q, HYD_ROWS);
    HYD_FN(hyd_load_stats)(stats, &a, q_row, n_q);

    for (int step = -1; step < walk.n_steps[0] + walk.n_steps[1]; step++) {
        const hyd_bf16 *const k = stage + (step & 1) * stage_elements;
        HYD_FN(hyd_scores) s, dp;
        struct hyd_step at;
        struct hyd_sight sight;

        if (step >= 0) { /* as in attn_forward.inl */
            hyd_cp_wait(0);
            hyd_block_sync();
        }
        if (step + 1 < walk.n_steps[0] + walk.n_steps[1]) {
            const struct hyd_step next = hyd_walk_step(&walk, unit, step + 1, HYD_N);
            const size_t row = next.row + (size_t)next.j0;

            HYD_FN(hyd_load_pair)(stage + ((step + 1) & 1) * stage_elements, a.k, a.v,
                          hyd_element(row, a.shape.n_kv_heads, kv_head, HYD_D),
                          a.shape.n_kv_heads, next.end - next.j0, HYD_N);
        }
        hyd_cp_commit();
        if (step < 0) {
            continue;
        }
        at = hyd_walk_step(&walk, unit, step, HYD_N);
        sight = hyd_see(&a.shape, unit->q.pos + q0, at.pos);
        if (!hyd_sees_any(&at, sight, n_q, row0, 16 * HYD_M, HYD_N)) {
            continue;
        }
        HYD_FN(hyd_score)(s, q, k, row0);
        HYD_FN(hyd_score)(dp, dout, k + HYD_N * HYD_LD, row0);
        HYD_FN(hyd_slope)(s, dp, stats, row0, a.shape.scale_log2);
        if (!hyd_sees_all(&at, sight, n_q, HYD_N)) {
            HYD_FN(hyd_hide)(s, &at, sight, row0, 0.0f);
        }
        HYD_FN(hyd_weigh)(dq, s, k);
    }

    HYD_UNROLL
    for (int m = 0; m < HYD_M; m++) {
        HYD_UNROLL
        for (int h = 0; h < 2; h++) {
            const int row = row0 + 16 * m + ((hyd_tid() & 31) >> 2) + 8 * h;

            if (row < n_q) {
                HYD_FN(hyd_add)(&a, dq, m, h, q_row + (size_t)row);
            }
        }
    }
}

#include "worker/compute/cuda/product_end.inl"
