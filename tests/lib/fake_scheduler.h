/*
 * fake_scheduler.h - the scheduler's side of Workers.Attach, driven by a test.
 *
 * What     A server in a thread of its own that does nothing by itself but take agents
 *          in, collect addresses and count reports; the test says when an epoch begins,
 *          when addresses are given out, and which step runs. So a test can stop a job in
 *          any phase. The real scheduler is tested elsewhere; this one has no policy.
 *          Agents are known by their node's name, "a" to "h".
 * Units    _ms milliseconds; every wait ends after HYD_FAKE_WAIT_MS as a failure.
 * Errors   waits return false when the time is over
 * Owns     what it was given is copied; groups of a step are borrowed for the call.
 * Threads  called from the test's main thread.
 */
#ifndef HYD_TESTS_LIB_FAKE_SCHEDULER_H
#define HYD_TESTS_LIB_FAKE_SCHEDULER_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/attn/layout.h"

enum { HYD_FAKE_MAX_AGENTS = 8, HYD_FAKE_WAIT_MS = 30000, HYD_FAKE_TEXT_BYTES = 256 };

struct hyd_fake; /* opaque */

struct hyd_fake_config {
    const char *address; /* "unix:PATH" */
    uint32_t heartbeat_ms;
    uint32_t heads, kv_heads, head_dim;
    uint32_t cap_tokens;
    uint32_t layers;
    bool bf16;
    bool verify_full; /* else off */
};

struct hyd_fake_agent {
    bool attached;
    bool leaving; /* said so */
    uint32_t n_ranks;
    uint32_t first_rank; /* in the current epoch */
    bool member; /* of the current epoch */
    uint32_t n_addresses;
    bool ready;
    uint64_t beat_age_ms; /* since the last message of any kind */
    uint64_t n_beats;
    uint64_t progress; /* sum over its ranks, last beat */
    uint32_t n_reports; /* of the current step */
    bool failed;
    bool peer_lost;
    char reason[HYD_FAKE_TEXT_BYTES];
    /* of a good report */
    uint32_t by_reference, by_single_rank, unchecked, n_cells, n_shards;
    double max_error, compute_s;
    uint64_t digest, predicted_peak_bytes, measured_peak_bytes, sent_bytes;
};

struct hyd_fake_step {
    uint64_t step;
    const struct hyd_group *group; /* [n_groups] */
    size_t n_groups;
    uint32_t n_microbatches;
    bool forward_only;
    uint32_t deadline_ms;
    uint64_t seed;
};

struct hyd_fake *hyd_fake_start(const struct hyd_fake_config *config);
void hyd_fake_stop(struct hyd_fake *fake);

struct hyd_fake_agent hyd_fake_look(struct hyd_fake *fake, char name);

/* Begin an epoch with the agents in `names`, ranks in that order. */
void hyd_fake_welcome(struct hyd_fake *fake, const char *names);
/* Send Members. */
void hyd_fake_members(struct hyd_fake *fake);
void hyd_fake_assign(struct hyd_fake *fake, const struct hyd_fake_step *step);
void hyd_fake_abort(struct hyd_fake *fake, uint64_t step);
void hyd_fake_drain(struct hyd_fake *fake, char name);
void hyd_fake_refuse(struct hyd_fake *fake, char name);
/* End the agent's stream with UNAVAILABLE. */
void hyd_fake_cut(struct hyd_fake *fake, char name);

/* Wait until the condition holds of every agent in `names`. */
bool hyd_fake_wait(struct hyd_fake *fake, const char *names,
                   bool (*holds)(const struct hyd_fake_agent *agent));
bool hyd_fake_is_attached(const struct hyd_fake_agent *agent);
bool hyd_fake_is_gone(const struct hyd_fake_agent *agent);
bool hyd_fake_is_addressed(const struct hyd_fake_agent *agent);
bool hyd_fake_is_ready(const struct hyd_fake_agent *agent);
bool hyd_fake_has_reported(const struct hyd_fake_agent *agent);

/* welcome, members, and wait for all to be ready. */
bool hyd_fake_epoch(struct hyd_fake *fake, const char *names);
/* assign, and wait for the members' reports. */
bool hyd_fake_run(struct hyd_fake *fake, const struct hyd_fake_step *step);

#endif
