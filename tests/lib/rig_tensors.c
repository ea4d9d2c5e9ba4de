/* rig_tensors.c - see rig.h: data in, data out. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/check.h"
#include "tests/lib/rig.h"
#include "tests/lib/world.h"
#include "worker/attn/ref.h"

enum { GAP_ELEMENTS = 24, TAIL_BYTES = 64 };

static uint32_t heads_of(const struct hyd_rig *rig, size_t tensor)
{
    bool kv =
        tensor == RIG_K || tensor == RIG_V || tensor == RIG_DK || tensor == RIG_DV;

    return kv ? rig->model.n_kv_heads : rig->model.n_heads;
}

static size_t row_elements(const struct hyd_rig *rig, size_t tensor)
{
    return (size_t)heads_of(rig, tensor) * rig->model.d;
}

static size_t stride_elements(const struct hyd_rig *rig, size_t tensor)
{
    bool gaps = rig->strided || (rig->dout_strided && tensor == RIG_DOUT);

    return row_elements(rig, tensor) + (gaps ? GAP_ELEMENTS : 0);
}

static void put(const struct hyd_rig *rig, struct hyd_buf buf, size_t i, float value)
{
    if (rig->model.dtype == HYD_DTYPE_F32) {
        ((float *)buf.at)[i] = value;
    } else {
        uint32_t bits;

        memcpy(&bits, &value, sizeof bits);
        ((uint16_t *)buf.at)[i] = (uint16_t)(bits >> 16);
    }
}

static float get(const struct hyd_rig *rig, struct hyd_buf buf, size_t i)
{
    uint32_t bits;
    float value;

    if (rig->model.dtype == HYD_DTYPE_F32) {
        return ((const float *)buf.at)[i];
    }
    bits = (uint32_t)((const uint16_t *)buf.at)[i] << 16;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Element of an input; in bf16 only what bf16 can hold. */
static float made(const struct hyd_rig *rig, uint32_t id, uint32_t layer, size_t tensor,
                  size_t i)
{
    uint64_t key =
        hyd_rng_mix(hyd_rng_mix(rig->seed, id), (uint64_t)layer * 16 + tensor);
    float value = hyd_rng_signed_at(key, i);

    if (tensor == RIG_Q) {
        value *= rig->amplitude;
    }
    if (rig->model.dtype == HYD_DTYPE_BF16) {
        uint32_t bits;

        memcpy(&bits, &value, sizeof bits);
        bits &= 0xffff0000U;
        memcpy(&value, &bits, sizeof value);
    }
    return value;
}

static bool is_input(size_t tensor)
{
    return tensor <= RIG_V || tensor == RIG_DOUT;
}

/* Fill the rows of one group's shard, found through the public map. */
static void fill_shard(const struct hyd_rig *rig, const struct rig_rank *rank,
                       const struct hyd_group *group, const uint32_t own_row[2],
                       uint32_t layer)
{
    uint32_t member = 0;
    uint32_t n_rows;

    hyd_assert(hyd_group_member(group, own_row[0], &member));
    n_rows = hyd_group_rows(group, member);
    for (uint32_t row = 0; row < n_rows; row++) {
        uint32_t seq, token;

        hyd_assert(hyd_layout_token(group, member, row, &seq, &token) == HYD_OK);
        for (size_t t = 0; t < RIG_N_TENSORS; t++) {
            size_t n = row_elements(rig, t);
            struct hyd_buf buf = rank->buf[group->microbatch][layer][t];

            for (size_t x = 0; x < n && is_input(t); x++) {
                put(rig, buf, (own_row[1] + row) * stride_elements(rig, t) + x,
                    made(rig, group->id[seq], layer, t, token * n + x));
            }
        }
    }
}

