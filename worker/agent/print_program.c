/* print_program.c - see print_program.h. */
#include "worker/agent/print_program.h"

#include <inttypes.h>
#include <stdlib.h>

#include <jansson.h>

#include "common/base/arena.h"
#include "worker/attn/schedule.h"

struct plan_file {
    json_t *root;
    uint32_t n_ranks;
    const json_t *lengths; /* borrowed from root */
    struct hyd_arena arena;
    struct hyd_group *group; /* those that hold the rank */
    size_t n_groups;
};

/* A whole number of at most 32 bits; false when it is none. */
static bool read_count(const json_t *value, uint32_t *ret)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) > UINT32_MAX) {
        return false;
    }
    *ret = (uint32_t)json_integer_value(value);
    return true;
}

static bool read_counts(const json_t *list, uint32_t *to)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (!read_count(json_array_get(list, i), &to[i])) {
            return false;
        }
    }
    return true;
}

static hyd_status read_group(struct plan_file *file, const json_t *from,
                             uint32_t microbatch, struct hyd_group *ret_group,
                             struct hyd_error *err)
{
    const json_t *ranks = json_object_get(from, "ranks");
    const json_t *ids = json_object_get(from, "ids");
    const size_t n_ranks = json_array_size(ranks);
    const size_t n_seqs = json_array_size(ids);
    uint32_t *rank = hyd_arena_take(&file->arena, n_ranks, sizeof *rank);
    uint32_t *id = hyd_arena_take(&file->arena, n_seqs, sizeof *id);
    uint32_t *length = hyd_arena_take(&file->arena, n_seqs, sizeof *length);
    struct hyd_group group = {.microbatch = microbatch,
                              .rank = rank,
                              .id = id,
                              .length_tokens = length,
                              .n_seqs = (uint32_t)n_seqs};

    if (rank == NULL || id == NULL || length == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    if (!read_counts(ranks, rank) || !read_counts(ids, id) ||
        !read_count(json_object_get(from, "u"), &group.u) ||
        !read_count(json_object_get(from, "r"), &group.r) ||
        (uint64_t)group.u * group.r != n_ranks) {
        return hyd_error_set(err, HYD_ERR_MALFORMED,
                             "microbatch %u has a group without ranks, ids, u or r",
                             microbatch);
    }
    for (size_t i = 0; i < n_seqs; i++) {
        if (!read_count(json_array_get(file->lengths, id[i]), &length[i])) {
            return hyd_error_set(err, HYD_ERR_MALFORMED, "sequence %u has no length",
                                 id[i]);
        }
    }
    *ret_group = group;
    return HYD_OK;
}

static int compare_groups(const void *a, const void *b)
{
    return hyd_group_compare(a, b);
}

static size_t count_groups(const json_t *microbatches)
{
    size_t n = 0;

    for (size_t m = 0; m < json_array_size(microbatches); m++) {
        n +=
            json_array_size(json_object_get(json_array_get(microbatches, m), "groups"));
    }
    return n;
}

static hyd_status read_groups(struct plan_file *file,
                              const struct hyd_attn_model *model, uint32_t rank,
                              struct hyd_error *err)
{
    const json_t *microbatches = json_object_get(file->root, "microbatches");
    const size_t n = count_groups(microbatches);

    file->group = hyd_arena_take(&file->arena, n, sizeof *file->group);
    if (file->group == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (size_t m = 0; m < json_array_size(microbatches); m++) {
        const json_t *groups =
            json_object_get(json_array_get(microbatches, m), "groups");

        for (size_t i = 0; i < json_array_size(groups); i++) {
            struct hyd_group *group = &file->group[file->n_groups];
            uint32_t member = 0;
            hyd_status st =
                read_group(file, json_array_get(groups, i), (uint32_t)m, group, err);

            if (st == HYD_OK) {
                st = hyd_group_check(group, model, file->n_ranks, err);
            }
            if (st != HYD_OK) {
                return st;
            }
            file->n_groups += hyd_group_member(group, rank, &member);
        }
    }
    qsort(file->group, file->n_groups, sizeof *file->group, compare_groups);
    return HYD_OK;
}

struct pass_out {
    FILE *out;
    enum hyd_direction pass;
};

static void print_seqs(const struct hyd_group *group, FILE *out)
{
    for (uint32_t i = 0; i < group->n_seqs; i++) {
        (void)fprintf(out, " %u(%u)", group->id[i], group->length_tokens[i]);
    }
    (void)fprintf(out, "\n");
}

static void print_messages(const struct hyd_program_op *op, FILE *out)
{
    for (uint32_t i = 0; i < op->n_messages; i++) {
        const struct hyd_program_message *message = &op->message[i];

        (void)fprintf(out, "      %s %" PRIu64 " bytes %s rank %u, %s+%" PRIu64 "\n",
                      message->kind == HYD_OP_SEND ? "send" : "recv", message->bytes,
                      message->kind == HYD_OP_SEND ? "to" : "from", message->peer,
                      hyd_region_name(message->region), message->offset_bytes);
    }
}

/* One part of a group, and what it adds to the sums of sent and received bytes. */
static hyd_status print_part(const struct hyd_attn_model *model,
                             const struct hyd_group_part *part, uint32_t rank,
                             const struct pass_out *to, uint64_t ret_bytes[2],
                             struct hyd_error *err)
{
    struct hyd_program program;
    struct hyd_program_op op;
    FILE *out = to->out;
    hyd_status st =
        hyd_program_start(&program, model, &part->group, rank, to->pass, err);

