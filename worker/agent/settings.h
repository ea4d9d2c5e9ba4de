/*
 * settings.h - what hydra-worker can be told, and where the values land.
 *
 * What     One row a setting (common/sys/config.h): flags, HYDRA_ variables, a file.
 * Errors   HYD_ERR_INVALID from hyd_worker_settings_check: names the setting
 */
#ifndef HYD_WORKER_AGENT_SETTINGS_H
#define HYD_WORKER_AGENT_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/sys/config.h"
#include "worker/compute/compute.h"

struct hyd_worker_settings {
    const char *connect;
    const char *job;
    const char *node;
    uint64_t ranks;
    uint64_t first_rank;
    int compute; /* position in its choices */
    int transport;
    const char *links;
    int isa;
    int fused;
    uint64_t threads_per_rank;
    int verify;
    const char *tls_ca;
    const char *tls_cert;
    const char *tls_key;
    const char *token_file;
    int log_level;
    const char *print_program;
    uint64_t rank;
    uint64_t heads;
    uint64_t kv_heads;
    uint64_t head_dim;
    int mask;
    uint64_t window;
    bool calibrate;
    const char *output;
};

extern const struct hyd_setting hyd_worker_setting[];
extern const size_t hyd_n_worker_settings;

/* Words of the choices, by position. */
const char *hyd_worker_compute_name(int choice);
const char *hyd_worker_transport_name(int choice);
const char *hyd_worker_isa_name(int choice);
const char *hyd_worker_fused_name(int choice);

/* The mask of --mask and --window. */
enum hyd_visibility hyd_worker_see(const struct hyd_worker_settings *set);

hyd_status hyd_worker_settings_check(const void *values, struct hyd_error *err);

#endif
