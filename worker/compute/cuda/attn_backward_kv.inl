/* attn_backward_kv.inl - dk and dv for one head size; see lane.h and attn_forward.inl.
 *
 * Before including: HYD_D, HYD_TAG, and HYD_PART: kv for both gradients in one kernel, k or
 * v for one of them (no registers for two from d = 192 on). The kernel is called
 * hyd_cuda_backward_<PART>_<TAG>.
 *
 * A block holds HYD_ROWS kv rows of the tensor, by their place in it, and is the only one
 * that adds to them: it visits every unit that names some of them, every query head of
 * their kv head, and the query rows that see them. Products are transposed: S^T = K Q^T,
 * so that P^T and dS^T come out as left operands: dv += P^T dO, dk += dS^T Q.
 *
 * With HYD_SPLIT 2 two warps share rows: each makes S^T and dP^T for its half of a step's
 * queries, gives its P^T and dS^T to the other one through shared memory, and adds up its
 * half of the columns of dk and dv over all of them. */

#define HYD_WARPS HYD_JOIN2(HYD_BACKWARD_KV_WARPS, HYD_TAG)
#define HYD_M HYD_JOIN2(HYD_BACKWARD_KV_M, HYD_TAG)
#define HYD_N HYD_JOIN2(HYD_BACKWARD_KV_N, HYD_TAG)
#define HYD_SPLIT HYD_JOIN2(HYD_BACKWARD_KV_SPLIT, HYD_TAG)
#define HYD_BLOCKS HYD_JOIN2(HYD_BACKWARD_KV_BLOCKS, HYD_TAG)
#define HYD_LOADS HYD_JOIN2(HYD_BACKWARD_KV_LOADS, HYD_TAG)
#define HYD_FN(name) HYD_JOIN3(name, HYD_JOIN2(backward, HYD_PART), HYD_TAG)
#define HYD_DOES_kv 3
#define HYD_DOES_k 1
#define HYD_DOES_v 2
#define HYD_DK (HYD_JOIN2(HYD_DOES, HYD_PART) & 1)
#define HYD_DV (HYD_JOIN2(HYD_DOES, HYD_PART) & 2)
#include "worker/compute/cuda/product.inl"

/* One kv interval of one unit against the block's rows. */
struct HYD_FN(hyd_visit) {
    const struct hyd_attn_unit *unit;
    struct hyd_sight sight; /* of the unit's row 0 */
    int j0; /* row of the interval that the block's row 0 would be; may be negative */
    int n_kv; /* rows of the interval */
    int begin, end; /* query rows of the unit that see any of the block's rows */
};

HYD_DEVICE struct HYD_FN(hyd_visit)
    HYD_FN(hyd_plan_visit)(const struct hyd_cuda_backward *a, uint32_t u, uint32_t i,
                           uint32_t r0)
{
    struct HYD_FN(hyd_visit) v;
    int first, last;

    v.unit = &a->units.unit[u];
    v.sight = hyd_see(&a->shape, v.unit->q.pos, v.unit->kv[i].pos);
    v.n_kv = (int)v.unit->kv[i].n;
    v.j0 = (int)((int64_t)r0 - (int64_t)v.unit->kv[i].row);
    first = hyd_max(0, v.j0);
    last = hyd_min(v.n_kv, v.j0 + HYD_ROWS); /* one beyond */
    v.begin = hyd_max(0, first - v.sight.hi);
    v.end = hyd_min((int)v.unit->q.n, last - 1 - v.sight.lo);
    if (i >= v.unit->n_kv || last <= first || v.end < v.begin) {
        v.end = v.begin;
    }
    return v;
}

/* Start copying the query rows of a step, their lse and their delta; rows from v->end on
 * become 0, so that they add nothing. */
HYD_DEVICE void HYD_FN(hyd_fetch)(const struct hyd_cuda_backward *a,
                                  const struct HYD_FN(hyd_visit) *v, uint32_t head,
                                  int i0, hyd_bf16 *to, float *stats)
{
    const int valid = v->end - i0;
    const size_t q_row = v->unit->q.row + (size_t)i0;
    const size_t at = (size_t)head * a->shape.lse_stride + q_row;

    HYD_FN(hyd_load_pair)(to, a->q, a->dout, hyd_element(q_row, a->shape.n_heads, head, HYD_D),
                  a->shape.n_heads, valid, HYD_N);
    if (hyd_tid() < 2 * HYD_N) { /* no block has fewer threads */
        const float *const from = (hyd_tid() < HYD_N ? a->lse : a->delta) + at;
        const int i = hyd_tid() % HYD_N;

        hyd_cp4(stats + hyd_tid(), from + (i < valid ? i : 0), i < valid);
    }
}

