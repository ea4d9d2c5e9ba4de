/* compare_view.c - see compare_view.h. */
#include "scheduler/cli/plan/compare_view.h"

#include <inttypes.h>
#include <string.h>

#include "scheduler/cli/plan/cost_choice.h"
#include "scheduler/cli/plan/plan_lists.h"
#include "scheduler/cli/table.h"

enum { BAR_COLUMNS = 24 };

/* Columns of the table, as far as others speak of them. */
enum { COLUMN_ORDER = 2, COLUMN_BALANCE = 6, COLUMN_GAP = 8, COLUMN_CPU, COLUMN_BAR };

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
                             bool *ret_reasons, struct hyd_error *err)
{
    static const char *const names[] = {"<policy", "cap",     "<order",  "M",
                                        "step s",  "of best", "balance", "bubble %",
                                        "gap %",   "plan ms", "<",       NULL};
    static const unsigned char narrow[] = {COLUMN_BAR, COLUMN_CPU, COLUMN_GAP,
                                           COLUMN_ORDER, COLUMN_BALANCE};
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
        if (c->row[i].has_for_megatron) {
            add_run(&table, in->cli, "  for Megatron-Core", &c->row[i].for_megatron,
                    best_s, worst_s);
            row++;
        }
    }
    hyd_table_fit(&table, in->cli, narrow, sizeof narrow);
    *ret_reasons = (table.hidden_columns >> COLUMN_BAR & 1U) == 0;
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

/* What a plan says of the system it reproduces: mostly that it would have failed. Where
 * the table had no room for them, the reasons of those without a plan. */
static void print_notes(const struct view *in, const struct hyd_compare *c,
                        bool reasons)
{
    for (size_t i = 0; i < c->n_rows; i++) {
        const struct hyd_compare_row *row = &c->row[i];

        if (reasons && row->run.status != HYD_OK) {
            (void)fprintf(in->cli->out, "%s has no plan: %s\n", row->policy->name,
                          row->run.err.text);
        }

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

static const struct hyd_compare_row *row_at(const struct hyd_compare *c, size_t i)
{
    return i < c->n_rows ? &c->row[i] : NULL;
}

static const struct hyd_compare_row *hydra_row(const struct hyd_compare *c)
{
    for (size_t i = 0; i < c->n_rows; i++) {
        if (strcmp(c->row[i].policy->name, "hydra") == 0 &&
            c->row[i].run.status == HYD_OK) {
            return &c->row[i];
        }
    }
    return NULL;
}

/* What users of a peer set to change its cap. */
static const char *cap_option(const struct hyd_policy_ops *policy)
{
    if (strcmp(policy->name, "relax") == 0) {
        return "--max-tokens-per-gpu";
    }
    return policy->reproduces[0] != '\0' ? "--max-seqlen-per-dp-cp-rank" : "a cap of";
}

/* The winner at the cap asked for, and by how much. */
static void print_best(FILE *out, const struct hyd_compare *c)
{
    const struct hyd_compare_row *best = row_at(c, c->best);
    const struct hyd_compare_row *peer = row_at(c, c->best_peer);
    const struct hyd_compare_row *hydra = hydra_row(c);
    const double s = best->run.figures.step_s;

    (void)fprintf(out, "best: %s", best->policy->name);
    if (best == hydra && peer != NULL) {
        (void)fprintf(out, ", %.3fx as fast as %s, the best peer at this cap",
                      peer->run.figures.step_s / s, peer->policy->name);
    } else if (hydra != NULL && hydra != best) {
        const double ratio = hydra->run.figures.step_s / s;

        (void)fprintf(out, ", %.3fx as fast as hydra%s", ratio,
                      ratio < 1.01 ? ": no difference anyone could measure"
                      : strcmp(best->policy->name, "megatron") == 0
                          ? "; with --fallback megatron hydra takes its plan"
                          : "");
    }
    (void)fputc('\n', out);
}

/* What users of the best peer gain by its own option, and what hydra gains beyond. */
static void print_tuned(FILE *out, const struct hyd_compare *c)
{
    const struct hyd_compare_row *peer = row_at(c, c->best_tuned);
    const struct hyd_compare_row *hydra = hydra_row(c);

    if (peer == NULL || !peer->has_tuned) {
        return;
    }
    if (peer->run.status == HYD_OK) {
        (void)fprintf(out, "%s gains %.3fx by", peer->policy->name,
                      peer->run.figures.step_s / peer->tuned.figures.step_s);
    } else {
        (void)fprintf(out, "%s has a plan with", peer->policy->name);
    }
    (void)fprintf(out, " %s %" PRIu32, cap_option(peer->policy),
                  peer->tuned.cap_tokens);
    if (hydra != NULL) {
        (void)fprintf(out, "; hydra is %.3fx as fast as that",
                      peer->tuned.figures.step_s / hydra->run.figures.step_s);
    }
    (void)fputc('\n', out);
}

static void print_for_megatron(FILE *out, const struct hyd_compare *c)
{
    const struct hyd_compare_row *hydra = hydra_row(c);
    const struct hyd_compare_row *peer = row_at(c, c->best_tuned);

    if (hydra == NULL || peer == NULL || !hydra->has_for_megatron) {
        return;
    }
    (void)fprintf(out,
                  "hydra for Megatron-Core (--degrees pow2 --cells exclusive) is %.3fx "
                  "as fast as %s\n",
                  hyd_compare_tuned_s(peer) / hydra->for_megatron.figures.step_s,
                  peer->has_tuned ? "that" : peer->policy->name);
}

static void print_summary(const struct view *in, const struct hyd_compare *c,
                          bool reasons)
{
    FILE *out = in->cli->out;
    const char *hint = hyd_compare_hint(c);

    (void)fputc('\n', out);
    print_notes(in, c, reasons);
    if (hint != NULL) {
        (void)fprintf(out, "%s\n", hint);
    }
    if (c->best < c->n_rows) {
        print_best(out, c);
        print_tuned(out, c);
        print_for_megatron(out, c);
    }
}

/* The batch, and by what it is judged. */
static void print_head(const struct view *in)
{
    const struct hyd_plan_input *input = in->compare->in;
    FILE *out = in->cli->out;
    const bool source = in->compare->source != NULL && in->compare->source[0] != '\0';
    char stages[HYD_TEXT_BYTES];
    char a[HYD_TEXT_BYTES];

    hyd_plan_stages_text(&input->pool, stages, sizeof stages);
    (void)fprintf(out,
                  "%s%s%s%s on %" PRIu32 " ranks, cap %" PRIu32 ", pp %" PRIu32
                  "%s\npredicted, scope %s; one cost model for all; ",
                  hyd_text_things(input->batch.n_seqs, "sequence", a),
                  source ? " (" : "", source ? in->compare->source : "",
                  source ? ")" : "", input->pool.n_ranks, input->limits.cap_tokens,
                  input->pool.pp, stages, hyd_cost_scope_name(in->scope));
    (void)fprintf(out, in->compare->one_order ? "order as asked for\n\n"
                                              : "each policy at its best order\n\n");
}

hyd_status hyd_compare_view(const struct hyd_cli *cli,
                            const struct hyd_compare_in *compare, enum hyd_scope scope,
                            const struct hyd_compare *c, struct hyd_error *err)
{
    const struct view in = {cli, compare, scope};
    bool reasons = false;
    hyd_status st = HYD_OK;

    print_head(&in);
    st = print_rows(&in, c, &reasons, err);
    if (st == HYD_OK) {
        st = print_degrees(&in, c, err);
    }
    if (st == HYD_OK) {
        print_summary(&in, c, !reasons);
    }
    return st;
}
