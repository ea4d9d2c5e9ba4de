/* product.inl - the two products that attention is made of, for one kernel.
 *
 * Before including: HYD_D, HYD_WARPS, HYD_M, HYD_N, HYD_SPLIT, HYD_BLOCKS, HYD_LOADS (sizes.h)
 * and HYD_FN, which makes names of the kernel's own. HYD_SPLIT warps share 16 * HYD_M rows of
 * their side; the other side comes HYD_N rows a step, of which each makes scores with its
 * HYD_OWN_N, and sums over all of them for its HYD_OWN_D columns. product_end.inl takes the
 * names back. */

#define HYD_LD (HYD_D + 8)
#define HYD_ROWS (16 * HYD_M * HYD_WARPS / HYD_SPLIT)
#define HYD_THREADS (32 * HYD_WARPS)
#define HYD_OWN_N (HYD_N / HYD_SPLIT)
#define HYD_OWN_D (HYD_D / HYD_SPLIT)

/* Accumulators: own rows times rows of the other side, and own rows times columns. */
typedef float HYD_FN(hyd_scores)[HYD_M][HYD_OWN_N / 8][4];
typedef float HYD_FN(hyd_sums)[HYD_M][HYD_OWN_D / 8][4];

HYD_DEVICE void HYD_FN(hyd_clear)(HYD_FN(hyd_sums) x)
{
    HYD_UNROLL
    for (int m = 0; m < HYD_M; m++) {
        HYD_UNROLL
        for (int j = 0; j < HYD_OWN_D / 8; j++) {
            HYD_UNROLL
            for (int e = 0; e < 4; e++) {
                x[m][j][e] = 0.0f;
            }
        }
    }
}

/* Where this thread begins to copy rows of a tensor [rows][n_heads][HYD_D], 16 bytes at a time,
 * and where it goes on: HYD_THREADS pieces further. */
struct HYD_FN(hyd_piece) {
    int row, column;
    uint32_t from; /* elements behind the first one; a tile has fewer than 2^32 */
    uint32_t stride; /* elements of a row of all heads */
};

HYD_DEVICE struct HYD_FN(hyd_piece) HYD_FN(hyd_piece_begin)(uint32_t n_heads)
{
    const uint32_t i = (uint32_t)(HYD_M == 1 ? hyd_tid() : hyd_tid_afresh());
    struct HYD_FN(hyd_piece) piece;

    piece.row = (int)(i / (HYD_D / 8));
    piece.column = (int)(i % (HYD_D / 8) * 8);
    piece.stride = n_heads * HYD_D;
    piece.from = (uint32_t)piece.row * piece.stride + (uint32_t)piece.column;
    return piece;
}

HYD_DEVICE void HYD_FN(hyd_piece_next)(struct HYD_FN(hyd_piece) *piece)
{
    const int rows = HYD_THREADS / (HYD_D / 8);
    const int columns = HYD_THREADS % (HYD_D / 8) * 8; /* 0 where a row is a power of two */

    piece->row += rows;
    piece->from += (uint32_t)rows * piece->stride + (uint32_t)columns;
    piece->column += columns;
    if (columns != 0 && piece->column >= HYD_D) {
        piece->column -= HYD_D;
        piece->row++;
        piece->from += piece->stride - HYD_D;
    }
}

/* Start copying n_rows rows of one head of a tensor [rows][n_heads][HYD_D], from element
 * `first` on, into shared memory, where rows are HYD_LD long; rows from `valid` on become
 * 0. All threads of the block take part. */
HYD_DEVICE void HYD_FN(hyd_load)(hyd_bf16 *shared, const void *tensor, size_t first,
                                 uint32_t n_heads, int valid, const int n_rows)
{
    const hyd_bf16 *const from = (const hyd_bf16 *)tensor + first;
    struct HYD_FN(hyd_piece) piece = HYD_FN(hyd_piece_begin)(n_heads);

    HYD_UNROLL_BY(HYD_LOADS)
    for (int k = 0; k * HYD_THREADS < n_rows * HYD_D / 8; k++) {
        if (n_rows * HYD_D / 8 % HYD_THREADS == 0 || piece.row < n_rows) {
            hyd_cp16(&shared[piece.row * HYD_LD + piece.column], from + piece.from,
                     piece.row < valid);
        }
        HYD_FN(hyd_piece_next)(&piece);
    }
}

