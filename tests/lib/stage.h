/*
 * stage.h - a scripted scheduler and agents as processes, for one test.
 *
 * What     set_up and tear_down are cmocka's: tear_down runs also when the test failed,
 *          kills what is left and removes the temporary folder. hyd_stage_need fails the
 *          test after showing what the agents said.
 * Threads  the test's main thread.
 */
#ifndef HYD_TESTS_LIB_STAGE_H
#define HYD_TESTS_LIB_STAGE_H

#include <stdbool.h>

#include "tests/lib/fake_scheduler.h"
#include "tests/lib/spawn.h"

struct hyd_stage {
    struct hyd_spawn spawn;
    struct hyd_fake *fake;
    char address[2 * HYD_SPAWN_PATH_BYTES]; /* of the scheduler */
};

int hyd_stage_set_up(void **state);
int hyd_stage_tear_down(void **state);

void hyd_stage_scheduler(struct hyd_stage *stage, const struct hyd_fake_config *config);

/* Start a hydra-worker; returns the child's number. */
unsigned hyd_stage_worker(struct hyd_stage *stage, const char *node, const char *ranks,
                          const char *transport);

void hyd_stage_need(const struct hyd_stage *stage, bool condition, const char *what);

#endif
