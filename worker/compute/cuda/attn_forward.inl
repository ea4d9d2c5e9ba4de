/* attn_forward.inl - flash-attention forward for one head size; see lane.h.
 *
 * Before including: HYD_D the head size, HYD_TAG the row of sizes.h. The kernel is called
 * hyd_cuda_forward_<TAG>.
 *
 * A block holds a tile of query rows of one head. K and V come in double-buffered by
 * asynchronous copies. Scores, weights and the output stay in registers: accumulators of
 * S = Q K^T have the layout that the left operand of P V wants. At the end the result is
 * merged in fp32 with what earlier calls left (worker/README.md, merge). */

#define HYD_WARPS HYD_JOIN2(HYD_FORWARD_WARPS, HYD_TAG)
#define HYD_M HYD_JOIN2(HYD_FORWARD_M, HYD_TAG)
#define HYD_N HYD_JOIN2(HYD_FORWARD_N, HYD_TAG)
#define HYD_SPLIT HYD_JOIN2(HYD_FORWARD_SPLIT, HYD_TAG)
#define HYD_BLOCKS HYD_JOIN2(HYD_FORWARD_BLOCKS, HYD_TAG)
#define HYD_LOADS HYD_JOIN2(HYD_FORWARD_LOADS, HYD_TAG)
#define HYD_FN(name) HYD_JOIN3(name, forward, HYD_TAG)
#include "worker/compute/cuda/product.inl"

/* What a warp holds: lane 4 g + t has rows g and g + 8 of each fragment. */
struct HYD_FN(hyd_state) {
    HYD_FN(hyd_sums) o; /* not yet divided by sum */
    float top[HYD_M][2]; /* largest score so far, in log2 */
    float sum[HYD_M][2]; /* of this lane's columns */
};

/* Scores of fragment m become weights; o and sum shrink where the maximum rose. */
HYD_DEVICE void HYD_FN(hyd_soften)(HYD_FN(hyd_scores) s, struct HYD_FN(hyd_state) *state,
                                   const int m, float scale_log2)
{
    float base[2], shrink[2];

    HYD_UNROLL
    for (int h = 0; h < 2; h++) {
        float top = state->top[m][h];

        HYD_UNROLL
        for (int j = 0; j < HYD_N / 8; j++) {
            top = fmaxf(top, fmaxf(s[m][j][2 * h], s[m][j][2 * h + 1]) * scale_log2);
        }
        top = fmaxf(top, hyd_shfl_xor(top, 1));
        top = fmaxf(top, hyd_shfl_xor(top, 2));
        /* A row that has seen nothing yet: no NaN from -inf - -inf. */
        base[h] = top == -INFINITY ? 0.0f : top;
        shrink[h] = hyd_exp2(state->top[m][h] - base[h]);
        state->top[m][h] = top;
        state->sum[m][h] *= shrink[h];
    }
    HYD_UNROLL
    for (int j = 0; j < HYD_N / 8; j++) {
        HYD_UNROLL
        for (int e = 0; e < 4; e++) {
            s[m][j][e] = hyd_exp2(s[m][j][e] * scale_log2 - base[e >> 1]);
            state->sum[m][e >> 1] += s[m][j][e];
        }
    }
    /* Mostly the maximum stays. */
    if (hyd_any(shrink[0] != 1.0f || shrink[1] != 1.0f)) {
        HYD_UNROLL
        for (int j = 0; j < HYD_D / 8; j++) {
            HYD_UNROLL
            for (int e = 0; e < 4; e++) {
                state->o[m][j][e] *= shrink[e >> 1];
            }
        }
    }
}

