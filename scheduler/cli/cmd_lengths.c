/* cmd_lengths.c - read or measure sequence lengths. */
#include <inttypes.h>
#include <string.h>

#include "scheduler/cli/args.h"
#include "scheduler/cli/command.h"
#include "scheduler/cli/file.h"
#include "scheduler/cli/json.h"
#include "scheduler/cli/lengths/import.h"
#include "scheduler/cli/parse.h"
#include "scheduler/cli/table.h"
#include "scheduler/core/types.h"

enum { MAX_PATHS = 4096, BAR_COLUMNS = 30 };

static const uint64_t MAX_TOKENS = UINT64_C(1) << 44;

enum key { KEY_SAMPLE = HYD_ARG_OWN, KEY_BYTES, KEY_CLIP, KEY_SCALE, KEY_TOKENS };

struct input {
    struct hyd_cli *cli;
    struct hyd_import_options import;
    const char *path[MAX_PATHS];
    size_t n_paths;
    uint64_t sample; /* 0: all */
    uint64_t seed;
    uint64_t keep_tokens; /* 0: all */
    double scale;
    uint32_t clip; /* 0: off */
    const char *out_path;
    size_t n_read; /* before sampling */
};

static const struct argp_option options[] = {
    {"format", 'F', "NAME", 0,
     "auto, lines, jsonl, csv, json, megatron or text (default: auto)", 0},
    {"field", 'f', "NAME[+NAME]", 0,
     "Fields or columns whose values are added (default: the known ones)", 0},
    {"bytes-per-token", KEY_BYTES, "B", 0,
     "Bytes of text that make a token (default: 4)", 0},
    {"sample", KEY_SAMPLE, "N", 0, "Draw N of the lengths without replacement", 0},
    {"seed", 's', "S", 0, "Seed of the draw (default: 0)", 0},
    {"scale", KEY_SCALE, "X", 0, "Multiply every length by X, at least 1 token", 0},
    {"clip", KEY_CLIP, "TOKENS", 0, "Cut every length to at most TOKENS", 0},
    {"tokens", KEY_TOKENS, "N", 0, "Keep the first lengths that sum to at most N", 0},
    {"output", 'o', "FILE", 0, "Write the lengths, one a line (- is standard output)",
     0},
    {0},
};

