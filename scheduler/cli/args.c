/* args.c - see args.h. The check before argp walks its own option rows, so that there is
 * one list of options for parsing, --help and errors. */
#include "scheduler/cli/args.h"

#include <errno.h>
#include <string.h>

#include "common/base/check.h"
#include "scheduler/cli/parse.h"

static const struct argp_option common_options[] = {
    {"json", HYD_ARG_JSON, NULL, 0, "Print one JSON document instead of tables", -2},
    {"help", 'h', NULL, 0, "Print this help", -1},
    {0},
};

/* The outer argp: common options around the command's own. */
struct args_input {
    struct hyd_cli *cli;
    void *command_input;
};

static error_t common_parse(int key, char *arg, struct argp_state *state)
{
    struct hyd_cli *cli = state->input;

    (void)arg;
    if (key == HYD_ARG_JSON) {
        cli->json = true;
        return 0;
    }
    return key == 'h' ? 0 : ARGP_ERR_UNKNOWN;
}

static const struct argp common_argp = {.options = common_options,
                                        .parser = common_parse};

static error_t outer_parse(int key, char *arg, struct argp_state *state)
{
    struct args_input *in = state->input;

    (void)arg;
    if (key == ARGP_KEY_INIT) {
        state->child_inputs[0] = in->command_input;
        state->child_inputs[1] = in->cli;
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

/* What a walk over all option rows looks for, and the best it met. */
struct search {
    const char *word; /* without dashes */
    size_t n_word;
    int key; /* short option, or 0 */
    const struct argp_option *exact;
    const struct argp_option *prefix;
    unsigned n_prefix;
    const char *near;
    unsigned near_edits;
};

static void search_row(struct search *s, const struct argp_option *row)
{
    unsigned edits = 0;

    if (s->key != 0) {
        s->exact = row->key == s->key ? row : s->exact;
        return;
    }
    if (row->name == NULL) {
        return;
    }
    if (strncmp(row->name, s->word, s->n_word) == 0) {
        if (row->name[s->n_word] == '\0') {
            s->exact = row;
        }
        s->prefix = row;
        s->n_prefix++;
    }
    edits = hyd_parse_distance(s->word, row->name);
    if (edits < s->near_edits) {
        s->near_edits = edits;
        s->near = row->name;
    }
}

static void search_rows(struct search *s, const struct argp_option *row)
{
    for (; row != NULL && (row->name != NULL || row->key != 0 || row->doc != NULL);
         row++) {
        search_row(s, row);
    }
}

/* argp trees of ours are two levels deep: a command and its groups. */
static void search_argp(struct search *s, const struct argp *argp)
{
    search_rows(s, argp->options);
    for (const struct argp_child *child = argp->children;
         child != NULL && child->argp != NULL; child++) {
        search_rows(s, child->argp->options);
        hyd_assert(child->argp->children == NULL);
    }
    search_rows(s, common_options);
}

static hyd_status unknown_option(const char *word, const struct search *s,
                                 struct hyd_error *err)
{
    if (s->n_prefix > 1) {
        return hyd_error_set(err, HYD_ERR_INVALID,
                             "option '--%.40s' could be several; write it in full",
                             word);
    }
    if (s->near != NULL && hyd_parse_is_near(word, s->near)) {
        return hyd_error_set(err, HYD_ERR_INVALID,
                             "no option '--%.40s'; did you mean '--%s'?", word,
                             s->near);
    }
    return hyd_error_set(err, HYD_ERR_INVALID,
                         "no option '--%.40s'; --help lists the options", word);
}

/* Check one word of the command line; *ret_skip is 1 when the next word is its value. */
static hyd_status check_word(const struct argp *argp, const char *word, int is_last,
                             int *ret_skip, struct hyd_error *err)
{
    char name[64] = {0};
    const int is_long = word[1] == '-';
    const char *equals = strchr(word, '=');
    struct search s = {.near_edits = 255};
    const struct argp_option *row = NULL;

    *ret_skip = 0;
    if (is_long) {
        const size_t n =
            equals != NULL ? (size_t)(equals - word) - 2 : strlen(word + 2);

        s.n_word = n < sizeof name ? n : sizeof name - 1;
        memcpy(name, word + 2, s.n_word);
        s.word = name;
    } else {
        s.key = (unsigned char)word[1];
    }
    search_argp(&s, argp);
    row = s.exact != NULL ? s.exact : s.n_prefix == 1 ? s.prefix : NULL;
    if (row == NULL && !is_long) {
        return hyd_error_set(err, HYD_ERR_INVALID,
                             "no option '%.8s'; --help lists the options", word);
    }
    if (row == NULL) {
        return unknown_option(name, &s, err);
    }
    if (row->arg == NULL && is_long && equals != NULL) {
        return hyd_error_set(err, HYD_ERR_INVALID, "option '--%s' takes no value",
                             row->name);
    }
    if (row->arg == NULL && !is_long && word[2] != '\0') {
        return hyd_error_set(err, HYD_ERR_INVALID, "option '-%c' takes no value",
                             word[1]);
    }
    if (row->arg != NULL && (is_long ? equals == NULL : word[2] == '\0')) {
        if (is_last) {
            return hyd_error_set(err, HYD_ERR_INVALID,
                                 "option '%.40s' needs a value %s", word, row->arg);
        }
        *ret_skip = 1;
    }
    return HYD_OK;
}

static hyd_status check_words(const struct argp *argp, int argc, char **argv,
                              bool *ret_help, struct hyd_error *err)
{
    for (int i = 1; i < argc; i++) {
        int skip = 0;
        hyd_status st = HYD_OK;

        if (argv[i][0] != '-' || argv[i][1] == '\0') {
            continue;
        }
        if (strcmp(argv[i], "--") == 0) {
            break;
        }
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            *ret_help = true;
            return HYD_OK;
        }
        st = check_word(argp, argv[i], i + 1 == argc, &skip, err);
        if (st != HYD_OK) {
            return st;
        }
        i += skip;
    }
    return HYD_OK;
}

enum hyd_args_next hyd_args_parse(struct hyd_cli *cli, const struct argp *argp,
                                  int argc, char **argv, void *input, int *ret_exit)
{
    struct args_input in = {.cli = cli, .command_input = input};
    const struct argp_child children[] = {
        {argp, 0, NULL, 0},
        {&common_argp, 0, NULL, -1},
        {0},
    };
    const struct argp outer = {
        .parser = outer_parse,
        .children = children,
    };
    hyd_status st = HYD_OK;
    bool help = false;
    error_t bad = 0;

    cli->error = (struct hyd_error){.text = ""};
    st = check_words(argp, argc, argv, &help, &cli->error);
    if (st != HYD_OK) {
        *ret_exit = hyd_cli_fail(cli, st, &cli->error);
        return HYD_ARGS_STOP;
    }
    if (help) {
        char name[64];

        (void)snprintf(name, sizeof name, "hydractl %s", cli->command);
        argp_help(&outer, cli->out, ARGP_HELP_USAGE | ARGP_HELP_DOC | ARGP_HELP_LONG,
                  name);
        *ret_exit = HYD_EXIT_DONE;
        return HYD_ARGS_STOP;
    }
    bad = argp_parse(&outer, argc, argv, ARGP_SILENT, NULL, &in);
    if (bad != 0) {
        if (cli->error.text[0] == '\0') {
            (void)hyd_error_set(&cli->error, HYD_ERR_INVALID,
                                "these arguments do not fit; --help says what does");
        }
        *ret_exit = hyd_cli_fail(cli, HYD_ERR_INVALID, &cli->error);
        return HYD_ARGS_STOP;
    }
    return HYD_ARGS_RUN;
}

error_t hyd_args_status(hyd_status status)
{
    return status == HYD_OK ? 0 : EINVAL;
}

error_t hyd_args_surplus(struct hyd_cli *cli, const char *word, const char *takes)
{
    return hyd_args_status(
        hyd_error_set(&cli->error, HYD_ERR_INVALID,
                      "unexpected word '%.60s'; the command takes %s", word, takes));
}

error_t hyd_args_missing(struct hyd_cli *cli, const char *what)
{
    return hyd_args_status(
        hyd_error_set(&cli->error, HYD_ERR_INVALID, "%s is missing", what));
}
