/* cudnn_forward.c - see cudnn_forward.h. */
#include "worker/compute/cuda/cudnn_forward.h"

#include <cuda_runtime_api.h>

#include "worker/compute/cuda/cudnn_graph.h"

enum {
    PLANS = 64,
    WORKSPACE_BYTES = 32 << 20,
    /* Lengths and ends, each vector at the alignment that its tensor promises. */
    NUMBER_BYTES = 16,
    N_NUMBERS = 5,
};

struct slot {
    struct hyd_cudnn_plan plan;
    uint64_t used; /* turn of the last use; 0: free */
    bool refused; /* cuDNN has no engine, or it wants too much workspace */
};

struct hyd_cudnn {
    const struct hyd_alloc *alloc;
    struct hyd_cudnn_api api;
    cudnnHandle_t handle;
    cudaStream_t stream;
    void *workspace;
    unsigned char *numbers; /* on the card: [N_NUMBERS][NUMBER_BYTES] */
    uint64_t turn;
    struct slot slot[PLANS];
};

static bool same_size(const struct hyd_cudnn_size *a, const struct hyd_cudnn_size *b)
{
    return a->d == b->d && a->n_heads == b->n_heads && a->n_kv_heads == b->n_kv_heads &&
           a->q_rows == b->q_rows && a->kv_rows == b->kv_rows;
}

/* The slot of a size, or the one used longest ago, free again. */
static struct slot *find_slot(struct hyd_cudnn *c, const struct hyd_cudnn_size *size)
{
    struct slot *oldest = &c->slot[0];

    for (uint32_t i = 0; i < PLANS; i++) {
        if (c->slot[i].used != 0 && same_size(&c->slot[i].plan.size, size)) {
            return &c->slot[i];
        }
        if (c->slot[i].used < oldest->used) {
            oldest = &c->slot[i];
        }
    }
    if (oldest->used != 0) {
        /* What runs may still need the plan. */
        (void)cudaStreamSynchronize(c->stream);
        hyd_cudnn_plan_release(&c->api, &oldest->plan);
    }
    *oldest = (struct slot){.used = 0};
    return oldest;
}

static const struct slot *plan_for(struct hyd_cudnn *c,
                                   const struct hyd_cudnn_size *size)
{
    const struct hyd_cudnn_card card = {.handle = c->handle};
    struct slot *slot = find_slot(c, size);

    if (slot->used == 0) {
        const hyd_status st =
            hyd_cudnn_plan_make(&c->api, &card, size, &slot->plan, NULL, NULL);

        slot->refused = st != HYD_OK || slot->plan.workspace_bytes > WORKSPACE_BYTES;
    }
    slot->used = ++c->turn;
    return slot;
}

/* In-order on the stream: the rectangle before may still read the last ones. Memory of the
 * host is copied before the call returns. */
static hyd_status send_numbers(const struct hyd_cudnn *c,
                               const struct hyd_fused_rect *r)
{
    const struct hyd_attn_shape *s = &r->shape;
    const int32_t number[N_NUMBERS][NUMBER_BYTES / 4] = {
        {0, (int32_t)(r->n_q * s->n_heads * s->d)},
        {0, (int32_t)(r->n_kv * s->n_kv_heads * s->d)},
        {0, (int32_t)(r->n_q * s->n_heads)},
        {(int32_t)r->n_q},
        {(int32_t)r->n_kv}};

    return cudaMemcpyAsync(c->numbers, number, sizeof number, cudaMemcpyHostToDevice,
                           c->stream) == cudaSuccess
               ? HYD_OK
               : HYD_ERR_UNAVAILABLE;
}

