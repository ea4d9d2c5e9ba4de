/* cmd_compare.c - the same batch under several policies, in one table. */
#include <inttypes.h>
#include <string.h>

#include "scheduler/cli/command.h"
#include "scheduler/cli/json.h"
#include "scheduler/cli/plan/compare.h"
#include "scheduler/cli/plan/plan_args.h"
#include "scheduler/cli/plan/plan_lists.h"
#include "scheduler/cli/table.h"

enum key { KEY_POLICIES = HYD_ARG_OWN, KEY_TUNE, KEY_NO_TUNE };

enum { BAR_COLUMNS = 24, NAME_BYTES = 64 };

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

/* --- text --- */

static void add_run(struct hyd_table *table, const struct hyd_cli *cli,
                    const char *name, const struct hyd_compare_run *run, double best_s,
                    double worst_s)
{
    char bar[HYD_BAR_BYTES];

    if (run->cp > 0) {
        hyd_table_add(table, "%s, cp %" PRIu32, name, run->cp);
    } else {
        hyd_table_add(table, "%s", name);
    }
    hyd_table_add(table, "%" PRIu32, run->cap_tokens);
    if (run->status != HYD_OK) {
        for (int i = 0; i < 8; i++) {
            hyd_table_add(table, "-");
        }
        hyd_table_add(table, "%s", run->err.text);
        return;
    }
    hyd_table_add(table, "%s",
                  run->order == HYD_ORDER_DEFAULT ? "own ramp"
                                                  : hyd_compare_order_name(run->order));
    hyd_table_add(table, "%" PRIu32, run->n_microbatches);
    hyd_table_add(table, "%.5g", run->figures.step_s);
    hyd_table_add(table, "%.3fx", run->figures.step_s / best_s);
    hyd_table_add(table, "%.3f", run->figures.balance);
    hyd_table_add(table, "%.1f", 100 * run->figures.bubble.total);
    hyd_table_add(table, "%.1f", 100 * run->figures.gap);
    hyd_table_add(table, "%.2f", 1e3 * run->cpu_s);
    hyd_table_add(table, "%s",
                  hyd_text_bar(cli, run->figures.step_s, worst_s, BAR_COLUMNS, bar));
}

static double worst_step(const struct hyd_compare *c)
{
    double worst_s = 0;

    for (size_t i = 0; i < c->n_rows; i++) {
        if (c->row[i].run.status == HYD_OK && c->row[i].run.figures.step_s > worst_s) {
            worst_s = c->row[i].run.figures.step_s;
        }
        if (hyd_compare_tuned_s(&c->row[i]) > worst_s) {
            worst_s = hyd_compare_tuned_s(&c->row[i]);
        }
    }
    return worst_s;
}

/* What all rows are held against: the shortest step at the cap asked for, else any. */
static double best_step(const struct hyd_compare *c)
{
    if (c->best < c->n_rows) {
        return c->row[c->best].run.figures.step_s;
    }
    return c->best_tuned < c->n_rows ? hyd_compare_tuned_s(&c->row[c->best_tuned]) : 1;
}

static hyd_status print_rows(const struct input *in, const struct hyd_compare *c,
                             struct hyd_error *err)
{
    static const char *const names[] = {"<policy", "cap",     "<order",  "M",
                                        "step s",  "of best", "balance", "bubble %",
                                        "gap %",   "plan ms", "<step s", NULL};
    const double best_s = best_step(c);
    const double worst_s = worst_step(c);
    struct hyd_table table;
    size_t row = 0;
    hyd_status st = HYD_OK;

    hyd_table_init(&table, in->cli->alloc, names);
    for (size_t i = 0; i < c->n_rows; i++) {
        add_run(&table, in->cli, c->row[i].policy->name, &c->row[i].run, best_s,
                worst_s);
        row++;
        table.marked_row = i == c->best ? row : table.marked_row;
        if (c->row[i].has_tuned) {
            add_run(&table, in->cli, "  at its best cap", &c->row[i].tuned, best_s,
                    worst_s);
            row++;
        }
    }
    st = hyd_table_print(&table, in->cli, err);
    hyd_table_release(&table);
    return st;
}

static uint32_t degree_count(const struct hyd_figures *figures, uint32_t degree)
{
    for (uint32_t i = 0; i < figures->n_degrees; i++) {
        if (figures->degree[i].degree == degree) {
            return figures->degree[i].n_seqs;
        }
    }
    return 0;
}

/* The smallest degree above `last` that any plan uses; 0: none. */
static uint32_t next_degree(const struct hyd_compare *c, uint32_t last)
{
    uint32_t next = 0;

    for (size_t i = 0; i < c->n_rows; i++) {
        const struct hyd_figures *figures = &c->row[i].run.figures;

        for (uint32_t k = 0; k < figures->n_degrees; k++) {
            const uint32_t degree = figures->degree[k].degree;

            if (degree > last && (next == 0 || degree < next)) {
                next = degree;
            }
        }
    }
    return next;
}

/* Sequences at each degree, a column a policy. */
static hyd_status print_degrees(const struct input *in, const struct hyd_compare *c,
                                struct hyd_error *err)
{
    const char *names[HYD_TABLE_MAX_COLUMNS + 1] = {"degree"};
    size_t n = 1;
    struct hyd_table table;
    hyd_status st = HYD_OK;

