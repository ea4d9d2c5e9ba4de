/* compare_view.c - see compare_view.h. */
#include "scheduler/cli/plan/compare_view.h"

#include <inttypes.h>
#include <string.h>

#include "scheduler/cli/plan/cost_choice.h"
#include "scheduler/cli/plan/plan_lists.h"
#include "scheduler/cli/table.h"

enum { BAR_COLUMNS = 24 };

struct view {
    const struct hyd_cli *cli;
    const struct hyd_compare_in *compare;
    enum hyd_scope scope;
};

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

static hyd_status print_rows(const struct view *in, const struct hyd_compare *c,
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
static hyd_status print_degrees(const struct view *in, const struct hyd_compare *c,
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

/* What a plan says of the system it reproduces: mostly that it would have failed. */
static void print_notes(const struct view *in, const struct hyd_compare *c)
{
    for (size_t i = 0; i < c->n_rows; i++) {
        const struct hyd_compare_row *row = &c->row[i];

        if (row->run.note[0] != '\0') {
            (void)fprintf(in->cli->out, "%s: %s\n", row->policy->name, row->run.note);
        }
        if (row->has_tuned && row->tuned.note[0] != '\0' &&
            strcmp(row->tuned.note, row->run.note) != 0) {
            (void)fprintf(in->cli->out, "%s at cap %" PRIu32 ": %s\n",
                          row->policy->name, row->tuned.cap_tokens, row->tuned.note);
        }
    }
}

static void print_summary(const struct view *in, const struct hyd_compare *c)
{
    FILE *out = in->cli->out;
    const char *hint = hyd_compare_hint(c);
    const struct hyd_compare_row *best = c->best < c->n_rows ? &c->row[c->best] : NULL;

    (void)fputc('\n', out);
    print_notes(in, c);
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
    if (in->compare->tune_caps && c->best_tuned < c->n_rows &&
        c->row[c->best_tuned].has_tuned) {
        const struct hyd_compare_row *peer = &c->row[c->best_tuned];

        (void)fprintf(out,
                      "with its cap lowered to %" PRIu32 ", %s takes %.3fx that time\n",
                      peer->tuned.cap_tokens, peer->policy->name,
                      hyd_compare_tuned_s(peer) / best->run.figures.step_s);
    }
}

hyd_status hyd_compare_view(const struct hyd_cli *cli,
                            const struct hyd_compare_in *compare, enum hyd_scope scope,
                            const struct hyd_compare *c, struct hyd_error *err)
{
    const struct view whole = {cli, compare, scope};
    const struct view *in = &whole;
    FILE *out = in->cli->out;
    const struct hyd_plan_input *input = in->compare->in;
    char a[HYD_TEXT_BYTES];
    char stages[HYD_TEXT_BYTES];
    hyd_status st = HYD_OK;

    hyd_plan_stages_text(&input->pool, stages, sizeof stages);
    (void)fprintf(out,
                  "%s sequences on %" PRIu32 " ranks, cap %" PRIu32 ", pp %" PRIu32
                  "%s; predicted, scope %s; one cost model and simulator for all; ",
                  hyd_text_count(input->batch.n_seqs, a), input->pool.n_ranks,
                  input->limits.cap_tokens, input->pool.pp, stages,
                  hyd_cost_scope_name(in->scope));
    (void)fprintf(out, in->compare->one_order
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
