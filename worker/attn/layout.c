/*
 * layout.c - see layout.h.
 *
 * Everything follows from one bound, floor(c * l / 2d): neighbouring chunks differ by at
 * most one token, an empty chunk (l < 2d) is as good as any, and the inverse is a guess
 * corrected by at most one step.
 */
#include "worker/attn/layout.h"

#include <math.h>
#include <string.h>

#include "common/base/banned.h"

uint32_t hyd_layout_bound(uint32_t length_tokens, uint32_t n_ranks, uint32_t chunk)
{
    return (uint32_t)((uint64_t)chunk * length_tokens / (2 * (uint64_t)n_ranks));
}

/* Tokens of chunks [from, to). */
static struct hyd_span span_of(uint32_t length_tokens, uint32_t n_ranks, uint32_t from,
                               uint32_t to)
{
    uint32_t pos = hyd_layout_bound(length_tokens, n_ranks, from);
    uint32_t end = hyd_layout_bound(length_tokens, n_ranks, to);

    return (struct hyd_span){.pos = pos, .n = end - pos};
}

void hyd_layout_member(uint32_t length_tokens, uint32_t n_ranks, uint32_t member,
                       struct hyd_span ret_half[2])
{
    uint32_t mirror = 2 * n_ranks - 1 - member;

    ret_half[0] = span_of(length_tokens, n_ranks, member, member + 1);
    ret_half[1] = span_of(length_tokens, n_ranks, mirror, mirror + 1);
}

void hyd_layout_ring(uint32_t length_tokens, uint32_t u, uint32_t r, uint32_t ring,
                     struct hyd_span ret_half[2])
{
    uint32_t n_ranks = u * r;

    ret_half[0] = span_of(length_tokens, n_ranks, ring * u, (ring + 1) * u);
    ret_half[1] = span_of(length_tokens, n_ranks, 2 * n_ranks - (ring + 1) * u,
                          2 * n_ranks - ring * u);
}

void hyd_layout_owner(uint32_t length_tokens, uint32_t n_ranks, uint32_t token,
                      uint32_t *ret_member, uint32_t *ret_half, uint32_t *ret_row)
{
    /* bound(c) <= token < bound(c + 1): c is the guess or the chunk after it. */
    uint32_t chunk =
        (uint32_t)((uint64_t)token * (2 * (uint64_t)n_ranks) / length_tokens);
    struct hyd_span half[2];

    while (hyd_layout_bound(length_tokens, n_ranks, chunk + 1) <= token) {
        chunk++;
    }
    *ret_half = chunk >= n_ranks;
    *ret_member = chunk < n_ranks ? chunk : 2 * n_ranks - 1 - chunk;
    hyd_layout_member(length_tokens, n_ranks, *ret_member, half);
    *ret_row = *ret_half == 0 ? token - half[0].pos : half[0].n + token - half[1].pos;
}

static uint32_t head_bound(uint32_t n_heads, uint32_t u, uint32_t index)
{
    return (uint32_t)((uint64_t)index * n_heads / u);
}

struct hyd_heads hyd_layout_heads(const struct hyd_attn_model *model, uint32_t u,
                                  uint32_t index)
{
    uint32_t per_kv = model->n_heads / model->n_kv_heads;
    uint32_t first = head_bound(model->n_heads, u, index);
    uint32_t end = head_bound(model->n_heads, u, index + 1);
    uint32_t kv_first = first / per_kv;
    uint32_t kv_end = (end - 1) / per_kv + 1;

    return (struct hyd_heads){
        .q_first = first,
        .n_q = end - first,
        .kv_first = kv_first,
        .n_kv = kv_end - kv_first,
    };
}

struct hyd_heads hyd_layout_heads_of(const struct hyd_attn_model *model, uint32_t u,
                                     uint32_t index, struct hyd_head_cut cut)
{
    struct hyd_heads all = hyd_layout_heads(model, u, index);
    uint32_t per_kv = model->n_heads / model->n_kv_heads;
    uint32_t q_end = all.q_first + all.n_q;
    uint32_t first, end;

    if (cut.n <= 1) {
        return all;
    }
    first = all.kv_first + head_bound(all.n_kv, cut.n, cut.index);
    end = all.kv_first + head_bound(all.n_kv, cut.n, cut.index + 1);
    all.kv_first = first;
    all.n_kv = end - first;
    all.q_first = first * per_kv > all.q_first ? first * per_kv : all.q_first;
    q_end = end * per_kv < q_end ? end * per_kv : q_end;
    all.n_q = q_end - all.q_first;
    return all;
}

