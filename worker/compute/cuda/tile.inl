/* tile.inl - what the attention kernels share: who sees whom, fragments, tile loads.
 * Included once by each unit that compiles kernels, after the words of lane.h. */

enum { HYD_FAR = 1 << 29 }; /* beyond any distance inside a sequence */

/* Query row i of a tile sees row j of a kv interval iff lo < j - i <= hi. */
struct hyd_sight {
    int lo, hi;
};

/* q_pos, kv_pos: positions of the tile's row 0 and of the interval's row 0. */
HYD_DEVICE struct hyd_sight hyd_see(const struct hyd_cuda_shape *s, uint32_t q_pos,
                                    uint32_t kv_pos)
{
    const int64_t ahead = (int64_t)q_pos - (int64_t)kv_pos;
    const int64_t behind = ahead - (int64_t)s->window_tokens;
    struct hyd_sight sight;

    sight.lo = -HYD_FAR;
    sight.hi = HYD_FAR;
    if (s->see != HYD_SEE_FULL) {
        sight.hi = (int)(ahead > HYD_FAR ? HYD_FAR : ahead < -HYD_FAR ? -HYD_FAR : ahead);
    }
    if (s->see == HYD_SEE_WINDOW) {
        sight.lo =
            (int)(behind > HYD_FAR ? HYD_FAR : behind < -HYD_FAR ? -HYD_FAR : behind);
    }
    return sight;
}

HYD_DEVICE float hyd_widen(hyd_bf16 x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

HYD_DEVICE int hyd_min(int a, int b)
{
    return a < b ? a : b;
}

HYD_DEVICE int hyd_max(int a, int b)
{
    return a > b ? a : b;
}

/* Rows of a kv interval that query rows 0 to n_q - 1 of a tile see; end <= begin: none. */
struct hyd_span {
    int begin, end;
};

HYD_DEVICE struct hyd_span hyd_seen(struct hyd_sight sight, int n_q, int n_kv)
{
    struct hyd_span span;

    span.begin = hyd_max(0, sight.lo + 1);
    span.end = hyd_min(n_kv, n_q + sight.hi);
    return span;
}

HYD_DEVICE uint32_t hyd_kv_head(const struct hyd_cuda_shape *s, uint32_t head)
{
    return (s->head_first + head) / s->heads_per_kv - s->kv_head_first;
}

/* The unit whose tiles include tile `tile`. */
HYD_DEVICE uint32_t hyd_unit_of(const struct hyd_cuda_units *units, uint32_t tile)
{
    uint32_t u = 0;

    while (units->first_tile[u + 1] <= tile) {
        u++;
    }
    return u;
}

/* First element of a head's row in a tensor [rows][n_heads][d]. */
HYD_DEVICE size_t hyd_element(size_t row, uint32_t n_heads, uint32_t head, const int d)
{
    return (row * n_heads + head) * (size_t)d;
}

/* Fragment of rows m to m + 15, columns k to k + 15 as the left operand. */
HYD_DEVICE void hyd_left(uint32_t *a, const hyd_bf16 *shared, const int ld, int m, int k)
{
    const int lane = hyd_tid() & 31;

    hyd_ldsm4(a, &shared[(m + (lane & 15)) * ld + k + (lane >> 4) * 8]);
}

/* Fragments of a transposed right operand: its columns are rows n to n + 15 of shared
 * memory, its rows are columns k to k + 15. b[0..1] for n to n + 7, b[2..3] for the rest. */
HYD_DEVICE void hyd_right_t(uint32_t *b, const hyd_bf16 *shared, const int ld, int n,
                            int k)
{
    const int lane = hyd_tid() & 31;

    hyd_ldsm4(b, &shared[(n + (lane & 7) + ((lane >> 4) << 3)) * ld + k +
                         ((lane >> 3) & 1) * 8]);
}

/* Fragments of a right operand whose rows are rows k to k + 15 of shared memory and whose
 * columns are columns n to n + 15. */
HYD_DEVICE void hyd_right(uint32_t *b, const hyd_bf16 *shared, const int ld, int k, int n)
{
    const int lane = hyd_tid() & 31;

    hyd_ldsm4_t(b, &shared[(k + (lane & 7) + ((lane >> 3) & 1) * 8) * ld + n +
                           ((lane >> 4) << 3)]);
}

/* Where the kv rows that a tile of query rows sees lie: at most two spans, walked in
 * steps of n rows. */
struct hyd_walk {
    struct hyd_span span[2];
    int n_steps[2];
};

HYD_DEVICE void hyd_walk_init(struct hyd_walk *w, const struct hyd_cuda_shape *s,
                              const struct hyd_attn_unit *unit, uint32_t q0, int n_q,
                              const int n)
{
    HYD_UNROLL
    for (int i = 0; i < 2; i++) {
        w->span[i].begin = w->span[i].end = 0;
        if ((uint32_t)i < unit->n_kv) {
            w->span[i] = hyd_seen(hyd_see(s, unit->q.pos + q0, unit->kv[i].pos), n_q,
                                  (int)unit->kv[i].n);
        }
        w->n_steps[i] = w->span[i].end > w->span[i].begin
                            ? (w->span[i].end - w->span[i].begin + n - 1) / n
                            : 0;
    }
}

/* One step: rows j0 to j0 + n - 1 of a kv interval, those from `end` on not seen. */
struct hyd_step {
    int j0, end;
    uint32_t row, pos; /* of the interval */
};

HYD_DEVICE struct hyd_step hyd_walk_step(const struct hyd_walk *w,
                                         const struct hyd_attn_unit *unit, int step,
                                         const int n)
{
    const bool low = step < w->n_steps[0];
    struct hyd_step at;

    /* Both sides of each choice have constant indexes: arrays stay in registers. */
    at.j0 = low ? w->span[0].begin + step * n
                : w->span[1].begin + (step - w->n_steps[0]) * n;
    at.end = low ? w->span[0].end : w->span[1].end;
    at.row = low ? unit->kv[0].row : unit->kv[1].row;
    at.pos = low ? unit->kv[0].pos : unit->kv[1].pos;
    return at;
}

/* Does any of n_own query rows from row0 on, of n_q that there are, see one of the step's n
 * rows? The same for a whole warp, which else has nothing to do in the step. */
HYD_DEVICE bool hyd_sees_any(const struct hyd_step *at, struct hyd_sight sight, int n_q,
                             int row0, const int n_own, const int n)
{
    return row0 < n_q && at->j0 - (row0 + n_own - 1) <= sight.hi &&
           at->j0 + n - 1 - row0 > sight.lo;
}

/* Does every one of n_q query rows see all n rows of the step? */
HYD_DEVICE bool hyd_sees_all(const struct hyd_step *at, struct hyd_sight sight, int n_q,
                             const int n)
{
    return at->j0 + n <= at->end && at->j0 + n - 1 <= sight.hi &&
           n_q - 1 + sight.lo < at->j0;
}
