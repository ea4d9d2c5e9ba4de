/* kernel_forward.c - the forward tile of kernels.h: scores, running softmax, P V. */
#include "worker/compute/cpu/kernel_names.h"
#include "worker/compute/cpu/kernels.h"
#include "worker/compute/cpu/micro.h"
#include "worker/compute/cpu/sight.h"

/* One panel of query columns of the score tile. */
struct panel {
    const struct hyd_cpu_forward_tile *tile;
    uint32_t q; /* its first query row */
    const float *columns; /* [d][HYD_PANEL] */
    hyd_vf max[2];
};

/* Scores of kv rows j to j + m - 1, stored; their maximum is kept. */
HYD_INLINE void score_block(const int m, const bool whole, struct panel *panel,
                            uint32_t j)
{
    const struct hyd_cpu_forward_tile *tile = panel->tile;
    const size_t ld = hyd_cpu_ld(tile->d);
    const struct hyd_micro_in in = {.a = tile->k + j * ld,
                                    .a_row = ld,
                                    .a_col = 1,
                                    .b = panel->columns,
                                    .b_row = HYD_PANEL,
                                    .n_k = tile->d};
    float *p = tile->p + (size_t)j * HYD_TILE_Q + panel->q;
    hyd_vf c[HYD_TILE_ROWS][2];

    hyd_micro(m, 2, &in, c);
    HYD_UNROLL
    for (int i = 0; i < m; i++) {
        HYD_UNROLL
        for (int v = 0; v < 2; v++) {
            if (!whole) {
                const hyd_vi mask = hyd_sight_mask(
                    &tile->sight, panel->q + (uint32_t)v * HYD_LANES, j + (uint32_t)i);

                c[i][v] = hyd_vselect(mask, c[i][v], hyd_vset(-HUGE_VALF));
            }
            panel->max[v] = hyd_vmax(panel->max[v], c[i][v]);
            hyd_vstore(p + (size_t)i * HYD_TILE_Q + (size_t)v * HYD_LANES, c[i][v]);
        }
    }
}

static void scores_whole(struct panel *panel, struct hyd_range kv)
{
#define BLOCK(m, j) score_block(m, true, panel, j)
    HYD_FOR_ROWS(j, kv.begin, kv.end, BLOCK);
#undef BLOCK
}

static void scores_masked(struct panel *panel, struct hyd_range kv)
{
#define BLOCK(m, j) score_block(m, false, panel, j)
    HYD_FOR_ROWS(j, kv.begin, kv.end, BLOCK);
#undef BLOCK
}

/* Turn the panel's scores into weights exp2(s - max), and bring max, sum, alpha up to
 * date. A row that has seen nothing yet has max -inf; its scores are all -inf then, and
 * 0 stands in for the maximum. */
static void soften(struct panel *panel, struct hyd_range kv)
{
    const struct hyd_cpu_forward_tile *tile = panel->tile;

    for (uint32_t v = 0; v < 2; v++) {
        const uint32_t q = panel->q + v * HYD_LANES;
        const hyd_vf max = panel->max[v];
        const hyd_vf base = hyd_vselect(max == hyd_vset(-HUGE_VALF), (hyd_vf){0}, max);
        const hyd_vf alpha = hyd_vexp2(hyd_vload(tile->max + q) - base);
        float *p = tile->p + q + (size_t)kv.begin * HYD_TILE_Q;
        hyd_vf sum = {0};

        for (uint32_t j = kv.begin; j < kv.end; j++, p += HYD_TILE_Q) {
            const hyd_vf weight = hyd_vexp2(hyd_vload(p) - base);

            hyd_vstore(p, weight);
            sum += weight;
        }
        hyd_vstore(tile->sum + q, hyd_vfma(hyd_vload(tile->sum + q), alpha, sum));
        hyd_vstore(tile->max + q, max);
        hyd_vstore(tile->alpha + q, alpha);
    }
}

static void clear_outside(const struct panel *panel, struct hyd_range kv)
{
    for (uint32_t j = 0; j < panel->tile->n_kv; j++) {
        if (j < kv.begin || j >= kv.end) {
            float *p = panel->tile->p + (size_t)j * HYD_TILE_Q + panel->q;

            hyd_vstore(p, (hyd_vf){0});
            hyd_vstore(p + HYD_LANES, (hyd_vf){0});
        }
    }
}

/* o = o * alpha + P V for query rows i to i + m - 1, columns x of one or two vectors. */
HYD_INLINE void value_block(const int m, const int n_vectors,
                            const struct hyd_cpu_forward_tile *tile, uint32_t i,
                            uint32_t x)
{
    const size_t ld = hyd_cpu_ld(tile->d);
    const struct hyd_range kv =
        hyd_sight_range(&tile->sight, i, i + (uint32_t)m, tile->n_kv);
    const struct hyd_micro_in in = {.a = tile->p + (size_t)kv.begin * HYD_TILE_Q + i,
                                    .a_row = 1,
                                    .a_col = HYD_TILE_Q,
                                    .b = tile->v + kv.begin * ld + x,
                                    .b_row = ld,
                                    .n_k = kv.end - kv.begin};
    float *o = tile->o + i * ld + x;
    hyd_vf c[HYD_TILE_ROWS][2];

    hyd_micro(m, n_vectors, &in, c);
    HYD_UNROLL
    for (int r = 0; r < m; r++) {
        const hyd_vf alpha = hyd_vset(tile->alpha[i + (uint32_t)r]);

        HYD_UNROLL
        for (int v = 0; v < n_vectors; v++) {
            float *to = o + (size_t)r * ld + (size_t)v * HYD_LANES;

            hyd_vstore(to, hyd_vfma(hyd_vload(to), alpha, c[r][v]));
        }
    }
}

static void values_wide(const struct hyd_cpu_forward_tile *tile, uint32_t x)
{
#define BLOCK(m, i) value_block(m, 2, tile, i, x)
    HYD_FOR_ROWS(i, 0, tile->n_q, BLOCK);
#undef BLOCK
}

static void values_narrow(const struct hyd_cpu_forward_tile *tile, uint32_t x)
{
#define BLOCK(m, i) value_block(m, 1, tile, i, x)
    HYD_FOR_ROWS(i, 0, tile->n_q, BLOCK);
#undef BLOCK
}

void hyd_cpu_forward(const struct hyd_cpu_forward_tile *tile)
{
    uint32_t x = 0;

    for (uint32_t q = 0; q < tile->n_q; q += HYD_PANEL) {
        const uint32_t end = q + HYD_PANEL < tile->n_q ? q + HYD_PANEL : tile->n_q;
        const struct hyd_range kv = hyd_sight_range(&tile->sight, q, end, tile->n_kv);
        struct panel panel = {
            .tile = tile,
            .q = q,
            .columns = tile->q_panels + (size_t)q * tile->d,
            .max = {hyd_vload(tile->max + q), hyd_vload(tile->max + q + HYD_LANES)}};

        if (tile->sight.whole) {
            scores_whole(&panel, kv);
        } else {
            scores_masked(&panel, kv);
            clear_outside(&panel, kv);
        }
        soften(&panel, kv);
    }
    for (; x + HYD_PANEL <= tile->d; x += HYD_PANEL) {
        values_wide(tile, x);
    }
    if (x < tile->d) {
        values_narrow(tile, x);
    }
}