uint32_t hyd_layout_most_cuts(const struct hyd_attn_model *model, uint32_t u)
{
    uint32_t least = model->n_kv_heads;

    if (hyd_layout_kv_copies(model, u) > model->n_kv_heads) {
        return 1;
    }
    for (uint32_t i = 0; i < u; i++) {
        uint32_t n_kv = hyd_layout_heads(model, u, i).n_kv;

        least = n_kv < least ? n_kv : least;
    }
    return least;
}

uint32_t hyd_layout_kv_copies(const struct hyd_attn_model *model, uint32_t u)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < u; i++) {
        sum += hyd_layout_heads(model, u, i).n_kv;
    }
    return sum;
}

hyd_status hyd_attn_model_check(const struct hyd_attn_model *model,
                                struct hyd_error *err)
{
    if (model->d == 0 || model->d > 4096) {
        return hyd_error_field(err, HYD_ERR_INVALID, "head_dim",
                               "head size is %u, must be 1 to 4096", model->d);
    }
    if (model->n_heads == 0 || model->n_heads > 65536) {
        return hyd_error_field(err, HYD_ERR_INVALID, "heads",
                               "heads is %u, must be 1 to 65536", model->n_heads);
    }
    if (model->n_kv_heads == 0 || model->n_heads % model->n_kv_heads != 0) {
        return hyd_error_field(err, HYD_ERR_INVALID, "kv_heads",
                               "kv heads is %u, must divide the %u heads",
                               model->n_kv_heads, model->n_heads);
    }
    if (!isfinite(model->scale) || model->scale < 0.0F) {
        return hyd_error_field(err, HYD_ERR_INVALID, "scale",
                               "scale is %g, must be positive, or 0 for 1/sqrt(d)",
                               (double)model->scale);
    }
    if (model->see == HYD_SEE_WINDOW && model->window_tokens == 0) {
        return hyd_error_field(err, HYD_ERR_INVALID, "window_tokens",
                               "window is 0 tokens, must be at least 1");
    }
    return HYD_OK;
}

static hyd_status check_ranks(const struct hyd_group *group, uint32_t n_ranks,
                              struct hyd_error *err)
{
    uint32_t n = hyd_group_degree(group);

    for (uint32_t i = 0; i < n; i++) {
        if (group->rank[i] >= n_ranks) {
            return hyd_error_field(err, HYD_ERR_INVALID, "ranks",
                                   "member %u is rank %u, the world has %u", i,
                                   group->rank[i], n_ranks);
        }
        for (uint32_t j = 0; j < i; j++) {
            if (group->rank[j] == group->rank[i]) {
                return hyd_error_field(err, HYD_ERR_INVALID, "ranks",
                                       "rank %u is member %u and member %u",
                                       group->rank[i], j, i);
            }
        }
    }
    return HYD_OK;
}

hyd_status hyd_group_check(const struct hyd_group *group,
                           const struct hyd_attn_model *model, uint32_t n_ranks,
                           struct hyd_error *err)
{
    uint64_t n_tokens = 0;

    if (group->u == 0 || group->u > HYD_MAX_ULYSSES || group->u > model->n_heads) {
        return hyd_error_field(err, HYD_ERR_INVALID, "u",
                               "u is %u, must be 1 to %u (%u heads)", group->u,
                               (unsigned)HYD_MAX_ULYSSES, model->n_heads);
    }
    if (group->r == 0 || group->r > n_ranks ||
        (uint64_t)group->u * group->r > n_ranks) {
        return hyd_error_field(err, HYD_ERR_INVALID, "r",
                               "u * r is %u * %u, the world has %u ranks", group->u,
                               group->r, n_ranks);
    }
    if (group->n_seqs == 0) {
        return hyd_error_field(err, HYD_ERR_INVALID, "ids",
                               "the group has no sequence");
    }
    for (uint32_t i = 0; i < group->n_seqs; i++) {
        n_tokens += group->length_tokens[i];
    }
    if (n_tokens > INT32_MAX) {
        return hyd_error_field(err, HYD_ERR_INVALID, "lengths",
                               "the group has %llu tokens, at most %d",
                               (unsigned long long)n_tokens, INT32_MAX);
    }
    return check_ranks(group, n_ranks, err);
}

static uint32_t smallest_id(const struct hyd_group *group)
{
    uint32_t least = group->id[0];

    for (uint32_t i = 1; i < group->n_seqs; i++) {
        least = group->id[i] < least ? group->id[i] : least;
    }
    return least;
}