/* s becomes P^T, dp becomes dS^T. */
HYD_DEVICE void HYD_FN(hyd_slope)(HYD_FN(hyd_scores) s, HYD_FN(hyd_scores) dp,
                                  const float *stats, float scale_log2)
{
    HYD_UNROLL
    for (int j = 0; j < HYD_OWN_N / 8; j++) {
        HYD_UNROLL
        for (int z = 0; z < 2; z++) {
            const int column = 8 * j + 2 * (hyd_tid() & 3) + z;
            const float lse = hyd_shared_load(stats + column);
            /* A row that saw nothing anywhere: weights exp2(-inf) = 0. */
            const float lse2 =
                lse == -INFINITY ? INFINITY : lse * 1.44269504088896341f;
            const float delta = HYD_DK ? hyd_shared_load(stats + HYD_N + column) : 0.0f;

            HYD_UNROLL
            for (int m = 0; m < HYD_M; m++) {
                HYD_UNROLL
                for (int e = z; e < 4; e += 2) {
                    s[m][j][e] = hyd_exp2(s[m][j][e] * scale_log2 - lse2);
                    if (HYD_DK) {
                        dp[m][j][e] = s[m][j][e] * (dp[m][j][e] - delta);
                    }
                }
            }
        }
    }
}

/* Put 0 where a key is not seen by a query, or is no row of the interval. */
HYD_DEVICE void HYD_FN(hyd_hide_keys)(HYD_FN(hyd_scores) s, HYD_FN(hyd_scores) dp,
                                      const struct HYD_FN(hyd_visit) *v, int row0, int i0)
{
    const int g = (hyd_tid() & 31) >> 2, t = hyd_tid() & 3;

    HYD_UNROLL
    for (int m = 0; m < HYD_M; m++) {
        HYD_UNROLL
        for (int j = 0; j < HYD_OWN_N / 8; j++) {
            HYD_UNROLL
            for (int e = 0; e < 4; e++) {
                const int kv = v->j0 + row0 + 16 * m + g + 8 * (e >> 1);
                const int ahead = kv - (i0 + 8 * j + 2 * t + (e & 1));

                if (kv < 0 || kv >= v->n_kv || ahead > v->sight.hi ||
                    ahead <= v->sight.lo) {
                    s[m][j][e] = 0.0f;
                    if (HYD_DK) {
                        dp[m][j][e] = 0.0f;
                    }
                }
            }
        }
    }
}

HYD_DEVICE bool HYD_FN(hyd_sees_whole)(const struct HYD_FN(hyd_visit) *v, int i0)
{
    const int last = v->j0 + HYD_ROWS - 1;

    return v->j0 >= 0 && last < v->n_kv && last - i0 <= v->sight.hi &&
           v->j0 - (i0 + HYD_N - 1) > v->sight.lo;
}

/* Does a unit of this launch name the row? Others are neither read nor written. */
HYD_DEVICE bool HYD_FN(hyd_is_named)(const struct hyd_cuda_units *units, uint32_t row)
{
    for (uint32_t u = 0; u < units->n; u++) {
        for (uint32_t i = 0; i < units->unit[u].n_kv; i++) {
            if (row - units->unit[u].kv[i].row < units->unit[u].kv[i].n) {
                return true; /* the difference wraps round below the first row */
            }
        }
    }
    return false;
}

/* Rows of what two warps give each other, [HYD_ROWS][HYD_N] bf16 for P^T, then for dS^T. */
#define HYD_GIFT_LD (HYD_N + 8)
#define HYD_GIFT_ELEMENTS (HYD_ROWS * HYD_GIFT_LD)

/* This warp's weights, rounded to bf16, from column `column` on. */
HYD_DEVICE void HYD_FN(hyd_give)(hyd_bf16 *gift, HYD_FN(hyd_scores) w, int row0,
                                 int column)
{
    const int g = (hyd_tid() & 31) >> 2, t = hyd_tid() & 3;

    HYD_UNROLL
    for (int m = 0; m < HYD_M; m++) {
        HYD_UNROLL
        for (int j = 0; j < HYD_OWN_N / 8; j++) {
            HYD_UNROLL
            for (int h = 0; h < 2; h++) {
                hyd_shared_store_pair(&gift[(row0 + 16 * m + g + 8 * h) * HYD_GIFT_LD +
                                            column + 8 * j + 2 * t],
                                      hyd_pack2(w[m][j][2 * h], w[m][j][2 * h + 1]));
            }
        }
    }
}

