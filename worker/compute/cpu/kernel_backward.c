/* kernel_backward.c - the backward tile of kernels.h: five products, no transpose.
 *
 *   S^T = K Q^T, P^T = exp2(S^T - lse2)     rows of k, panels of q
 *   dP^T = V dO^T, dS^T = P^T (dP^T - delta)  rows of v, panels of dO
 *   dV += P^T dO, dK += dS^T Q, dQ += dS K
 *
 * The elementwise steps are done on the accumulators before they are stored. */
#include "worker/compute/cpu/kernel_names.h"
#include "worker/compute/cpu/kernels.h"
#include "worker/compute/cpu/micro.h"
#include "worker/compute/cpu/sight.h"

/* One panel of query columns. */
struct panel {
    const struct hyd_cpu_backward_tile *tile;
    uint32_t q; /* its first query row */
    const float *q_columns, *dout_columns; /* [d][HYD_PANEL] */
};

HYD_INLINE void weight_block(const int m, const bool whole, const struct panel *panel,
                             uint32_t j)
{
    const struct hyd_cpu_backward_tile *tile = panel->tile;
    const size_t ld = hyd_cpu_ld(tile->d);
    const struct hyd_micro_in in = {.a = tile->k + j * ld,
                                    .a_row = ld,
                                    .a_col = 1,
                                    .b = panel->q_columns,
                                    .b_row = HYD_PANEL,
                                    .n_k = tile->d};
    float *p = tile->p + (size_t)j * HYD_TILE_Q + panel->q;
    hyd_vf c[HYD_TILE_ROWS][2];

    hyd_micro(m, 2, &in, c);
    HYD_UNROLL
    for (int v = 0; v < 2; v++) {
        const uint32_t q = panel->q + (uint32_t)v * HYD_LANES;
        const hyd_vf lse2 = hyd_vload(tile->lse2 + q);

        HYD_UNROLL
        for (int i = 0; i < m; i++) {
            hyd_vf weight = hyd_vexp2(c[i][v] - lse2);

            if (!whole) {
                weight = hyd_vselect(hyd_sight_mask(&tile->sight, q, j + (uint32_t)i),
                                     weight, (hyd_vf){0});
            }
            hyd_vstore(p + (size_t)i * HYD_TILE_Q + (size_t)v * HYD_LANES, weight);
        }
    }
}

HYD_INLINE void slope_block(const int m, const struct panel *panel, uint32_t j)
{
    const struct hyd_cpu_backward_tile *tile = panel->tile;
    const size_t ld = hyd_cpu_ld(tile->d);
    const struct hyd_micro_in in = {.a = tile->v + j * ld,
                                    .a_row = ld,
                                    .a_col = 1,
                                    .b = panel->dout_columns,
                                    .b_row = HYD_PANEL,
                                    .n_k = tile->d};
    const size_t at = (size_t)j * HYD_TILE_Q + panel->q;
    hyd_vf c[HYD_TILE_ROWS][2];

    hyd_micro(m, 2, &in, c);
    HYD_UNROLL
    for (int v = 0; v < 2; v++) {
        const hyd_vf delta = hyd_vload(tile->delta + panel->q + (size_t)v * HYD_LANES);

        HYD_UNROLL
        for (int i = 0; i < m; i++) {
            const size_t to = at + (size_t)i * HYD_TILE_Q + (size_t)v * HYD_LANES;
            const hyd_vf p = hyd_vload(tile->p + to);

            /* A hidden key has weight 0 whatever its v holds. */
            hyd_vstore(tile->ds + to, p * (c[i][v] - delta));
        }
    }
}

static void weights_whole(const struct panel *panel, struct hyd_range kv)
{
#define BLOCK(m, j) weight_block(m, true, panel, j)
    HYD_FOR_ROWS(j, kv.begin, kv.end, BLOCK);
#undef BLOCK
}

static void weights_masked(const struct panel *panel, struct hyd_range kv)
{
#define BLOCK(m, j) weight_block(m, false, panel, j)
    HYD_FOR_ROWS(j, kv.begin, kv.end, BLOCK);
#undef BLOCK
}

static void slopes(const struct panel *panel, struct hyd_range kv)
{
#define BLOCK(m, j) slope_block(m, panel, j)
    HYD_FOR_ROWS(j, kv.begin, kv.end, BLOCK);
#undef BLOCK
}

static void clear_outside(const struct panel *panel, struct hyd_range kv)
{
    for (uint32_t j = 0; j < panel->tile->n_kv; j++) {
        if (j < kv.begin || j >= kv.end) {
            const size_t at = (size_t)j * HYD_TILE_Q + panel->q;

            hyd_vstore(panel->tile->p + at, (hyd_vf){0});
            hyd_vstore(panel->tile->p + at + HYD_LANES, (hyd_vf){0});
            hyd_vstore(panel->tile->ds + at, (hyd_vf){0});
            hyd_vstore(panel->tile->ds + at + HYD_LANES, (hyd_vf){0});
        }
    }
}

