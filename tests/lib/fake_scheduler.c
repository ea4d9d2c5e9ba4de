/* fake_scheduler.c - see fake_scheduler.h. The test's thread hands one command at a time
 * to the loop thread and waits for it; what agents say is kept under a lock. */
#include "tests/lib/fake_scheduler.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/sys/clock.h"
#include "tests/lib/fake_impl.h"

struct hyd_fake_seat *hyd_fake_seat_of(struct hyd_fake *fake, char name)
{
    return &fake->seat[(unsigned)(name - 'a') % HYD_FAKE_MAX_AGENTS];
}

static void must(hyd_status st, const struct hyd_error *err)
{
    if (st != HYD_OK) {
        (void)fprintf(stderr, "fake scheduler: %s\n", err->text);
        abort();
    }
}

static void on_drained(void *ctx)
{
    struct hyd_fake *fake = ctx;

    hyd_server_free(fake->server);
    hyd_bridge_close(fake->bridge);
    uv_close((uv_handle_t *)&fake->wake, NULL);
}

static void do_command(struct hyd_fake *fake)
{
    struct hyd_error err = {.text = "cut by the test"};

    switch (fake->command) {
    case HYD_FAKE_C_NONE:
        return;
    case HYD_FAKE_C_WELCOME:
        hyd_fake_do_welcome(fake);
        break;
    case HYD_FAKE_C_MEMBERS:
        hyd_fake_do_members(fake);
        break;
    case HYD_FAKE_C_ASSIGN:
        hyd_fake_do_assign(fake);
        break;
    case HYD_FAKE_C_ABORT:
        hyd_fake_do_abort(fake);
        break;
    case HYD_FAKE_C_DRAIN:
        hyd_fake_do_drain(fake);
        break;
    case HYD_FAKE_C_REFUSE:
        hyd_fake_do_refuse(fake);
        break;
    case HYD_FAKE_C_CUT:
        if (hyd_fake_seat_of(fake, fake->names[0])->call != NULL) {
            hyd_call_fail(hyd_fake_seat_of(fake, fake->names[0])->call,
                          HYD_ERR_UNAVAILABLE, &err);
        }
        break;
    case HYD_FAKE_C_STOP:
        hyd_server_drain(fake->server, 0, on_drained, fake);
        break;
    }
    fake->command = HYD_FAKE_C_NONE;
    (void)pthread_cond_broadcast(&fake->changed);
}

static void on_wake(uv_async_t *wake)
{
    struct hyd_fake *fake = wake->data;

    (void)pthread_mutex_lock(&fake->lock);
    do_command(fake);
    (void)pthread_mutex_unlock(&fake->lock);
}

static void *loop_main(void *arg)
{
    struct hyd_fake *fake = arg;
    struct hyd_error err = {.text = ""};
    struct hyd_server_config config = {.alloc = hyd_alloc_system(),
                                       .methods = hyd_fake_methods,
                                       .n_methods = 1,
                                       .ctx = fake};

    (void)uv_loop_init(&fake->loop);
    (void)uv_async_init(&fake->loop, &fake->wake, on_wake);
    fake->wake.data = fake;
    must(hyd_bridge_create(&fake->loop, hyd_alloc_system(), &fake->bridge, &err), &err);
    config.bridge = fake->bridge;
    must(hyd_server_create(&config, &fake->server, &err), &err);
    must(hyd_server_listen(fake->server, fake->config.address, NULL, &err), &err);
    must(hyd_server_start(fake->server, &err), &err);
    (void)pthread_mutex_lock(&fake->lock);
    fake->up = true;
    (void)pthread_cond_broadcast(&fake->changed);
    (void)pthread_mutex_unlock(&fake->lock);
    (void)uv_run(&fake->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&fake->loop);
    return NULL;
}

/* --- the test's thread --- */

struct hyd_fake *hyd_fake_start(const struct hyd_fake_config *config)
{
    struct hyd_fake *fake = calloc(1, sizeof *fake);
    pthread_condattr_t attr;

    if (fake == NULL) {
        abort();
    }
    fake->config = *config;
    (void)pthread_mutex_init(&fake->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&fake->changed, &attr);
    (void)pthread_condattr_destroy(&attr);
    if (pthread_create(&fake->thread, NULL, loop_main, fake) != 0) {
        abort();
    }
    (void)pthread_mutex_lock(&fake->lock);
    while (!fake->up) {
        (void)pthread_cond_wait(&fake->changed, &fake->lock);
    }
    (void)pthread_mutex_unlock(&fake->lock);
    return fake;
}

/* Lock held: hand the command over and wait until it is carried out. */
static void command(struct hyd_fake *fake, enum hyd_fake_command what)
{
    fake->command = what;
    (void)uv_async_send(&fake->wake);
    while (fake->command != HYD_FAKE_C_NONE) {
        (void)pthread_cond_wait(&fake->changed, &fake->lock);
    }
}

