/* plan_args.c - see plan_args.h. */
#include "scheduler/cli/plan/plan_args.h"

#include <stdio.h>
#include <string.h>

#include "common/base/check.h"
#include "scheduler/cli/parse.h"
#include "scheduler/cli/plan/plan_lists.h"
#include "scheduler/cli/shape.h"
#include "scheduler/core/planner.h"

enum key {
    KEY_POLICY = HYD_ARG_PLAN + HYD_PLAN_ARGS_MAX_OPTIONS,
    KEY_SET,
    KEY_MODEL,
    KEY_DEVICE,
    KEY_COST,
    KEY_SCOPE,
    KEY_SPEED,
    KEY_STAGES,
};

enum { HELP_BYTES = 160 };

static const struct argp_option fixed_options[] = {
    {"policy", KEY_POLICY, "NAME", 0, "One that `hydractl policies` lists (hydra)", 0},
    {"set", KEY_SET, "KEY=VALUE", 0, "An option by its name in `hydractl policies`", 0},
    {"model", KEY_MODEL, "NAME|FILE", 0, "Model shape (llama-8b)", 0},
    {"device", KEY_DEVICE, "NAME|FILE", 0, "Device (h100)", 0},
    {"cost", KEY_COST, "A,B[,CELL]", 0,
     "Coefficients instead of model and device: seconds per token^2, per token, per "
     "cell",
     0},
    {"scope", KEY_SCOPE, "layer|attention", 0, "What the seconds cover (layer)", 0},
    {"speed", KEY_SPEED, "FILE", 0, "Relative speed of each rank, one a line", 0},
    {"stages", KEY_STAGES, "COST,COST,...", 0,
     "Relative cost of each pipeline stage, the first one first (all 1)", 0},
};

enum { N_FIXED = sizeof fixed_options / sizeof fixed_options[0] };

void hyd_plan_args_init(struct hyd_plan_args *args, struct hyd_cli *cli)
{
    *args = (struct hyd_plan_args){.cli = cli, .in = hyd_plan_input_default()};
    args->in.pool.n_ranks = 0; /* must be given */
}

void hyd_plan_args_release(struct hyd_plan_args *args)
{
    if (args->cli != NULL) {
        hyd_alloc_free(args->cli->alloc, args->speed);
        hyd_alloc_free(args->cli->alloc, args->stage_cost);
    }
    args->speed = NULL;
    args->stage_cost = NULL;
}

static bool in_tokens(const struct hyd_option *option)
{
    const size_t n = strlen(option->key);

    return n > 7 && strcmp(option->key + n - 7, "_tokens") == 0;
}

static hyd_status set_option(struct hyd_plan_args *args,
                             const struct hyd_option *option, const char *value)
{
    struct hyd_error *err = &args->cli->error;
    char tokens[HYD_OPTION_TEXT_BYTES];
    uint32_t count = 0;
    hyd_status st = HYD_OK;

    args->given[option - hyd_option_table] = true;
    if (in_tokens(option) && value[0] >= '0' && value[0] <= '9' &&
        hyd_parse_tokens("", value, 0, UINT32_MAX, &count, NULL) == HYD_OK) {
        (void)snprintf(tokens, sizeof tokens, "%u", count);
        value = tokens;
    }
    st = hyd_option_set(&args->in, option->key, value, err);
    if (st != HYD_OK && option->flag != NULL) {
        char flag[64];
        char limit[HYD_ERROR_LIMIT_BYTES];

        (void)snprintf(flag, sizeof flag, "option '--%s'", option->flag);
        memcpy(limit, err->limit, sizeof limit);
        (void)hyd_error_value(err, st, flag, limit, "'%.40s'", value);
    }
    return st;
}

