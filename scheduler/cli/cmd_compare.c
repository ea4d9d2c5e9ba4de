/* cmd_compare.c - the same batch under several policies, in one table. */
#include <inttypes.h>
#include <string.h>

#include "scheduler/cli/command.h"
#include "scheduler/cli/json.h"
#include "scheduler/cli/plan/compare.h"
#include "scheduler/cli/plan/compare_view.h"
#include "scheduler/cli/plan/plan_args.h"

enum key { KEY_POLICIES = HYD_ARG_OWN, KEY_TUNE, KEY_NO_TUNE };

enum { NAME_BYTES = 64 };

struct input {
    struct hyd_cli *cli;
    struct hyd_plan_args plan;
    struct hyd_compare_in compare;
    const char *path;
    const char *policies; /* a,b,c or NULL: all */
};

static const struct argp_option options[] = {
    {"policies", KEY_POLICIES, "A,B,...", 0, "Policies to compare (all)", 0},
    {"tune-caps", KEY_TUNE, NULL, 0,
     "Show peers also at their best cap below --cap (the default)", 0},
    {"no-tune-caps", KEY_NO_TUNE, NULL, 0, "Only the cap asked for", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct input *in = state->input;

    switch (key) {
    case KEY_POLICIES:
        in->policies = arg;
        return 0;
    case KEY_TUNE:
        in->compare.tune_caps = true;
        return 0;
    case KEY_NO_TUNE:
        in->compare.tune_caps = false;
        return 0;
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &in->plan;
        return 0;
    case ARGP_KEY_ARG:
        if (in->path != NULL) {
            return hyd_args_surplus(in->cli, arg, "one file of LENGTHS");
        }
        in->path = arg;
        return 0;
    case ARGP_KEY_END:
        return in->path != NULL ? 0
                                : hyd_args_missing(in->cli, "LENGTHS (a file, or -)");
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static hyd_status add_policy(struct input *in, const char *name, struct hyd_error *err)
{
    struct hyd_compare_in *compare = &in->compare;

    if (compare->n_policies == HYD_COMPARE_MAX_ROWS) {
        return hyd_error_field(err, HYD_ERR_LIMIT, "policies",
                               "more than %d policies to compare",
                               HYD_COMPARE_MAX_ROWS);
    }
    return hyd_plan_args_find_policy(name, &compare->policy[compare->n_policies++],
                                     err);
}

static hyd_status choose_policies(struct input *in, struct hyd_error *err)
{
    const char *list = in->policies != NULL ? in->policies : in->plan.policy;
    hyd_status st = HYD_OK;

    if (list == NULL) {
        for (size_t i = 0; st == HYD_OK && hyd_policy_table[i] != NULL; i++) {
            st = add_policy(in, hyd_policy_table[i]->name, err);
        }
        return st;
    }
    while (st == HYD_OK) {
        const size_t n = strcspn(list, ",");
        char name[NAME_BYTES];

        (void)snprintf(name, sizeof name, "%.*s", (int)(n < 60 ? n : 60), list);
        st = add_policy(in, name, err);
        if (list[n] == '\0') {
            break;
        }
        list += n + 1;
    }
    return st;
}

/* An option that none of the policies reads was given in vain. */
static hyd_status check_given(const struct input *in, struct hyd_error *err)
{
    for (size_t i = 0; hyd_option_table[i].key != NULL; i++) {
        bool read = false;

        for (size_t p = 0; p < in->compare.n_policies; p++) {
            read =
                read || hyd_option_applies(&hyd_option_table[i], in->compare.policy[p]);
        }
        if (in->plan.given[i] && !read) {
            return hyd_error_field(err, HYD_ERR_INVALID, hyd_option_table[i].key,
                                   "no policy of those compared has an option '%s'",
                                   hyd_option_table[i].key);
        }
    }
    return HYD_OK;
}

/* --- JSON --- */

static json_t *settings_json(const struct input *in)
{
    struct hyd_plan_input plain = in->plan.in;
    json_t *settings = NULL;
    json_t *given = json_object();

    plain.policy = in->compare.policy[0]->name;
    settings = hyd_plan_doc_input(&plain, &in->plan.choice);
    for (size_t i = 0; hyd_option_table[i].key != NULL; i++) {
        char text[HYD_OPTION_TEXT_BYTES];

        if (in->plan.given[i] && hyd_option_table[i].scope != HYD_OPTION_INPUT) {
            hyd_option_print(&hyd_option_table[i], &plain, text);
            (void)json_object_set_new(given, hyd_option_table[i].key,
                                      json_string(text));
        }
    }
    (void)json_object_del(settings, "policy");
    (void)json_object_set_new(settings, "options", given);
    return settings;
}

/* What was chosen for the policy, and what it gives. */
static void add_run(json_t *object, const struct hyd_compare_run *run)
{
    (void)json_object_set_new(object, "order",
                              json_string(hyd_compare_order_name(run->order)));
    (void)json_object_set_new(object, "num_microbatches",
                              json_integer((json_int_t)run->n_microbatches));
    if (run->cp > 0) {
        (void)json_object_set_new(object, "cp", json_integer((json_int_t)run->cp));
    }
    if (run->note[0] != '\0') {
        (void)json_object_set_new(object, "note", json_string(run->note));
    }
    (void)json_object_set_new(object, "figures",
                              hyd_plan_doc_figures(&run->figures, run->cpu_s));
}

static json_t *row_json(const struct hyd_compare_row *row)
{
    const struct hyd_compare_run *run = &row->run;
    json_t *object = json_pack("{s:s, s:b}", "policy", row->policy->name, "ok",
                               run->status == HYD_OK);
    json_t *tuned = NULL;

    if (run->status != HYD_OK) {
        (void)json_object_set_new(object, "error", json_string(run->err.text));
    } else {
        add_run(object, run);
    }
    if (row->has_tuned) {
        tuned = json_pack("{s:I}", "cap_tokens", (json_int_t)row->tuned.cap_tokens);
        add_run(tuned, &row->tuned);
        (void)json_object_set_new(object, "tuned", tuned);
    }
    if (row->has_for_megatron) {
        json_t *plan = json_pack("{s:s, s:s}", "degrees", "pow2", "cells", "exclusive");

        add_run(plan, &row->for_megatron);
        (void)json_object_set_new(object, "for_megatron", plan);
    }
    return object;
}

static hyd_status print_json(const struct input *in, const struct hyd_compare *c,
                             struct hyd_error *err)
{
    const char *hint = hyd_compare_hint(c);
    json_t *rows = json_array();
    json_t *root = NULL;

    for (size_t i = 0; i < c->n_rows; i++) {
        (void)json_array_append_new(rows, row_json(&c->row[i]));
    }
    root = json_pack("{s:o, s:o, s:o, s:s?}", "lengths_file", hyd_json_text(in->path),
                     "settings", settings_json(in), "policies", rows, "best",
                     c->best < c->n_rows ? c->row[c->best].policy->name : NULL);
    if (hint != NULL) {
        (void)json_object_set_new(root, "hint", json_string(hint));
    }
    return hyd_json_print(in->cli->out, root, err);
}

static hyd_status compare(struct input *in, struct hyd_compare *c,
                          struct hyd_error *err)
{
    struct hyd_lengths list = {0};
    char source[HYD_LENGTHS_SOURCE_BYTES];
    hyd_status st = choose_policies(in, err);

    if (st == HYD_OK) {
        st = check_given(in, err);
    }
    if (st == HYD_OK) {
        st = hyd_plan_args_resolve(&in->plan, err);
    }
    if (st == HYD_OK) {
        st = hyd_plan_run_lengths(in->cli->alloc, in->path, &list, err);
    }
    if (st == HYD_OK) {
        in->plan.in.batch = hyd_plan_run_batch(&list);
        in->compare.in = &in->plan.in;
        in->compare.source = hyd_lengths_source(&list, source);
        in->compare.one_order = in->plan.in.options.order != HYD_ORDER_DEFAULT;
        st = hyd_compare_run(in->cli, &in->compare, c, err);
    }
    if (st == HYD_OK) {
        st = in->cli->json ? print_json(in, c, err)
                           : hyd_compare_view(in->cli, &in->compare,
                                              in->plan.choice.scope, c, err);
    }
    hyd_lengths_release(&list);
    return st;
}

int hyd_cmd_compare(struct hyd_cli *cli, int argc, char **argv)
{
    const struct argp_child children[] = {
        {hyd_plan_args_argp(), 0, "Planning (defaults in brackets):", 1},
        {0},
    };
    const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "LENGTHS",
        .doc =
            "Plan the same batch under several policies and compare what one cost "
            "model and one simulator predict: each at its best order of microbatches, "
            "peers also at their best cap, hydra also as Megatron-Core can run it. "
            "LENGTHS is a file as 'hydractl lengths' reads it; - is standard input.",
        .children = children,
    };
    static struct hyd_compare c;
    struct input in = {.cli = cli, .compare = {.tune_caps = true}};
    struct hyd_error err = {.text = ""};
    hyd_status st = HYD_OK;
    int code = 0;

    hyd_plan_args_init(&in.plan, cli);
    if (hyd_args_parse(cli, &argp, argc, argv, &in, &code) == HYD_ARGS_STOP) {
        hyd_plan_args_release(&in.plan);
        return code;
    }
    st = compare(&in, &c, &err);
    hyd_plan_args_release(&in.plan);
    if (st != HYD_OK) {
        return hyd_cli_fail(cli, st, &err);
    }
    return c.best < c.n_rows ? HYD_EXIT_DONE : HYD_EXIT_NO_ANSWER;
}
