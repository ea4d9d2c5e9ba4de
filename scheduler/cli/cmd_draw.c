/* cmd_draw.c - a plan as a picture, a trace or a page. */
#include <inttypes.h>
#include <string.h>

#include "scheduler/cli/args.h"
#include "scheduler/cli/command.h"
#include "scheduler/cli/draw/draw.h"
#include "scheduler/cli/file.h"
#include "scheduler/cli/json.h"
#include "scheduler/cli/parse.h"

enum key { KEY_MAX = HYD_ARG_OWN };

struct input {
    struct hyd_cli *cli;
    const char *path;
    const char *out_path;
    uint64_t max_slices;
};

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0, "What to write: .svg, .trace.json or .html", 0},
    {"max-slices", KEY_MAX, "N", 0,
     "Slices of a trace; stages beyond them are left out (400000)", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct input *in = state->input;

    switch (key) {
    case 'o':
        in->out_path = arg;
        return 0;
    case KEY_MAX:
        return hyd_args_status(hyd_parse_u64("option '--max-slices'", arg, 1, 1U << 30,
                                             &in->max_slices, &in->cli->error));
    case ARGP_KEY_ARG:
        if (in->path != NULL) {
            return hyd_args_surplus(in->cli, arg, "one PLAN.json");
        }
        in->path = arg;
        return 0;
    case ARGP_KEY_END:
        if (in->path == NULL) {
            return hyd_args_missing(in->cli, "PLAN.json");
        }
        return in->out_path != NULL ? 0 : hyd_args_missing(in->cli, "option '-o FILE'");
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "PLAN.json",
    .doc = "Draw a plan: .svg: loads and degrees of all cells and the pipeline of the "
           "busiest "
           "rank; .trace.json: every rank and stage over time, for Perfetto or "
           "speedscope; .html: one page with the picture, its figures and each cell's "
           "numbers.",
};

static bool ends_with(const char *text, const char *ending)
{
    const size_t n = strlen(text);
    const size_t n_ending = strlen(ending);

    return n >= n_ending && strcmp(text + n - n_ending, ending) == 0;
}

static hyd_status draw(struct input *in, struct hyd_draw *picture, FILE *out,
                       struct hyd_error *err)
{
    uint32_t n_stages = 0;
    hyd_status st = HYD_OK;

    if (ends_with(in->out_path, ".svg")) {
        return hyd_draw_svg(picture, out, err);
    }
    if (ends_with(in->out_path, ".html")) {
        return hyd_draw_page(picture, out, err);
    }
    st = hyd_draw_trace(picture, in->max_slices, out, &n_stages, err);
    if (st == HYD_OK && n_stages < picture->counted.pool.pp) {
        hyd_cli_note(in->cli,
                     "the trace has stages 0 to %" PRIu32 " of %" PRIu32
                     " (--max-slices)",
                     n_stages - 1, picture->counted.pool.pp);
    }
    return st;
}

static hyd_status write_file(struct input *in, struct hyd_draw *picture,
                             struct hyd_error *err)
{
    struct hyd_file_out file;
    hyd_status st = hyd_file_create(&file, in->out_path, in->cli->out, err);

    if (st != HYD_OK) {
        return st;
    }
    st = draw(in, picture, file.stream, err);
    return hyd_file_finish(&file, st, err);
}

static hyd_status run(struct input *in, struct hyd_error *err)
{
    struct hyd_plan_doc doc = {.known_policy = false};
    struct hyd_draw picture = {.doc = NULL};
    hyd_status st = HYD_OK;

    if (!ends_with(in->out_path, ".svg") && !ends_with(in->out_path, ".html") &&
        !ends_with(in->out_path, ".trace.json")) {
        return hyd_error_field(
            err, HYD_ERR_INVALID, "output",
            "option '-o' is '%.60s', must end in .svg, .trace.json or "
            ".html",
            in->out_path);
    }
    st = hyd_plan_doc_read(in->cli->alloc, in->path, &doc, err);
    if (st == HYD_OK) {
        st = hyd_draw_open(in->cli->alloc, &doc, &picture, err);
    }
    if (st == HYD_OK) {
        st = write_file(in, &picture, err);
    }
    hyd_draw_release(&picture);
    hyd_plan_doc_release(&doc);
    return st;
}

int hyd_cmd_draw(struct hyd_cli *cli, int argc, char **argv)
{
    struct input in = {.cli = cli};
    struct hyd_error err = {.text = ""};
    hyd_status st = HYD_OK;
    int code = 0;

    if (hyd_args_parse(cli, &argp, argc, argv, &in, &code) == HYD_ARGS_STOP) {
        return code;
    }
    st = run(&in, &err);
    if (st == HYD_OK && cli->json) {
        st = hyd_json_print(
            cli->out, json_pack("{s:o}", "output", hyd_json_text(in.out_path)), &err);
    }
    return st == HYD_OK ? HYD_EXIT_DONE : hyd_cli_fail(cli, st, &err);
}
