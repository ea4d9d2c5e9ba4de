/*
 * order.c - see order.h.
 *
 * The check is an execution without data. A rank's next posted group becomes visible when
 * its last one has matched completely, which is what a stream of a device does; whatever
 * passes here passes on transports that allow more.
 */
#include "worker/attn/order.h"

#include <stdio.h>
#include <string.h>

#include "common/base/banned.h"

static size_t end_of_microbatch(const struct hyd_step_in *in, size_t first)
{
    size_t end = first;

    while (end < in->n_groups &&
           in->group[end].microbatch == in->group[first].microbatch) {
        end++;
    }
    return end;
}

static void start_schedule(struct hyd_step_cursor *cursor)
{
    const size_t first_end[2] = {cursor->first, cursor->end};

    hyd_schedule_start(&cursor->schedule, cursor->in.model, cursor->in.group, first_end,
                       cursor->rank);
}

hyd_status hyd_step_cursor_start(struct hyd_step_cursor *cursor,
                                 const struct hyd_step_in *in, uint32_t rank,
                                 uint32_t n_ranks, struct hyd_error *err)
{
    for (size_t i = 0; i < in->n_groups; i++) {
        hyd_status st = hyd_group_check(&in->group[i], in->model, n_ranks, err);

        if (st != HYD_OK) {
            hyd_error_prefix(err, "group %zu", i);
            return st;
        }
        if (i > 0 && hyd_group_compare(&in->group[i - 1], &in->group[i]) >= 0) {
            return hyd_error_field(err, HYD_ERR_INVALID, "groups",
                                   "group %zu runs before group %zu (microbatch, "
                                   "degree descending, smallest id)",
                                   i, i - 1);
        }
    }
    *cursor = (struct hyd_step_cursor){.in = *in, .rank = rank};
    cursor->end = end_of_microbatch(in, 0);
    start_schedule(cursor);
    return HYD_OK;
}

/* On to the next pass of this microbatch, or the next microbatch. */
static bool next_pass(struct hyd_step_cursor *cursor)
{
    uint32_t n_passes =
        cursor->in.backward ? 2 * cursor->in.n_layers : cursor->in.n_layers;

    cursor->number++;
    if (cursor->number >= n_passes) {
        cursor->number = 0;
        cursor->first = cursor->end;
        cursor->end = end_of_microbatch(&cursor->in, cursor->first);
    }
    if (cursor->first >= cursor->in.n_groups) {
        return false;
    }
    start_schedule(cursor);
    return true;
}

static void place_of(const struct hyd_step_cursor *cursor,
                     struct hyd_step_place *ret_place)
{
    const struct hyd_group *group = &cursor->in.group[cursor->item.group];
    uint32_t layers = cursor->in.n_layers;
    bool forward = cursor->number < layers;

    *ret_place = (struct hyd_step_place){
        .group = cursor->item.group,
        .part = cursor->item.part,
        .n_parts = hyd_group_n_parts(cursor->in.model, group),
        .microbatch = group->microbatch,
        .layer = forward ? cursor->number : 2 * layers - 1 - cursor->number,
        .pass = forward ? HYD_DIRECTION_FORWARD : HYD_DIRECTION_BACKWARD,
    };
}

/* Point the program at the stretch of the schedule's next item. */
static bool next_item(struct hyd_step_cursor *cursor)
{
    struct hyd_step_place place;
    bool alone;

    if (!hyd_schedule_next(&cursor->schedule, &cursor->item)) {
        return false;
    }
    place_of(cursor, &place);
    cursor->part = hyd_group_part(
        cursor->in.model, &cursor->in.group[cursor->item.group], cursor->item.part);
    alone = hyd_group_degree(&cursor->part.group) == 1;
    cursor->has_program =
        hyd_program_start(&cursor->program, cursor->in.model, &cursor->part.group,
                          cursor->rank, place.pass, NULL) == HYD_OK;
    cursor->program.cut = cursor->part.cut;
    if (cursor->has_program && !alone) {
        hyd_program_go(&cursor->program, cursor->item.stretch);
    }
    return true;
}

bool hyd_step_next(struct hyd_step_cursor *cursor, struct hyd_program_op *ret_op,
                   struct hyd_step_place *ret_place)
{
    if (cursor->first >= cursor->in.n_groups || cursor->in.n_layers == 0) {
        return false;
    }
    for (;;) {
        cursor->program.group = &cursor->part.group; /* cursors may be copied */
        if (cursor->has_program &&
            hyd_program_next_in(&cursor->program, cursor->item.stretch, ret_op)) {
            place_of(cursor, ret_place);
            return true;
        }
        cursor->has_program = false;
        while (!next_item(cursor)) {
            if (!next_pass(cursor)) {
                return false;
            }
        }
    }
}