static void make_cell(const struct hyd_rig *rig, struct rig_rank *rank, uint32_t own,
                      uint32_t microbatch, uint32_t layer)
{
    uint32_t n_rows = hyd_attn_cell_rows(&rank->step, own, microbatch);
    uint32_t own_row[2] = {own, 0};

    for (size_t t = 0; t < RIG_N_TENSORS; t++) {
        size_t bytes =
            n_rows * stride_elements(rig, t) * hyd_dtype_bytes(rig->model.dtype) +
            TAIL_BYTES;
        struct hyd_buf *buf = &rank->buf[microbatch][layer][t];

        struct hyd_buf *lent = &rank->lent[microbatch][layer][t];

        hyd_assert(rig->compute->mem_alloc(rank->dev, bytes, lent) == HYD_OK);
        *buf = *lent;
        if (lent->mem != HYD_MEM_HOST) {
            buf->at = malloc(bytes);
            hyd_assert(buf->at != NULL);
        }
        memset(buf->at, 0xff, bytes);
    }
    for (size_t g = 0; g < rank->n_groups; g++) {
        uint32_t member;

        if (rank->group[g].microbatch == microbatch &&
            hyd_group_member(&rank->group[g], own, &member)) {
            fill_shard(rig, rank, &rank->group[g], own_row, layer);
            own_row[1] += hyd_group_rows(&rank->group[g], member);
        }
    }
    for (size_t t = 0; t < RIG_N_TENSORS; t++) {
        const struct hyd_buf *buf = &rank->buf[microbatch][layer][t];
        const struct hyd_buf *lent = &rank->lent[microbatch][layer][t];

        if (lent->at != buf->at) {
            hyd_assert(rig->compute->upload(rank->dev, *lent, buf->at, buf->bytes) ==
                       HYD_OK);
        }
    }
}

void rig_make_tensors(const struct hyd_rig *rig, struct rig_rank *rank, uint32_t own)
{
    for (uint32_t m = 0; m < rig->plan.n_microbatches; m++) {
        for (uint32_t layer = 0; layer < rig->plan.n_layers; layer++) {
            make_cell(rig, rank, own, m, layer);
        }
    }
}

void rig_fetch_tensors(const struct hyd_rig *rig, struct rig_rank *rank)
{
    for (uint32_t i = 0; i < rig->plan.n_microbatches * rig->plan.n_layers; i++) {
        const uint32_t m = i / rig->plan.n_layers, layer = i % rig->plan.n_layers;

        for (size_t t = 0; t < RIG_N_TENSORS; t++) {
            const struct hyd_buf *buf = &rank->buf[m][layer][t];
            const struct hyd_buf *lent = &rank->lent[m][layer][t];

            if (lent->at != buf->at) {
                hyd_assert(rig->compute->download(rank->dev, buf->at, *lent,
                                                  buf->bytes) == HYD_OK);
            }
        }
    }
}

void rig_free_tensors(const struct hyd_rig *rig, struct rig_rank *rank)
{
    for (uint32_t i = 0; i < rig->plan.n_microbatches * rig->plan.n_layers; i++) {
        const uint32_t m = i / rig->plan.n_layers, layer = i % rig->plan.n_layers;

        for (size_t t = 0; t < RIG_N_TENSORS; t++) {
            struct hyd_buf *buf = &rank->buf[m][layer][t];

            if (rank->lent[m][layer][t].at != buf->at) {
                free(buf->at);
            }
            rig->compute->mem_free(rank->dev, &rank->lent[m][layer][t]);
            *buf = (struct hyd_buf){0};
        }
    }
}

struct hyd_attn_io rig_io(const struct hyd_rig *rig, struct rig_rank *rank,
                          const struct hyd_attn_pass *pass)
{
    struct hyd_attn_tensor tensor[RIG_N_TENSORS];

    for (size_t t = 0; t < RIG_N_TENSORS; t++) {
        struct hyd_buf buf = rank->lent[pass->microbatch][pass->layer][t];

        buf.bytes -= TAIL_BYTES;
        tensor[t] = (struct hyd_attn_tensor){
            buf, stride_elements(rig, t) > row_elements(rig, t)
                     ? stride_elements(rig, t) * hyd_dtype_bytes(rig->model.dtype)
                     : 0};
    }
    return (struct hyd_attn_io){
        .q = tensor[RIG_Q],
        .k = tensor[RIG_K],
        .v = tensor[RIG_V],
        .o = tensor[RIG_O],
        .dout = tensor[RIG_DOUT],
        .dq = tensor[RIG_DQ],
        .dk = tensor[RIG_DK],
        .dv = tensor[RIG_DV],
    };
}

static bool all_ones(const unsigned char *at, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++) {
        if (at[i] != 0xff) {
            return false;
        }
    }
    return true;
}

static bool padding_is_whole(const struct hyd_rig *rig, size_t tensor,
                             struct hyd_buf buf, uint32_t n_rows)
{
    const unsigned char *at = buf.at;
    size_t row = row_elements(rig, tensor) * hyd_dtype_bytes(rig->model.dtype);
    size_t stride = stride_elements(rig, tensor) * hyd_dtype_bytes(rig->model.dtype);