int hyd_group_compare(const struct hyd_group *a, const struct hyd_group *b)
{
    uint32_t id_a, id_b;

    if (a->microbatch != b->microbatch) {
        return a->microbatch < b->microbatch ? -1 : 1;
    }
    if (hyd_group_degree(a) != hyd_group_degree(b)) {
        return hyd_group_degree(a) > hyd_group_degree(b) ? -1 : 1;
    }
    id_a = smallest_id(a);
    id_b = smallest_id(b);
    return (id_a > id_b) - (id_a < id_b);
}

bool hyd_group_member(const struct hyd_group *group, uint32_t rank,
                      uint32_t *ret_member)
{
    uint32_t n = hyd_group_degree(group);

    for (uint32_t i = 0; i < n; i++) {
        if (group->rank[i] == rank) {
            *ret_member = i;
            return true;
        }
    }
    return false;
}

uint32_t hyd_group_degree(const struct hyd_group *group)
{
    return group->u * group->r;
}

uint32_t hyd_group_rows(const struct hyd_group *group, uint32_t member)
{
    uint32_t n_rows = 0;

    for (uint32_t i = 0; i < group->n_seqs; i++) {
        struct hyd_span half[2];

        hyd_layout_member(group->length_tokens[i], hyd_group_degree(group), member,
                          half);
        n_rows += half[0].n + half[1].n;
    }
    return n_rows;
}

uint32_t hyd_group_ring_rows(const struct hyd_group *group, uint32_t ring)
{
    uint32_t n_rows = 0;

    for (uint32_t i = 0; i < group->n_seqs; i++) {
        struct hyd_span half[2];

        hyd_layout_ring(group->length_tokens[i], group->u, group->r, ring, half);
        n_rows += half[0].n + half[1].n;
    }
    return n_rows;
}

hyd_status hyd_layout_row(const struct hyd_group *group, uint32_t seq, uint32_t token,
                          uint32_t *ret_member, uint32_t *ret_row)
{
    uint32_t n_ranks = hyd_group_degree(group);
    uint32_t member, side, row;

    if (seq >= group->n_seqs || token >= group->length_tokens[seq]) {
        return HYD_ERR_OUT_OF_RANGE;
    }
    hyd_layout_owner(group->length_tokens[seq], n_ranks, token, &member, &side, &row);
    for (uint32_t i = 0; i < seq; i++) {
        struct hyd_span half[2];

        hyd_layout_member(group->length_tokens[i], n_ranks, member, half);
        row += half[0].n + half[1].n;
    }
    *ret_member = member;
    *ret_row = row;
    return HYD_OK;
}

hyd_status hyd_layout_token(const struct hyd_group *group, uint32_t member,
                            uint32_t row, uint32_t *ret_seq, uint32_t *ret_token)
{
    uint32_t n_ranks = hyd_group_degree(group);

    if (member >= n_ranks) {
        return HYD_ERR_OUT_OF_RANGE;
    }
    for (uint32_t i = 0; i < group->n_seqs; i++) {
        struct hyd_span half[2];

        hyd_layout_member(group->length_tokens[i], n_ranks, member, half);
        for (uint32_t side = 0; side < 2; side++) {
            if (row < half[side].n) {
                *ret_seq = i;
                *ret_token = half[side].pos + row;
                return HYD_OK;
            }
            row -= half[side].n;
        }
    }
    return HYD_ERR_OUT_OF_RANGE;
}

void hyd_layout_gather(uint32_t length_tokens, uint32_t n_ranks, uint32_t member,
                       const void *shard, void *ret_sequence, size_t row_bytes)
{
    const unsigned char *from = shard;
    unsigned char *to = ret_sequence;
    struct hyd_span half[2];

    hyd_layout_member(length_tokens, n_ranks, member, half);
    for (uint32_t side = 0; side < 2; side++) {
        if (half[side].n > 0) {
            memcpy(to + half[side].pos * row_bytes, from, half[side].n * row_bytes);
            from += half[side].n * row_bytes;
        }
    }
}

void hyd_layout_cut(uint32_t length_tokens, uint32_t n_ranks, uint32_t member,
                    const void *sequence, void *ret_shard, size_t row_bytes)
{
    const unsigned char *from = sequence;
    unsigned char *to = ret_shard;
    struct hyd_span half[2];

    hyd_layout_member(length_tokens, n_ranks, member, half);
    for (uint32_t side = 0; side < 2; side++) {
        if (half[side].n > 0) {
            memcpy(to, from + half[side].pos * row_bytes, half[side].n * row_bytes);
            to += half[side].n * row_bytes;
        }
    }
}