/* Row g + 8 h of fragment m into o_acc and lse. */
HYD_DEVICE void HYD_FN(hyd_merge)(const struct hyd_cuda_forward *a,
                                  const struct HYD_FN(hyd_state) *state, const int m,
                                  const int h, size_t q_row, bool mine)
{
    const uint32_t head = (uint32_t)hyd_block_y();
    const int t = hyd_tid() & 3;
    float *const lse = a->lse + (size_t)head * a->shape.lse_stride + q_row;
    float *const o = a->o + (q_row * a->shape.n_heads + head) * HYD_D;
    float sum = state->sum[m][h];
    float here, before, top, old, fresh;

    sum += hyd_shfl_xor(sum, 1);
    sum += hyd_shfl_xor(sum, 2);
    here = sum > 0.0f ? state->top[m][h] * 0.69314718055994531f + logf(sum) : -INFINITY;
    before = mine && a->first == 0 ? hyd_load(lse) : -INFINITY;
    hyd_warp_sync(); /* the four lanes of a row have read its lse; one will write it */
    top = fmaxf(before, here);
    if (!mine || (top == -INFINITY && a->first == 0)) {
        return;
    }
    old = before == -INFINITY ? 0.0f : expf(before - top);
    fresh = here == -INFINITY ? 0.0f : expf(here - top);
    if (t == 0) {
        hyd_store(lse, top == -INFINITY ? -INFINITY : top + logf(old + fresh));
    }
    if (top != -INFINITY) {
        const float all = old + fresh;

        old = old / all;
        fresh = fresh > 0.0f ? fresh / (all * sum) : 0.0f;
    }
    HYD_UNROLL
    for (int j = 0; j < HYD_D / 8; j++) {
        float x[2] = {0.0f, 0.0f};

        if (old > 0.0f) { /* else it may hold anything */
            hyd_load2(x, o + 8 * j + 2 * t);
        }
        hyd_store2(o + 8 * j + 2 * t, x[0] * old + state->o[m][j][2 * h] * fresh,
                   x[1] * old + state->o[m][j][2 * h + 1] * fresh);
    }
}

HYD_KERNEL HYD_BOUNDS(HYD_THREADS, HYD_BLOCKS)
    HYD_JOIN3(hyd_cuda, forward, HYD_TAG)(HYD_ARGS(struct hyd_cuda_forward) a)
{
    HYD_SHARED(shared);
    hyd_bf16 *const q = (hyd_bf16 *)shared;
    hyd_bf16 *const stage = q + HYD_ROWS * HYD_LD; /* two, each K then V */
    const int stage_elements = 2 * HYD_N * HYD_LD;
    const uint32_t head = (uint32_t)hyd_block_y();
    const uint32_t kv_head = hyd_kv_head(&a.shape, head);
    /* With a causal mask late tiles are long: they start first. */
    const uint32_t tile = (uint32_t)(hyd_blocks_x() - 1 - hyd_block_x());
    const uint32_t u = hyd_unit_of(&a.units, tile);
    const struct hyd_attn_unit *const unit = &a.units.unit[u];
    const uint32_t q0 = (tile - a.units.first_tile[u]) * HYD_ROWS;
    const int n_q = hyd_min((int)(unit->q.n - q0), HYD_ROWS);
    const int row0 = (hyd_tid() >> 5) * 16 * HYD_M; /* of this warp in the tile */
    struct HYD_FN(hyd_state) state;
    struct hyd_walk walk;

    HYD_UNROLL
    for (int m = 0; m < HYD_M; m++) {
        HYD_UNROLL
        for (int h = 0; h < 2; h++) {
            state.top[m][h] = -INFINITY;
            state.sum[m][h] = 0.0f;
        }
    }
    HYD_FN(hyd_clear)(state.o);
    hyd_walk_init(&walk, &a.shape, unit, q0, n_q, HYD_N);
    HYD_FN(hyd_load)(q, a.q,
                  hyd_element(unit->q.row + (size_t)q0, a.shape.n_heads, head, HYD_D),
                  a.shape.n_heads, n_q, HYD_ROWS);

    /* Step -1 only starts the first copy. */
    for (int step = -1; step < walk.n_steps[0] + walk.n_steps[1]; step++) {
        const hyd_bf16 *const k = stage + (step & 1) * stage_elements;
        HYD_FN(hyd_scores) s;
        struct hyd_step at;
        struct hyd_sight sight;

        if (step >= 0) {
            /* This step's rows are here for everybody, and everybody has left the other
             * stage, which the next step's rows may now overwrite while we compute. */
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
        HYD_FN(hyd_score)(s, q, k, row0);
        if (!hyd_sees_all(&at, sight, n_q, HYD_N)) {
            HYD_FN(hyd_hide)(s, &at, sight, row0, -INFINITY);
        }
        HYD_UNROLL
        for (int m = 0; m < HYD_M; m++) {
            HYD_FN(hyd_soften)(s, &state, m, a.shape.scale_log2);
        }
        HYD_FN(hyd_weigh)(state.o, s, k + HYD_N * HYD_LD);
    }

    HYD_UNROLL
    for (int m = 0; m < HYD_M; m++) {
        HYD_UNROLL
        for (int h = 0; h < 2; h++) {
            const int row = row0 + 16 * m + ((hyd_tid() & 31) >> 2) + 8 * h;

            HYD_FN(hyd_merge)(&a, &state, m, h, unit->q.row + q0 + (size_t)row,
                              row < n_q);
        }
    }
}

#include "worker/compute/cuda/product_end.inl"