/* x += the other warp's weights * other, which begins as in hyd_weigh. */
HYD_DEVICE void HYD_FN(hyd_take)(HYD_FN(hyd_sums) x, const hyd_bf16 *gift,
                                 const hyd_bf16 *other, int row0, int column)
{
    HYD_UNROLL
    for (int c = 0; c < HYD_OWN_N; c += 16) {
        uint32_t left[HYD_M][4];

        HYD_UNROLL
        for (int m = 0; m < HYD_M; m++) {
            hyd_left(left[m], gift, HYD_GIFT_LD, row0 + 16 * m, column + c);
        }
        HYD_UNROLL
        for (int j = 0; j < HYD_OWN_D / 8; j += 2) {
            uint32_t right[4];

            hyd_right(right, other, HYD_LD, c, 8 * j);
            HYD_UNROLL
            for (int m = 0; m < HYD_M; m++) {
                hyd_mma(x[m][j], left[m], right[0], right[1]);
                hyd_mma(x[m][j + 1], left[m], right[2], right[3]);
            }
        }
    }
}

/* dv += P^T dO, dk += dS^T Q over a step's queries. All threads of the block. */
HYD_DEVICE void HYD_FN(hyd_gather)(HYD_FN(hyd_sums) dk, HYD_FN(hyd_sums) dv,
                                   HYD_FN(hyd_scores) p, HYD_FN(hyd_scores) ds,
                                   const hyd_bf16 *q, hyd_bf16 *gift, int row0)
{
    const int half = HYD_SPLIT == 1 ? 0 : (hyd_tid() >> 5) & 1;
    const int own = half * HYD_OWN_N, others = HYD_OWN_N - own;
    const hyd_bf16 *const columns = q + half * HYD_OWN_D;

    if (HYD_SPLIT != 1) {
        HYD_FN(hyd_give)(gift, p, row0, own);
        HYD_FN(hyd_give)(gift + HYD_GIFT_ELEMENTS, ds, row0, own);
    }
    if (HYD_DV) {
        HYD_FN(hyd_weigh)(dv, p, columns + (HYD_N + own) * HYD_LD);
    }
    if (HYD_DK) {
        HYD_FN(hyd_weigh)(dk, ds, columns + own * HYD_LD);
    }
    if (HYD_SPLIT != 1) {
        hyd_block_sync(); /* the next step's first barrier ends the reading */
        HYD_FN(hyd_take)(dv, gift, columns + (HYD_N + others) * HYD_LD, row0, others);
        HYD_FN(hyd_take)(dk, gift + HYD_GIFT_ELEMENTS, columns + others * HYD_LD, row0,
                         others);
    }
}

/* Row g + 8 h of fragment m: to += scale * x */
HYD_DEVICE void HYD_FN(hyd_add)(float *to, HYD_FN(hyd_sums) x, const int m, const int h,
                                float scale)
{
    HYD_UNROLL
    for (int j = 0; j < HYD_OWN_D / 8; j++) {
        float *const at = to + 8 * j + 2 * (hyd_tid() & 3);
        float y[2];

        hyd_load2(y, at);
        hyd_store2(at, y[0] + scale * x[m][j][2 * h], y[1] + scale * x[m][j][2 * h + 1]);
    }
}