static hyd_status set_pair(struct hyd_plan_args *args, const char *pair)
{
    struct hyd_error *err = &args->cli->error;
    const char *equals = strchr(pair, '=');
    char key[64];
    const struct hyd_option *option = NULL;
    unsigned near_edits = 255;
    const char *near = NULL;

    if (equals == NULL || equals == pair || (size_t)(equals - pair) >= sizeof key) {
        return hyd_error_field(err, HYD_ERR_INVALID, "set",
                               "option '--set' is '%.60s', must be KEY=VALUE", pair);
    }
    (void)snprintf(key, sizeof key, "%.*s", (int)(equals - pair), pair);
    option = hyd_option_find(key);
    if (option != NULL) {
        return set_option(args, option, equals + 1);
    }
    for (option = hyd_option_table; option->key != NULL; option++) {
        const unsigned edits = hyd_parse_distance(key, option->key);

        if (edits < near_edits) {
            near_edits = edits;
            near = option->key;
        }
    }
    if (near != NULL && hyd_parse_is_near(key, near)) {
        return hyd_error_field(err, HYD_ERR_INVALID, "set",
                               "no option '%s' to set; did you mean '%s'?", key, near);
    }
    return hyd_error_field(err, HYD_ERR_INVALID, "set",
                           "no option '%s' to set; `hydractl policies` lists them",
                           key);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct hyd_plan_args *args = state->input;

    if (key >= HYD_ARG_PLAN && key < HYD_ARG_PLAN + HYD_PLAN_ARGS_MAX_OPTIONS) {
        return hyd_args_status(set_option(args, &hyd_option_table[key - HYD_ARG_PLAN],
                                          arg != NULL ? arg : "on"));
    }
    switch (key) {
    case KEY_POLICY:
        args->policy = arg;
        return 0;
    case KEY_SET:
        return hyd_args_status(set_pair(args, arg));
    case KEY_MODEL:
        args->model = arg;
        return 0;
    case KEY_DEVICE:
        args->device = arg;
        return 0;
    case KEY_COST:
        args->plain_cost = arg;
        return 0;
    case KEY_SCOPE:
        args->scope = arg;
        return 0;
    case KEY_SPEED:
        args->speed_path = arg;
        return 0;
    case KEY_STAGES:
        args->stages = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* "words of a choice", or what kind of number. */
static const char *value_name(const struct hyd_option *option)
{
    if (option->kind == HYD_OPTION_CHOICE) {
        return option->choice;
    }
    return in_tokens(option) ? "TOKENS" : "N";
}

static void make_row(const struct hyd_option *option, int key, struct argp_option *row,
                     char help[HELP_BYTES])
{
    char text[HYD_OPTION_TEXT_BYTES];

    hyd_option_print_default(option, text);
    if (strcmp(option->key, "ranks") == 0 || strcmp(option->key, "cap_tokens") == 0) {
        (void)snprintf(help, HELP_BYTES, "%s (must be given)", option->help);
    } else {
        (void)snprintf(help, HELP_BYTES, "%s (%s)", option->help, text);
    }
    if (help[0] >= 'a' && help[0] <= 'z') {
        help[0] = (char)(help[0] - 'a' + 'A');
    }
    *row = (struct argp_option){
        .name = option->flag,
        .key = key,
        .arg = option->kind == HYD_OPTION_FLAG ? NULL : value_name(option),
        .doc = help,
    };
}

const struct argp *hyd_plan_args_argp(void)
{
    static struct argp_option rows[HYD_PLAN_ARGS_MAX_OPTIONS + N_FIXED + 1];
    static char help[HYD_PLAN_ARGS_MAX_OPTIONS][HELP_BYTES];
    static const struct argp argp = {.options = rows, .parser = parse_option};
    size_t n = 0;

    if (rows[0].name != NULL) {
        return &argp;
    }
    for (int i = 0; hyd_option_table[i].key != NULL; i++) {
        hyd_assert(i < HYD_PLAN_ARGS_MAX_OPTIONS);
        if (hyd_option_table[i].flag != NULL) {
            make_row(&hyd_option_table[i], HYD_ARG_PLAN + i, &rows[n++], help[i]);
        }
    }
    memcpy(&rows[n], fixed_options, sizeof fixed_options);
    return &argp;
}

static hyd_status choose_cost(struct hyd_plan_args *args, struct hyd_error *err)
{
    struct hyd_cost_choice *choice = &args->choice;
    double numbers[3] = {0};
    hyd_status st = HYD_OK;

    *choice = hyd_cost_choice_default();
    if (args->scope != NULL) {
        st = hyd_cost_scope_parse(args->scope, &choice->scope, err);
    }
    if (st == HYD_OK && args->plain_cost != NULL) {
        const size_t n =
            strchr(args->plain_cost, ',') == strrchr(args->plain_cost, ',') ? 2 : 3;

        if (args->model != NULL || args->device != NULL) {
            return hyd_error_field(err, HYD_ERR_INVALID, "cost",
                                   "give --cost, or --model and --device, not both");
        }
        st = hyd_parse_reals("option '--cost'", args->plain_cost, 0, n, numbers, err);
        choice->plain = true;
        choice->a_s = numbers[0];
        choice->b_s = numbers[1];
        choice->cell_s = numbers[2];
    }
    if (st == HYD_OK && args->model != NULL) {
        st = hyd_shape_model(args->cli->alloc, args->model, &choice->model, err);
    }
    if (st == HYD_OK && args->device != NULL) {
        st = hyd_shape_device(args->cli->alloc, args->device, &choice->device, err);
    }
    return st;
}

hyd_status hyd_plan_args_resolve(struct hyd_plan_args *args, struct hyd_error *err)
{
    hyd_status st = HYD_OK;

    if (args->in.pool.n_ranks == 0) {
        return hyd_error_field(err, HYD_ERR_INVALID, "ranks",
                               "option '--ranks R' is missing");
    }
    if (args->in.limits.cap_tokens == 0) {
        return hyd_error_field(err, HYD_ERR_INVALID, "cap_tokens",
                               "option '--cap TOKENS' is missing");
    }
    st = choose_cost(args, err);
    if (st == HYD_OK && args->speed_path != NULL) {
        st = hyd_plan_read_speeds(args, err);
    }
    if (st == HYD_OK && args->stages != NULL) {
        st = hyd_plan_read_stages(args, err);
    }
    if (st == HYD_OK) {
        st = hyd_cost_choice_build(&args->choice, &args->in, &args->cost, err);
    }
    if (st == HYD_OK) {
        args->in.cost = &args->cost;
        args->in.pool.speed = args->speed;
        args->in.pool.stage_cost = args->stage_cost;
    }
    return st;
}

hyd_status hyd_plan_args_check_policy(const struct hyd_plan_args *args,
                                      const struct hyd_policy_ops *policy,
                                      struct hyd_error *err)
{
    for (size_t i = 0; hyd_option_table[i].key != NULL; i++) {
        const struct hyd_option *option = &hyd_option_table[i];

        if (args->given[i] && !hyd_option_applies(option, policy)) {
            return hyd_error_field(
                err, HYD_ERR_INVALID, option->key,
                "policy %s has no option '%s', it has: %s", policy->name, option->key,
                policy->options[0] != '\0' ? policy->options : "none");
        }
    }
    return HYD_OK;
}

hyd_status hyd_plan_args_find_policy(const char *name,
                                     const struct hyd_policy_ops **ret,
                                     struct hyd_error *err)
{
    const struct hyd_policy_ops *policy = hyd_policy_find(name);
    char names[120] = "";
    size_t used = 0;

    if (policy != NULL) {
        *ret = policy;
        return HYD_OK;
    }
    for (size_t i = 0; hyd_policy_table[i] != NULL && used < sizeof names; i++) {
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
                                 i > 0 ? ", " : "", hyd_policy_table[i]->name);
    }
    return hyd_error_value(err, HYD_ERR_INVALID, "policy", names, "'%.40s'", name);
}

void hyd_plan_args_text(const struct hyd_plan_input *in,
                        const struct hyd_policy_ops *policy, char *text,
                        size_t text_bytes)
{
    size_t used = 0;

    text[0] = '\0';
    for (const struct hyd_option *o = hyd_option_table; o->key != NULL; o++) {
        char value[HYD_OPTION_TEXT_BYTES];

        if (o->scope == HYD_OPTION_POLICY && hyd_option_applies(o, policy) &&
            used < text_bytes) {
            hyd_option_print(o, in, value);
            used += (size_t)snprintf(text + used, text_bytes - used, "%s%s=%s",
                                     used > 0 ? " " : "", o->key, value);
        }
    }
}
