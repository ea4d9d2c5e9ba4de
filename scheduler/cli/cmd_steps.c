/* cmd_steps.c - the steps of a job, once (steps) or as they change (watch). On a terminal
 * watch draws the last steps over and over; in a pipe each update is one line. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/rpc/json.h"
#include "scheduler/cli/command.h"
#include "scheduler/cli/json.h"
#include "scheduler/cli/parse.h"
#include "scheduler/cli/remote/remote.h"
#include "scheduler/cli/remote/remote_view.h"

enum key { KEY_FROM = HYD_ARG_OWN, KEY_LIMIT, KEY_CELLS, KEY_COUNT };

enum { SHOWN_STEPS = 16, DEFAULT_LIMIT = 100, MAX_LIMIT = 1000000, PAGE = 1000 };

struct input {
    struct hyd_cli *cli;
    struct hyd_remote_args remote;
    const char *job;
    uint64_t from;
    uint64_t limit;
    uint64_t count; /* watch: updates after which to stop; 0: never */
    bool cells;
    /* watch: */
    uint64_t n_seen;
    Hydra__V1__StepInfo *shown[SHOWN_STEPS]; /* newest last */
    size_t n_shown;
    double begin_s; /* when the first update came */
    uint64_t n_done;
    uint64_t fault_step; /* of the last step that failed */
    char fault[HYD_BAR_BYTES]; /* why; "": none failed */
    hyd_status status;
    struct hyd_error err;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct input *in = state->input;
    struct hyd_error *err = &in->cli->error;

    switch (key) {
    case KEY_FROM:
        return hyd_args_status(
            hyd_parse_u64("option '--from'", arg, 0, UINT64_MAX, &in->from, err));
    case KEY_LIMIT:
        return hyd_args_status(
            hyd_parse_u64("option '--limit'", arg, 1, MAX_LIMIT, &in->limit, err));
    case KEY_COUNT:
        return hyd_args_status(
            hyd_parse_u64("option '--count'", arg, 1, UINT64_MAX, &in->count, err));
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
    case ARGP_KEY_END:
        return in->job != NULL ? 0 : hyd_args_missing(in->cli, "JOB");
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option steps_options[] = {
    {"from", KEY_FROM, "STEP", 0, "First step to list (0)", 0},
    {"limit", KEY_LIMIT, "N", 0, "Steps to list (100)", 0},
    {0},
};

static const struct argp_option watch_options[] = {
    {"cells", KEY_CELLS, NULL, 0, "With --json: measured seconds of each cell too", 0},
    {"count", KEY_COUNT, "N", 0, "Stop after N updates (never)", 0},
    {0},
};

/* One page of the list; *ret_more and in->from say where to go on. */
static hyd_status list_page(struct input *in, struct hyd_remote *remote,
                            uint64_t n_want,
                            const Hydra__V1__ListStepsResponse **ret_page,
                            struct hyd_error *err)
{
    Hydra__V1__ListStepsRequest request = HYDRA__V1__LIST_STEPS_REQUEST__INIT;
    const ProtobufCMessage *response = NULL;
    hyd_status st = HYD_OK;

    request.job = (char *)in->job;
    request.from_step = in->from;
    request.limit = (uint32_t)(n_want < PAGE ? n_want : PAGE);
    st = hyd_remote_call(remote, &in->remote, &hyd_rpc_list_steps, &request.base,
                         &response, err);
    if (st == HYD_OK) {
        *ret_page = (const Hydra__V1__ListStepsResponse *)response;
    }
    return st;
}

static void add_page(const struct input *in, struct hyd_table *table, json_t *list,
                     const Hydra__V1__ListStepsResponse *page)
{
    for (size_t i = 0; i < page->n_steps; i++) {
        if (in->cli->json) {
            (void)json_array_append_new(
                list, hyd_json_encode(&page->steps[i]->base, HYD_JSON_PLAIN));
        } else {
            hyd_remote_step_row(table, page->steps[i]);
        }
    }
}

static hyd_status print_list(const struct input *in, const struct hyd_table *table,
                             json_t *take_list, bool more, struct hyd_error *err)
{
    if (in->cli->json) {
        return hyd_json_print(in->cli->out,
                              json_pack("{s:s, s:o, s:b}", "job", in->job, "steps",
                                        take_list, "more", more),
                              err);
    }
    json_decref(take_list);
    if (table->n_cells == table->n_columns) {
        (void)fprintf(in->cli->out, "no steps yet: hydractl submit %s LENGTHS\n",
                      in->job);
        return HYD_OK;
    }
    if (more) {
        hyd_cli_note(in->cli, "more steps follow: --from %" PRIu64, in->from);
    }
    return hyd_table_print(table, in->cli, err);
}

static hyd_status run_steps(struct input *in, struct hyd_remote *remote,
                            struct hyd_error *err)
{
    uint64_t left = in->limit > 0 ? in->limit : DEFAULT_LIMIT;
    json_t *list = json_array();
    struct hyd_table table;
    bool more = true;
    hyd_status st = HYD_OK;

    hyd_table_init(&table, in->cli->alloc, hyd_remote_step_columns);
    while (st == HYD_OK && more && left > 0) {
        const Hydra__V1__ListStepsResponse *page = NULL;

        st = list_page(in, remote, left, &page, err);
        if (st == HYD_OK) {
            add_page(in, &table, list, page);
            left -= page->n_steps < left ? page->n_steps : left;
            more = page->more && page->n_steps > 0;
            in->from =
                page->n_steps > 0 ? page->steps[page->n_steps - 1]->step + 1 : in->from;
        }
    }
    if (st == HYD_OK) {
        st = print_list(in, &table, list, more, err);
    } else {
        json_decref(list);
    }
    hyd_table_release(&table);
    return st;
}

/* --- watch --- */

/* A copy that lives longer than the message: packed and unpacked. */
static Hydra__V1__StepInfo *copy_step(const Hydra__V1__StepInfo *step)
{
    const size_t n = hydra__v1__step_info__get_packed_size(step);
    uint8_t *bytes = hyd_alloc_array(hyd_alloc_system(), n > 0 ? n : 1, 1);
    Hydra__V1__StepInfo *copy = NULL;

    if (bytes != NULL) {
        (void)hydra__v1__step_info__pack(step, bytes);
        copy = hydra__v1__step_info__unpack(NULL, n, bytes);
    }
    hyd_alloc_free(hyd_alloc_system(), bytes);
    return copy;
}

/* Keep the newest state of each of the last steps, in order of their numbers. */
static void remember(struct input *in, const Hydra__V1__StepInfo *step)
{
    Hydra__V1__StepInfo *copy = copy_step(step);
    size_t at = in->n_shown;

    if (copy == NULL) {
        return; /* a picture with a gap is better than none */
    }
    for (size_t i = 0; i < in->n_shown; i++) {
        if (in->shown[i]->step == step->step) {
            hydra__v1__step_info__free_unpacked(in->shown[i], NULL);
            in->shown[i] = copy;
            return;
        }
    }
    if (in->n_shown == SHOWN_STEPS) {
        hydra__v1__step_info__free_unpacked(in->shown[0], NULL);
        memmove(in->shown, in->shown + 1, (SHOWN_STEPS - 1) * sizeof(void *));
        in->n_shown--;
        at--;
    }
    in->shown[at] = copy;
    in->n_shown++;
}

static void forget(struct input *in)
{
    for (size_t i = 0; i < in->n_shown; i++) {
        hydra__v1__step_info__free_unpacked(in->shown[i], NULL);
    }
    in->n_shown = 0;
}

static double now_s(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Steps done and the last fault, for the head of the picture. */
static void count_step(struct input *in, const Hydra__V1__StepInfo *step)
{
    if (in->n_seen == 1) {
        in->begin_s = now_s();
    }
    if (step->state == HYDRA__V1__STEP_STATE__STEP_DONE) {
        in->n_done++;
    }
    if (step->state == HYDRA__V1__STEP_STATE__STEP_FAILED) {
        in->fault_step = step->step;
        (void)snprintf(in->fault, sizeof in->fault, "%.200s",
                       step->reason[0] != '\0' ? step->reason : "no reason given");
    }
}

static void draw_head(const struct input *in,
                      const Hydra__V1__WatchStepsResponse *update)
{
    const double seconds = now_s() - in->begin_s;

    (void)fprintf(in->cli->out,
                  "\033[H\033[2Jjob %s, epoch %" PRIu32 ", %" PRIu64 " steps done",
                  in->job, update->step->epoch, in->n_done);
    if (in->n_done > 0 && seconds > 1) {
        (void)fprintf(in->cli->out, ", %.3g a second", (double)in->n_done / seconds);
    }
    (void)fprintf(in->cli->out, "%s\n",
                  update->dropped > 0 ? ", some updates were missed" : "");
    if (in->fault[0] != '\0') {
        (void)fprintf(in->cli->out, "last fault: step %" PRIu64 ": %s\n",
                      in->fault_step, in->fault);
    }
    (void)fputc('\n', in->cli->out);
}

static hyd_status draw(struct input *in, const Hydra__V1__WatchStepsResponse *update)
{
    struct hyd_table table;
    hyd_status st = HYD_OK;

    remember(in, update->step);
    count_step(in, update->step);
    hyd_table_init(&table, in->cli->alloc, hyd_remote_step_columns);
    for (size_t i = 0; i < in->n_shown; i++) {
        hyd_remote_step_row(&table, in->shown[i]);
    }
    draw_head(in, update);
    st = hyd_table_print(&table, in->cli, &in->err);
    hyd_table_release(&table);
    return st;
}

/* One JSON document a line: an update is whole when its line is. */
static hyd_status print_line(struct input *in,
                             const Hydra__V1__WatchStepsResponse *update)
{
    json_t *object = hyd_json_encode(&update->base, HYD_JSON_PLAIN);
    char *text = object != NULL ? json_dumps(object, JSON_COMPACT) : NULL;

    json_decref(object);
    if (text == NULL) {
        return hyd_error_set(&in->err, HYD_ERR_NO_MEMORY, "no memory for an update");
    }
    (void)fprintf(in->cli->out, "%s\n", text);
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
        in->status = print_line(in, update);
    } else if (in->cli->colour && in->cli->progress) {
        in->status = draw(in, update);
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

static hyd_status run_watch(struct input *in, struct hyd_remote *remote,
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
    forget(in);
    if (in->status != HYD_OK) {
        *err = in->err;
        return in->status;
    }
    return st;
}

static int run(struct input *in, const struct argp *argp, int argc, char **argv,
               hyd_status (*body)(struct input *in, struct hyd_remote *remote,
                                  struct hyd_error *err))
{
    struct hyd_remote remote = {.caller = NULL};
    struct hyd_error err = {.text = ""};
    hyd_status st = HYD_OK;
    int code = 0;

    in->remote.cli = in->cli;
    if (hyd_args_parse(in->cli, argp, argc, argv, in, &code) == HYD_ARGS_STOP) {
        return code;
    }
    st = hyd_remote_open(&remote, &in->remote, &err);
    if (st == HYD_OK) {
        st = body(in, &remote, &err);
    }
    hyd_remote_close(&remote);
    return st == HYD_OK ? HYD_EXIT_DONE : hyd_cli_fail(in->cli, st, &err);
}

int hyd_cmd_steps(struct hyd_cli *cli, int argc, char **argv)
{
    const struct argp_child children[] = {{&hyd_remote_argp, 0, "Daemon:", 2}, {0}};
    const struct argp argp = {
        .options = steps_options,
        .parser = parse,
        .args_doc = "JOB",
        .doc = "List the steps of a job: what was predicted, what was measured.",
        .children = children,
    };
    struct input in = {.cli = cli};

    return run(&in, &argp, argc, argv, run_steps);
}

int hyd_cmd_watch(struct hyd_cli *cli, int argc, char **argv)
{
    const struct argp_child children[] = {{&hyd_remote_argp, 0, "Daemon:", 2}, {0}};
    const struct argp argp = {
        .options = watch_options,
        .parser = parse,
        .args_doc = "JOB",
        .doc =
            "Follow the steps of a job until it is closed: a live table on a terminal, "
            "one line an update in a pipe, one JSON document a line with --json.",
        .children = children,
    };
    struct input in = {.cli = cli};

    return run(&in, &argp, argc, argv, run_watch);
}
