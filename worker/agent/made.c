/* made.c - see made.h. */
#include "worker/agent/made.h"

#include <string.h>

#include "common/base/rng.h"
#include "worker/compute/bf16.h"

uint32_t hyd_made_heads(const struct hyd_attn_model *model, enum hyd_made_tensor tensor)
{
    return tensor == HYD_MADE_Q || tensor == HYD_MADE_DOUT ? model->n_heads
                                                           : model->n_kv_heads;
}

static uint64_t tensor_key(const struct hyd_made *made, enum hyd_made_tensor tensor,
                           uint32_t seq_id)
{
    uint64_t key = hyd_rng_mix(made->seed, made->step);

    key = hyd_rng_mix(key, made->layer);
    key = hyd_rng_mix(key, seq_id);
    return hyd_rng_mix(key, (uint64_t)tensor);
}

static void make_bf16(uint64_t key, uint64_t first, uint32_t d, uint16_t *to)
{
    for (uint32_t i = 0; i < d; i++) {
        to[i] = hyd_bf16_encode(hyd_rng_signed_at(key, first + i));
    }
}

static void make_f32(uint64_t key, uint64_t first, uint32_t d, float *to)
{
    for (uint32_t i = 0; i < d; i++) {
        to[i] = hyd_rng_signed_at(key, first + i);
    }
}

void hyd_made_rows(const struct hyd_made *made, enum hyd_made_tensor tensor,
                   uint32_t seq_id, struct hyd_span tokens, void *ret_rows)
{
    const uint32_t d = made->model->d;
    const uint32_t n_heads = hyd_made_heads(made->model, tensor);
    const size_t head_bytes = d * hyd_dtype_bytes(made->model->dtype);
    const uint64_t base = tensor_key(made, tensor, seq_id);

    for (uint32_t h = 0; h < n_heads; h++) {
        const uint64_t key = hyd_rng_mix(base, h);
        unsigned char *to = (unsigned char *)ret_rows + h * head_bytes;

        for (uint32_t t = 0; t < tokens.n; t++) {
            const uint64_t first = (uint64_t)(tokens.pos + t) * d;

            if (made->model->dtype == HYD_DTYPE_F32) {
                make_f32(key, first, d, (float *)(void *)to);
            } else {
                make_bf16(key, first, d, (uint16_t *)(void *)to);
            }
            to += n_heads * head_bytes;
        }
    }
}

void hyd_made_shard(const struct hyd_made *made, enum hyd_made_tensor tensor,
                    const struct hyd_group *group, uint32_t member, void *ret_rows)
{
    const size_t row_bytes = (size_t)hyd_made_heads(made->model, tensor) *
                             made->model->d * hyd_dtype_bytes(made->model->dtype);
    unsigned char *to = ret_rows;

    for (uint32_t s = 0; s < group->n_seqs; s++) {
        struct hyd_span half[2];

        hyd_layout_member(group->length_tokens[s], hyd_group_degree(group), member,
                          half);
        for (int i = 0; i < 2; i++) {
            hyd_made_rows(made, tensor, group->id[s], half[i], to);
            to += half[i].n * row_bytes;
        }
    }
}

void hyd_made_floats(const struct hyd_made *made, enum hyd_made_tensor tensor,
                     uint32_t seq_id, struct hyd_span tokens, float *ret_rows)
{
    struct hyd_attn_model wide = *made->model;
    struct hyd_made as_float = *made;
    const size_t n = (size_t)tokens.n * hyd_made_heads(made->model, tensor) * wide.d;

    wide.dtype = HYD_DTYPE_F32;
    as_float.model = &wide;
    hyd_made_rows(&as_float, tensor, seq_id, tokens, ret_rows);
    if (made->model->dtype == HYD_DTYPE_BF16) {
        for (size_t i = 0; i < n; i++) {
            ret_rows[i] = hyd_bf16_decode(hyd_bf16_encode(ret_rows[i]));
        }
    }
}

static uint64_t row_hash(uint64_t key, const unsigned char *row, size_t bytes)
{
    uint64_t hash = key;

    for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
        uint64_t word = 0;

        memcpy(&word, row + i, bytes - i < sizeof word ? bytes - i : sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15U;
        hash ^= hash >> 32;
    }
    return hyd_rng_mix(hash, key);
}

uint64_t hyd_made_digest(const struct hyd_made *made, const struct hyd_group *group,
                         uint32_t member, uint32_t output, const void *rows,
                         size_t row_bytes)
{
    const unsigned char *row = rows;
    uint64_t sum = 0;

    for (uint32_t s = 0; s < group->n_seqs; s++) {
        const uint64_t key =
            hyd_rng_mix(hyd_rng_mix(made->layer, group->id[s]), output);
        struct hyd_span half[2];

        hyd_layout_member(group->length_tokens[s], hyd_group_degree(group), member,
                          half);
        for (int i = 0; i < 2; i++) {
            for (uint32_t t = 0; t < half[i].n; t++) {
                sum += row_hash(hyd_rng_mix(key, half[i].pos + t), row, row_bytes);
                row += row_bytes;
            }
        }
    }
    return sum;
}
