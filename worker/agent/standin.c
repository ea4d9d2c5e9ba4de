/* standin.c - see standin.h. */
#include "worker/agent/standin.h"

#include <string.h>

#include "worker/agent/made.h"
#include "worker/agent/verify.h"

/* Device memory of one tensor, and host memory beside it where they differ. */
struct room {
    struct hyd_buf buf;
    void *host;
    size_t bytes;
};

enum kept { KEPT_Q, KEPT_K, KEPT_V, KEPT_O, N_KEPT }; /* one a layer */
enum shared { SHARED_DOUT, SHARED_DQ, SHARED_DK, SHARED_DV, N_SHARED };

struct hyd_standin {
    const struct hyd_alloc *alloc;
    struct hyd_agent *agent;
    uint32_t local_rank;
    const struct hyd_compute_ops *ops;
    struct hyd_compute *dev;
    struct room *kept; /* [n_layers][N_KEPT] */
    uint32_t n_layers;
    struct room shared[N_SHARED];
    struct hyd_verify *verify;
    const struct hyd_agent_assignment *assignment; /* of the step that runs */
    uint64_t digest;
};

hyd_status hyd_standin_create(struct hyd_agent *agent, uint32_t local_rank, int verify,
                              const struct hyd_alloc *alloc,
                              struct hyd_standin **ret_standin)
{
    struct hyd_standin *standin = hyd_alloc_zeroed(alloc, 1, sizeof *standin);
    hyd_status st = HYD_OK;