/* snprintf behind what is there already. */
static void append(char *text, size_t text_bytes, size_t *at, const char *words,
                   unsigned long long number)
{
    size_t room = *at < text_bytes ? text_bytes - *at : 0;
    int n = snprintf(room > 0 ? text + *at : NULL, room, "%s%llu", words, number);

    *at += n > 0 ? (size_t)n : 0;
}

static void append_text(char *text, size_t text_bytes, size_t *at, const char *words)
{
    size_t room = *at < text_bytes ? text_bytes - *at : 0;
    int n = snprintf(room > 0 ? text + *at : NULL, room, "%s", words);

    *at += n > 0 ? (size_t)n : 0;
}

size_t hyd_step_print(const struct hyd_step_place *place,
                      const struct hyd_program_op *op, char *text, size_t text_bytes)
{
    size_t at = 0;

    append(text, text_bytes, &at, "m", place->microbatch);
    append_text(text, text_bytes, &at,
                place->pass == HYD_DIRECTION_FORWARD ? " forward" : " backward");
    append(text, text_bytes, &at, " layer ", place->layer);
    append(text, text_bytes, &at, " group ", place->group);
    if (place->n_parts > 1) {
        append(text, text_bytes, &at, " part ", place->part);
    }
    append_text(text, text_bytes, &at, ": ");
    append_text(text, text_bytes, &at, hyd_program_kind_name(op->kind));
    append_text(text, text_bytes, &at, " ");
    append_text(text, text_bytes, &at, hyd_program_phase_name(op->phase));
    if (op->phase == HYD_PHASE_RING && op->kind != HYD_PROGRAM_BEGIN &&
        op->kind != HYD_PROGRAM_FINISH) {
        append(text, text_bytes, &at, " t=", op->ring_step);
        if (op->kind == HYD_PROGRAM_COMPUTE) {
            append(text, text_bytes, &at, " source ", op->source);
        }
    }
    for (uint32_t i = 0; i < op->n_messages; i++) {
        const struct hyd_program_message *message = &op->message[i];

        append(text, text_bytes, &at, i == 0 ? " rank " : ", rank ", message->peer);
        append_text(text, text_bytes, &at,
                    message->kind == HYD_OP_SEND ? " <- " : " -> ");
        append_text(text, text_bytes, &at, hyd_region_name(message->region));
        append(text, text_bytes, &at, "+", message->offset_bytes);
        append(text, text_bytes, &at, " ", message->bytes);
        append_text(text, text_bytes, &at, " B");
    }
    return at;
}

/* Bring the rank to its next posted group. */
static void next_post(struct hyd_order_rank *rank)
{
    do {
        rank->finished = !hyd_step_next(&rank->cursor, &rank->op, &rank->place);
    } while (!rank->finished && rank->op.kind != HYD_PROGRAM_POST);
    rank->n_open = rank->finished ? 0 : rank->op.n_messages;
    memset(rank->done, 0, sizeof rank->done);
}

static bool first_open(const struct hyd_order_rank *rank, enum hyd_op_kind kind,
                       uint32_t peer, uint32_t *ret_i)
{
    for (uint32_t i = 0; !rank->finished && i < rank->op.n_messages; i++) {
        if (!rank->done[i] && rank->op.message[i].kind == kind &&
            rank->op.message[i].peer == peer) {
            *ret_i = i;
            return true;
        }
    }
    return false;
}

static hyd_status mismatch(const struct hyd_order_rank *rank, uint32_t from,
                           const uint32_t i_j[2], struct hyd_error *err)
{
    const struct hyd_program_message *out = &rank[from].op.message[i_j[0]];
    const struct hyd_program_message *in = &rank[out->peer].op.message[i_j[1]];

    return hyd_error_set(
        err, HYD_ERR_INTERNAL,
        "rank %u sends %llu B of %s (m%u, %s), rank %u expects %llu B in %s (m%u, %s)",
        from, (unsigned long long)out->bytes, hyd_region_name(out->region),
        rank[from].place.microbatch, hyd_program_phase_name(rank[from].op.phase),
        out->peer, (unsigned long long)in->bytes, hyd_region_name(in->region),
        rank[out->peer].place.microbatch,
        hyd_program_phase_name(rank[out->peer].op.phase));
}

/* Does a wait at an earlier place of the step than b does? */
static bool earlier(const struct hyd_order_rank *a, const struct hyd_order_rank *b)
{
    const struct hyd_group *group[2] = {&a->cursor.in.group[a->place.group],
                                        &b->cursor.in.group[b->place.group]};

    if (a->place.microbatch != b->place.microbatch) {
        return a->place.microbatch < b->place.microbatch;
    }
    if (a->cursor.number != b->cursor.number) {
        return a->cursor.number < b->cursor.number;
    }
    return hyd_group_compare(group[0], group[1]) < 0;
}

