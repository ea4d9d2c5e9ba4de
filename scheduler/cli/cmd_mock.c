/* cmd_mock.c - made-up lengths, as Megatron's mock data sets make them. */
#include <inttypes.h>
#include <string.h>

#include "scheduler/cli/args.h"
#include "scheduler/cli/command.h"
#include "scheduler/cli/file.h"
#include "scheduler/cli/json.h"
#include "scheduler/cli/lengths/mock.h"
#include "scheduler/cli/parse.h"

enum key { KEY_LOGNORMAL = HYD_ARG_OWN, KEY_CONFIG };

struct input {
    struct hyd_cli *cli;
    bool is_lognormal;
    struct hyd_mock mock;
    const char *config_path;
    uint64_t n;
    uint32_t seed;
    const char *out_path;
};

static const struct argp_option options[] = {
    {"lognormal", KEY_LOGNORMAL, "MEAN,SIGMA,MIN,MAX", 0,
     "Log-normal lengths of this mean and sigma, cut to MIN..MAX tokens", 0},
    {"config", KEY_CONFIG, "FILE", 0,
     "Megatron's mock configuration: mode distribution, file or verification (its data "
     "path is ignored)",
     0},
    {"count", 'n', "N", 0, "How many lengths", 0},
    {"seed", 's', "S", 0, "Seed, as NumPy counts it (default: 0, which Megatron uses)",
     0},
    {"output", 'o', "FILE", 0, "Write here instead of to standard output", 0},
    {0},
};

static hyd_status parse_lognormal(struct input *in, const char *arg)
{
    double v[4] = {0};
    const hyd_status st = hyd_parse_reals("option '--lognormal mean,sigma,min,max'",
                                          arg, 0, 4, v, &in->cli->error);

    if (st == HYD_OK) {
        in->is_lognormal = true;
        in->mock = (struct hyd_mock){v[0], v[1], v[2], v[3]};
    }
    return st;
}

static error_t check_end(struct input *in)
{
    if (in->is_lognormal == (in->config_path != NULL)) {
        return hyd_args_status(hyd_error_set(&in->cli->error, HYD_ERR_INVALID,
                                             "give one of --lognormal and --config"));
    }
    return in->n > 0 ? 0 : hyd_args_missing(in->cli, "option '-n N'");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct input *in = state->input;
    struct hyd_error *err = &in->cli->error;

    switch (key) {
    case KEY_LOGNORMAL:
        return hyd_args_status(parse_lognormal(in, arg));
    case KEY_CONFIG:
        in->config_path = arg;
        return 0;
    case 'n':
        return hyd_args_status(
            hyd_parse_u64("option '-n'", arg, 1, HYD_LENGTHS_MAX, &in->n, err));
    case 's':
        return hyd_args_status(
            hyd_parse_u32("option '--seed'", arg, 0, UINT32_MAX, &in->seed, err));
    case 'o':
        in->out_path = arg;
        return 0;
    case ARGP_KEY_ARG:
        return hyd_args_surplus(in->cli, arg, "options only");
    case ARGP_KEY_END:
        return check_end(in);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .doc =
        "Print made-up sequence lengths, one a line: the numbers that Megatron's mock "
        "data sets would use for the same configuration.",
};

static hyd_status make(const struct input *in, const struct hyd_mock_config *config,
                       struct hyd_lengths *list, struct hyd_error *err)
{
    if (config->file[0] != '\0') {
        return hyd_mock_file(config->file, in->n, list, err);
    }
    return hyd_mock_lognormal(&config->mock, in->n, in->seed, list, err);
}

static hyd_status print_json(FILE *out, const struct input *in,
                             const struct hyd_mock_config *config,
                             const struct hyd_lengths *list, struct hyd_error *err)
{
    json_t *lengths = json_array();
    json_t *root = json_pack("{s:s, s:I, s:I}", "mode", config->mode, "count",
                             (json_int_t)list->n, "seed", (json_int_t)in->seed);

    if (config->file[0] != '\0') {
        (void)json_object_set_new(root, "path", hyd_json_text(config->file));
    } else {
        (void)json_object_set_new(
            root, "lognormal",
            json_pack("{s:f, s:f, s:f, s:f}", "mean_tokens", config->mock.mean_tokens,
                      "sigma", config->mock.sigma, "min_tokens",
                      config->mock.min_tokens, "max_tokens", config->mock.max_tokens));
    }
    for (size_t i = 0; i < list->n; i++) {
        (void)json_array_append_new(lengths, json_integer(list->length_tokens[i]));
    }
    if (json_array_size(lengths) != list->n) {
        json_decref(root);
        root = NULL; /* printed as no memory */
    }
    (void)json_object_set_new(root, "lengths", lengths);
    return hyd_json_print(out, root, err);
}

static hyd_status write_out(const struct input *in,
                            const struct hyd_mock_config *config,
                            const struct hyd_lengths *list, struct hyd_error *err)
{
    struct hyd_file_out out;
    hyd_status st = hyd_file_create(&out, in->out_path != NULL ? in->out_path : "-",
                                    in->cli->out, err);

    if (st != HYD_OK) {
        return st;
    }
    if (in->cli->json) {
        st = print_json(out.stream, in, config, list, err);
    } else {
        for (size_t i = 0; i < list->n; i++) {
            (void)fprintf(out.stream, "%" PRIu32 "\n", list->length_tokens[i]);
        }
    }
    return hyd_file_finish(&out, st, err);
}

int hyd_cmd_mock(struct hyd_cli *cli, int argc, char **argv)
{
    struct input in = {.cli = cli};
    struct hyd_mock_config config = {.mode = "lognormal"};
    struct hyd_lengths list;
    struct hyd_error err = {.text = ""};
    hyd_status st = HYD_OK;
    int code = 0;

    if (hyd_args_parse(cli, &argp, argc, argv, &in, &code) == HYD_ARGS_STOP) {
        return code;
    }
    config.mock = in.mock;
    hyd_lengths_init(&list, cli->alloc);
    if (in.config_path != NULL) {
        st = hyd_mock_config_read(cli->alloc, in.config_path, &config, &err);
    }
    if (st == HYD_OK) {
        st = make(&in, &config, &list, &err);
    }
    if (st == HYD_OK) {
        st = write_out(&in, &config, &list, &err);
    }
    hyd_lengths_release(&list);
    return st == HYD_OK ? HYD_EXIT_DONE : hyd_cli_fail(cli, st, &err);
}