    if (standin == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    standin->alloc = alloc;
    standin->agent = agent;
    standin->local_rank = local_rank;
    st = hyd_verify_create(agent, local_rank, (enum hyd_verify_pick)verify, alloc,
                           &standin->verify);
    if (st != HYD_OK) {
        hyd_alloc_free(alloc, standin);
        return st;
    }
    *ret_standin = standin;
    return HYD_OK;
}

static void free_room(struct hyd_standin *standin, struct room *room)
{
    if (room->bytes == 0) {
        return;
    }
    if (room->host != room->buf.at) {
        hyd_alloc_free(standin->alloc, room->host);
    }
    standin->ops->mem_free(standin->dev, &room->buf);
    *room = (struct room){.bytes = 0};
}

static void free_kept(struct hyd_standin *standin)
{
    for (uint32_t i = 0; i < standin->n_layers * N_KEPT; i++) {
        free_room(standin, &standin->kept[i]);
    }
    hyd_alloc_free(standin->alloc, standin->kept);
    standin->kept = NULL;
    standin->n_layers = 0;
}

void hyd_standin_free(struct hyd_standin *standin)
{
    if (standin == NULL) {
        return;
    }
    free_kept(standin);
    for (int i = 0; i < N_SHARED; i++) {
        free_room(standin, &standin->shared[i]);
    }
    hyd_verify_free(standin->verify);
    hyd_alloc_free(standin->alloc, standin);
}

static hyd_status ensure_room(struct hyd_standin *standin, struct room *room,
                              size_t bytes)
{
    hyd_status st = HYD_OK;

    if (bytes == 0 || room->bytes >= bytes) {
        return HYD_OK;
    }
    free_room(standin, room);
    st = standin->ops->mem_alloc(standin->dev, bytes, &room->buf);
    if (st != HYD_OK) {
        return st;
    }
    room->bytes = bytes;
    room->host = room->buf.mem == HYD_MEM_HOST
                     ? room->buf.at
                     : hyd_alloc_array(standin->alloc, bytes, 1);
    return room->host != NULL ? HYD_OK : HYD_ERR_NO_MEMORY;
}

static bool has_kv_heads(int kept_or_shared, bool is_kept)
{
    return is_kept ? kept_or_shared == KEPT_K || kept_or_shared == KEPT_V
                   : kept_or_shared == SHARED_DK || kept_or_shared == SHARED_DV;
}

static size_t row_bytes(const struct hyd_attn_model *model, bool kv)
{
    return (size_t)(kv ? model->n_kv_heads : model->n_heads) * model->d *
           hyd_dtype_bytes(model->dtype);
}

/* Memory for the largest cell of the step. */
static hyd_status ensure_rooms(struct hyd_standin *standin)
{
    const struct hyd_agent_assignment *step = standin->assignment;
    const uint32_t most = hyd_attn_most_rows(&step->attn, step->rank);
    const uint32_t rows = most > 0 ? most : 1;
    hyd_status st = HYD_OK;

    if (standin->n_layers != step->n_layers) {
        free_kept(standin);
        standin->kept = hyd_alloc_zeroed(
            standin->alloc, (size_t)step->n_layers * N_KEPT, sizeof *standin->kept);
        if (standin->kept == NULL) {
            return HYD_ERR_NO_MEMORY;
        }
        standin->n_layers = step->n_layers;
    }
    for (uint32_t i = 0; i < step->n_layers * N_KEPT && st == HYD_OK; i++) {
        st = ensure_room(
            standin, &standin->kept[i],
            rows * row_bytes(&step->model, has_kv_heads((int)(i % N_KEPT), true)));
    }
    for (int i = 0; i < N_SHARED && st == HYD_OK && step->backward; i++) {
        st = ensure_room(standin, &standin->shared[i],
                         rows * row_bytes(&step->model, has_kv_heads(i, false)));
    }
    return st;
}

/* Fill a tensor of the cell, group by group. */
static hyd_status make(struct hyd_standin *standin, struct room *room,
                       uint32_t microbatch, uint32_t layer, enum hyd_made_tensor tensor)
{
    const struct hyd_agent_assignment *step = standin->assignment;
    const struct hyd_made made = {step->seed, step->step, layer, &step->model};
    const size_t bytes =
        row_bytes(&step->model, tensor == HYD_MADE_K || tensor == HYD_MADE_V);
    unsigned char *to = room->host;

    for (size_t i = 0; i < step->attn.n_groups; i++) {
        const struct hyd_group *group = &step->attn.group[i];
        uint32_t member = 0;

        if (group->microbatch == microbatch &&
            hyd_group_member(group, step->rank, &member)) {
            hyd_made_shard(&made, tensor, group, member, to);
            to += hyd_group_rows(group, member) * bytes;
            hyd_agent_touch(standin->agent, standin->local_rank);
        }
    }
    if (room->host != room->buf.at) {
        return standin->ops->upload(standin->dev, room->buf, room->host,
                                    (size_t)(to - (unsigned char *)room->host));
    }
    return HYD_OK;
}

/* NaN, so that a row nobody wrote is seen. */
static hyd_status poison(struct hyd_standin *standin, struct room *room)
{
    if (standin->assignment->verify == HYD_VERIFY_OFF || room->bytes == 0) {
        return HYD_OK;
    }
    memset(room->host, 0xff, room->bytes);
    return room->host != room->buf.at
               ? standin->ops->upload(standin->dev, room->buf, room->host, room->bytes)
               : HYD_OK;
}

/* Bring an output to host memory and add its fingerprint. */
static hyd_status pull(struct hyd_standin *standin, struct room *room,
                       const struct hyd_verify_cell *cell, uint32_t output)
{
    const struct hyd_agent_assignment *step = standin->assignment;
    const struct hyd_made made = {step->seed, step->step, cell->layer, &step->model};
    const size_t bytes =
        row_bytes(&step->model, output == HYD_VERIFY_DK || output == HYD_VERIFY_DV);
    const unsigned char *from = room->host;
    hyd_status st = HYD_OK;

    if (room->host != room->buf.at) {
        st = standin->ops->download(standin->dev, room->host, room->buf, room->bytes);
    }
    for (size_t i = 0; i < step->attn.n_groups && st == HYD_OK; i++) {
        const struct hyd_group *group = &step->attn.group[i];
        uint32_t member = 0;

        if (group->microbatch == cell->microbatch &&
            hyd_group_member(group, step->rank, &member)) {
            standin->digest +=
                hyd_made_digest(&made, group, member, output, from, bytes);
            from += hyd_group_rows(group, member) * bytes;
        }
    }
    return st;
}

static struct hyd_attn_tensor tensor_of(const struct room *room)
{
    return (struct hyd_attn_tensor){.buf = room->buf};
}

static struct hyd_attn_io io_of(const struct hyd_standin *standin, uint32_t layer)
{
    const struct room *kept = &standin->kept[(size_t)layer * N_KEPT];