/* to += the product, m rows of one or two vectors. */
HYD_INLINE void add_block(const int m, const int n_vectors,
                          const struct hyd_micro_in *in, float *to, size_t ld)
{
    hyd_vf c[HYD_TILE_ROWS][2];

    hyd_micro(m, n_vectors, in, c);
    HYD_UNROLL
    for (int r = 0; r < m; r++) {
        HYD_UNROLL
        for (int v = 0; v < n_vectors; v++) {
            float *at = to + (size_t)r * ld + (size_t)v * HYD_LANES;

            hyd_vstore(at, hyd_vload(at) + c[r][v]);
        }
    }
}

/* A gradient of kv rows: to += weights^T * rows, where weights are p or ds. */
struct kv_product {
    const struct hyd_cpu_backward_tile *tile;
    const float *weights, *rows; /* rows of dout or q */
    float *to;
};

HYD_INLINE void kv_block(const int m, const int n_vectors,
                         const struct kv_product *product, uint32_t x, uint32_t j)
{
    const size_t ld = hyd_cpu_ld(product->tile->d);
    const struct hyd_micro_in in = {.a = product->weights + (size_t)j * HYD_TILE_Q,
                                    .a_row = HYD_TILE_Q,
                                    .a_col = 1,
                                    .b = product->rows + x,
                                    .b_row = ld,
                                    .n_k = product->tile->n_q};

    add_block(m, n_vectors, &in, product->to + j * ld + x, ld);
}

static void kv_gradient(const struct kv_product *product)
{
    const struct hyd_cpu_backward_tile *tile = product->tile;
    uint32_t x = 0;

    for (; x + HYD_PANEL <= tile->d; x += HYD_PANEL) {
#define BLOCK(m, j) kv_block(m, 2, product, x, j)
        HYD_FOR_ROWS(j, 0, tile->n_kv, BLOCK);
#undef BLOCK
    }
    if (x < tile->d) {
#define BLOCK(m, j) kv_block(m, 1, product, x, j)
        HYD_FOR_ROWS(j, 0, tile->n_kv, BLOCK);
#undef BLOCK
    }
}

HYD_INLINE void q_block(const int m, const int n_vectors,
                        const struct hyd_cpu_backward_tile *tile, uint32_t x,
                        uint32_t i)
{
    const size_t ld = hyd_cpu_ld(tile->d);
    const struct hyd_range kv =
        hyd_sight_range(&tile->sight, i, i + (uint32_t)m, tile->n_kv);
    const struct hyd_micro_in in = {.a = tile->ds + (size_t)kv.begin * HYD_TILE_Q + i,
                                    .a_row = 1,
                                    .a_col = HYD_TILE_Q,
                                    .b = tile->k + kv.begin * ld + x,
                                    .b_row = ld,
                                    .n_k = kv.end - kv.begin};

    add_block(m, n_vectors, &in, tile->dq + i * ld + x, ld);
}

static void q_gradient(const struct hyd_cpu_backward_tile *tile)
{
    uint32_t x = 0;

    for (; x + HYD_PANEL <= tile->d; x += HYD_PANEL) {
#define BLOCK(m, i) q_block(m, 2, tile, x, i)
        HYD_FOR_ROWS(i, 0, tile->n_q, BLOCK);
#undef BLOCK
    }
    if (x < tile->d) {
#define BLOCK(m, i) q_block(m, 1, tile, x, i)
        HYD_FOR_ROWS(i, 0, tile->n_q, BLOCK);
#undef BLOCK
    }
}

void hyd_cpu_backward(const struct hyd_cpu_backward_tile *tile)
{
    const struct kv_product dv = {tile, tile->p, tile->dout, tile->dv};
    const struct kv_product dk = {tile, tile->ds, tile->q, tile->dk};

    for (uint32_t q = 0; q < tile->n_q; q += HYD_PANEL) {
        const uint32_t end = q + HYD_PANEL < tile->n_q ? q + HYD_PANEL : tile->n_q;
        const struct hyd_range kv = hyd_sight_range(&tile->sight, q, end, tile->n_kv);
        const struct panel panel = {.tile = tile,
                                    .q = q,
                                    .q_columns = tile->q_panels + (size_t)q * tile->d,
                                    .dout_columns =
                                        tile->dout_panels + (size_t)q * tile->d};

        if (tile->sight.whole) {
            weights_whole(&panel, kv);
        } else {
            weights_masked(&panel, kv);
            clear_outside(&panel, kv);
        }
        slopes(&panel, kv);
    }
    kv_gradient(&dv);
    kv_gradient(&dk);
    q_gradient(tile);
}
