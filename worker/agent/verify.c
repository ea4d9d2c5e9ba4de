/* verify.c - see verify.h: which sequences, and their outputs in one place.
 *
 * For each group, in the order in which groups run: member 0 tells the others which
 * sequences it picked (one byte each), they send those rows, member 0 judges. That is the
 * same order on every rank, so nobody waits in a circle. */
#include "worker/agent/verify.h"

#include <string.h>

#include "common/base/rng.h"
#include "worker/agent/judge.h"
#include "worker/agent/staged.h"

enum { REFERENCE_MAX_TOKENS = 512, SAMPLE_ONE_IN = 4, REFERENCE_WEIGHT = 40 };

static const double SAMPLE_FLOP = 2e10;
static const double TOLERANCE_F32 = 1e-4;
static const double TOLERANCE_BF16 = 4e-2;

enum pick { PICK_NONE, PICK_REFERENCE, PICK_SINGLE_RANK };

struct hyd_verify {
    const struct hyd_alloc *alloc;
    struct hyd_agent *agent;
    uint32_t local_rank;
    enum hyd_verify_pick how;
    enum hyd_agent_verify mode; /* of this step: how, or the job's */
    struct hyd_staged staged;
    bool has_judge;
    struct hyd_judge judge;
    const struct hyd_agent_assignment *step;
    struct hyd_agent_check result;
    double flop_left;
    bool picked_any;
    /* Scratch, kept from call to call. */
    unsigned char *pick;
    size_t n_pick_room;
    unsigned char *whole[HYD_VERIFY_OUTPUTS]; /* a sequence's outputs */
    unsigned char *shard; /* those of up to 4 members on their way in */
    size_t whole_bytes;
    size_t shard_bytes;
};

hyd_status hyd_verify_create(struct hyd_agent *agent, uint32_t local_rank,
                             enum hyd_verify_pick pick, const struct hyd_alloc *alloc,
                             struct hyd_verify **ret_verify)
{
    struct hyd_verify *verify = hyd_alloc_zeroed(alloc, 1, sizeof *verify);

