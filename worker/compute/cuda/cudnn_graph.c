/* cudnn_graph.c - see cudnn_graph.h. */
#include "worker/compute/cuda/cudnn_graph.h"

#include <stdbool.h>

enum { TEXT_BYTES = 256, ENGINES = 4 };

typedef cudnnBackendDescriptor_t descriptor;

/* Building stops at the first failure; later calls do nothing. */
struct build {
    const struct hyd_cudnn_api *api;
    struct hyd_cudnn_plan *plan;
    cudnnStatus_t status;
};

static descriptor make(struct build *b, cudnnBackendDescriptorType_t type)
{
    descriptor d = NULL;

    if (b->status == CUDNN_STATUS_SUCCESS &&
        b->plan->n_descriptors == HYD_CUDNN_DESCRIPTORS) {
        b->status = CUDNN_STATUS_ALLOC_FAILED;
    }
    if (b->status == CUDNN_STATUS_SUCCESS) {
        b->status = b->api->cudnnBackendCreateDescriptor(type, &d);
    }
    if (b->status == CUDNN_STATUS_SUCCESS) {
        b->plan->descriptor[b->plan->n_descriptors++] = d;
    }
    return d;
}

static void set(struct build *b, descriptor d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t n, const void *values)
{
    if (b->status == CUDNN_STATUS_SUCCESS) {
        b->status = b->api->cudnnBackendSetAttribute(d, name, type, n, values);
    }
}

static void set_descriptor(struct build *b, descriptor d,
                           cudnnBackendAttributeName_t name, descriptor value)
{
    set(b, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finish(struct build *b, descriptor d)
{
    if (b->status == CUDNN_STATUS_SUCCESS) {
        b->status = b->api->cudnnBackendFinalize(d);
    }
}

/* [1][heads][rows][columns] in memory as [rows][heads][columns]. */
struct layout {
    cudnnDataType_t type;
    int64_t rows, heads, columns;
    descriptor ends; /* NULL: none */
    bool on_host;
};

static descriptor tensor(struct build *b, enum hyd_cudnn_uid uid, struct layout l)
{
    const int64_t id = (int64_t)uid, align = 16;
    const int64_t sizes[4] = {1, l.heads, l.rows, l.columns};
    const int64_t strides[4] = {l.rows * l.heads * l.columns, l.columns,
                                l.heads * l.columns, 1};
    descriptor d = make(b, CUDNN_BACKEND_TENSOR_DESCRIPTOR);

    set(b, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(b, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &l.type);
    set(b, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align);
    set(b, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, sizes);
    set(b, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    if (l.on_host) {
        set(b, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &l.on_host);
    }
    if (l.ends != NULL) {
        set_descriptor(b, d, CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, l.ends);
    }
    finish(b, d);
    return d;
}

/* A vector of int32 [n][1][1][1]. */
static descriptor numbers(struct build *b, enum hyd_cudnn_uid uid, int64_t n)
{
    const int64_t id = (int64_t)uid, align = 16;
    const int64_t sizes[4] = {n, 1, 1, 1}, strides[4] = {1, 1, 1, 1};
    const cudnnDataType_t type = CUDNN_DATA_INT32;
    descriptor d = make(b, CUDNN_BACKEND_TENSOR_DESCRIPTOR);

    set(b, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(b, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(b, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align);
    set(b, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, sizes);
    set(b, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    finish(b, d);
    return d;
}

static descriptor operation(struct build *b, const struct hyd_cudnn_size *s)
{
    const cudnnDataType_t bf16 = CUDNN_DATA_BFLOAT16, fp32 = CUDNN_DATA_FLOAT;
    descriptor q_ends = numbers(b, HYD_CUDNN_Q_ENDS, 2);
    descriptor kv_ends = numbers(b, HYD_CUDNN_KV_ENDS, 2);
    descriptor lse_ends = numbers(b, HYD_CUDNN_LSE_ENDS, 2);
    const struct layout q = {bf16, s->q_rows, s->n_heads, s->d, q_ends, false};
    const struct layout kv = {bf16, s->kv_rows, s->n_kv_heads, s->d, kv_ends, false};
    const struct layout lse = {fp32, s->q_rows, s->n_heads, 1, lse_ends, false};
    const struct layout scale = {fp32, 1, 1, 1, NULL, true};
    descriptor op = make(b, CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);

    set_descriptor(b, op, CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC,
                   tensor(b, HYD_CUDNN_Q, q));
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC,
                   tensor(b, HYD_CUDNN_K, kv));
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC,
                   tensor(b, HYD_CUDNN_V, kv));
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC,
                   tensor(b, HYD_CUDNN_O, q));
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC,
                   tensor(b, HYD_CUDNN_LSE, lse));
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC,
                   tensor(b, HYD_CUDNN_SCALE, scale));
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_QDESC,
                   numbers(b, HYD_CUDNN_Q_ROWS, 1));
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_KVDESC,
                   numbers(b, HYD_CUDNN_KV_ROWS, 1));
    finish(b, op);
    return op;
}

