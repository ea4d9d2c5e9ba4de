/* plan_view.c - see plan_view.h. */
#include "scheduler/cli/plan/plan_view.h"

#include <inttypes.h>
#include <math.h>

#include "scheduler/cli/plan/plan_args.h"
#include "scheduler/cli/plan/plan_lists.h"
#include "scheduler/cli/table.h"
#include "scheduler/core/plan_shape.h"

enum { BAR_COLUMNS = 40, LINE_BYTES = 256 };

static void view_input(const struct hyd_cli *cli, const struct hyd_plan_out *out)
{
    const struct hyd_plan_input *in = out->in;
    const struct hyd_policy_ops *policy = hyd_policy_find(in->policy);
    uint64_t tokens = 0;
    uint32_t longest = 0;
    char a[HYD_TEXT_BYTES];
    char b[HYD_TEXT_BYTES];
    char line[LINE_BYTES];

    for (size_t i = 0; i < in->batch.n_seqs; i++) {
        const uint32_t l = in->batch.length_tokens[i];

        tokens += l;
        longest = l > longest ? l : longest;
    }
    (void)fprintf(cli->out, "input         %s, %s, longest %" PRIu32 "\n",
                  hyd_text_things(in->batch.n_seqs, "sequence", a),
                  hyd_text_things(tokens, "token", b), longest);
    if (out->source != NULL && out->source[0] != '\0') {
        (void)fprintf(cli->out, "read as       %s\n", out->source);
    }
    hyd_plan_stages_text(&in->pool, line, sizeof line);
    (void)fprintf(cli->out,
                  "pool          %s, %" PRIu32 " a node, cap %" PRIu32
                  " tokens, tp %" PRIu32 ", pp %" PRIu32 "%s, vpp %" PRIu32 ", %s\n",
                  hyd_text_things(in->pool.n_ranks, "rank", a), in->pool.ranks_per_node,
                  in->limits.cap_tokens, in->pool.tp, in->pool.pp, line, in->pool.vpp,
                  in->pass == HYD_PASS_TRAIN ? "train" : "forward");
    hyd_plan_args_text(in, policy, line, sizeof line);
    (void)fprintf(cli->out, "policy        %s%s%s\n", in->policy,
                  line[0] != '\0' ? ": " : "", line);
    if (out->plan->policy != policy->name) {
        (void)fprintf(cli->out, "planned by    %s, which was faster here\n",
                      out->plan->policy);
    }
    if (out->plan->note != NULL) {
        (void)fprintf(cli->out, "note          %s\n", out->plan->note);
    }
    if (out->choice->plain) {
        (void)fprintf(cli->out, "cost          %g s/token^2, %g s/token, %g s/cell\n",
                      in->cost->a_s, in->cost->b_s, in->cost->cell_s);
    } else {
        (void)fprintf(cli->out, "cost          %s on %s, scope %s\n",
                      out->choice->model.name, out->choice->device.name,
                      hyd_cost_scope_name(out->choice->scope));
    }
}

static void view_step(const struct hyd_cli *cli, const struct hyd_figures *f)
{
    char a[HYD_TEXT_BYTES];
    char b[HYD_TEXT_BYTES];
    char c[HYD_TEXT_BYTES];

    (void)fprintf(cli->out, "cells         hottest %s, mean %s, balance %.4f",
                  hyd_text_seconds(f->hottest_cell_s, a),
                  hyd_text_seconds(f->mean_cell_s, b), f->balance);
    if (f->target_s > 0) {
        (void)fprintf(cli->out, ", target %s", hyd_text_seconds(f->target_s, a));
    }
    (void)fprintf(cli->out, ", lower bound %s\n",
                  hyd_text_seconds(f->lower_bound_s, c));
    (void)fprintf(cli->out, "tokens        most %.0f, mean %.0f a cell; %s",
                  f->max_tokens, f->mean_tokens,
                  hyd_text_things(f->empty_cells, "empty cell", a));
    if (f->over_cap_cells > 0) {
        (void)fprintf(cli->out, ", %" PRIu32 " ABOVE THE CAP", f->over_cap_cells);
    }
    (void)fprintf(cli->out,
                  "\nstep          %s predicted; %.1f %% above its bound of %s; "
                  "flow-shop reference %s\n",
                  hyd_text_seconds(f->step_s, a), 100 * fmax(f->gap, 0),
                  hyd_text_seconds(f->step_bound_s, b),
                  hyd_text_seconds(f->step_reference_s, c));
    (void)fprintf(cli->out,
                  "time          %.1f %% useful, %.1f %% communication and fixed cost, "
                  "%.1f %% bubble\n",
                  100 * f->useful_fraction,
                  100 * (1 - f->useful_fraction - f->bubble.total),
                  100 * f->bubble.total);
    (void)fprintf(
        cli->out,
        "bubble        %.1f %% inherent, %.1f %% pipeline imbalance, %.1f %% data "
        "parallel, %.1f %% group wait\n",
        100 * f->bubble.inherent, 100 * f->bubble.pipeline_imbalance,
        100 * f->bubble.data_parallel, 100 * f->bubble.group_wait);
}