static hyd_status execute(const struct hyd_cudnn *c, const struct hyd_cudnn_plan *plan,
                          const struct hyd_fused_rect *r)
{
    float scale = r->shape.scale;
    unsigned char *const n = c->numbers;
    const int64_t uid[HYD_CUDNN_N_UIDS] = {
        HYD_CUDNN_Q,        HYD_CUDNN_K,      HYD_CUDNN_V,      HYD_CUDNN_O,
        HYD_CUDNN_LSE,      HYD_CUDNN_SCALE,  HYD_CUDNN_Q_ENDS, HYD_CUDNN_KV_ENDS,
        HYD_CUDNN_LSE_ENDS, HYD_CUDNN_Q_ROWS, HYD_CUDNN_KV_ROWS};
    const void *const at[HYD_CUDNN_N_UIDS] = {r->q,
                                              r->k,
                                              r->v,
                                              r->o,
                                              r->lse,
                                              &scale,
                                              n,
                                              n + NUMBER_BYTES,
                                              n + (size_t)2 * NUMBER_BYTES,
                                              n + (size_t)3 * NUMBER_BYTES,
                                              n + (size_t)4 * NUMBER_BYTES};
    cudnnBackendDescriptor_t pack = NULL;
    cudnnStatus_t st = c->api.cudnnBackendCreateDescriptor(
        CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);

    if (st == CUDNN_STATUS_SUCCESS) {
        st = c->api.cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                                             CUDNN_TYPE_INT64, HYD_CUDNN_N_UIDS, uid);
    }
    if (st == CUDNN_STATUS_SUCCESS) {
        st =
            c->api.cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                            CUDNN_TYPE_VOID_PTR, HYD_CUDNN_N_UIDS, at);
    }
    if (st == CUDNN_STATUS_SUCCESS) {
        st = c->api.cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                                             CUDNN_TYPE_VOID_PTR, 1, &c->workspace);
    }
    if (st == CUDNN_STATUS_SUCCESS) {
        st = c->api.cudnnBackendFinalize(pack);
    }
    if (st == CUDNN_STATUS_SUCCESS) {
        st = c->api.cudnnBackendExecute(c->handle, plan->plan, pack);
    }
    if (pack != NULL) {
        (void)c->api.cudnnBackendDestroyDescriptor(pack);
    }
    return st == CUDNN_STATUS_SUCCESS ? HYD_OK : HYD_ERR_INTERNAL;
}

static hyd_status cudnn_forward(void *ctx, const struct hyd_fused_rect *rect)
{
    struct hyd_cudnn *c = ctx;
    const struct hyd_attn_shape *s = &rect->shape;
    const struct hyd_cudnn_size size = {s->d, s->n_heads, s->n_kv_heads,
                                        hyd_fused_rows(rect->n_q),
                                        hyd_fused_rows(rect->n_kv)};
    const struct slot *slot;
    hyd_status st;

    /* Nothing says that rows behind the last one are not read: they must be there. */
    if (size.q_rows > rect->q_room || size.kv_rows > rect->kv_room ||
        (uint64_t)size.q_rows * s->n_heads * s->d > INT32_MAX ||
        (uint64_t)size.kv_rows * s->n_kv_heads * s->d > INT32_MAX) {
        return HYD_ERR_UNSUPPORTED;
    }
    slot = plan_for(c, &size);
    if (slot->refused) {
        return HYD_ERR_UNSUPPORTED;
    }
    st = send_numbers(c, rect);
    return st == HYD_OK ? execute(c, &slot->plan, rect) : st;
}

void hyd_cudnn_close(struct hyd_cudnn *cudnn)
{
    if (cudnn == NULL) {
        return;
    }
    for (uint32_t i = 0; i < PLANS; i++) {
        if (cudnn->slot[i].used != 0) {
            hyd_cudnn_plan_release(&cudnn->api, &cudnn->slot[i].plan);
        }
    }
    if (cudnn->handle != NULL) {
        (void)cudnn->api.cudnnDestroy(cudnn->handle);
    }
    (void)cudaFree(cudnn->workspace);
    (void)cudaFree(cudnn->numbers);
    hyd_cudnn_api_close(&cudnn->api);
    hyd_alloc_free(cudnn->alloc, cudnn);
}

static hyd_status open_parts(struct hyd_cudnn *c, struct hyd_error *err)
{
    hyd_status st = hyd_cudnn_api_open(&c->api, err);
    cudnnStatus_t code;

    if (st != HYD_OK) {
        return st;
    }
    code = c->api.cudnnCreate(&c->handle);
    if (code == CUDNN_STATUS_SUCCESS) {
        code = c->api.cudnnSetStream(c->handle, c->stream);
    }
    if (code != CUDNN_STATUS_SUCCESS) {
        return hyd_error_set(err, HYD_ERR_UNAVAILABLE, "cuDNN does not open: %s",
                             c->api.cudnnGetErrorString(code));
    }
    if (cudaMalloc(&c->workspace, WORKSPACE_BYTES) != cudaSuccess ||
        cudaMalloc((void **)&c->numbers, (size_t)N_NUMBERS * NUMBER_BYTES) !=
            cudaSuccess) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory on the card for cuDNN");
    }
    return HYD_OK;
}

hyd_status hyd_cudnn_open(void *stream, const struct hyd_alloc *alloc,
                          struct hyd_cudnn **ret_cudnn,
                          struct hyd_fused_library *ret_library, struct hyd_error *err)
{
    struct hyd_cudnn *c = hyd_alloc_zeroed(alloc, 1, sizeof *c);
    hyd_status st;

    if (c == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for cuDNN");
    }
    c->alloc = alloc;
    c->stream = stream;
    st = open_parts(c, err);
    if (st != HYD_OK) {
        hyd_cudnn_close(c);
        return st;
    }
    *ret_cudnn = c;
    *ret_library = (struct hyd_fused_library){"cudnn", cudnn_forward, c};
    return HYD_OK;
}
