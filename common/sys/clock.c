/* clock.c - see clock.h. */
#include "common/sys/clock.h"

#include <time.h>

#include "common/base/banned.h"

enum { NS_PER_MS = 1000000 };

static uint64_t read_ns(clockid_t id)
{
    struct timespec at = {0};

    (void)clock_gettime(id, &at);
    return (uint64_t)at.tv_sec * 1000000000U + (uint64_t)at.tv_nsec;
}

static uint64_t system_mono_ns(void *ctx)
{
    (void)ctx;
    return read_ns(CLOCK_MONOTONIC);
}

static int64_t system_wall_ms(void *ctx)
{
    (void)ctx;
    return (int64_t)(read_ns(CLOCK_REALTIME) / NS_PER_MS);
}

const struct hyd_clock *hyd_clock_system(void)
{
    static const struct hyd_clock system_clock = {
        .mono_ns = system_mono_ns,
        .wall_ms = system_wall_ms,
        .ctx = NULL,
    };

    return &system_clock;
}

uint64_t hyd_clock_mono_ns(const struct hyd_clock *clock)
{
    return clock->mono_ns(clock->ctx);
}

uint64_t hyd_clock_mono_ms(const struct hyd_clock *clock)
{
    return clock->mono_ns(clock->ctx) / NS_PER_MS;
}

int64_t hyd_clock_wall_ms(const struct hyd_clock *clock)
{
    return clock->wall_ms(clock->ctx);
}

double hyd_clock_thread_cpu_s(void)
{
    return (double)read_ns(CLOCK_THREAD_CPUTIME_ID) * 1e-9;
}

static uint64_t fake_mono_ns(void *ctx)
{
    return ((const struct hyd_fake_clock *)ctx)->now_ns;
}

static int64_t fake_wall_ms(void *ctx)
{
    return ((const struct hyd_fake_clock *)ctx)->wall_ms;
}

void hyd_fake_clock_init(struct hyd_fake_clock *fake, uint64_t now_ns, int64_t wall_ms)
{
    *fake = (struct hyd_fake_clock){
        .clock = {.mono_ns = fake_mono_ns, .wall_ms = fake_wall_ms, .ctx = fake},
        .now_ns = now_ns,
        .wall_ms = wall_ms,
    };
}

void hyd_fake_clock_advance_ms(struct hyd_fake_clock *fake, uint64_t ms)
{
    fake->now_ns += ms * NS_PER_MS;
    fake->wall_ms += (int64_t)ms;
}