    for (uint32_t i = 0; i < n_rows; i++) {
        if (!all_ones(at + i * stride + row, stride - row)) {
            return false;
        }
    }
    return all_ones(at + n_rows * stride, TAIL_BYTES);
}

const char *rig_check_padding(const struct hyd_rig *rig, const struct rig_rank *rank,
                              uint32_t own)
{
    for (uint32_t cell = 0; cell < rig->plan.n_microbatches * rig->plan.n_layers;
         cell++) {
        uint32_t m = cell / rig->plan.n_layers;
        uint32_t n_rows = hyd_attn_cell_rows(&rank->step, own, m);

        for (size_t t = 0; t < RIG_N_TENSORS; t++) {
            if (!padding_is_whole(rig, t, rank->buf[m][cell % rig->plan.n_layers][t],
                                  n_rows)) {
                return hyd_world_reason("rank %u: bytes between or behind the rows of "
                                        "tensor %zu were written",
                                        own, t);
            }
        }
    }
    return NULL;
}

/* First row of a group's shard in its rank's cell. */
static uint32_t shard_row(const struct rig_rank *rank, const struct hyd_group *group,
                          uint32_t own)
{
    uint32_t n_rows = 0;

    for (size_t g = 0; g < rank->n_groups; g++) {
        uint32_t member;

        if (rank->group[g].microbatch != group->microbatch) {
            continue;
        }
        if (rank->group[g].id == group->id) {
            return n_rows;
        }
        hyd_assert(hyd_group_member(&rank->group[g], own, &member));
        n_rows += hyd_group_rows(&rank->group[g], member);
    }
    hyd_assert(false && "the rank lacks the group");
    return 0;
}

/* Compare one tensor of one sequence; the largest error relative to the largest value. */
static double tensor_error(const struct hyd_rig *rig, const struct rig_rank *rank,
                           const struct hyd_group *group, const uint32_t seq_layer[2],
                           size_t tensor, const double *want)
{
    size_t n = row_elements(rig, tensor);
    uint32_t length = group->length_tokens[seq_layer[0]];
    double most = 0.1; /* a gradient may be 0 everywhere: one key has p = 1 */
    double worst = 0.0;

    for (size_t i = 0; i < length * n; i++) {
        most = fmax(most, fabs(want[i]));
    }
    for (uint32_t token = 0; token < length; token++) {
        uint32_t member = 0, row = 0, own;
        const struct rig_rank *at;

        hyd_assert(hyd_layout_row(group, seq_layer[0], token, &member, &row) == HYD_OK);
        own = group->rank[member];
        at = &rank[own];
        row += shard_row(at, group, own);
        for (size_t x = 0; x < n; x++) {
            double got =
                (double)get(rig, at->buf[group->microbatch][seq_layer[1]][tensor],
                            row * stride_elements(rig, tensor) + x);
            double error = fabs(got - want[token * n + x]) / most;

            if (!(error <= worst)) { /* NaN too */
                worst = error;
            }
        }
    }
    return worst;
}

/* Answers of one sequence and layer, in double. */
struct answer {
    float *in[RIG_N_TENSORS];
    double *out[RIG_N_TENSORS];
    double *lse;
};

static void *take(size_t n, size_t size)
{
    void *at = calloc(n + 1, size);

    hyd_assert(at != NULL);
    return at;
}

static void solve(const struct hyd_rig *rig, const struct hyd_group *group,
                  const uint32_t seq_layer[2], struct answer *answer)
{
    uint32_t length = group->length_tokens[seq_layer[0]];
    struct hyd_ref_in in;

    for (size_t t = 0; t < RIG_N_TENSORS; t++) {
        size_t n = length * row_elements(rig, t);

        answer->in[t] = take(n, sizeof(float));
        answer->out[t] = take(n, sizeof(double));
        for (size_t i = 0; i < n && is_input(t); i++) {
            answer->in[t][i] = made(rig, group->id[seq_layer[0]], seq_layer[1], t, i);
        }
    }
    answer->lse = take((size_t)length * rig->model.n_heads, sizeof(double));
    in =
        (struct hyd_ref_in){answer->in[RIG_Q],    answer->in[RIG_K],  answer->in[RIG_V],
                            answer->in[RIG_DOUT], answer->out[RIG_O], answer->lse};
    hyd_ref_forward(&rig->model, length, &in, answer->out[RIG_O], answer->lse);
    if (rig->backward) {
        hyd_ref_backward(&rig->model, length, &in, answer->out[RIG_DQ],
                         answer->out[RIG_DK], answer->out[RIG_DV]);
    }
}

