/*
 * gather.c - see gather.h.
 *
 * For each group: place the own rows, then, step by step, post, wait and place what came.
 * To all, step t brings the shard of member (m - t - 1) mod d from the previous member
 * while that of (m - t) goes to the next; two places of staging take turns. To the owner,
 * a step is a batch of members; everybody else has one step, its own message.
 */
#include "worker/attn/gather.h"

#include <string.h>

#include "common/base/banned.h"

enum stage { STAGE_OWN, STAGE_POST, STAGE_WAIT, STAGE_PLACE };

enum { MAX_PROGRESS = 256, PLACE_COPIES = 32 };

static bool receives(const struct hyd_gather_in *in, uint32_t member)
{
    return in->to_all || member == 0;
}

static uint64_t group_tokens(const struct hyd_group *group)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < group->n_seqs; i++) {
        n += group->length_tokens[i];
    }
    return n;
}

static uint64_t most_rows(const struct hyd_group *group)
{
    uint32_t d = hyd_group_degree(group);
    uint64_t most = 0;

    for (uint32_t m = 0; m < d; m++) {
        uint64_t n = hyd_group_rows(group, m);

        most = n > most ? n : most;
    }
    return most;
}

uint64_t hyd_gather_whole_bytes(const struct hyd_gather_in *in)
{
    uint64_t n_tokens = 0;

    for (size_t i = 0; i < in->n_groups; i++) {
        uint32_t member;

        if (hyd_group_member(&in->group[i], in->rank, &member) &&
            receives(in, member)) {
            n_tokens += group_tokens(&in->group[i]);
        }
    }
    return n_tokens * in->row_bytes;
}

/* Members whose rows are under way to this one at the same time. */
static uint64_t n_places(const struct hyd_gather_in *in, const struct hyd_group *group,
                         uint32_t member)
{
    uint32_t others = hyd_group_degree(group) - 1;

    if (others == 0 || !receives(in, member)) {
        return 0;
    }
    if (in->to_all) {
        return 2;
    }
    return others < HYD_GROUP_MAX_OPS ? others : HYD_GROUP_MAX_OPS;
}

uint64_t hyd_gather_staging_bytes(const struct hyd_gather_in *in)
{
    uint64_t most = 0;

    for (size_t i = 0; i < in->n_groups; i++) {
        uint32_t member;
        uint64_t n;

        if (!hyd_group_member(&in->group[i], in->rank, &member)) {
            continue;
        }
        n = n_places(in, &in->group[i], member) * most_rows(&in->group[i]);
        most = n > most ? n : most;
    }
    return most * in->row_bytes;
}

static hyd_status check_groups(const struct hyd_gather_in *in, uint64_t *ret_rows,
                               struct hyd_error *err)
{
    uint64_t n_rows = 0;

    for (size_t i = 0; i < in->n_groups; i++) {
        const struct hyd_group *group = &in->group[i];
        uint32_t member;

        if (!hyd_group_member(group, in->rank, &member)) {
            return hyd_error_field(err, HYD_ERR_INVALID, "ranks",
                                   "group %zu does not hold rank %u", i, in->rank);
        }
        if (i > 0 && (group->microbatch != in->group[0].microbatch ||
                      hyd_group_compare(group - 1, group) >= 0)) {
            return hyd_error_field(err, HYD_ERR_INVALID, "groups",
                                   "group %zu is out of order", i);
        }
        if (hyd_group_degree(group) > 1 && in->net == NULL) {
            return hyd_error_field(err, HYD_ERR_INVALID, "transport",
                                   "group %zu has %u ranks and there is no transport",
                                   i, hyd_group_degree(group));
        }
        n_rows += hyd_group_rows(group, member);
    }
    *ret_rows = n_rows;
    return HYD_OK;
}

static hyd_status check_buffer(const struct hyd_buf *buf, const char *name,
                               uint64_t need, struct hyd_error *err)
{
    if (buf->bytes < need) {
        return hyd_error_field(err, HYD_ERR_INVALID, name,
                               "%s has %zu bytes, needs %llu", name, buf->bytes,
                               (unsigned long long)need);
    }
    return HYD_OK;
}

hyd_status hyd_gather_start(struct hyd_gather *gather, const struct hyd_gather_in *in,
                            struct hyd_error *err)
{
    uint64_t n_rows = 0;
    hyd_status st = check_groups(in, &n_rows, err);

    if (st == HYD_OK) {
        st = check_buffer(&in->shard, "shard", n_rows * in->row_bytes, err);
    }
    if (st == HYD_OK) {
        st = check_buffer(&in->whole, "whole", hyd_gather_whole_bytes(in), err);
    }
    if (st == HYD_OK) {
        st = check_buffer(&in->staging, "staging", hyd_gather_staging_bytes(in), err);
    }
    if (st != HYD_OK) {
        return st;
    }
    memset(gather, 0, sizeof *gather);
    gather->in = *in;
    return HYD_OK;
}