    for (size_t i = 0; i < c->n_rows && n < HYD_TABLE_MAX_COLUMNS; i++) {
        if (c->row[i].run.status == HYD_OK) {
            names[n++] = c->row[i].policy->name;
        }
    }
    if (n == 1) {
        return HYD_OK;
    }
    hyd_table_init(&table, in->cli->alloc, names);
    for (uint32_t d = next_degree(c, 0); d != 0; d = next_degree(c, d)) {
        hyd_table_add(&table, "%" PRIu32, d);
        for (size_t i = 0, k = 1; i < c->n_rows && k < n; i++) {
            if (c->row[i].run.status == HYD_OK) {
                hyd_table_add(&table, "%" PRIu32,
                              degree_count(&c->row[i].run.figures, d));
                k++;
            }
        }
    }
    (void)fputs("\nsequences at each degree\n", in->cli->out);
    st = hyd_table_print(&table, in->cli, err);
    hyd_table_release(&table);
    return st;
}

static void print_summary(const struct input *in, const struct hyd_compare *c)
{
    FILE *out = in->cli->out;
    const char *hint = hyd_compare_hint(c);
    const struct hyd_compare_row *best = c->best < c->n_rows ? &c->row[c->best] : NULL;

    (void)fputc('\n', out);
    if (hint != NULL) {
        (void)fprintf(out, "%s\n", hint);
    }
    if (best == NULL) {
        return;
    }
    (void)fprintf(out, "best: %s", best->policy->name);
    if (c->best_peer < c->n_rows && c->best_peer != c->best) {
        const struct hyd_compare_row *peer = &c->row[c->best_peer];

        (void)fprintf(out, ", %.3fx the speed of %s, the best peer at this cap",
                      peer->run.figures.step_s / best->run.figures.step_s,
                      peer->policy->name);
    }
    (void)fputc('\n', out);
    if (in->compare.tune_caps && c->best_tuned < c->n_rows &&
        c->row[c->best_tuned].has_tuned) {
        const struct hyd_compare_row *peer = &c->row[c->best_tuned];

        (void)fprintf(out,
                      "with its cap lowered to %" PRIu32 ", %s takes %.3fx that time\n",
                      peer->tuned.cap_tokens, peer->policy->name,
                      hyd_compare_tuned_s(peer) / best->run.figures.step_s);
    }
}

static hyd_status print_text(const struct input *in, const struct hyd_compare *c,
                             struct hyd_error *err)
{
    FILE *out = in->cli->out;
    const struct hyd_plan_input *input = &in->plan.in;
    char a[HYD_TEXT_BYTES];
    char stages[HYD_TEXT_BYTES];
    hyd_status st = HYD_OK;

    hyd_plan_stages_text(&input->pool, stages, sizeof stages);
    (void)fprintf(out,
                  "%s sequences on %" PRIu32 " ranks, cap %" PRIu32 ", pp %" PRIu32
                  "%s; predicted, scope %s; one cost model and simulator for all; ",
                  hyd_text_count(input->batch.n_seqs, a), input->pool.n_ranks,
                  input->limits.cap_tokens, input->pool.pp, stages,
                  hyd_cost_scope_name(in->plan.choice.scope));
    (void)fprintf(out, in->compare.one_order
                           ? "order as asked for\n\n"
                           : "each policy at its best order of microbatches\n\n");
    st = print_rows(in, c, err);
    if (st == HYD_OK) {
        st = print_degrees(in, c, err);
    }
    if (st == HYD_OK) {
        print_summary(in, c);
    }
    return st;
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

static json_t *row_json(const struct hyd_compare_row *row)
{
    const struct hyd_compare_run *run = &row->run;
    json_t *object = json_pack("{s:s, s:b}", "policy", row->policy->name, "ok",
                               run->status == HYD_OK);

    if (run->status != HYD_OK) {
        (void)json_object_set_new(object, "error", json_string(run->err.text));
    } else {
        (void)json_object_set_new(object, "order",
                                  json_string(hyd_compare_order_name(run->order)));
        (void)json_object_set_new(object, "num_microbatches",
                                  json_integer((json_int_t)run->n_microbatches));
        if (run->cp > 0) {
            (void)json_object_set_new(object, "cp", json_integer((json_int_t)run->cp));
        }
        (void)json_object_set_new(object, "figures",
                                  hyd_plan_doc_figures(&run->figures, run->cpu_s));
    }
    if (row->has_tuned) {
        (void)json_object_set_new(
            object, "tuned",
            json_pack("{s:I, s:s, s:I, s:o}", "cap_tokens",
                      (json_int_t)row->tuned.cap_tokens, "order",
                      hyd_compare_order_name(row->tuned.order), "num_microbatches",
                      (json_int_t)row->tuned.n_microbatches, "figures",
                      hyd_plan_doc_figures(&row->tuned.figures, row->tuned.cpu_s)));
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
        in->compare.one_order = in->plan.in.options.order != HYD_ORDER_DEFAULT;
        st = hyd_compare_run(in->cli, &in->compare, c, err);
    }
    if (st == HYD_OK) {
        st = in->cli->json ? print_json(in, c, err) : print_text(in, c, err);
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
            "peers also at their best cap.",
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
