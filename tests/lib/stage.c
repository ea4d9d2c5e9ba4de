/* stage.c - see stage.h. */
#include "tests/lib/stage.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/test.h"

int hyd_stage_set_up(void **state)
{
    struct hyd_stage *stage = calloc(1, sizeof *stage);

    *state = stage;
    if (stage == NULL) {
        return -1;
    }
    hyd_spawn_init(&stage->spawn);
    (void)snprintf(stage->address, sizeof stage->address, "unix:%s/socket",
                   stage->spawn.folder);
    return 0;
}

int hyd_stage_tear_down(void **state)
{
    struct hyd_stage *stage = *state;

    hyd_spawn_release(&stage->spawn);
    if (stage->fake != NULL) {
        hyd_fake_stop(stage->fake);
    }
    free(stage);
    return 0;
}

void hyd_stage_scheduler(struct hyd_stage *stage, const struct hyd_fake_config *config)
{
    struct hyd_fake_config with_address = *config;

    with_address.address = stage->address;
    stage->fake = hyd_fake_start(&with_address);
}

unsigned hyd_stage_worker(struct hyd_stage *stage, const char *node, const char *ranks,
                          const char *transport)
{
    char path[HYD_SPAWN_PATH_BYTES];
    const char *argv[] = {path,   "--connect",   stage->address, "--job",
                          "test", "--node",      node,           "--ranks",
                          ranks,  "--transport", transport,      "--threads-per-rank",
                          "1",    NULL};

    hyd_spawn_program("hydra-worker", path);
    return hyd_spawn_start(&stage->spawn, node, argv);
}

void hyd_stage_need(const struct hyd_stage *stage, bool condition, const char *what)
{
    if (!condition) {
        hyd_spawn_show_logs(&stage->spawn);
        fail_msg("%s", what);
    }
}