/* The same for two tensors of the same shape, one after the other in shared memory. */
HYD_DEVICE void HYD_FN(hyd_load_pair)(hyd_bf16 *shared, const void *a, const void *b,
                                      size_t first, uint32_t n_heads, int valid,
                                      const int n_rows)
{
    const hyd_bf16 *const from_a = (const hyd_bf16 *)a + first;
    const hyd_bf16 *const from_b = (const hyd_bf16 *)b + first;
    struct HYD_FN(hyd_piece) piece = HYD_FN(hyd_piece_begin)(n_heads);

    HYD_UNROLL_BY(HYD_LOADS)
    for (int k = 0; k * HYD_THREADS < n_rows * HYD_D / 8; k++) {
        hyd_bf16 *const to = &shared[piece.row * HYD_LD + piece.column];
        const bool inside = piece.row < valid;

        if (n_rows * HYD_D / 8 % HYD_THREADS == 0 || piece.row < n_rows) {
            hyd_cp16(to, from_a + piece.from, inside);
            hyd_cp16(to + n_rows * HYD_LD, from_b + piece.from, inside);
        }
        HYD_FN(hyd_piece_next)(&piece);
    }
}

/* s = own * other^T; this warp's rows of `own` begin at row0, `other` at its own ones. */
HYD_DEVICE void HYD_FN(hyd_score)(HYD_FN(hyd_scores) s, const hyd_bf16 *own,
                                  const hyd_bf16 *other, int row0)
{
    HYD_UNROLL
    for (int m = 0; m < HYD_M; m++) {
        HYD_UNROLL
        for (int j = 0; j < HYD_OWN_N / 8; j++) {
            HYD_UNROLL
            for (int e = 0; e < 4; e++) {
                s[m][j][e] = 0.0f;
            }
        }
    }
    HYD_UNROLL
    for (int c = 0; c < HYD_D; c += 16) {
        uint32_t left[HYD_M][4];

        HYD_UNROLL
        for (int m = 0; m < HYD_M; m++) {
            hyd_left(left[m], own, HYD_LD, row0 + 16 * m, c);
        }
        HYD_UNROLL
        for (int j = 0; j < HYD_OWN_N / 8; j += 2) {
            uint32_t right[4];

            hyd_right_t(right, other, HYD_LD, 8 * j, c);
            HYD_UNROLL
            for (int m = 0; m < HYD_M; m++) {
                hyd_mma(s[m][j], left[m], right[0], right[1]);
                hyd_mma(s[m][j + 1], left[m], right[2], right[3]);
            }
        }
    }
}

/* Put `value` where own row (a query) does not see the other side's (a key). */
HYD_DEVICE void HYD_FN(hyd_hide)(HYD_FN(hyd_scores) s, const struct hyd_step *at,
                                 struct hyd_sight sight, int row0, float value)
{
    const int g = (hyd_tid() & 31) >> 2, t = hyd_tid() & 3;

    HYD_UNROLL
    for (int m = 0; m < HYD_M; m++) {
        HYD_UNROLL
        for (int j = 0; j < HYD_OWN_N / 8; j++) {
            HYD_UNROLL
            for (int e = 0; e < 4; e++) {
                const int kv = at->j0 + 8 * j + 2 * t + (e & 1);
                const int ahead = kv - (row0 + 16 * m + g + 8 * (e >> 1));

                if (kv >= at->end || ahead > sight.hi || ahead <= sight.lo) {
                    s[m][j][e] = value;
                }
            }
        }
    }
}

/* x += w * other, w rounded to bf16; `other` begins at the row of w's first column and at
 * this warp's first own column. */
HYD_DEVICE void HYD_FN(hyd_weigh)(HYD_FN(hyd_sums) x, HYD_FN(hyd_scores) w,
                                  const hyd_bf16 *other)
{
    HYD_UNROLL
    for (int c = 0; c < HYD_OWN_N; c += 16) {
        uint32_t left[HYD_M][4];

        HYD_UNROLL
        for (int m = 0; m < HYD_M; m++) {
            left[m][0] = hyd_pack2(w[m][c / 8][0], w[m][c / 8][1]);
            left[m][1] = hyd_pack2(w[m][c / 8][2], w[m][c / 8][3]);
            left[m][2] = hyd_pack2(w[m][c / 8 + 1][0], w[m][c / 8 + 1][1]);
            left[m][3] = hyd_pack2(w[m][c / 8 + 1][2], w[m][c / 8 + 1][3]);
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
