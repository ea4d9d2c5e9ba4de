/* cmd_policies.c - what is built in, what each policy reproduces, and its options. */
#include <string.h>

#include "scheduler/cli/args.h"
#include "scheduler/cli/command.h"
#include "scheduler/cli/json.h"
#include "scheduler/cli/table.h"
#include "scheduler/core/options.h"

struct input {
    struct hyd_cli *cli;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct input *in = state->input;

    return key == ARGP_KEY_ARG ? hyd_args_surplus(in->cli, arg, "options only")
                               : ARGP_ERR_UNKNOWN;
}

static const struct argp argp = {
    .parser = parse,
    .doc = "List the planning policies: what they do, the system and commit whose "
           "decisions they reproduce, and the options that --set and flags give them.",
};

/* Values an option takes, for people. */
static void print_values(const struct hyd_option *o, char text[96])
{
    if (o->kind == HYD_OPTION_CHOICE) {
        (void)snprintf(text, 96, "%s", o->choice);
    } else if (o->kind == HYD_OPTION_FLAG) {
        (void)snprintf(text, 96, "off|on");
    } else if (o->zero != NULL) {
        (void)snprintf(text, 96, "%s|%llu..%llu", o->zero,
                       (unsigned long long)(o->min > 0 ? o->min : 1),
                       (unsigned long long)o->max);
    } else {
        (void)snprintf(text, 96, "%llu..%llu", (unsigned long long)o->min,
                       (unsigned long long)o->max);
    }
}

static json_t *option_json(const struct hyd_option *o)
{
    char values[96];
    char text[HYD_OPTION_TEXT_BYTES];

    print_values(o, values);
    hyd_option_print_default(o, text);
    return json_pack("{s:s, s:s, s:s, s:s}", "key", o->key, "values", values, "default",
                     text, "help", o->help);
}

static json_t *policy_json(const struct hyd_policy_ops *policy)
{
    json_t *list = json_array();

    for (const struct hyd_option *o = hyd_option_table; o->key != NULL; o++) {
        if (o->scope == HYD_OPTION_POLICY && hyd_option_applies(o, policy)) {
            (void)json_array_append_new(list, option_json(o));
        }
    }
    return json_pack("{s:s, s:s, s:s, s:b, s:o}", "name", policy->name, "summary",
                     policy->summary, "reproduces", policy->reproduces, "exclusive",
                     policy->exclusive, "options", list);
}

static hyd_status print_json(const struct input *in, struct hyd_error *err)
{
    json_t *list = json_array();
    json_t *common = json_array();

    for (size_t i = 0; hyd_policy_table[i] != NULL; i++) {
        (void)json_array_append_new(list, policy_json(hyd_policy_table[i]));
    }
    for (const struct hyd_option *o = hyd_option_table; o->key != NULL; o++) {
        if (o->scope == HYD_OPTION_EVALUATION) {
            (void)json_array_append_new(common, option_json(o));
        }
    }
    return hyd_json_print(
        in->cli->out, json_pack("{s:o, s:o}", "policies", list, "common", common), err);
}

static hyd_status print_policies(const struct input *in, struct hyd_error *err)
{
    static const char *const names[] = {"<policy", "<what it does", NULL};
    struct hyd_table table;
    hyd_status st = HYD_OK;

    hyd_table_init(&table, in->cli->alloc, names);
    for (size_t i = 0; hyd_policy_table[i] != NULL; i++) {
        const struct hyd_policy_ops *policy = hyd_policy_table[i];

        hyd_table_add(&table, "%s", policy->name);
        hyd_table_add(&table, "%s%s%s%s%s", policy->summary,
                      policy->reproduces[0] != '\0' ? "; decides as " : "",
                      policy->reproduces,
                      policy->options[0] != '\0' ? "; options: " : "", policy->options);
    }
    table.wrap = true;
    st = hyd_table_print(&table, in->cli, err);
    hyd_table_release(&table);
    return st;
}

static hyd_status print_options(const struct input *in, struct hyd_error *err)
{
    static const char *const names[] = {"<option", "<values", "<default", "<meaning",
                                        NULL};
    struct hyd_table table;
    hyd_status st = HYD_OK;

    hyd_table_init(&table, in->cli->alloc, names);
    for (const struct hyd_option *o = hyd_option_table; o->key != NULL; o++) {
        char values[96];
        char text[HYD_OPTION_TEXT_BYTES];

        if (o->scope == HYD_OPTION_INPUT) {
            continue;
        }
        print_values(o, values);
        hyd_option_print_default(o, text);
        hyd_table_add(&table, "%s", o->key);
        hyd_table_add(&table, "%s", values);
        hyd_table_add(&table, "%s", text);
        hyd_table_add(&table, "%s%s", o->help,
                      o->scope == HYD_OPTION_EVALUATION ? " (every policy)" : "");
    }
    table.wrap = true;
    (void)fputc('\n', in->cli->out);
    st = hyd_table_print(&table, in->cli, err);
    hyd_table_release(&table);
    return st;
}

int hyd_cmd_policies(struct hyd_cli *cli, int argc, char **argv)
{
    struct input in = {.cli = cli};
    struct hyd_error err = {.text = ""};
    hyd_status st = HYD_OK;
    int code = 0;

    if (hyd_args_parse(cli, &argp, argc, argv, &in, &code) == HYD_ARGS_STOP) {
        return code;
    }
    if (cli->json) {
        st = print_json(&in, &err);
    } else {
        st = print_policies(&in, &err);
        if (st == HYD_OK) {
            st = print_options(&in, &err);
        }
    }
    return st == HYD_OK ? HYD_EXIT_DONE : hyd_cli_fail(cli, st, &err);
}
