/* cmd_watch.c - what the daemon's jobs do: a live picture on a terminal, one line a change
 * in a pipe. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/rpc/json.h"
#include "scheduler/cli/command.h"
#include "scheduler/cli/json.h"
#include "scheduler/cli/parse.h"
#include "scheduler/cli/remote/live.h"
#include "scheduler/cli/remote/remote.h"
#include "scheduler/cli/remote/remote_view.h"
#include "scheduler/cli/screen.h"

enum key { KEY_CELLS = HYD_ARG_OWN, KEY_COUNT, KEY_INTERVAL };

enum { LINE_BYTES = 512 };

static const double DEFAULT_INTERVAL_S = 1;

/* The last line of each job, to say only what changed. */
struct said {
    char line[HYD_LIVE_JOBS][LINE_BYTES];
    size_t n;
};

struct input {
    struct hyd_cli *cli;
    struct hyd_remote_args remote;
    const char *job; /* NULL: all open jobs */
    uint64_t count; /* updates or pictures after which to stop; 0: never */
    bool cells;
    double interval_s;
    uint64_t n_seen;
    hyd_status status; /* of the stream's writer */
    struct hyd_error err;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct input *in = state->input;
    struct hyd_error *err = &in->cli->error;

    switch (key) {
    case KEY_COUNT:
        return hyd_args_status(
            hyd_parse_u64("option '--count'", arg, 1, UINT64_MAX, &in->count, err));
    case KEY_INTERVAL:
        return hyd_args_status(hyd_parse_real("option '--interval'", arg, 0.05, 3600,
                                              &in->interval_s, err));
    case KEY_CELLS:
        in->cells = true;
        return 0;
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &in->remote;
        return 0;
    case ARGP_KEY_ARG:
        if (in->job != NULL) {
            return hyd_args_surplus(in->cli, arg, "one JOB");
        }
        in->job = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"cells", KEY_CELLS, NULL, 0, "With JOB and --json: measured seconds of each cell",
     0},
    {"count", KEY_COUNT, "N", 0, "Stop after N updates (never)", 0},
    {"interval", KEY_INTERVAL, "S", 0,
     "Seconds between two looks, where the daemon is asked again and again (1)", 0},
    {0},
};

/* --- one job in a pipe: the daemon tells each change --- */

/* One JSON document a line: an update is whole when its line is. */
static hyd_status print_json_line(struct hyd_cli *cli, const ProtobufCMessage *message,
                                  struct hyd_error *err)
{
    json_t *object = hyd_json_encode(message, HYD_JSON_PLAIN);
    char *text = object != NULL ? json_dumps(object, JSON_COMPACT) : NULL;

    json_decref(object);
    if (text == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for an update");
    }
    (void)fprintf(cli->out, "%s\n", text);
    free(text);
    return HYD_OK;
}

static bool on_update(void *ctx, const ProtobufCMessage *message)
{
    const Hydra__V1__WatchStepsResponse *update =
        (const Hydra__V1__WatchStepsResponse *)message;
    struct input *in = ctx;

    in->n_seen++;
    if (update->step == NULL) {
        return true;
    }
    if (in->cli->json) {
        in->status = print_json_line(in->cli, message, &in->err);
    } else {
        if (update->dropped > 0) {
            (void)fprintf(in->cli->out, "job=%s dropped=%" PRIu32 "\n", in->job,
                          update->dropped);
        }
        hyd_remote_step_line(in->cli->out, in->job, update->step);
    }
    if (fflush(in->cli->out) != 0 && in->status == HYD_OK) {
        in->status = hyd_error_set(&in->err, HYD_ERR_IO, "cannot write an update");
    }
    return in->status == HYD_OK && (in->count == 0 || in->n_seen < in->count);
}

static void say_closed(const struct input *in)
{
    hyd_cli_note(in->cli, "job %s is closed", in->job);
}

static hyd_status run_stream(struct input *in, struct hyd_remote *remote,
                             struct hyd_error *err)
{
    Hydra__V1__WatchStepsRequest request = HYDRA__V1__WATCH_STEPS_REQUEST__INIT;
    const struct hyd_remote_stream stream = {
        .spec = &hyd_rpc_watch_steps,
        .request = &request.base,
        .on_message = on_update,
        .ctx = in,
    };
    hyd_status st = HYD_OK;

    request.job = (char *)in->job;
    request.include_cells = in->cells;
    st = hyd_remote_stream(remote, &in->remote, &stream, err);
    if (in->status != HYD_OK) {
        *err = in->err;
        return in->status;
    }
    if (st == HYD_OK && (in->count == 0 || in->n_seen < in->count)) {
        say_closed(in);
    }
    return st;
}

/* --- looks, again and again --- */