HYD_KERNEL HYD_BOUNDS(HYD_THREADS, HYD_BLOCKS)
    HYD_JOIN3(hyd_cuda, HYD_JOIN2(backward, HYD_PART),
              HYD_TAG)(HYD_ARGS(struct hyd_cuda_backward) a)
{
    HYD_SHARED(shared);
    hyd_bf16 *const k = (hyd_bf16 *)shared;
    hyd_bf16 *const v = k + HYD_ROWS * HYD_LD;
    hyd_bf16 *const stage = v + HYD_ROWS * HYD_LD; /* two, each q then dO */
    const int stage_elements = 2 * HYD_N * HYD_LD;
    float *const stats = (float *)(stage + 2 * stage_elements); /* two stages */
    hyd_bf16 *const gift = (hyd_bf16 *)(stats + 4 * HYD_N); /* with HYD_SPLIT 2 */
    const uint32_t kv_head = (uint32_t)hyd_block_y();
    const uint32_t r0 = a.kv_first + (uint32_t)hyd_block_x() * HYD_ROWS;
    const int row0 = (hyd_tid() >> 5) / HYD_SPLIT * 16 * HYD_M;
    const int half = HYD_SPLIT == 1 ? 0 : (hyd_tid() >> 5) & 1;
    const int own = half * HYD_OWN_N; /* of a step's queries, the first of this warp */
    const int n_rows = hyd_min((int)(a.kv_end - r0), HYD_ROWS);
    /* Local query heads of this kv head. */
    const int64_t group = (int64_t)(a.shape.kv_head_first + kv_head) *
                              (int64_t)a.shape.heads_per_kv -
                          (int64_t)a.shape.head_first;
    const int head_begin = group > 0 ? (int)group : 0;
    const int head_end = hyd_min((int)a.shape.n_heads,
                                 (int)(group + (int64_t)a.shape.heads_per_kv));
    HYD_FN(hyd_sums) dk, dv;
    int turn = 0; /* steps done, over all visits; its parity is the stage */

    HYD_FN(hyd_clear)(dk);
    HYD_FN(hyd_clear)(dv);
    HYD_FN(hyd_load_pair)(k, a.k, a.v, hyd_element(r0, a.shape.n_kv_heads, kv_head, HYD_D),
                  a.shape.n_kv_heads, n_rows, HYD_ROWS);
    hyd_cp_commit();

    for (uint32_t visit = 0; visit < 2 * a.units.n; visit++) {
        const struct HYD_FN(hyd_visit) at =
            HYD_FN(hyd_plan_visit)(&a, visit >> 1, visit & 1, r0);
        const int n_tiles = (at.end - at.begin + HYD_N - 1) / HYD_N;
        const int n_steps = n_tiles * hyd_max(0, head_end - head_begin);
        /* What is fetched next, and the first query of what was fetched last. */
        int head = head_begin, ahead = at.begin, last = at.begin;

        for (int step = n_steps > 0 ? -1 : 0; step < n_steps; step++) {
            const int here = turn & 1, there = (turn + (step >= 0)) & 1;
            const hyd_bf16 *const q = stage + here * stage_elements;
            const int i0 = last;
            HYD_FN(hyd_scores) s, dp;

            if (step >= 0) { /* as in attn_forward.inl */
                hyd_cp_wait(0);
                hyd_block_sync();
            }
            if (step + 1 < n_steps) {
                HYD_FN(hyd_fetch)(&a, &at, (uint32_t)head, ahead,
                                  stage + there * stage_elements,
                                  stats + there * 2 * HYD_N);
                last = ahead;
                ahead += HYD_N;
                if (ahead >= at.end) {
                    ahead = at.begin;
                    head++;
                }
            }
            hyd_cp_commit();
            if (step < 0) {
                continue;
            }
            HYD_FN(hyd_score)(s, k, q + own * HYD_LD, row0);
            if (HYD_DK) {
                HYD_FN(hyd_score)(dp, v, q + (HYD_N + own) * HYD_LD, row0);
            }
            HYD_FN(hyd_slope)(s, dp, stats + here * 2 * HYD_N + own, a.shape.scale_log2);
            if (!HYD_FN(hyd_sees_whole)(&at, i0)) {
                HYD_FN(hyd_hide_keys)(s, dp, &at, row0, i0 + own);
            }
            HYD_FN(hyd_gather)(dk, dv, s, dp, q, gift, row0);
            turn++;
        }
    }

    HYD_UNROLL
    for (int m = 0; m < HYD_M; m++) {
        HYD_UNROLL
        for (int h = 0; h < 2; h++) {
            const int row = row0 + 16 * m + ((hyd_tid() & 31) >> 2) + 8 * h;
            const uint32_t kv_row = r0 + (uint32_t)row;

            if (row < n_rows && HYD_FN(hyd_is_named)(&a.units, kv_row)) {
                const size_t to = ((size_t)kv_row * a.shape.n_kv_heads + kv_head) * HYD_D +
                                  (size_t)(half * HYD_OWN_D);

                if (HYD_DK) {
                    HYD_FN(hyd_add)(a.dk + to, dk, m, h, a.shape.scale);
                }
                if (HYD_DV) {
                    HYD_FN(hyd_add)(a.dv + to, dv, m, h, 1.0f);
                }
            }
        }
    }
}

#include "worker/compute/cuda/product_end.inl"
#undef HYD_DOES_kv
#undef HYD_DOES_k
#undef HYD_DOES_v
#undef HYD_DK
#undef HYD_DV
#undef HYD_GIFT_LD
#undef HYD_GIFT_ELEMENTS