static const char *compare_seq(struct hyd_rig *rig, const struct rig_rank *rank,
                               const struct hyd_group *group,
                               const uint32_t seq_layer[2])
{
    static const char *const name[RIG_N_TENSORS] = {
        [RIG_O] = "o", [RIG_DQ] = "dq", [RIG_DK] = "dk", [RIG_DV] = "dv"};
    struct answer answer;
    const char *why = NULL;

    solve(rig, group, seq_layer, &answer);
    for (size_t t = RIG_O; t < RIG_N_TENSORS && why == NULL; t++) {
        double error;
        double *worst = t == RIG_O ? &rig->worst_forward : &rig->worst_backward;

        if (t == RIG_DOUT || (t > RIG_DOUT && !rig->backward)) {
            continue;
        }
        error = tensor_error(rig, rank, group, seq_layer, t, answer.out[t]);
        if (!(error <= rig->tolerance)) {
            why = hyd_world_reason("%s of sequence %u (%u tokens, u %u, r %u, %u/%u "
                                   "heads, layer %u) is off by %g",
                                   name[t], group->id[seq_layer[0]],
                                   group->length_tokens[seq_layer[0]], group->u,
                                   group->r, rig->model.n_heads, rig->model.n_kv_heads,
                                   seq_layer[1], error);
        }
        *worst = fmax(*worst, error);
    }
    for (size_t t = 0; t < RIG_N_TENSORS; t++) {
        free(answer.in[t]);
        free(answer.out[t]);
    }
    free(answer.lse);
    return why;
}

/* Rows are known by sequence, layer, tensor and token, so that a digest says nothing
 * about who holds them. */
static uint64_t seq_digest(const struct hyd_rig *rig, const struct rig_rank *rank,
                           const struct hyd_group *group, const uint32_t seq_layer[2],
                           size_t tensor)
{
    size_t row_bytes = row_elements(rig, tensor) * hyd_dtype_bytes(rig->model.dtype);
    size_t stride_bytes =
        stride_elements(rig, tensor) * hyd_dtype_bytes(rig->model.dtype);
    uint64_t sum = group->id[seq_layer[0]] * 64 + seq_layer[1] * 16 + tensor;

    for (uint32_t token = 0; token < group->length_tokens[seq_layer[0]]; token++) {
        uint32_t member = 0, row = 0, own;
        const unsigned char *at;

        hyd_assert(hyd_layout_row(group, seq_layer[0], token, &member, &row) == HYD_OK);
        own = group->rank[member];
        row += shard_row(&rank[own], group, own);
        at = rank[own].buf[group->microbatch][seq_layer[1]][tensor].at;
        for (size_t i = 0; i < row_bytes; i += sizeof(uint32_t)) {
            uint32_t word; /* d is even */

            memcpy(&word, at + row * stride_bytes + i, sizeof word);
            sum = hyd_rng_mix(sum, word);
        }
    }
    return sum;
}

static uint64_t group_digest(const struct hyd_rig *rig, const struct rig_rank *rank,
                             const struct hyd_group *group)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < group->n_seqs * rig->plan.n_layers; i++) {
        const uint32_t seq_layer[2] = {i / rig->plan.n_layers, i % rig->plan.n_layers};

        for (size_t t = RIG_O; t < RIG_N_TENSORS; t++) {
            if (t == RIG_O || (t > RIG_DOUT && rig->backward)) {
                sum += seq_digest(rig, rank, group, seq_layer, t);
            }
        }
    }
    return sum;
}

const char *rig_compare(struct hyd_rig *rig, struct rig_rank *rank)
{
    const char *why = NULL;

    for (size_t g = 0; g < rig->plan.n_groups && why == NULL; g++) {
        const struct hyd_group *group = &rig->plan.group[g];
        uint32_t n = group->n_seqs * rig->plan.n_layers;

        for (uint32_t i = 0; i < n && why == NULL && !rig->unchecked; i++) {
            const uint32_t seq_layer[2] = {i / rig->plan.n_layers,
                                           i % rig->plan.n_layers};

            why = compare_seq(rig, rank, group, seq_layer);
        }
        rig->digest += group_digest(rig, rank, group);
    }
    return why;
}
