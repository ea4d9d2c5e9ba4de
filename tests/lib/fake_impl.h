/*
 * fake_impl.h - inside of the fake scheduler.
 *
 * What     fake_scheduler.c the thread and the test's side, fake_say.c what agents are
 *          told, fake_hear.c what they say.
 * Threads  the lock guards what the struct says; callbacks run on the loop thread.
 */
#ifndef HYD_TESTS_LIB_FAKE_IMPL_H
#define HYD_TESTS_LIB_FAKE_IMPL_H

#include <pthread.h>

#include <uv.h>

#include "common/rpc/server.h"
#include "tests/lib/fake_scheduler.h"

enum { HYD_FAKE_ADDRESS_BYTES = 1024, HYD_FAKE_MAX_RANKS = 64 };

struct hyd_fake_seat {
    struct hyd_fake_agent is;
    struct hyd_call *call;
    uint64_t heard_ms;
};

enum hyd_fake_command {
    HYD_FAKE_C_NONE,
    HYD_FAKE_C_WELCOME,
    HYD_FAKE_C_MEMBERS,
    HYD_FAKE_C_ASSIGN,
    HYD_FAKE_C_ABORT,
    HYD_FAKE_C_DRAIN,
    HYD_FAKE_C_REFUSE,
    HYD_FAKE_C_CUT,
    HYD_FAKE_C_STOP,
};

struct hyd_fake {
    struct hyd_fake_config config;
    pthread_t thread;
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t changed;
    bool up;
    enum hyd_fake_command command;
    const char *names;
    const struct hyd_fake_step *step;
    uint64_t abort_step;
    struct hyd_fake_seat seat[HYD_FAKE_MAX_AGENTS];
    uint32_t epoch;
    uint64_t current_step;
    uint32_t world;
    uint32_t address_bytes[HYD_FAKE_MAX_RANKS];
    unsigned char address[HYD_FAKE_MAX_RANKS][HYD_FAKE_ADDRESS_BYTES];
    /* loop thread */
    uv_loop_t loop;
    uv_async_t wake;
    struct hyd_bridge *bridge;
    struct hyd_server *server;
};

struct hyd_fake_seat *hyd_fake_seat_of(struct hyd_fake *fake, char name);

/* Loop thread, lock held. */
void hyd_fake_send_welcome(struct hyd_fake *fake, struct hyd_fake_seat *seat,
                           uint32_t epoch);
void hyd_fake_do_welcome(struct hyd_fake *fake);
void hyd_fake_do_members(struct hyd_fake *fake);
void hyd_fake_do_assign(struct hyd_fake *fake);
void hyd_fake_do_abort(struct hyd_fake *fake);
void hyd_fake_do_drain(struct hyd_fake *fake);
void hyd_fake_do_refuse(struct hyd_fake *fake);

extern const struct hyd_rpc_method hyd_fake_methods[1];

#endif