static hyd_status parse_number(struct input *in, int key, const char *arg)
{
    struct hyd_error *err = &in->cli->error;

    switch (key) {
    case KEY_SAMPLE:
        return hyd_parse_u64("option '--sample'", arg, 1, HYD_LENGTHS_MAX, &in->sample,
                             err);
    case 's':
        return hyd_parse_u64("option '--seed'", arg, 0, UINT64_MAX, &in->seed, err);
    case KEY_TOKENS:
        return hyd_parse_many_tokens("option '--tokens'", arg, 1, MAX_TOKENS,
                                     &in->keep_tokens, err);
    case KEY_SCALE:
        return hyd_parse_real("option '--scale'", arg, 1e-6, 1e6, &in->scale, err);
    case KEY_CLIP:
        return hyd_parse_tokens("option '--clip'", arg, 1, HYD_MAX_LENGTH_TOKENS,
                                &in->clip, err);
    default:
        return hyd_parse_real("option '--bytes-per-token'", arg, 0.1, 1000,
                              &in->import.bytes_per_token, err);
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct input *in = state->input;

    switch (key) {
    case 'F':
        in->import.format = arg;
        return 0;
    case 'f':
        in->import.field = arg;
        return 0;
    case 'o':
        in->out_path = arg;
        return 0;
    case 's':
    case KEY_SAMPLE:
    case KEY_BYTES:
    case KEY_CLIP:
    case KEY_SCALE:
    case KEY_TOKENS:
        return hyd_args_status(parse_number(in, key, arg));
    case ARGP_KEY_ARG:
        if (in->n_paths == MAX_PATHS) {
            return hyd_args_surplus(in->cli, arg, "at most 4096 paths; name a folder");
        }
        in->path[in->n_paths++] = arg;
        return 0;
    case ARGP_KEY_END:
        return in->n_paths > 0
                   ? 0
                   : hyd_args_missing(in->cli, "PATH (a file, a folder, or -)");
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "PATH...",
    .doc =
        "Read sequence lengths from files (or - for standard input), or measure text "
        "files and folders, and print what they look like.",
};

static hyd_status gather(struct input *in, struct hyd_lengths *list,
                         struct hyd_error *err)
{
    hyd_status st = HYD_OK;

    for (size_t i = 0; st == HYD_OK && i < in->n_paths; i++) {
        hyd_cli_progress(in->cli, "reading path", i, in->n_paths);
        st = hyd_import_path(&in->import, in->path[i], list, err);
    }
    hyd_cli_progress(in->cli, "reading path", in->n_paths, in->n_paths);
    if (st == HYD_OK && list->n == 0) {
        st = hyd_error_field(err, HYD_ERR_INVALID, "path",
                             "no lengths in '%.80s'; must hold at least one",
                             in->path[0]);
    }
    in->n_read = list->n;
    if (st == HYD_OK && in->sample > 0) {
        st = hyd_lengths_sample(list, in->sample, in->seed, err);
    }
    if (st == HYD_OK && in->scale != 1) {
        st = hyd_lengths_scale(list, in->scale, err);
    }
    if (st == HYD_OK && in->clip > 0) {
        hyd_lengths_clip(list, in->clip);
    }
    if (st == HYD_OK && in->keep_tokens > 0) {
        hyd_lengths_keep_tokens(list, in->keep_tokens);
        if (list->n == 0) {
            st = hyd_error_field(err, HYD_ERR_INVALID, "tokens",
                                 "option '--tokens' is %" PRIu64
                                 ", but the first length alone is %" PRIu32,
                                 in->keep_tokens, list->length_tokens[0]);
        }
    }
    return st;
}

static hyd_status write_lengths(const struct input *in, const struct hyd_lengths *list,
                                struct hyd_error *err)
{
    struct hyd_file_out out;
    hyd_status st = hyd_file_create(&out, in->out_path, in->cli->out, err);

    if (st != HYD_OK) {
        return st;
    }
    for (size_t i = 0; i < list->n; i++) {
        if (list->extra_work_s != NULL) {
            char work[HYD_JSON_REAL_BYTES];

            (void)fprintf(out.stream, "%" PRIu32 "\t%s\n", list->length_tokens[i],
                          hyd_json_real(list->extra_work_s[i], work));
        } else {
            (void)fprintf(out.stream, "%" PRIu32 "\n", list->length_tokens[i]);
        }
    }
    return hyd_file_commit(&out, err);
}

static hyd_status print_json(const struct input *in, const struct hyd_lengths *list,
                             const struct hyd_length_stats *s, struct hyd_error *err)
{
    json_t *buckets = json_array();

    for (size_t i = 0; i < s->n_buckets; i++) {
        const struct hyd_length_bucket *b = &s->bucket[i];

        (void)json_array_append_new(
            buckets,
            json_pack("{s:I, s:I, s:I, s:f, s:f}", "from_tokens",
                      (json_int_t)b->from_tokens, "to_tokens", (json_int_t)b->to_tokens,
                      "count", (json_int_t)b->n, "share_tokens", b->share_tokens,
                      "share_work", b->share_work));
    }
    return hyd_json_print(
        in->cli->out,
        json_pack(
            "{s:s, s:s, s:I, s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
            "s:f, s:f, s:f, s:o}",
            "format", list->format, "field", list->field, "count", (json_int_t)s->n,
            "read", (json_int_t)in->n_read, "estimated", (json_int_t)list->n_estimated,
            "skipped", (json_int_t)list->n_skipped, "bytes_per_token",
            in->import.bytes_per_token, "tokens", (json_int_t)s->tokens, "min",
            (json_int_t)s->min, "p10", (json_int_t)s->p10, "p50", (json_int_t)s->p50,
            "p90", (json_int_t)s->p90, "p99", (json_int_t)s->p99, "max",
            (json_int_t)s->max, "mean", s->mean, "top_1_percent_share_work",
            s->top_share_work, "extra_work_s", s->extra_work_s, "histogram", buckets),
        err);
}

/* Say which tokens are guesses, and what was left out. */
static void print_notes(const struct input *in, const struct hyd_lengths *list)
{
    FILE *out = in->cli->out;

    (void)fprintf(out, "format        %s%s%s\n", list->format,
                  list->field[0] != '\0' ? ", field " : "", list->field);
    if (list->n_estimated > 0) {
        (void)fprintf(out,
                      "estimated     tokens of %zu of %zu are an estimate: bytes / %g "
                      "(--bytes-per-token)\n",
                      list->n_estimated, in->n_read, in->import.bytes_per_token);
    }
    if (list->n_skipped > 0) {
        (void)fprintf(out, "left out      %zu empty, binary or hidden\n",
                      list->n_skipped);
    }
}

static void print_figures(const struct input *in, const struct hyd_length_stats *s)
{
    FILE *out = in->cli->out;
    char text[HYD_TEXT_BYTES];

    (void)fprintf(out, "sequences     %s\n", hyd_text_count(s->n, text));
    (void)fprintf(out, "tokens        %s\n", hyd_text_count(s->tokens, text));
    (void)fprintf(out,
                  "length        min %" PRIu32 ", p10 %" PRIu32 ", p50 %" PRIu32
                  ", p90 %" PRIu32 ", p99 %" PRIu32 ", max %" PRIu32 ", mean %.1f\n",
                  s->min, s->p10, s->p50, s->p90, s->p99, s->max, s->mean);
    (void)fprintf(out,
                  "longest 1 %%   %.1f %% of the attention work (sum of length^2)\n",
                  100 * s->top_share_work);
    if (s->extra_work_s > 0) {
        (void)fprintf(out, "extra work    %s\n",
                      hyd_text_seconds(s->extra_work_s, text));
    }
}

static hyd_status print_histogram(const struct input *in,
                                  const struct hyd_length_stats *s,
                                  struct hyd_error *err)
{
    static const char *const names[] = {"from",   "to",         "sequences", "tokens %",
                                        "work %", "<sequences", "<work",     NULL};
    struct hyd_table table;
    hyd_status st = HYD_OK;
    char bar[HYD_BAR_BYTES];
    char text[HYD_TEXT_BYTES];

    hyd_table_init(&table, in->cli->alloc, names);
    for (size_t i = 0; i < s->n_buckets; i++) {
        const struct hyd_length_bucket *b = &s->bucket[i];

        hyd_table_add(&table, "%" PRIu32, b->from_tokens);
        hyd_table_add(&table, "%" PRIu32, b->to_tokens);
        hyd_table_add(&table, "%s", hyd_text_count(b->n, text));
        hyd_table_add(&table, "%.1f", 100 * b->share_tokens);
        hyd_table_add(&table, "%.1f", 100 * b->share_work);
        hyd_table_add(
            &table, "%s",
            hyd_text_bar(in->cli, (double)b->n, (double)s->n, BAR_COLUMNS, bar));
        hyd_table_add(&table, "%s",
                      hyd_text_bar(in->cli, b->share_work, 1, BAR_COLUMNS, bar));
    }
    st = hyd_table_print(&table, in->cli, err);
    hyd_table_release(&table);
    return st;
}

static hyd_status report(const struct input *in, const struct hyd_lengths *list,
                         struct hyd_error *err)
{
    struct hyd_length_stats stats;
    hyd_status st = hyd_lengths_measure(list, &stats, err);

    if (st != HYD_OK) {
        return st;
    }
    if (in->cli->json) {
        return print_json(in, list, &stats, err);
    }
    print_notes(in, list);
    print_figures(in, &stats);
    (void)fputc('\n', in->cli->out);
    return print_histogram(in, &stats, err);
}

int hyd_cmd_lengths(struct hyd_cli *cli, int argc, char **argv)
{
    struct input in = {.cli = cli, .import = hyd_import_options_default(), .scale = 1};
    struct hyd_lengths list;
    struct hyd_error err = {.text = ""};
    hyd_status st = HYD_OK;
    int code = 0;

    if (hyd_args_parse(cli, &argp, argc, argv, &in, &code) == HYD_ARGS_STOP) {
        return code;
    }
    hyd_lengths_init(&list, cli->alloc);
    st = gather(&in, &list, &err);
    if (st == HYD_OK && in.out_path != NULL) {
        st = write_lengths(&in, &list, &err);
    }
    /* With the lengths on standard output there is no room for figures. */
    if (st == HYD_OK && (in.out_path == NULL || strcmp(in.out_path, "-") != 0)) {
        st = report(&in, &list, &err);
    }
    hyd_lengths_release(&list);
    return st == HYD_OK ? HYD_EXIT_DONE : hyd_cli_fail(cli, st, &err);
}
