/* cuDNN takes our graph for an H200: asked without a card, with a description of one. cmake
 * puts the toolkit's stub of the driver in its way, so that engines are proposed; loading
 * one then fails, which is as far as this goes without a GPU. */
#include <stdio.h>
#include <string.h>

#include "tests/lib/test.h"
#include "worker/compute/cuda/cudnn_graph.h"

/* The fields that cuDNN asks for; version: of the card, 900 for an H200. */
#define CARD(version)                                                               \
    "{\"cudaDeviceId\":0,\"deviceName\":\"NVIDIA H200\",\"deviceVer\":" version "," \
    "\"driverVer\":13000,\"isTccDriver\":0,\"l2CacheSize\":52428800,"               \
    "\"maxBlockSize\":[1024,1024,64],\"maxCtasPerSM\":32,"                          \
    "\"maxGridSize\":[2147483647,65535,65535],\"maxRegistersPerSM\":65536,"         \
    "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":232448,"    \
    "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"memClockRateKHz\":"     \
    "3201000,"                                                                      \
    "\"multiProcessorCount\":132,\"pciDeviceId\":0,\"regsPerBlock\":65536,"         \
    "\"reservedSharedMemoryPerBlock\":1024,\"smClockRateKHz\":1980000,"             \
    "\"supportCoopLaunch\":1,\"totalGlobalMem\":150754820096,\"warpSize\":32}"

static struct hyd_cudnn_api api;

static cudnnBackendDescriptor_t describe_card(const char *json)
{
    cudnnBackendDescriptor_t d = NULL;

    assert_int_equal(
        api.cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &d),
        CUDNN_STATUS_SUCCESS);
    assert_int_equal(
        api.cudnnBackendSetAttribute(d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                     CUDNN_TYPE_CHAR, (int64_t)strlen(json) + 1, json),
        CUDNN_STATUS_SUCCESS);
    assert_int_equal(api.cudnnBackendFinalize(d), CUDNN_STATUS_SUCCESS);
    return d;
}

static int64_t engines_for(const char *json, struct hyd_cudnn_size size)
{
    const struct hyd_cudnn_card card = {.description = describe_card(json)};
    struct hyd_cudnn_plan plan;
    struct hyd_error err = {.text = ""};
    int64_t n = -1;
    const hyd_status st = hyd_cudnn_plan_make(&api, &card, &size, &plan, &n, &err);

    printf("d=%u heads=%u/%u rows=%u x %u: %lld engines; %s\n", size.d, size.n_heads,
           size.n_kv_heads, size.q_rows, size.kv_rows, (long long)n,
           st == HYD_OK ? "planned" : err.text);
    hyd_cudnn_plan_release(&api, &plan);
    assert_int_equal(plan.n_descriptors, 0);
    (void)api.cudnnBackendDestroyDescriptor(card.description);
    return n;
}

static void cudnn_proposes_engines_for_our_graph(void **state)
{
    (void)state;
    assert_true(
        engines_for(CARD("900"), (struct hyd_cudnn_size){128, 32, 8, 4096, 4096}) > 0);
    assert_true(engines_for(CARD("900"), (struct hyd_cudnn_size){64, 8, 8, 128, 1024}) >
                0);
    assert_true(engines_for(CARD("900"), (struct hyd_cudnn_size){128, 7, 1, 128, 128}) >
                0);
}

static void cudnn_has_none_for_a_card_too_old(void **state)
{
    (void)state;
    assert_int_equal(
        engines_for(CARD("700"), (struct hyd_cudnn_size){128, 32, 8, 4096, 4096}), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cudnn_proposes_engines_for_our_graph),
        cmocka_unit_test(cudnn_has_none_for_a_card_too_old),
    };
    struct hyd_error err = {.text = ""};
    int failed;

    if (hyd_cudnn_api_open(&api, &err) != HYD_OK) {
        printf("SKIPPED: %s\n", err.text);
        return 77;
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    hyd_cudnn_api_close(&api);
    return failed;
}