hyd_status hyd_plan_view_figures(const struct hyd_cli *cli,
                                 const struct hyd_plan_out *out, struct hyd_error *err)
{
    const struct hyd_plan *plan = out->plan;
    char cpu[HYD_TEXT_BYTES];
    char groups[HYD_TEXT_BYTES];
    char shapes[HYD_TEXT_BYTES];

    view_input(cli, out);
    (void)fprintf(cli->out,
                  "plan          %" PRIu32
                  " microbatch%s, %s, %s, fingerprint %016" PRIx64 ", proved\n",
                  plan->n_microbatches, plan->n_microbatches == 1 ? "" : "es",
                  hyd_text_things(plan->n_groups, "group", groups),
                  hyd_text_things(plan->figures.distinct_shapes, "shape", shapes),
                  plan->fingerprint);
    view_step(cli, &plan->figures);
    (void)fprintf(cli->out, "planned in    %s of CPU (measured)\n\n",
                  hyd_text_seconds(out->measured.cpu_s, cpu));
    return hyd_plan_view_degrees(cli, &plan->figures, err);
}

hyd_status hyd_plan_view_degrees(const struct hyd_cli *cli,
                                 const struct hyd_figures *figures,
                                 struct hyd_error *err)
{
    static const char *const names[] = {"degree", "sequences", "<", NULL};
    struct hyd_table table;
    uint32_t most = 0;
    hyd_status st = HYD_OK;

    hyd_table_init(&table, cli->alloc, names);
    for (uint32_t i = 0; i < figures->n_degrees; i++) {
        most = figures->degree[i].n_seqs > most ? figures->degree[i].n_seqs : most;
    }
    for (uint32_t i = 0; i < figures->n_degrees; i++) {
        char count[HYD_TEXT_BYTES];
        char bar[HYD_BAR_BYTES];

        hyd_table_add(&table, "%" PRIu32, figures->degree[i].degree);
        hyd_table_add(&table, "%s", hyd_text_count(figures->degree[i].n_seqs, count));
        hyd_table_add(
            &table, "%s",
            hyd_text_bar(cli, figures->degree[i].n_seqs, most, BAR_COLUMNS, bar));
    }
    st = hyd_table_print(&table, cli, err);
    hyd_table_release(&table);
    return st;
}

hyd_status hyd_plan_view_cells(const struct hyd_cli *cli,
                               const struct hyd_plan_out *out, struct hyd_error *err)
{
    static const char *const names[] = {"microbatch", "rank", "tokens", "predicted s",
                                        NULL};
    const uint32_t n_ranks = out->plan->n_ranks;
    double *seconds = hyd_alloc_array(cli->alloc, n_ranks, sizeof *seconds);
    uint64_t *tokens = hyd_alloc_array(cli->alloc, n_ranks, sizeof *tokens);
    struct hyd_table table;
    hyd_status st = HYD_OK;

    hyd_table_init(&table, cli->alloc, names);
    if (seconds == NULL || tokens == NULL) {
        st = hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for the cells");
        goto out;
    }
    for (uint32_t m = 0; m < out->plan->n_microbatches; m++) {
        for (uint32_t r = 0; r < n_ranks; r++) {
            tokens[r] = 0;
        }
        hyd_plan_doc_cell_tokens(out->in->batch.length_tokens, out->plan, m, tokens);
        hyd_plan_cells(out->counted, out->plan, m, NULL, seconds);
        for (uint32_t r = 0; r < n_ranks; r++) {
            hyd_table_add(&table, "%" PRIu32, m);
            hyd_table_add(&table, "%" PRIu32, r);
            hyd_table_add(&table, "%" PRIu64, tokens[r]);
            hyd_table_add(&table, "%.6g", seconds[r]);
        }
    }
    (void)fputc('\n', cli->out);
    st = hyd_table_print(&table, cli, err);

out:
    hyd_table_release(&table);
    hyd_alloc_free(cli->alloc, seconds);
    hyd_alloc_free(cli->alloc, tokens);
    return st;
}
