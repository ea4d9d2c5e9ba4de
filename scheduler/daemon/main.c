/*
 * main.c - hydra-schedd: settings, the loop, the exit code.
 *
 * Exit status: 0 stopped as asked, 1 could not start, 2 wrong usage or settings.
 */
#include <malloc.h>
#include <stdio.h>
#include <uv.h>

#include "scheduler/daemon/daemon.h"
#include "scheduler/daemon/settings.h"

#include "common/base/banned.h"

static const char *text_of(hyd_status st, const struct hyd_error *err)
{
    return err->text[0] == '\0' ? hyd_status_name(st) : err->text;
}

static int run(const struct hyd_daemon_settings *settings)
{
    struct hyd_daemon *daemon = NULL;
    struct hyd_error err = {0};
    uv_loop_t loop;
    hyd_status st = HYD_OK;

    if (uv_loop_init(&loop) != 0) {
        (void)fprintf(stderr, "hydra-schedd: no event loop\n");
        return 1;
    }
    st = hyd_daemon_start(&loop, settings, &daemon, &err);
    if (st == HYD_OK) {
        (void)uv_run(&loop, UV_RUN_DEFAULT);
    } else {
        (void)fprintf(stderr, "hydra-schedd: %s\n", text_of(st, &err));
    }
    hyd_daemon_free(daemon);
    (void)uv_loop_close(&loop);
    return st == HYD_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    static const struct hyd_config_program program = {
        .name = "hydra-schedd",
        .version = HYD_VERSION,
        .summary = "plan the steps of training jobs and send them to their agents",
        .default_file = "/etc/hydra/hydra.conf",
        .check = hyd_daemon_check,
        .check_files = hyd_daemon_check_files,
    };
    struct hyd_daemon_settings settings = {0};
    struct hyd_config *config = NULL;
    struct hyd_error err = {0};
    bool done = false;
    int code = 0;
    hyd_status st = HYD_OK;

    /* One heap: what a connection holds is made by several threads, and a heap for each
     * costs a twentieth of it. Plans allocate next to nothing. Before the first thread. */
    (void)mallopt(M_ARENA_MAX, 1);
    st = hyd_config_create(hyd_alloc_system(), hyd_daemon_setting_table,
                           hyd_daemon_setting_count, &settings, &config, &err);

    if (st == HYD_OK) {
        st = hyd_config_main(config, argc, argv, &program, &done, &err);
    }
    if (st != HYD_OK) {
        (void)fprintf(stderr, "hydra-schedd: %s\n", text_of(st, &err));
        code = 2;
    } else if (!done) {
        code = run(&settings);
    }
    hyd_config_free(config);
    return code;
}
