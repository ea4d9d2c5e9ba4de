/* attn_fp32.inl - attention in fp32, to check the others by; see lane.h.
 *
 * One warp a row, no tensor cores, no shared memory. Lanes first hold 32 rows of the other
 * side, one each, for scores; then 32 columns of d, one of every 32 each, for sums. */

enum { HYD_FP32_WARPS = 4, HYD_FP32_MAX = 256 / 32 };

HYD_DEVICE float hyd_dot(const float *a, const float *b, uint32_t d)
{
    float sum = 0.0f;

    for (uint32_t i = 0; i < d; i++) {
        sum += hyd_load(a + i) * hyd_load(b + i);
    }
    return sum;
}

HYD_DEVICE float hyd_warp_max(float x)
{
    for (int mask = 16; mask != 0; mask >>= 1) {
        x = fmaxf(x, hyd_shfl_xor(x, mask));
    }
    return x;
}

HYD_DEVICE float hyd_warp_sum(float x)
{
    for (int mask = 16; mask != 0; mask >>= 1) {
        x += hyd_shfl_xor(x, mask);
    }
    return x;
}

/* x[c] += weight of lane j * row j, over rows 0 to n - 1; all lanes. */
HYD_DEVICE void hyd_sum_rows(float *x, float weight, const float *row, size_t stride,
                             int n, uint32_t d)
{
    for (int j = 0; j < n; j++) {
        const float w = hyd_shfl(weight, j);

        for (int c = 0; c < HYD_FP32_MAX; c++) {
            const uint32_t column = (uint32_t)(32 * c + (hyd_tid() & 31));

            if (column < d) {
                x[c] += w * hyd_load(row + (size_t)j * stride + column);
            }
        }
    }
}

HYD_DEVICE void hyd_add_row(float *to, const float *x, uint32_t d, float scale)
{
    for (int c = 0; c < HYD_FP32_MAX; c++) {
        const uint32_t column = (uint32_t)(32 * c + (hyd_tid() & 31));

        if (column < d) {
            hyd_store(to + column, hyd_load(to + column) + scale * x[c]);
        }
    }
}

HYD_DEVICE float hyd_lse2(const float *lse)
{
    const float x = hyd_load(lse);

    return x == -INFINITY ? INFINITY : x * 1.44269504088896341f;
}

/* The query row of this warp; false: none. */
struct hyd_fp32_row {
    const struct hyd_attn_unit *unit;
    uint32_t pos;
    size_t row; /* in the tensor */
    size_t at; /* of its first element */
    size_t stat; /* in lse and delta */
};

HYD_DEVICE bool hyd_fp32_find(const struct hyd_cuda_shape *s,
                              const struct hyd_cuda_units *units, struct hyd_fp32_row *r)
{
    const uint32_t head = (uint32_t)hyd_block_y();
    const uint32_t u = hyd_unit_of(units, (uint32_t)hyd_block_x());
    const uint32_t i =
        ((uint32_t)hyd_block_x() - units->first_tile[u]) * HYD_FP32_WARPS +
        (uint32_t)(hyd_tid() >> 5);

    r->unit = &units->unit[u];
    if (i >= r->unit->q.n) {
        return false;
    }
    r->pos = r->unit->q.pos + i;
    r->row = r->unit->q.row + (size_t)i;
    r->at = (r->row * s->n_heads + head) * s->d;
    r->stat = (size_t)head * s->lse_stride + r->row;
    return true;
}

/* Merge with what is there; see attn_forward.inl. */
HYD_DEVICE void hyd_fp32_merge(const struct hyd_cuda_forward *a,
                               const struct hyd_fp32_row *r, const float *o, float top,
                               float sum)
{
    const float here = sum > 0.0f ? top * 0.69314718055994531f + logf(sum) : -INFINITY;
    const float before = a->first == 0 ? hyd_load(a->lse + r->stat) : -INFINITY;
    const float most = fmaxf(before, here);
    const float old = before == -INFINITY ? 0.0f : expf(before - most);
    const float fresh = here == -INFINITY ? 0.0f : expf(here - most);
    const float all = most == -INFINITY ? 1.0f : old + fresh;

    if (most == -INFINITY && a->first == 0) {
        return;
    }
    hyd_warp_sync(); /* every lane has read lse */
    if ((hyd_tid() & 31) == 0) {
        hyd_store(a->lse + r->stat, most == -INFINITY ? -INFINITY : most + logf(all));
    }
    for (int c = 0; c < HYD_FP32_MAX; c++) {
        const uint32_t column = (uint32_t)(32 * c + (hyd_tid() & 31));

        if (column < a->shape.d) {
            float *const to = a->o + r->at + column;
            const float was = old > 0.0f ? hyd_load(to) * (old / all) : 0.0f;

            hyd_store(to, fresh > 0.0f ? was + o[c] * (fresh / (all * sum)) : was);
        }
    }
}

