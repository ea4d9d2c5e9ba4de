/* attn_fixture.c - see attn_fixture.h. */
#include "tests/unit/worker/attn_fixture.h"

#include <stdlib.h>

const uint32_t zero_one[2] = {0, 1};
const uint32_t only_0[1] = {0};
const uint32_t only_1[1] = {1};
const uint32_t id_0[1] = {0};
const uint32_t id_1[1] = {1};
const uint32_t id_2[1] = {2};
const uint32_t tokens_16[1] = {16};
const uint32_t tokens_7[1] = {7};
const uint32_t tokens_99[1] = {99};

static double fake_now_s(void *ctx)
{
    return *(double *)ctx;
}

struct hyd_attn_config fixture_config(struct fixture *f)
{
    return (struct hyd_attn_config){
        .model = {.dtype = HYD_DTYPE_F32,
                  .d = D,
                  .n_heads = HEADS,
                  .n_kv_heads = KV,
                  .see = HYD_SEE_CAUSAL},
        .limits = {.cell_tokens = CAP,
                   .split_seqs = 2,
                   .max_u = 2,
                   .dense = true,
                   .n_saved = 2},
        .compute = &hyd_compute_naive,
        .dev = f->dev,
        .clock = {fake_now_s, &f->now_s},
    };
}

int fixture_set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    const struct hyd_compute_config compute_config = {.n_threads = 1};
    struct hyd_attn_config config;

    if (f == NULL || hyd_compute_naive.open(&compute_config, &f->dev, NULL) != HYD_OK) {
        return -1;
    }
    hyd_fault_alloc_init(&f->alloc);
    config = fixture_config(f);
    for (uint32_t i = 0; i < N; i++) {
        const struct hyd_transport_config net = {
            .rank = i, .n_ranks = N, .epoch = 1, .session = "attn"};

        if (hyd_transport_self.open(&net, &f->rank[i], NULL) != HYD_OK) {
            return -1;
        }
    }
    if (hyd_attn_create(&config, &f->alloc.alloc, &f->attn, NULL) != HYD_OK ||
        hyd_attn_set_transport(f->attn, &hyd_transport_self, f->rank[0], 0, N, NULL) !=
            HYD_OK) {
        return -1;
    }
    *state = f;
    return 0;
}

int fixture_tear_down(void **state)
{
    struct fixture *f = *state;

    for (uint32_t i = 0; i < N; i++) {
        hyd_transport_self.close(f->rank[i]);
    }
    hyd_attn_free(f->attn);
    hyd_compute_naive.close(f->dev);
    assert_int_equal(f->alloc.live, 0);
    free(f);
    return 0;
}

static struct hyd_attn_tensor tensor(float *at, size_t n)
{
    return (struct hyd_attn_tensor){{at, n * sizeof *at, HYD_MEM_HOST}, 0};
}

struct hyd_attn_io fixture_io(struct fixture *f, uint32_t n_rows)
{
    return (struct hyd_attn_io){
        .q = tensor(f->q, (size_t)n_rows * ROW),
        .k = tensor(f->k, (size_t)n_rows * KV_ROW),
        .v = tensor(f->v, (size_t)n_rows * KV_ROW),
        .o = tensor(f->o, (size_t)n_rows * ROW),
        .dout = tensor(f->dout, (size_t)n_rows * ROW),
        .dq = tensor(f->dq, (size_t)n_rows * ROW),
        .dk = tensor(f->dk, (size_t)n_rows * KV_ROW),
        .dv = tensor(f->dv, (size_t)n_rows * KV_ROW),
    };
}

struct hyd_group fixture_group(uint32_t microbatch, const uint32_t u_r[2],
                               const uint32_t *rank, const uint32_t *id,
                               const uint32_t *length)
{
    return (struct hyd_group){.microbatch = microbatch,
                              .u = u_r[0],
                              .r = u_r[1],
                              .n_seqs = 1,
                              .rank = rank,
                              .id = id,
                              .length_tokens = length};
}

const uint32_t alone[2] = {1, 1};
const uint32_t ring_of_2[2] = {1, 2};
const uint32_t heads_over_2[2] = {2, 1};
const uint32_t heads_over_4[2] = {4, 1};

void fixture_finish(struct hyd_attn *attn)
{
    enum hyd_attn_state s = HYD_ATTN_BUSY;

    for (int i = 0; i < 1000 && s != HYD_ATTN_DONE; i++) {
        assert_int_equal(hyd_attn_advance(attn, &s, NULL), HYD_OK);
        assert_int_not_equal(s, HYD_ATTN_WAIT_NETWORK);
    }
    assert_int_equal(s, HYD_ATTN_DONE);
}