/* Everybody behind the earliest unfinished place waits because of it: name that one. */
static hyd_status deadlock(const struct hyd_order_rank *rank, uint32_t n_ranks,
                           struct hyd_error *err)
{
    uint32_t first = n_ranks;

    for (uint32_t i = 0; i < n_ranks; i++) {
        if (!rank[i].finished &&
            (first == n_ranks || earlier(&rank[i], &rank[first]))) {
            first = i;
        }
    }
    for (uint32_t j = 0; first < n_ranks && j < rank[first].op.n_messages; j++) {
        const struct hyd_program_message *message = &rank[first].op.message[j];

        if (!rank[first].done[j]) {
            return hyd_error_set(
                err, HYD_ERR_INTERNAL,
                "rank %u waits for ever: %s %llu B %s rank %u in m%u group %zu %s",
                first, message->kind == HYD_OP_SEND ? "send" : "receive",
                (unsigned long long)message->bytes,
                message->kind == HYD_OP_SEND ? "to" : "from", message->peer,
                rank[first].place.microbatch, rank[first].place.group,
                hyd_program_phase_name(rank[first].op.phase));
        }
    }
    return HYD_OK;
}

static hyd_status count_group(const struct hyd_order_rank *rank, uint32_t i,
                              struct hyd_order_figures *figures, struct hyd_error *err)
{
    uint32_t n[2] = {0, 0};

    for (uint32_t j = 0; !rank[i].finished && j < rank[i].op.n_messages; j++) {
        n[rank[i].op.message[j].kind == HYD_OP_SEND ? 0 : 1]++;
    }
    figures->n_groups += !rank[i].finished;
    for (size_t side = 0; side < 2; side++) {
        figures->most_messages =
            n[side] > figures->most_messages ? n[side] : figures->most_messages;
    }
    if (n[0] > HYD_GROUP_MAX_OPS || n[1] > HYD_GROUP_MAX_OPS) {
        return hyd_error_set(err, HYD_ERR_LIMIT,
                             "rank %u posts %u sends and %u receives at once, at most "
                             "%d",
                             i, n[0], n[1], (int)HYD_GROUP_MAX_OPS);
    }
    return HYD_OK;
}

/* Match what can be matched of rank i's sends; *ret_moved when something was. */
static hyd_status match_sends(struct hyd_order_rank *rank, uint32_t n_ranks, uint32_t i,
                              struct hyd_order_figures *figures, bool *ret_moved,
                              struct hyd_error *err)
{
    for (uint32_t j = 0; !rank[i].finished && j < rank[i].op.n_messages; j++) {
        const struct hyd_program_message *out = &rank[i].op.message[j];
        uint32_t i_j[2] = {0, 0};

        if (rank[i].done[j] || out->kind != HYD_OP_SEND || out->peer >= n_ranks ||
            !first_open(&rank[i], HYD_OP_SEND, out->peer, &i_j[0]) || i_j[0] != j ||
            !first_open(&rank[out->peer], HYD_OP_RECV, i, &i_j[1])) {
            continue;
        }
        if (rank[out->peer].op.message[i_j[1]].bytes != out->bytes) {
            return mismatch(rank, i, i_j, err);
        }
        rank[i].done[j] = rank[out->peer].done[i_j[1]] = true;
        rank[i].n_open--;
        rank[out->peer].n_open--;
        figures->n_messages++;
        figures->n_bytes += out->bytes;
        *ret_moved = true;
    }
    return HYD_OK;
}

hyd_status hyd_order_check(struct hyd_order_rank *rank, uint32_t n_ranks,
                           struct hyd_order_figures *ret_figures, struct hyd_error *err)
{
    struct hyd_order_figures figures = {0};
    bool moved = true;
    hyd_status st = HYD_OK;

    for (uint32_t i = 0; i < n_ranks && st == HYD_OK; i++) {
        next_post(&rank[i]);
        st = count_group(rank, i, &figures, err);
    }
    while (moved && st == HYD_OK) {
        moved = false;
        for (uint32_t i = 0; i < n_ranks && st == HYD_OK; i++) {
            st = match_sends(rank, n_ranks, i, &figures, &moved, err);
        }
        for (uint32_t i = 0; i < n_ranks && st == HYD_OK; i++) {
            if (!rank[i].finished && rank[i].n_open == 0) {
                next_post(&rank[i]);
                moved = true;
                st = count_group(rank, i, &figures, err);
            }
        }
    }
    if (st == HYD_OK) {
        st = deadlock(rank, n_ranks, err);
    }
    if (st == HYD_OK && ret_figures != NULL) {
        *ret_figures = figures;
    }
    return st;
}