static void command_names(struct hyd_fake *fake, enum hyd_fake_command what,
                          const char *names)
{
    (void)pthread_mutex_lock(&fake->lock);
    fake->names = names;
    command(fake, what);
    (void)pthread_mutex_unlock(&fake->lock);
}

void hyd_fake_stop(struct hyd_fake *fake)
{
    command_names(fake, HYD_FAKE_C_STOP, "");
    (void)pthread_join(fake->thread, NULL);
    (void)pthread_cond_destroy(&fake->changed);
    (void)pthread_mutex_destroy(&fake->lock);
    free(fake);
}

struct hyd_fake_agent hyd_fake_look(struct hyd_fake *fake, char name)
{
    struct hyd_fake_agent is;

    (void)pthread_mutex_lock(&fake->lock);
    is = hyd_fake_seat_of(fake, name)->is;
    is.beat_age_ms =
        hyd_clock_mono_ms(hyd_clock_system()) - hyd_fake_seat_of(fake, name)->heard_ms;
    (void)pthread_mutex_unlock(&fake->lock);
    return is;
}

void hyd_fake_welcome(struct hyd_fake *fake, const char *names)
{
    command_names(fake, HYD_FAKE_C_WELCOME, names);
}

void hyd_fake_members(struct hyd_fake *fake)
{
    command_names(fake, HYD_FAKE_C_MEMBERS, "");
}

void hyd_fake_assign(struct hyd_fake *fake, const struct hyd_fake_step *step)
{
    (void)pthread_mutex_lock(&fake->lock);
    fake->step = step;
    command(fake, HYD_FAKE_C_ASSIGN);
    (void)pthread_mutex_unlock(&fake->lock);
}

void hyd_fake_abort(struct hyd_fake *fake, uint64_t step)
{
    (void)pthread_mutex_lock(&fake->lock);
    fake->abort_step = step;
    command(fake, HYD_FAKE_C_ABORT);
    (void)pthread_mutex_unlock(&fake->lock);
}

void hyd_fake_drain(struct hyd_fake *fake, char name)
{
    const char names[] = {name, '\0'};

    command_names(fake, HYD_FAKE_C_DRAIN, names);
}

void hyd_fake_refuse(struct hyd_fake *fake, char name)
{
    const char names[] = {name, '\0'};

    command_names(fake, HYD_FAKE_C_REFUSE, names);
}

void hyd_fake_cut(struct hyd_fake *fake, char name)
{
    const char names[] = {name, '\0'};

    command_names(fake, HYD_FAKE_C_CUT, names);
}

static bool all_hold(struct hyd_fake *fake, const char *names,
                     bool (*holds)(const struct hyd_fake_agent *agent))
{
    for (const char *name = names; *name != '\0'; name++) {
        if (!holds(&hyd_fake_seat_of(fake, *name)->is)) {
            return false;
        }
    }
    return true;
}

bool hyd_fake_wait(struct hyd_fake *fake, const char *names,
                   bool (*holds)(const struct hyd_fake_agent *agent))
{
    struct timespec end;
    bool fine = false;
    int rc = 0;

    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += HYD_FAKE_WAIT_MS / 1000;
    (void)pthread_mutex_lock(&fake->lock);
    fine = all_hold(fake, names, holds);
    while (!fine && rc == 0) {
        rc = pthread_cond_timedwait(&fake->changed, &fake->lock, &end);
        fine = all_hold(fake, names, holds);
    }
    (void)pthread_mutex_unlock(&fake->lock);
    return fine;
}

bool hyd_fake_is_attached(const struct hyd_fake_agent *agent)
{
    return agent->attached;
}

bool hyd_fake_is_gone(const struct hyd_fake_agent *agent)
{
    return !agent->attached;
}

bool hyd_fake_is_addressed(const struct hyd_fake_agent *agent)
{
    return agent->n_addresses == agent->n_ranks;
}

bool hyd_fake_is_ready(const struct hyd_fake_agent *agent)
{
    return agent->ready;
}

bool hyd_fake_has_reported(const struct hyd_fake_agent *agent)
{
    return agent->n_reports > 0;
}

bool hyd_fake_epoch(struct hyd_fake *fake, const char *names)
{
    hyd_fake_welcome(fake, names);
    if (!hyd_fake_wait(fake, names, hyd_fake_is_addressed)) {
        return false;
    }
    hyd_fake_members(fake);
    return hyd_fake_wait(fake, names, hyd_fake_is_ready);
}

static bool reported_or_out(const struct hyd_fake_agent *agent)
{
    return !agent->member || agent->n_reports > 0;
}

bool hyd_fake_run(struct hyd_fake *fake, const struct hyd_fake_step *step)
{
    hyd_fake_assign(fake, step);
    return hyd_fake_wait(fake, "abcdefgh", reported_or_out);
}