    if (verify == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    verify->alloc = alloc;
    verify->agent = agent;
    verify->local_rank = local_rank;
    verify->how = pick;
    verify->staged = (struct hyd_staged){.agent = agent, .local_rank = local_rank};
    *ret_verify = verify;
    return HYD_OK;
}

void hyd_verify_free(struct hyd_verify *verify)
{
    if (verify == NULL) {
        return;
    }
    if (verify->has_judge) {
        hyd_judge_release(&verify->judge);
    }
    for (int i = 0; i < HYD_VERIFY_OUTPUTS; i++) {
        hyd_alloc_free(verify->alloc, verify->whole[i]);
    }
    hyd_staged_release(&verify->staged);
    hyd_alloc_free(verify->alloc, verify->pick);
    hyd_alloc_free(verify->alloc, verify->shard);
    hyd_alloc_free(verify->alloc, verify);
}

static enum hyd_agent_verify mode_of(enum hyd_verify_pick how,
                                     enum hyd_agent_verify job)
{
    switch (how) {
    case HYD_PICK_OFF:
        return HYD_VERIFY_OFF;
    case HYD_PICK_SAMPLE:
        return HYD_VERIFY_SAMPLE;
    case HYD_PICK_FULL:
        return HYD_VERIFY_FULL;
    case HYD_PICK_AS_JOB:
        break;
    }
    return job;
}

/* A long check is work, and stops when the step was given up. */
static hyd_status still_wanted(void *ctx)
{
    const struct hyd_verify *verify = ctx;

    hyd_agent_touch(verify->agent, verify->local_rank);
    return hyd_agent_still_wanted(verify->agent, verify->local_rank);
}

void hyd_verify_begin(struct hyd_verify *verify,
                      const struct hyd_agent_assignment *assignment)
{
    const struct hyd_compute_ops *ops = NULL;
    double flop = assignment->verify_flop;

    if (!verify->has_judge) {
        (void)hyd_agent_device(verify->agent, verify->local_rank, &ops);
        hyd_judge_init(&verify->judge, ops, (int)verify->local_rank,
                       (struct hyd_judge_between){still_wanted, verify}, verify->alloc);
        verify->has_judge = true;
    }
    verify->mode = mode_of(verify->how, assignment->verify);
    if (flop <= 0.0) {
        flop = verify->mode == HYD_VERIFY_FULL ? 1e300 : SAMPLE_FLOP;
    }
    verify->step = assignment;
    verify->flop_left = flop / assignment->n_ranks;
    verify->picked_any = false;
    verify->result = (struct hyd_agent_check){.max_error = 0.0};
}

const struct hyd_agent_check *hyd_verify_result(const struct hyd_verify *verify)
{
    return &verify->result;
}

/* Causal pairs, or what the mask leaves of them, times flop a pair. */
static double sequence_flop(const struct hyd_agent_assignment *step, uint32_t n_tokens)
{
    const struct hyd_attn_model *model = &step->model;
    const double l = n_tokens;
    const double per_pair = (step->backward ? 14.0 : 4.0) * model->d * model->n_heads;
    double pairs = l * (l + 1.0) / 2.0;

    if (model->see == HYD_SEE_FULL) {
        pairs = l * l;
    } else if (model->see == HYD_SEE_WINDOW && l > model->window_tokens) {
        pairs = l * model->window_tokens;
    }
    return per_pair * pairs;
}

static enum pick pick_sequence(struct hyd_verify *verify, uint32_t seq_id,
                               uint32_t n_tokens)
{
    const struct hyd_agent_assignment *step = verify->step;
    const double flop = sequence_flop(step, n_tokens);
    enum pick pick = PICK_SINGLE_RANK;
    double cost = flop;

    if (n_tokens == 0 || verify->mode == HYD_VERIFY_OFF) {
        return PICK_NONE;
    }
    if (verify->mode == HYD_VERIFY_SAMPLE && verify->picked_any &&
        hyd_rng_mix(hyd_rng_mix(step->seed, step->step), seq_id) % SAMPLE_ONE_IN != 0) {
        return PICK_NONE;
    }
    if (n_tokens <= REFERENCE_MAX_TOKENS &&
        flop * REFERENCE_WEIGHT <= verify->flop_left) {
        pick = PICK_REFERENCE;
        cost = flop * REFERENCE_WEIGHT;
    } else if (flop > verify->flop_left) {
        return PICK_NONE;
    }
    verify->flop_left -= cost;
    verify->picked_any = true;
    return pick;
}

static hyd_status ensure(const struct hyd_verify *verify, unsigned char **block,
                         size_t *room, size_t bytes)
{
    unsigned char *larger = NULL;

    if (*room >= bytes) {
        return HYD_OK;
    }
    larger = hyd_alloc_resize(verify->alloc, *block, bytes, 1);
    if (larger == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    *block = larger;
    *room = bytes;
    return HYD_OK;
}

/* Member 0 picks and tells the others, up to 16 at a time. */
static hyd_status share_picks(struct hyd_verify *verify, const struct hyd_group *group,
                              uint32_t member, struct hyd_error *err)
{
    const uint32_t degree = hyd_group_degree(group);
    hyd_status st = ensure(verify, &verify->pick, &verify->n_pick_room, group->n_seqs);

    if (st != HYD_OK) {
        return st;
    }
    if (member > 0) {
        const struct hyd_op op = {HYD_OP_RECV, group->rank[0], verify->pick,
                                  group->n_seqs};

        return hyd_staged_exchange(&verify->staged, &op, 1, err);
    }
    for (uint32_t s = 0; s < group->n_seqs; s++) {
        verify->pick[s] =
            (unsigned char)pick_sequence(verify, group->id[s], group->length_tokens[s]);
        verify->result.unchecked +=
            verify->pick[s] == PICK_NONE && group->length_tokens[s] > 0;
    }
    for (uint32_t k = 1; k < degree && st == HYD_OK; k += HYD_GROUP_MAX_OPS) {
        struct hyd_op op[HYD_GROUP_MAX_OPS];
        size_t n = 0;

        while (n < HYD_GROUP_MAX_OPS && k + n < degree) {
            op[n] = (struct hyd_op){HYD_OP_SEND, group->rank[k + n], verify->pick,
                                    group->n_seqs};
            n++;
        }
        st = hyd_staged_exchange(&verify->staged, op, n, err);
    }
    return st;
}

static size_t row_bytes(const struct hyd_verify *verify, int output)
{
    const struct hyd_attn_model *model = &verify->step->model;
    const bool kv = output == HYD_VERIFY_DK || output == HYD_VERIFY_DV;

    return (size_t)(kv ? model->n_kv_heads : model->n_heads) * model->d *
           hyd_dtype_bytes(model->dtype);
}

static uint32_t n_outputs(const struct hyd_verify *verify)
{
    return verify->step->backward ? HYD_VERIFY_OUTPUTS : 1;
}

static uint32_t seq_rows(const struct hyd_group *group, uint32_t seq, uint32_t member)
{
    struct hyd_span half[2];

    hyd_layout_member(group->length_tokens[seq], hyd_group_degree(group), member, half);
    return half[0].n + half[1].n;
}

/* One sequence of a group, with this member's rows of it. */
struct piece {
    const struct hyd_group *group;
    uint32_t seq;
    const unsigned char *output[HYD_VERIFY_OUTPUTS];
};

static hyd_status give(struct hyd_verify *verify, const struct piece *piece,
                       uint32_t member, struct hyd_error *err)
{
    const uint32_t rows = seq_rows(piece->group, piece->seq, member);
    struct hyd_op op[HYD_VERIFY_OUTPUTS];

    for (uint32_t i = 0; i < n_outputs(verify); i++) {
        op[i] =
            (struct hyd_op){HYD_OP_SEND, piece->group->rank[0],
                            (void *)piece->output[i], rows * row_bytes(verify, (int)i)};
    }
    return hyd_staged_exchange(&verify->staged, op, n_outputs(verify), err);
}

/* Receive the rows of members [first, first + n) and put them in their places. */
static hyd_status take_members(struct hyd_verify *verify, const struct piece *piece,
                               uint32_t first, uint32_t n, struct hyd_error *err)
{
    const struct hyd_group *group = piece->group;
    const uint32_t degree = hyd_group_degree(group);
    struct hyd_op op[HYD_GROUP_MAX_OPS];
    unsigned char *at = verify->shard;
    size_t n_ops = 0;
    hyd_status st = HYD_OK;

    for (uint32_t k = first; k < first + n; k++) {
        const uint32_t rows = seq_rows(group, piece->seq, k);

        for (uint32_t i = 0; i < n_outputs(verify); i++) {
            const size_t bytes = rows * row_bytes(verify, (int)i);

            op[n_ops++] = (struct hyd_op){HYD_OP_RECV, group->rank[k], at, bytes};
            at += bytes;
        }
    }
    st = hyd_staged_exchange(&verify->staged, op, n_ops, err);
    for (size_t i = 0; i < n_ops && st == HYD_OK; i++) {
        const uint32_t k = first + (uint32_t)i / n_outputs(verify);
        const uint32_t output = (uint32_t)i % n_outputs(verify);

        hyd_layout_gather(group->length_tokens[piece->seq], degree, k, op[i].at,
                          verify->whole[output], row_bytes(verify, (int)output));
    }
    return st;
}

static hyd_status ensure_whole(struct hyd_verify *verify, uint32_t n_tokens)
{
    const size_t bytes = (size_t)n_tokens * row_bytes(verify, HYD_VERIFY_O);
    size_t room = 0;

    for (int i = 0; i < HYD_VERIFY_OUTPUTS; i++) {
        room = verify->whole_bytes;
        if (ensure(verify, &verify->whole[i], &room, bytes) != HYD_OK) {
            return HYD_ERR_NO_MEMORY;
        }
    }
    verify->whole_bytes = room;
    /* Up to 4 members' rows of 4 outputs: at most all rows, where members are few. */
    return ensure(verify, &verify->shard, &verify->shard_bytes,
                  HYD_VERIFY_OUTPUTS * bytes);
}

static hyd_status gather(struct hyd_verify *verify, const struct piece *piece,
                         struct hyd_error *err)
{
    const struct hyd_group *group = piece->group;
    const uint32_t degree = hyd_group_degree(group);
    const uint32_t at_once = HYD_GROUP_MAX_OPS / HYD_VERIFY_OUTPUTS;
    hyd_status st = ensure_whole(verify, group->length_tokens[piece->seq]);

    for (uint32_t i = 0; i < n_outputs(verify) && st == HYD_OK; i++) {
        hyd_layout_gather(group->length_tokens[piece->seq], degree, 0, piece->output[i],
                          verify->whole[i], row_bytes(verify, (int)i));
    }
    for (uint32_t k = 1; k < degree && st == HYD_OK; k += at_once) {
        const uint32_t n = degree - k < at_once ? degree - k : at_once;

        st = take_members(verify, piece, k, n, err);
    }
    return st;
}

static hyd_status judge(struct hyd_verify *verify, const struct piece *piece,
                        uint32_t layer, enum pick pick, struct hyd_error *err)
{
    static const char *const name[] = {"o", "dq", "dk", "dv"};
    const struct hyd_agent_assignment *step = verify->step;
    const struct hyd_group *group = piece->group;
    const double tolerance =
        step->model.dtype == HYD_DTYPE_F32 ? TOLERANCE_F32 : TOLERANCE_BF16;
    struct hyd_judge_case in = {
        .made = {step->seed, step->step, layer, &step->model},
        .seq_id = group->id[piece->seq],
        .n_tokens = group->length_tokens[piece->seq],
        .backward = step->backward,
    };
    struct hyd_judge_verdict verdict = {.worst = HYD_VERIFY_O};
    hyd_status st = HYD_OK;

    for (uint32_t i = 0; i < n_outputs(verify); i++) {
        in.output[i] = verify->whole[i];
    }
    if (pick == PICK_REFERENCE) {
        st = hyd_judge_by_reference(&verify->judge, &in, &verdict, err);
    } else {
        st = hyd_judge_by_single_rank(&verify->judge, &in, &verdict, err);
    }
    if (st != HYD_OK) {
        return st;
    }
    verify->result.by_reference += pick == PICK_REFERENCE;
    verify->result.by_single_rank += pick == PICK_SINGLE_RANK;
    verify->result.sampled_rows += verdict.sampled_rows;
    if (verdict.error > verify->result.max_error) {
        verify->result.max_error = verdict.error;
    }
    if (verdict.error > tolerance) {
        return hyd_error_set(err, HYD_ERR_INTERNAL,
                             "sequence %u of %u tokens, layer %u: %s is off by %.3g of "
                             "its largest value",
                             in.seq_id, in.n_tokens, layer, name[verdict.worst],
                             verdict.error);
    }
    return HYD_OK;
}

static hyd_status check_group(struct hyd_verify *verify, const struct hyd_group *group,
                              uint32_t member, const struct hyd_verify_cell *cell,
                              struct piece *piece, struct hyd_error *err)
{
    hyd_status st = share_picks(verify, group, member, err);

    piece->group = group;
    for (uint32_t s = 0; s < group->n_seqs && st == HYD_OK; s++) {
        const enum pick pick = (enum pick)verify->pick[s];
        const uint32_t rows = seq_rows(group, s, member);

        piece->seq = s;
        st = still_wanted(verify);
        if (st == HYD_OK && pick != PICK_NONE) {
            st = member > 0 ? give(verify, piece, member, err)
                            : gather(verify, piece, err);
        }
        if (st == HYD_OK && pick != PICK_NONE && member == 0) {
            st = judge(verify, piece, cell->layer, pick, err);
        }
        for (uint32_t i = 0; i < n_outputs(verify); i++) {
            piece->output[i] += rows * row_bytes(verify, (int)i);
        }
    }
    return st;
}

hyd_status hyd_verify_cell(struct hyd_verify *verify,
                           const struct hyd_verify_cell *cell, struct hyd_error *err)
{
    const struct hyd_attn_step *step = &verify->step->attn;
    struct piece piece = {.group = NULL};
    hyd_status st = HYD_OK;

    for (uint32_t i = 0; i < n_outputs(verify); i++) {
        piece.output[i] = cell->output[i];
    }
    for (size_t i = 0; i < step->n_groups && st == HYD_OK; i++) {
        uint32_t member = 0;

        if (step->group[i].microbatch == cell->microbatch &&
            hyd_group_member(&step->group[i], verify->step->rank, &member)) {
            st = check_group(verify, &step->group[i], member, cell, &piece, err);
        }
    }
    return st;
}
