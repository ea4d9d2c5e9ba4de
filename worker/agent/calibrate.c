/* calibrate.c - see calibrate.h. */
#include "worker/agent/calibrate.h"

#include <jansson.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "common/base/alloc.h"
#include "worker/compute/calibrate.h"

enum { MAX_TOKENS = 2048, COPY_BYTES = 32 << 20, COPY_REPEATS = 5 };

/* Of one message through shared memory or loopback, about; field study of the network. */
static const double LATENCY_S = 20e-6;

static double cpu_s(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Best of a few copies between blocks that no cache holds. */
static hyd_status copy_rate(double *ret_bytes_per_s)
{
    const struct hyd_alloc *alloc = hyd_alloc_system();
    unsigned char *from = hyd_alloc_array(alloc, COPY_BYTES, 1);
    unsigned char *to = hyd_alloc_zeroed(alloc, COPY_BYTES, 1);
    double best_s = HUGE_VAL;
    hyd_status st = from != NULL && to != NULL ? HYD_OK : HYD_ERR_NO_MEMORY;

    for (int i = 0; i < COPY_REPEATS && st == HYD_OK; i++) {
        double start_s = 0.0;
        double took_s = 0.0;

        memset(from, i, COPY_BYTES);
        start_s = cpu_s();
        memcpy(to, from, COPY_BYTES);
        took_s = cpu_s() - start_s;
        best_s = took_s < best_s ? took_s : best_s;
        st = to[COPY_BYTES - 1] == (unsigned char)i ? HYD_OK : HYD_ERR_INTERNAL;
    }
    hyd_alloc_free(alloc, from);
    hyd_alloc_free(alloc, to);
    if (st == HYD_OK) {
        *ret_bytes_per_s = COPY_BYTES / best_s;
    }
    return st;
}

static hyd_status write_profile(const struct hyd_worker_settings *set,
                                const struct hyd_calibration *measured,
                                const char *device, double link_bytes_per_s,
                                struct hyd_error *err)
{
    json_t *points = json_array();
    json_t *root = NULL;
    hyd_status st = HYD_OK;

    for (uint32_t i = 0; i < measured->n_attention; i++) {
        (void)json_array_append_new(
            points, json_pack("[f, f, f]", (double)measured->attention[i].tokens,
                              measured->attention[i].forward_flop_per_s,
                              measured->attention[i].backward_flop_per_s));
    }
    root = json_pack(
        "{s:s, s:s, s:f, s:o, s:f, s:f, s:f, s:f, s:f, s:i}", "name", "cpu-here",
        "source", device, "gemm_flop_per_s", measured->gemm_flop_per_s, "attention",
        points, "nvlink_bytes_per_s", link_bytes_per_s, "nic_bytes_per_s",
        link_bytes_per_s, "latency_s", LATENCY_S, "cell_s", measured->cell_s,
        "copy_s_per_token", measured->copy_s_per_token, "bytes_per_element", 4);
    if (root == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    if (json_dump_file(root, set->output, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) !=
        0) {
        st = hyd_error_field(err, HYD_ERR_IO, "output", "cannot write '%s'",
                             set->output);
    }
    json_decref(root);
    return st;
}

static hyd_status measure(const struct hyd_worker_settings *set,
                          const struct hyd_compute_ops *ops, struct hyd_compute *dev,
                          struct hyd_error *err)
{
    const struct hyd_calibrate_config config = {
        .shape = {.dtype = HYD_DTYPE_F32,
                  .d = (uint32_t)set->head_dim,
                  .n_heads = (uint32_t)set->heads,
                  .n_kv_heads = (uint32_t)set->kv_heads,
                  .heads_per_kv = (uint32_t)(set->heads / set->kv_heads),
                  .scale = 1.0F / sqrtf((float)set->head_dim),
                  .see = HYD_SEE_CAUSAL},
        .max_tokens = MAX_TOKENS,
    };
    struct hyd_calibration measured;
    char source[160];
    double bytes_per_s = 0.0;
    hyd_status st = hyd_calibrate(ops, dev, &config, &measured, err);

    if (st == HYD_OK) {
        st = copy_rate(&bytes_per_s);
    }
    if (st != HYD_OK) {
        return st;
    }
    (void)snprintf(source, sizeof source, "measured by hydra-worker --calibrate: %s",
                   ops->describe(dev));
    return write_profile(set, &measured, source, bytes_per_s / 2.0, err);
}

hyd_status hyd_calibrate_to_file(const struct hyd_worker_settings *set,
                                 struct hyd_error *err)
{
    const struct hyd_compute_config config = {.n_threads = 1,
                                              .isa = hyd_worker_isa_name(set->isa)};
    const struct hyd_compute_ops *ops = NULL;
    struct hyd_compute *dev = NULL;
    hyd_status st = HYD_OK;

    if (set->output[0] == '\0') {
        return hyd_error_field(err, HYD_ERR_INVALID, "output",
                               "--calibrate needs a file to write: --output FILE");
    }
    if (set->kv_heads > set->heads || set->heads % set->kv_heads != 0) {
        return hyd_error_field(err, HYD_ERR_INVALID, "kv_heads",
                               "heads must be a multiple of kv_heads");
    }
    st = hyd_compute_find(hyd_worker_compute_name(set->compute), &ops, err);
    if (st == HYD_OK) {
        st = ops->open(&config, &dev, err);
    }
    if (st == HYD_OK) {
        st = measure(set, ops, dev, err);
    }
    if (ops != NULL) {
        ops->close(dev);
    }
    return st;
}
