/*
 * clock.h - time behind a table, so that tests can hand in their own.
 *
 * What     Monotonic time for every decision, wall time for log lines and file names
 *          only, thread-CPU time for figures. hyd_fake_clock moves when it is told to.
 * Units    nanoseconds since an unspecified start (monotonic); milliseconds since
 *          1970 UTC (wall); seconds of CPU of the calling thread.
 * Owns     nothing; the table and its ctx are lent to whoever is handed the clock.
 * Threads  the system's clock: any thread. A fake clock: one thread.
 */
#ifndef HYD_COMMON_SYS_CLOCK_H
#define HYD_COMMON_SYS_CLOCK_H

#include <stdint.h>

struct hyd_clock {
    uint64_t (*mono_ns)(void *ctx);
    int64_t (*wall_ms)(void *ctx);
    void *ctx;
};

const struct hyd_clock *hyd_clock_system(void);

uint64_t hyd_clock_mono_ns(const struct hyd_clock *clock);
uint64_t hyd_clock_mono_ms(const struct hyd_clock *clock);
int64_t hyd_clock_wall_ms(const struct hyd_clock *clock);

/* CPU seconds used by the calling thread; always the real ones. */
double hyd_clock_thread_cpu_s(void);

/* A clock for tests: hand out &fake.clock after hyd_fake_clock_init. */
struct hyd_fake_clock {
    struct hyd_clock clock;
    uint64_t now_ns;
    int64_t wall_ms;
};

void hyd_fake_clock_init(struct hyd_fake_clock *fake, uint64_t now_ns, int64_t wall_ms);
void hyd_fake_clock_advance_ms(struct hyd_fake_clock *fake, uint64_t ms);

#endif
