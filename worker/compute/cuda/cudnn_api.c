/* cudnn_api.c - see cudnn_api.h. */
#include "worker/compute/cuda/cudnn_api.h"

#include <dlfcn.h>
#include <string.h>

/* Unified attention with lengths and offsets is there from this version on. */
enum { LEAST_VERSION = 91900 };

static const char *const library_name = "libcudnn.so.9";

static hyd_status find(void *library, const char *name, void *ret_function,
                       struct hyd_error *err)
{
    void *at = dlsym(library, name);

    if (at == NULL) {
        return hyd_error_set(err, HYD_ERR_UNAVAILABLE, "%s has no %s", library_name,
                             name);
    }
    memcpy(ret_function, &at, sizeof at);
    return HYD_OK;
}

hyd_status hyd_cudnn_api_open(struct hyd_cudnn_api *ret_api, struct hyd_error *err)
{
    struct hyd_cudnn_api api = {.library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL)};
    hyd_status st = HYD_OK;

    if (api.library == NULL) {
        return hyd_error_set(err, HYD_ERR_UNAVAILABLE, "no cuDNN here: %s", dlerror());
    }
#define X(name)                                                               \
    if (st == HYD_OK) {                                                       \
        st = find(api.library, "cudnn" #name, (void *)&api.cudnn##name, err); \
    }
    HYD_CUDNN_FUNCTIONS(X)
#undef X
    if (st == HYD_OK && api.cudnnGetVersion() < LEAST_VERSION) {
        st = hyd_error_set(err, HYD_ERR_UNAVAILABLE,
                           "cuDNN %zu is too old, at least %d is needed",
                           api.cudnnGetVersion(), LEAST_VERSION);
    }
    if (st != HYD_OK) {
        hyd_cudnn_api_close(&api);
        return st;
    }
    *ret_api = api;
    return HYD_OK;
}

void hyd_cudnn_api_close(struct hyd_cudnn_api *api)
{
    if (api->library != NULL) {
        (void)dlclose(api->library);
    }
    api->library = NULL;
}