/* Copy a member's rows, which start at `from`, to their places in the whole sequences. */
static hyd_status place(const struct hyd_gather *gather, struct hyd_buf from,
                        uint32_t member)
{
    const struct hyd_gather_in *in = &gather->in;
    const struct hyd_group *group = &in->group[gather->group];
    struct hyd_copy copy[PLACE_COPIES];
    size_t n = 0;
    uint64_t source = 0;
    uint64_t sequence = gather->whole_at;
    hyd_status st = HYD_OK;

    for (uint32_t i = 0; i < 2 * group->n_seqs && st == HYD_OK; i++) {
        uint32_t length = group->length_tokens[i / 2];
        struct hyd_span half[2];

        hyd_layout_member(length, hyd_group_degree(group), member, half);
        if (half[i % 2].n > 0) {
            copy[n++] = (struct hyd_copy){
                .dst_offset_bytes = sequence + half[i % 2].pos * in->row_bytes,
                .src_offset_bytes = source,
                .row_bytes = half[i % 2].n * in->row_bytes,
                .n_rows = 1,
            };
        }
        source += half[i % 2].n * in->row_bytes;
        sequence += i % 2 == 1 ? length * in->row_bytes : 0;
        if (n == PLACE_COPIES || (n > 0 && i + 1 == 2 * group->n_seqs)) {
            st = in->compute->copy(in->dev, in->whole, from, copy, n);
            n = 0;
        }
    }
    return st;
}

/* An empty part of an empty buffer is fine. */
static struct hyd_buf part_of(struct hyd_buf buf, uint64_t offset, uint64_t bytes)
{
    return bytes > 0 ? hyd_buf_part(buf, offset, bytes)
                     : (struct hyd_buf){.mem = buf.mem};
}

/* The i-th place of staging, with room for `bytes`. */
static struct hyd_buf staging(const struct hyd_gather *gather, uint64_t i,
                              uint64_t bytes)
{
    uint64_t place_bytes =
        most_rows(&gather->in.group[gather->group]) * gather->in.row_bytes;

    return part_of(gather->in.staging, i * place_bytes, bytes);
}

static struct hyd_buf own_rows(const struct hyd_gather *gather)
{
    const struct hyd_group *group = &gather->in.group[gather->group];

    return part_of(gather->in.shard, gather->shard_at,
                   hyd_group_rows(group, gather->member) * gather->in.row_bytes);
}

static uint64_t rows_bytes(const struct hyd_gather *gather, uint32_t member)
{
    return hyd_group_rows(&gather->in.group[gather->group], member) *
           gather->in.row_bytes;
}

/* Member whose shard arrives as the i-th message of the current step. */
static uint32_t arriving(const struct hyd_gather *gather, uint32_t i)
{
    uint32_t d = hyd_group_degree(&gather->in.group[gather->group]);

    return gather->in.to_all ? (gather->member + d - (gather->step + 1) % d) % d
                             : 1 + gather->step * HYD_GROUP_MAX_OPS + i;
}

/* Messages that arrive in the current step. */
static uint32_t n_arriving(const struct hyd_gather *gather)
{
    uint32_t d = hyd_group_degree(&gather->in.group[gather->group]);
    uint32_t first = gather->step * HYD_GROUP_MAX_OPS + 1;

    if (gather->in.to_all) {
        return gather->step + 1 < d;
    }
    if (gather->member > 0 || first >= d) {
        return 0;
    }
    return d - first < HYD_GROUP_MAX_OPS ? d - first : HYD_GROUP_MAX_OPS;
}

static uint64_t arrival_place(const struct hyd_gather *gather, uint32_t i)
{
    return gather->in.to_all ? gather->step % 2 : i;
}

/* What this member sends in the current step; false when nothing. */
static bool leaving(const struct hyd_gather *gather, struct hyd_op *op)
{
    const struct hyd_group *group = &gather->in.group[gather->group];
    uint32_t d = hyd_group_degree(group);
    struct hyd_buf from = own_rows(gather);
    uint32_t to = 0;

    if (gather->in.to_all) {
        if (gather->step + 1 >= d) {
            return false;
        }
        to = (gather->member + 1) % d;
        if (gather->step > 0) {
            uint32_t whose = (gather->member + d - gather->step) % d;

            from = staging(gather, (gather->step - 1) % 2, rows_bytes(gather, whose));
        }
    } else if (gather->member == 0 || gather->step > 0) {
        return false;
    }
    *op = (struct hyd_op){HYD_OP_SEND, group->rank[to], from.at, from.bytes};
    return from.bytes > 0;
}

static uint32_t fill_ops(const struct hyd_gather *gather,
                         struct hyd_op op[2 * HYD_GROUP_MAX_OPS])
{
    const struct hyd_group *group = &gather->in.group[gather->group];
    uint32_t d = hyd_group_degree(group);
    uint32_t n_in = n_arriving(gather);
    uint32_t n = 0;