static descriptor graph_of(struct build *b, descriptor op, cudnnHandle_t handle)
{
    descriptor graph = make(b, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);

    set_descriptor(b, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, op);
    if (handle != NULL) {
        set(b, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    }
    finish(b, graph);
    return graph;
}

/* Engines in cuDNN's order of preference. */
static int64_t ask_engines(struct build *b, descriptor graph, descriptor device,
                           descriptor engine[ENGINES])
{
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    descriptor heuristics = make(b, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    int64_t n = 0;

    set_descriptor(b, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(b, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (device != NULL) {
        set_descriptor(b, heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device);
    }
    finish(b, heuristics);
    for (int i = 0; i < ENGINES; i++) {
        engine[i] = make(b, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    }
    if (b->status == CUDNN_STATUS_SUCCESS) {
        b->status = b->api->cudnnBackendGetAttribute(
            heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            ENGINES, &n, engine);
    }
    return b->status == CUDNN_STATUS_SUCCESS ? (n < ENGINES ? n : ENGINES) : 0;
}

/* The plan of one engine; false: the next one may do. */
static bool try_engine(struct build *b, descriptor engine, cudnnHandle_t handle)
{
    descriptor plan;
    int64_t n = 0;

    b->status = CUDNN_STATUS_SUCCESS;
    plan = make(b, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set_descriptor(b, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine);
    set(b, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    finish(b, plan);
    if (b->status == CUDNN_STATUS_SUCCESS) {
        b->status = b->api->cudnnBackendGetAttribute(
            plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n,
            &b->plan->workspace_bytes);
    }
    b->plan->plan = plan;
    return b->status == CUDNN_STATUS_SUCCESS;
}

hyd_status hyd_cudnn_plan_make(const struct hyd_cudnn_api *api,
                               const struct hyd_cudnn_card *card,
                               const struct hyd_cudnn_size *size,
                               struct hyd_cudnn_plan *ret_plan, int64_t *ret_n_engines,
                               struct hyd_error *err)
{
    struct build b = {.api = api, .plan = ret_plan};
    descriptor engine[ENGINES] = {NULL};
    descriptor graph;
    char text[TEXT_BYTES] = "";
    bool made = false;
    int64_t n;

    *ret_plan = (struct hyd_cudnn_plan){.size = *size};
    graph = graph_of(&b, operation(&b, size), card->handle);
    n = ask_engines(&b, graph, card->description, engine);
    for (int64_t i = 0; i < n && !made && card->handle != NULL; i++) {
        made = try_engine(&b, engine[i], card->handle);
    }
    if (ret_n_engines != NULL) {
        *ret_n_engines = n;
    }
    if (made) {
        return HYD_OK;
    }
    if (card->handle == NULL && n > 0) {
        return hyd_error_set(err, HYD_ERR_UNSUPPORTED, "no plan without a card");
    }
    api->cudnnGetLastErrorString(text, sizeof text);
    return hyd_error_set(err, HYD_ERR_UNSUPPORTED,
                         "cuDNN has no engine for d=%u heads=%u kv_heads=%u: %s %s",
                         size->d, size->n_heads, size->n_kv_heads,
                         api->cudnnGetErrorString(b.status), text);
}

void hyd_cudnn_plan_release(const struct hyd_cudnn_api *api,
                            struct hyd_cudnn_plan *plan)
{
    while (plan->n_descriptors > 0) {
        (void)api->cudnnBackendDestroyDescriptor(
            plan->descriptor[--plan->n_descriptors]);
    }
    plan->plan = NULL;
}
