/*
 * settings.h - what hydra.conf, the environment and flags say to hydra-schedd.
 *
 * What     One row per setting in settings.c; this is where their values land.
 * Units    *_us microseconds, *_bytes bytes.
 * Owns     texts and lists belong to the hyd_config that wrote them.
 * Threads  written before the loop starts, read afterwards.
 */
#ifndef HYD_SCHEDULER_DAEMON_SETTINGS_H
#define HYD_SCHEDULER_DAEMON_SETTINGS_H

#include <stddef.h>
#include <stdint.h>

#include "common/sys/config.h"
#include "scheduler/core/step.h"

struct hyd_daemon_settings {
    struct hyd_setting_list listen;
    const char *http;
    const char *state;
    const char *tls_ca;
    const char *tls_cert;
    const char *tls_key;
    const char *token_file;
    bool insecure_remote;
    int log_level; /* enum hyd_log_level */
    uint64_t drain_grace_us;

    uint64_t message_bytes;
    uint64_t decode_bytes;
    uint64_t queue_bytes;
    uint64_t memory_bytes;
    uint64_t max_calls;
    uint64_t max_streams;
    uint64_t idle_us;
    uint64_t max_jobs;
    uint64_t max_ranks;
    uint64_t max_sequences;
    uint64_t max_length_tokens;

    uint64_t plan_threads;
    uint64_t plan_queue;
    bool check_gain;
    uint64_t keep_plans;
    uint64_t keep_steps;
    uint64_t max_ahead;

    uint64_t journal_bytes;

    uint64_t heartbeat_us;
    uint64_t lost_us;
    uint64_t address_us;
    uint64_t connect_us;
    uint64_t settle_us;
    bool replan;
    uint64_t max_misses;
    uint64_t pardon_us;
    uint64_t max_attempts;
    uint64_t step_deadline_us;
};

extern const struct hyd_setting hyd_daemon_setting_table[];
extern const size_t hyd_daemon_setting_count;

/* The part that the state machine of a job takes; ranks, run and wait are the job's. */
struct hyd_step_config hyd_daemon_step_config(
    const struct hyd_daemon_settings *settings);

#endif