HYD_KERNEL HYD_BOUNDS(32 * HYD_FP32_WARPS, 1)
    hyd_cuda_forward_fp32(HYD_ARGS(struct hyd_cuda_forward) a)
{
    const struct hyd_cuda_shape *const s = &a.shape;
    const uint32_t kv_head = hyd_kv_head(s, (uint32_t)hyd_block_y());
    const size_t stride = (size_t)s->n_kv_heads * s->d;
    float o[HYD_FP32_MAX] = {0.0f};
    float top = -INFINITY, sum = 0.0f;
    struct hyd_fp32_row r;

    if (!hyd_fp32_find(s, &a.units, &r)) {
        return;
    }
    for (uint32_t i = 0; i < r.unit->n_kv; i++) {
        const struct hyd_rows kv = r.unit->kv[i];
        const struct hyd_span span = hyd_seen(hyd_see(s, r.pos, kv.pos), 1, (int)kv.n);

        for (int j0 = span.begin; j0 < span.end; j0 += 32) {
            const int j = j0 + (hyd_tid() & 31);
            const size_t at =
                ((kv.row + (size_t)j0) * s->n_kv_heads + kv_head) * s->d;
            float x = -INFINITY, base, p, shrink;

            if (j < span.end) {
                x = hyd_dot((const float *)a.q + r.at,
                            (const float *)a.k + at + (size_t)(j - j0) * stride, s->d) *
                    s->scale_log2;
            }
            base = fmaxf(top, hyd_warp_max(x)); /* finite: lane 0 has a row */
            shrink = exp2f(top - base);
            p = exp2f(x - base);
            top = base;
            sum = sum * shrink + hyd_warp_sum(p);
            for (int c = 0; c < HYD_FP32_MAX; c++) {
                o[c] *= shrink;
            }
            hyd_sum_rows(o, p, (const float *)a.v + at, stride,
                         hyd_min(32, span.end - j0), s->d);
        }
    }
    hyd_fp32_merge(&a, &r, o, top, sum);
}

HYD_KERNEL HYD_BOUNDS(32 * HYD_FP32_WARPS, 1)
    hyd_cuda_backward_q_fp32(HYD_ARGS(struct hyd_cuda_backward) a)
{
    const struct hyd_cuda_shape *const s = &a.shape;
    const uint32_t kv_head = hyd_kv_head(s, (uint32_t)hyd_block_y());
    const size_t stride = (size_t)s->n_kv_heads * s->d;
    float dq[HYD_FP32_MAX] = {0.0f};
    struct hyd_fp32_row r;
    float lse2, delta;

    if (!hyd_fp32_find(s, &a.units, &r)) {
        return;
    }
    lse2 = hyd_lse2(a.lse + r.stat);
    delta = hyd_load(a.delta + r.stat);
    for (uint32_t i = 0; i < r.unit->n_kv; i++) {
        const struct hyd_rows kv = r.unit->kv[i];
        const struct hyd_span span = hyd_seen(hyd_see(s, r.pos, kv.pos), 1, (int)kv.n);

        for (int j0 = span.begin; j0 < span.end; j0 += 32) {
            const int j = j0 + (hyd_tid() & 31);
            const size_t first =
                ((kv.row + (size_t)j0) * s->n_kv_heads + kv_head) * s->d;
            const size_t at = first + (size_t)(j - j0) * stride;
            float ds = 0.0f;

            if (j < span.end) {
                const float x =
                    hyd_dot((const float *)a.q + r.at, (const float *)a.k + at, s->d);
                const float dp =
                    hyd_dot((const float *)a.dout + r.at, (const float *)a.v + at, s->d);

                ds = exp2f(x * s->scale_log2 - lse2) * (dp - delta);
            }
            hyd_sum_rows(dq, ds, (const float *)a.k + first, stride,
                         hyd_min(32, span.end - j0), s->d);
        }
    }
    hyd_add_row(a.dq + r.at, dq, s->d, s->scale);
}

/* Sums of one kv row over the query rows of one unit and head that see it. */
HYD_DEVICE void hyd_fp32_visit(const struct hyd_cuda_backward *a,
                               const struct hyd_attn_unit *unit, uint32_t head,
                               struct hyd_span queries, size_t kv_at, float *dk, float *dv)
{
    const struct hyd_cuda_shape *const s = &a->shape;
    const size_t stride = (size_t)s->n_heads * s->d;