    for (uint32_t i = 0; i < n_in; i++) {
        uint32_t whose = arriving(gather, i);
        uint32_t from = gather->in.to_all ? (gather->member + d - 1) % d : whose;
        struct hyd_buf to =
            staging(gather, arrival_place(gather, i), rows_bytes(gather, whose));

        if (to.bytes > 0) {
            op[n++] = (struct hyd_op){HYD_OP_RECV, group->rank[from], to.at, to.bytes};
        }
    }
    n += leaving(gather, &op[n]);
    return n;
}

static hyd_status place_arrived(const struct hyd_gather *gather)
{
    uint32_t n_in = n_arriving(gather);
    hyd_status st = HYD_OK;

    for (uint32_t i = 0; i < n_in && st == HYD_OK; i++) {
        uint32_t whose = arriving(gather, i);

        st = place(gather,
                   staging(gather, arrival_place(gather, i), rows_bytes(gather, whose)),
                   whose);
    }
    return st;
}

static void leave_group(struct hyd_gather *gather)
{
    const struct hyd_group *group = &gather->in.group[gather->group];

    gather->shard_at += rows_bytes(gather, gather->member);
    if (receives(&gather->in, gather->member)) {
        gather->whole_at += group_tokens(group) * gather->in.row_bytes;
    }
    gather->group++;
    gather->step = 0;
    gather->stage = STAGE_OWN;
}

static hyd_status run_wait(struct hyd_gather *gather, enum hyd_attn_state *ret_state,
                           struct hyd_error *err)
{
    const struct hyd_gather_in *in = &gather->in;
    bool done = false;
    hyd_status st = in->net->test(in->transport, &gather->posted, &done);

    for (int i = 0; i < MAX_PROGRESS && st == HYD_OK && !done; i++) {
        if (!in->net->progress(in->transport)) {
            *ret_state = HYD_ATTN_WAIT_NETWORK;
            return HYD_OK;
        }
        st = in->net->test(in->transport, &gather->posted, &done);
    }
    if (st != HYD_OK) {
        return hyd_error_set(err, st, "rank %u, gather of group %zu: %s, peer %u",
                             in->rank, gather->group, hyd_status_name(st),
                             gather->posted.failed_peer);
    }
    if (done) {
        gather->stage = STAGE_PLACE;
    }
    return HYD_OK;
}

static hyd_status run_post(struct hyd_gather *gather, enum hyd_attn_state *ret_state,
                           struct hyd_error *err)
{
    const struct hyd_gather_in *in = &gather->in;
    struct hyd_op op[2 * HYD_GROUP_MAX_OPS];
    uint32_t n = fill_ops(gather, op);
    bool idle = false;
    hyd_status st;

    if (n == 0) {
        if (n_arriving(gather) == 0) {
            leave_group(gather);
        } else {
            gather->stage = STAGE_PLACE; /* shards without tokens */
        }
        return HYD_OK;
    }
    /* Staging that is about to be overwritten must have been placed. */
    st = in->compute->test(in->dev, &idle, err);
    if (st != HYD_OK || !idle) {
        *ret_state = HYD_ATTN_WAIT_DEVICE;
        return st;
    }
    memset(&gather->posted, 0, sizeof gather->posted);
    st = in->net->post_group(in->transport, op, n, &gather->posted);
    if (st != HYD_OK) {
        return hyd_error_set(err, st, "rank %u cannot post the gather of group %zu",
                             in->rank, gather->group);
    }
    gather->stage = STAGE_WAIT;
    return HYD_OK;
}

static hyd_status run_own(struct hyd_gather *gather)
{
    const struct hyd_group *group = &gather->in.group[gather->group];

    if (!hyd_group_member(group, gather->in.rank, &gather->member)) {
        return HYD_ERR_INTERNAL;
    }
    gather->stage = STAGE_POST;
    return receives(&gather->in, gather->member)
               ? place(gather, own_rows(gather), gather->member)
               : HYD_OK;
}

hyd_status hyd_gather_advance(struct hyd_gather *gather, enum hyd_attn_state *ret_state,
                              struct hyd_error *err)
{
    const struct hyd_gather_in *in = &gather->in;
    enum hyd_attn_state state = HYD_ATTN_BUSY;
    hyd_status st = HYD_OK;

    if (gather->group == in->n_groups) {
        bool idle = false;

        st = in->compute->test(in->dev, &idle, err);
        state = idle ? HYD_ATTN_DONE : HYD_ATTN_WAIT_DEVICE;
    } else if (gather->stage == STAGE_OWN) {
        st = run_own(gather);
    } else if (gather->stage == STAGE_POST) {
        st = run_post(gather, &state, err);
    } else if (gather->stage == STAGE_WAIT) {
        st = run_wait(gather, &state, err);
    } else {
        st = place_arrived(gather);
        gather->step++;
        gather->stage = STAGE_POST;
    }
    if (st == HYD_OK) {
        *ret_state = state;
    }
    return st;
}