    if (st != HYD_OK) {
        return st;
    }
    program.cut = part->cut;
    while (hyd_program_next(&program, &op)) {
        (void)fprintf(out, "    %-7s %s", hyd_program_kind_name(op.kind),
                      hyd_program_phase_name(op.phase));
        if (op.phase == HYD_PHASE_RING) {
            (void)fprintf(out, " step %u, block of ring index %u", op.ring_step,
                          op.source);
        }
        if (op.kind == HYD_PROGRAM_POST) {
            ret_bytes[0] += op.sent_bytes;
            ret_bytes[1] += op.received_bytes;
            (void)fprintf(out, ", sends %" PRIu64 " and receives %" PRIu64 " bytes",
                          op.sent_bytes, op.received_bytes);
        }
        (void)fprintf(out, "\n");
        if (op.kind == HYD_PROGRAM_POST) {
            print_messages(&op, out);
        }
    }
    return HYD_OK;
}

static void print_part_head(const struct hyd_attn_model *model,
                            const struct hyd_group_part *part, uint32_t rank,
                            const uint32_t number_of[2], FILE *out)
{
    uint32_t member = 0;
    struct hyd_heads heads;

    if (number_of[1] == 1) {
        return;
    }
    (void)hyd_group_member(&part->group, rank, &member);
    heads =
        hyd_layout_heads_of(model, part->group.u, member % part->group.u, part->cut);
    (void)fprintf(out, "   part %u of %u: heads %u-%u, kv heads %u-%u of", number_of[0],
                  number_of[1], heads.q_first, heads.q_first + heads.n_q - 1,
                  heads.kv_first, heads.kv_first + heads.n_kv - 1);
    print_seqs(&part->group, out);
}

static hyd_status print_pass(const struct hyd_attn_model *model,
                             const struct hyd_group *group, uint32_t rank,
                             const struct pass_out *to, struct hyd_error *err)
{
    const uint32_t n_parts = hyd_group_n_parts(model, group);
    uint64_t bytes[2] = {0, 0}; /* sent, received */
    hyd_status st = HYD_OK;

    (void)fprintf(to->out, "  %s\n",
                  to->pass == HYD_DIRECTION_FORWARD ? "forward" : "backward");
    for (uint32_t p = 0; p < n_parts && st == HYD_OK; p++) {
        const struct hyd_group_part part = hyd_group_part(model, group, p);

        print_part_head(model, &part, rank, (const uint32_t[2]){p, n_parts}, to->out);
        st = print_part(model, &part, rank, to, bytes, err);
    }
    (void)fprintf(to->out, "    in all  sent %" PRIu64 ", received %" PRIu64 " bytes\n",
                  bytes[0], bytes[1]);
    return st;
}

static void print_group(const struct hyd_group *group, uint32_t rank, FILE *out)
{
    uint32_t member = 0;

    (void)hyd_group_member(group, rank, &member);
    (void)fprintf(out, "microbatch %u: member %u of %u (u %u, r %u) on ranks",
                  group->microbatch, member, hyd_group_degree(group), group->u,
                  group->r);
    for (uint32_t i = 0; i < hyd_group_degree(group); i++) {
        (void)fprintf(out, " %u", group->rank[i]);
    }
    (void)fprintf(out, "; %u rows of", hyd_group_rows(group, member));
    print_seqs(group, out);
}

static hyd_status load(struct plan_file *file, const char *path, uint32_t rank,
                       struct hyd_error *err)
{
    json_error_t error;

    file->root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (file->root == NULL) {
        return hyd_error_set(err, error.line < 0 ? HYD_ERR_IO : HYD_ERR_MALFORMED,
                             "%s: %s", path, error.text);
    }
    file->lengths = json_object_get(file->root, "lengths");
    if (!read_count(json_object_get(file->root, "ranks"), &file->n_ranks) ||
        !json_is_array(file->lengths)) {
        return hyd_error_set(err, HYD_ERR_MALFORMED,
                             "%s is no plan: it has no ranks or lengths", path);
    }
    if (rank >= file->n_ranks) {
        return hyd_error_value(err, HYD_ERR_INVALID, "rank", "a rank of the plan",
                               "%u of %u", rank, file->n_ranks);
    }
    return HYD_OK;
}

hyd_status hyd_print_program(const char *path, const struct hyd_attn_model *model,
                             uint32_t rank, const struct hyd_alloc *alloc, FILE *out,
                             struct hyd_error *err)
{
    struct plan_file file = {.root = NULL};
    hyd_status st = hyd_attn_model_check(model, err);

    if (st != HYD_OK) {
        return st;
    }
    hyd_arena_init(&file.arena, alloc);
    st = load(&file, path, rank, err);
    if (st == HYD_OK) {
        st = read_groups(&file, model, rank, err);
    }
    for (size_t i = 0; i < file.n_groups && st == HYD_OK; i++) {
        print_group(&file.group[i], rank, out);
        for (int pass = 0; pass < 2 && st == HYD_OK; pass++) {
            const struct pass_out to = {out, (enum hyd_direction)pass};

            st = print_pass(model, &file.group[i], rank, &to, err);
        }
    }
    json_decref(file.root);
    hyd_arena_release(&file.arena);
    return st;
}