    return (struct hyd_attn_io){
        .q = tensor_of(&kept[KEPT_Q]),
        .k = tensor_of(&kept[KEPT_K]),
        .v = tensor_of(&kept[KEPT_V]),
        .o = tensor_of(&kept[KEPT_O]),
        .dout = tensor_of(&standin->shared[SHARED_DOUT]),
        .dq = tensor_of(&standin->shared[SHARED_DQ]),
        .dk = tensor_of(&standin->shared[SHARED_DK]),
        .dv = tensor_of(&standin->shared[SHARED_DV]),
    };
}

static hyd_status check(struct hyd_standin *standin, uint32_t microbatch,
                        uint32_t layer, struct hyd_error *err)
{
    struct room *kept = &standin->kept[(size_t)layer * N_KEPT];
    struct hyd_verify_cell cell = {.microbatch = microbatch, .layer = layer};
    struct room *room[HYD_VERIFY_OUTPUTS] = {&kept[KEPT_O], &standin->shared[SHARED_DQ],
                                             &standin->shared[SHARED_DK],
                                             &standin->shared[SHARED_DV]};
    const uint32_t n = standin->assignment->backward ? HYD_VERIFY_OUTPUTS : 1;

    if (standin->assignment->verify == HYD_VERIFY_OFF) {
        return HYD_OK;
    }
    for (uint32_t i = 0; i < n; i++) {
        const hyd_status st = pull(standin, room[i], &cell, i);

        if (st != HYD_OK) {
            return st;
        }
        cell.output[i] = room[i]->host;
    }
    return hyd_verify_cell(standin->verify, &cell, err);
}

static hyd_status forward(struct hyd_standin *standin, uint32_t microbatch,
                          uint32_t layer, struct hyd_error *err)
{
    struct room *kept = &standin->kept[(size_t)layer * N_KEPT];
    const struct hyd_attn_pass pass = {microbatch, layer, HYD_DIRECTION_FORWARD};
    const struct hyd_attn_io io = io_of(standin, layer);
    hyd_status st = make(standin, &kept[KEPT_Q], microbatch, layer, HYD_MADE_Q);

    if (st == HYD_OK) {
        st = make(standin, &kept[KEPT_K], microbatch, layer, HYD_MADE_K);
    }
    if (st == HYD_OK) {
        st = make(standin, &kept[KEPT_V], microbatch, layer, HYD_MADE_V);
    }
    if (st == HYD_OK) {
        st = poison(standin, &kept[KEPT_O]);
    }
    return st == HYD_OK
               ? hyd_agent_run(standin->agent, standin->local_rank, &pass, &io, err)
               : st;
}

static hyd_status backward(struct hyd_standin *standin, uint32_t microbatch,
                           uint32_t layer, struct hyd_error *err)
{
    const struct hyd_attn_pass pass = {microbatch, layer, HYD_DIRECTION_BACKWARD};
    const struct hyd_attn_io io = io_of(standin, layer);
    hyd_status st =
        make(standin, &standin->shared[SHARED_DOUT], microbatch, layer, HYD_MADE_DOUT);

    for (int i = SHARED_DQ; i < N_SHARED && st == HYD_OK; i++) {
        st = poison(standin, &standin->shared[i]);
    }
    return st == HYD_OK
               ? hyd_agent_run(standin->agent, standin->local_rank, &pass, &io, err)
               : st;
}

static hyd_status run_cell(struct hyd_standin *standin, uint32_t microbatch,
                           struct hyd_error *err)
{
    const struct hyd_agent_assignment *step = standin->assignment;
    hyd_status st = HYD_OK;

    for (uint32_t layer = 0; layer < step->n_layers && st == HYD_OK; layer++) {
        st = forward(standin, microbatch, layer, err);
        if (st == HYD_OK && !step->backward) {
            st = check(standin, microbatch, layer, err);
        }
    }
    for (uint32_t i = step->n_layers; step->backward && i > 0 && st == HYD_OK; i--) {
        st = backward(standin, microbatch, i - 1, err);
        if (st == HYD_OK) {
            st = check(standin, microbatch, i - 1, err);
        }
    }
    return st;
}

/* Does the rank hold a group in the cell, be it one without rows? */
static bool in_cell(const struct hyd_attn_step *step, uint32_t microbatch)
{
    for (size_t i = 0; i < step->n_groups; i++) {
        if (step->group[i].microbatch == microbatch) {
            return true;
        }
    }
    return false;
}

hyd_status hyd_standin_run(struct hyd_standin *standin,
                           const struct hyd_agent_assignment *assignment,
                           struct hyd_error *err)
{
    struct hyd_agent_check result;
    hyd_status st = HYD_OK;

    standin->assignment = assignment;
    standin->digest = 0;
    standin->dev = hyd_agent_device(standin->agent, standin->local_rank, &standin->ops);
    hyd_verify_begin(standin->verify, assignment);
    st = ensure_rooms(standin);
    for (uint32_t m = 0; m < assignment->n_microbatches && st == HYD_OK; m++) {
        if (in_cell(&assignment->attn, m)) {
            st = run_cell(standin, m, err);
        }
    }
    if (st != HYD_OK) {
        /* Does nothing when the agent knows already: then it was a pass that failed. */
        hyd_agent_fail(standin->agent, standin->local_rank,
                       err != NULL && err->text[0] != '\0' ? err->text
                                                           : hyd_status_name(st));
        return st;
    }
    result = *hyd_verify_result(standin->verify);
    result.digest = standin->digest;
    return hyd_agent_report(standin->agent, standin->local_rank, &result, err);
}