static double now_s(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void wait_interval(const struct input *in)
{
    const struct timespec wait = {
        .tv_sec = (time_t)in->interval_s,
        .tv_nsec = (long)((in->interval_s - (double)(time_t)in->interval_s) * 1e9)};

    (void)nanosleep(&wait, NULL);
}

static hyd_status say_changes(struct input *in, const struct hyd_live *live,
                              struct said *said, struct hyd_error *err)
{
    for (size_t i = 0; i < live->n_jobs; i++) {
        char line[LINE_BYTES] = "";
        FILE *out = fmemopen(line, sizeof line, "w");
        hyd_status st = HYD_OK;

        if (out == NULL) {
            return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for a line");
        }
        hyd_live_line(&live->jobs[i], out);
        (void)fclose(out);
        if (i < said->n && strcmp(said->line[i], line) == 0) {
            continue;
        }
        memcpy(said->line[i], line, sizeof line);
        if (in->cli->json) {
            st = print_json_line(in->cli, &live->jobs[i].info->base, err);
        } else {
            (void)fputs(line, in->cli->out);
        }
        if (st != HYD_OK) {
            return st;
        }
    }
    said->n = live->n_jobs;
    return fflush(in->cli->out) == 0
               ? HYD_OK
               : hyd_error_set(err, HYD_ERR_IO, "cannot write an update");
}

static void write_head(const struct hyd_cli *cli, const struct hyd_remote *remote,
                       double interval_s, const char *trouble)
{
    const time_t seconds = time(NULL);
    struct tm local = {0};
    char at[16] = "";

    if (localtime_r(&seconds, &local) != NULL) {
        (void)strftime(at, sizeof at, "%H:%M:%S", &local);
    }
    (void)fprintf(cli->out, "%s  every %g s  %s  (Ctrl-C ends)\n", remote->target,
                  interval_s, at);
    if (trouble != NULL) {
        (void)fprintf(cli->out, "NO ANSWER, trying again: %s\n", trouble);
    }
    (void)fputc('\n', cli->out);
}

/* A picture is made in memory and put on the screen at once. trouble: NULL, or why there
 * is no new look. */
static hyd_status draw(struct input *in, const struct hyd_remote *remote,
                       const struct hyd_live *live, const char *trouble,
                       struct hyd_error *err)
{
    struct hyd_cli cli = *in->cli;
    char *text = NULL;
    size_t n = 0;
    int columns = 0;
    int rows = 0;
    hyd_status st = HYD_OK;

    hyd_cli_screen(&columns, &rows);
    cli.out = open_memstream(&text, &n);
    if (cli.out == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for a picture");
    }
    write_head(&cli, remote, in->interval_s, trouble);
    if (trouble == NULL) {
        st = hyd_live_show(live, &cli, rows, err);
    }
    (void)fclose(cli.out);
    if (st == HYD_OK) {
        hyd_screen_draw(in->cli->out, text, columns, rows);
        if (fflush(in->cli->out) != 0) {
            st = hyd_error_set(err, HYD_ERR_IO, "cannot write to the terminal");
        }
    }
    free(text);
    return st;
}

/* One look and what it shows. A daemon that answered once may come back. */
static hyd_status look(struct input *in, struct hyd_remote *remote,
                       struct hyd_live *live, struct said *said, struct hyd_error *err)
{
    hyd_status st = hyd_live_look(live, remote, &in->remote, now_s(), err);
    const bool lost = st == HYD_ERR_UNAVAILABLE || st == HYD_ERR_TIMEOUT;

    if (lost && in->n_seen > 0 && in->cli->terminal) {
        return draw(in, remote, live, err->text, err);
    }
    if (st != HYD_OK) {
        return st;
    }
    return in->cli->terminal && !in->cli->json ? draw(in, remote, live, NULL, err)
                                               : say_changes(in, live, said, err);
}

static bool is_over(const struct hyd_live *live)
{
    return live->job != NULL && live->n_jobs == 1 && !live->jobs[0].info->open;
}

static hyd_status run_looks(struct input *in, struct hyd_remote *remote,
                            struct hyd_error *err)
{
    struct hyd_live *live = hyd_alloc_zeroed(in->cli->alloc, 1, sizeof *live);
    struct said *said = hyd_alloc_zeroed(in->cli->alloc, 1, sizeof *said);
    hyd_status st = HYD_OK;

    if (live == NULL || said == NULL) {
        st = hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory to watch");
        goto out;
    }
    live->job = in->job;
    if (in->cli->terminal && !in->cli->json) {
        (void)fputs("\033[2J", in->cli->out);
    }
    for (;;) {
        st = look(in, remote, live, said, err);
        in->n_seen++;
        if (st != HYD_OK || is_over(live) || in->n_seen == in->count) {
            break;
        }
        wait_interval(in);
    }
    if (in->cli->terminal && !in->cli->json) {
        (void)fputc('\n', in->cli->out);
    }
    if (st == HYD_OK && is_over(live)) {
        say_closed(in);
    }
out:
    hyd_alloc_free(in->cli->alloc, live);
    hyd_alloc_free(in->cli->alloc, said);
    return st;
}

static hyd_status run(void *input, struct hyd_remote *remote, struct hyd_error *err)
{
    struct input *in = input;
    const bool live = in->cli->terminal && !in->cli->json;

    if (in->cells && (in->job == NULL || !in->cli->json)) {
        return hyd_error_field(err, HYD_ERR_INVALID, "cells",
                               "option '--cells' goes with a JOB and --json");
    }
    return in->job == NULL || live ? run_looks(in, remote, err)
                                   : run_stream(in, remote, err);
}

int hyd_cmd_watch(struct hyd_cli *cli, int argc, char **argv)
{
    const struct argp_child children[] = {{&hyd_remote_argp, 0, "Daemon:", 2}, {0}};
    const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "[JOB]",
        .doc = "Follow a job until it is closed, or all open jobs: a live picture on a "
               "terminal (step rate, balance predicted and measured, members, last "
               "faults), one line a change in a pipe, one JSON document a line with "
               "--json.",
        .children = children,
    };
    struct input in = {.cli = cli, .interval_s = DEFAULT_INTERVAL_S};
    const struct hyd_remote_command command = {
        .cli = cli, .argp = &argp, .input = &in, .args = &in.remote, .run = run};

    return hyd_remote_command_run(&command, argc, argv);
}