    for (int i0 = queries.begin; i0 < queries.end; i0 += 32) {
        const int i = i0 + (hyd_tid() & 31);
        const size_t row = unit->q.row + (size_t)i0;
        const size_t first = (row * s->n_heads + head) * s->d;
        const size_t at = first + (size_t)(i - i0) * stride;
        const size_t stat = (size_t)head * s->lse_stride + row + (size_t)(i - i0);
        const int n = hyd_min(32, queries.end - i0);
        float p = 0.0f, ds = 0.0f;

        if (i < queries.end) {
            const float x =
                hyd_dot((const float *)a->q + at, (const float *)a->k + kv_at, s->d);
            const float dp =
                hyd_dot((const float *)a->dout + at, (const float *)a->v + kv_at, s->d);

            p = exp2f(x * s->scale_log2 - hyd_lse2(a->lse + stat));
            ds = p * (dp - hyd_load(a->delta + stat));
        }
        hyd_sum_rows(dv, p, (const float *)a->dout + first, stride, n, s->d);
        hyd_sum_rows(dk, ds, (const float *)a->q + first, stride, n, s->d);
    }
}

HYD_KERNEL HYD_BOUNDS(32 * HYD_FP32_WARPS, 1)
    hyd_cuda_backward_kv_fp32(HYD_ARGS(struct hyd_cuda_backward) a)
{
    const struct hyd_cuda_shape *const s = &a.shape;
    const uint32_t kv_head = (uint32_t)hyd_block_y();
    const uint32_t row = a.kv_first + (uint32_t)hyd_block_x() * HYD_FP32_WARPS +
                         (uint32_t)(hyd_tid() >> 5);
    const size_t at = ((size_t)row * s->n_kv_heads + kv_head) * s->d;
    float dk[HYD_FP32_MAX] = {0.0f}, dv[HYD_FP32_MAX] = {0.0f};
    bool named = false;

    for (uint32_t visit = 0; row < a.kv_end && visit < 2 * a.units.n; visit++) {
        const struct hyd_attn_unit *const unit = &a.units.unit[visit >> 1];
        const struct hyd_rows kv = unit->kv[visit & 1];
        struct hyd_sight sight;
        struct hyd_span queries;

        if ((visit & 1) >= unit->n_kv || row - kv.row >= kv.n) {
            continue; /* the difference wraps round below the first row */
        }
        named = true;
        sight = hyd_see(s, unit->q.pos, kv.pos + (row - kv.row));
        queries.begin = hyd_max(0, -sight.hi);
        queries.end = hyd_min((int)unit->q.n, -sight.lo);
        for (uint32_t head = 0; head < s->n_heads; head++) {
            if (hyd_kv_head(s, head) == kv_head) {
                hyd_fp32_visit(&a, unit, head, queries, at, dk, dv);
            }
        }
    }
    if (named) {
        hyd_add_row(a.dk + at, dk, s->d, s->scale);
        hyd_add_row(a.dv + at, dv, s->d, 1.0f);
    }
}

/* delta = dot product of o and dO; a warp a row and head, fp32 and bf16. */
HYD_KERNEL HYD_BOUNDS(32 * HYD_FP32_WARPS, 1)
    hyd_cuda_delta(HYD_ARGS(struct hyd_cuda_delta) a)
{
    const uint32_t head = (uint32_t)hyd_block_y();
    const uint32_t row =
        (uint32_t)hyd_block_x() * HYD_FP32_WARPS + (uint32_t)(hyd_tid() >> 5);
    const size_t at = ((size_t)row * a.shape.n_heads + head) * a.shape.d;
    float sum = 0.0f;

    if (row >= a.n_rows) {
        return;
    }
    for (uint32_t c = (uint32_t)(hyd_tid() & 31); c < a.shape.d; c += 32) {
        if (a.shape.is_bf16 != 0) {
            sum += hyd_widen(hyd_load_bf16((const hyd_bf16 *)a.o + at + c)) *
                   hyd_widen(hyd_load_bf16((const hyd_bf16 *)a.dout + at + c));
        } else {
            sum += hyd_load((const float *)a.o + at + c) *
                   hyd_load((const float *)a.dout + at + c);
        }
    }
    sum = hyd_warp_sum(sum);
    if ((hyd_tid() & 31) == 0) {
        hyd_store(a.delta + (size_t)head * a.shape.lse_stride + row, sum);
    }
}
