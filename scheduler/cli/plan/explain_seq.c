/* explain_seq.c - see explain_view.h: one sequence. */
#include <inttypes.h>

#include "scheduler/cli/json.h"
#include "scheduler/cli/plan/explain_view.h"
#include "scheduler/cli/table.h"
#include "scheduler/core/plan_shape.h"

/* What there is to say about one sequence. */
struct facts {
    uint32_t seq;
    uint32_t tokens; /* as given */
    uint32_t counted_tokens; /* rounded up or padded */
    double extra_s;
    double work_s; /* on one reference rank */
    double work_share; /* of the batch */
    struct hyd_explain_place place;
    struct hyd_plan_group group;
    const uint32_t *ranks;
    double shard_s; /* its own, on the group's slowest member */
    double least_load_s, most_load_s; /* over the cells of its group */
    struct hyd_explain_degree degree[HYD_EXPLAIN_MAX_DEGREES];
    size_t n_degrees;
    struct hyd_explain_split split[HYD_EXPLAIN_MAX_SPLITS]; /* of its degree */
    size_t n_splits;
    const struct hyd_explain_try *chosen; /* or NULL */
    uint32_t least_degree; /* of that placement, where it is above the limit; else 0 */
};

const char *hyd_explain_source_name(enum hyd_explain_source source)
{
    switch (source) {
    case HYD_EXPLAIN_AGAIN:
        return "planned again, same fingerprint";
    case HYD_EXPLAIN_DIFFERS:
        return "planned again, fingerprint differs";
    case HYD_EXPLAIN_FILE:
        return "the file's plan, not planned again";
    }
    return "unknown";
}

void hyd_explain_show_source(struct hyd_cli *cli, const struct hyd_explain *explain)
{
    (void)fprintf(cli->out,
                  "plan          %s of %zu sequences on %" PRIu32 " ranks: %s\n",
                  explain->plan->policy, explain->plan->n_seqs, explain->plan->n_ranks,
                  hyd_explain_source_name(explain->source));
    if (explain->source == HYD_EXPLAIN_DIFFERS) {
        (void)fprintf(
            cli->out,
            "note          the file holds another plan, made by another version or "
            "changed since; what follows is about the new one\n");
    }
    if (explain->source == HYD_EXPLAIN_FILE) {
        (void)fprintf(cli->out, "note          %s\n", explain->why_not);
    }
}

static double extra_of(const struct hyd_plan_input *in, uint32_t seq)
{
    return in->batch.extra_work_s != NULL ? in->batch.extra_work_s[seq] : 0;
}

static double slowest(const struct hyd_plan_input *in, const uint32_t *rank, uint32_t n)
{
    double speed = 1;

    for (uint32_t k = 0; in->pool.speed != NULL && k < n; k++) {
        speed =
            k == 0 || in->pool.speed[rank[k]] < speed ? in->pool.speed[rank[k]] : speed;
    }
    return speed;
}

static hyd_status find_loads(const struct hyd_explain *e, struct facts *f,
                             const struct hyd_alloc *alloc, struct hyd_error *err)
{
    double *load_s = hyd_alloc_array(alloc, e->plan->n_ranks, sizeof *load_s);

    if (load_s == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for the cells");
    }
    hyd_plan_cells(&e->counted, e->plan, f->place.microbatch, NULL, load_s);
    for (uint32_t k = 0; k < f->group.n_ranks; k++) {
        const double s = load_s[f->ranks[k]];

        f->least_load_s = k == 0 || s < f->least_load_s ? s : f->least_load_s;
        f->most_load_s = s > f->most_load_s ? s : f->most_load_s;
    }
    hyd_alloc_free(alloc, load_s);
    return HYD_OK;
}

static hyd_status gather(const struct hyd_explain *e, uint32_t seq, struct facts *f,
                         const struct hyd_alloc *alloc, struct hyd_error *err)
{
    const struct hyd_plan_input *in = &e->counted;
    double all_s = 0;
    hyd_status st = hyd_explain_find(e->plan, seq, &f->place, err);

    if (st != HYD_OK) {
        return st;
    }
    f->seq = seq;
    f->tokens = e->doc->in.batch.length_tokens[seq];
    f->counted_tokens = in->batch.length_tokens[seq];
    f->extra_s = extra_of(in, seq);
    f->work_s = hyd_cost_work_s(in->cost, f->counted_tokens, f->extra_s);
    for (size_t i = 0; i < in->batch.n_seqs; i++) {
        all_s += hyd_cost_work_s(in->cost, in->batch.length_tokens[i],
                                 extra_of(in, (uint32_t)i));
    }
    f->work_share = f->work_s / all_s;
    f->group = e->plan->group[f->place.group];
    f->ranks = e->plan->rank + f->group.first_rank;
    f->shard_s = hyd_cost_shard_s(in->cost, f->counted_tokens, f->extra_s, f->group.u,
                                  f->group.r) /
                 slowest(in, f->ranks, f->group.n_ranks);
    f->n_degrees = hyd_explain_degrees(e, seq, f->group.n_ranks, f->degree);
    f->n_splits = hyd_explain_splits(e, seq, f->group.n_ranks, f->split);
    f->chosen = e->chosen < e->n_tries ? &e->tries[e->chosen] : NULL;
    if (f->chosen != NULL && f->chosen->begin.degree > in->limits.min_degree) {
        f->least_degree = f->chosen->begin.degree;
    }
    return find_loads(e, f, alloc, err);
}

/* The degree of least rank-seconds among those that may be taken. */
static uint32_t least_area(const struct facts *f)
{
    double least_s = 0;
    uint32_t degree = 0;

    for (size_t i = 0; i < f->n_degrees; i++) {
        const struct hyd_explain_degree *d = &f->degree[i];

        if (!d->over_cap && !d->over_target && d->d >= f->least_degree &&
            (degree == 0 || d->area_s < least_s)) {
            least_s = d->area_s;
            degree = d->d;
        }
    }
    return degree;
}

static const char *verdict(const struct hyd_explain *e, const struct facts *f,
                           const struct hyd_explain_degree *d, uint32_t least)
{
    if (d->d == f->group.n_ranks) {
        if (e->n_tries == 0) {
            return "TAKEN, by the policy's own rule";
        }
        if (d->over_target) {
            return "TAKEN: a giant, above the target at every degree";
        }
        if (d->d == least) {
            return d->d == f->least_degree
                       ? "TAKEN: the least degree of this plan"
                       : "TAKEN: least rank-seconds below the target";
        }
        if (f->chosen != NULL && f->chosen->n_widened > 0) {
            return "TAKEN: smaller degrees had no room under the cap";
        }
        return f->chosen != NULL && f->chosen->begin.exclusive != 0
                   ? "TAKEN: rides in a wide block, cells are exclusive"
                   : "TAKEN: below the target when degrees were chosen";
    }
    if (d->over_cap) {
        return "does not fit the cap";
    }
    if (d->over_target) {
        return "a shard would exceed the target";
    }
    if (d->d < f->least_degree) {
        return "below the least degree of this plan";
    }
    return d->d == least ? "least rank-seconds" : "more rank-seconds";
}

static hyd_status show_degrees(const struct hyd_cli *cli, const struct hyd_explain *e,
                               const struct facts *f, struct hyd_error *err)
{
    static const char *const names[] = {
        "degree", "u", "tokens a rank", "shard ms", "rank-seconds", "<why", NULL};
    const uint32_t least = least_area(f);
    struct hyd_table table;
    hyd_status st = HYD_OK;

    hyd_table_init(&table, cli->alloc, names);
    for (size_t i = 0; i < f->n_degrees; i++) {
        const struct hyd_explain_degree *d = &f->degree[i];

        hyd_table_add(&table, "%" PRIu32, d->d);
        hyd_table_add(&table, "%" PRIu32, d->u);
        hyd_table_add(&table, "%.0f", d->tokens);
        hyd_table_add(&table, "%.4g", 1e3 * d->shard_s);
        hyd_table_add(&table, "%.4g", d->area_s);
        hyd_table_add(&table, "%s", verdict(e, f, d, least));
        table.marked_row = d->d == f->group.n_ranks ? i + 1 : table.marked_row;
    }
    table.wrap = true;
    st = hyd_table_print(&table, cli, err);
    hyd_table_release(&table);
    return st;
}

static const char *split_verdict(const struct facts *f,
                                 const struct hyd_explain_split *split)
{
    const struct hyd_explain_split *least = NULL;

    for (size_t i = 0; i < f->n_splits; i++) {
        if (f->split[i].why_not == NULL &&
            (least == NULL || f->split[i].shard_s < least->shard_s)) {
            least = &f->split[i];
        }
    }
    if (split->u == f->group.u) {
        return split == least ? "TAKEN: least time" : "TAKEN, by the policy's own rule";
    }
    return split->why_not != NULL ? split->why_not
           : split == least       ? "least time"
                                  : "more time";
}

/* How the degree is made of heads and ring; there is no choice at degree 1. */
static hyd_status show_splits(const struct hyd_cli *cli, const struct facts *f,
                              struct hyd_error *err)
{
    static const char *const names[] = {"u", "r", "shard ms", "<why this u and r",
                                        NULL};
    struct hyd_table table;
    hyd_status st = HYD_OK;

    if (f->group.n_ranks == 1) {
        return HYD_OK;
    }
    (void)fputc('\n', cli->out);
    hyd_table_init(&table, cli->alloc, names);
    for (size_t i = 0; i < f->n_splits; i++) {
        const struct hyd_explain_split *split = &f->split[i];

        hyd_table_add(&table, "%" PRIu32, split->u);
        hyd_table_add(&table, "%" PRIu32, split->r);
        hyd_table_add(&table, "%.4g", 1e3 * split->shard_s);
        hyd_table_add(&table, "%s", split_verdict(f, split));
        table.marked_row = split->u == f->group.u ? i + 1 : table.marked_row;
    }
    table.wrap = true;
    st = hyd_table_print(&table, cli, err);
    hyd_table_release(&table);
    return st;
}

static void show_ranks(FILE *out, const uint32_t *rank, uint32_t n)
{
    bool consecutive = true;

    for (uint32_t k = 1; k < n; k++) {
        consecutive = consecutive && rank[k] == rank[k - 1] + 1;
    }
    if (consecutive && n > 1) {
        (void)fprintf(out, "ranks %" PRIu32 " to %" PRIu32, rank[0], rank[n - 1]);
        return;
    }
    (void)fputs(n == 1 ? "rank" : "ranks", out);
    for (uint32_t k = 0; k < n; k++) {
        (void)fprintf(out, " %" PRIu32, rank[k]);
    }
}

/* What the planner told while it placed this sequence. */
static void show_trace(FILE *out, const struct hyd_explain *e, const struct facts *f)
{
    char a[HYD_TEXT_BYTES];
    char b[HYD_TEXT_BYTES];

    if (e->n_tries == 0) {
        (void)fprintf(
            out, "decisions     %s tells none: degrees and cells follow its own rule\n",
            e->plan->policy);
        return;
    }
    (void)fprintf(out,
                  "search        %zu numbers of microbatches predicted, %zu placements "
                  "tried, %" PRIu32 " microbatches taken\n",
                  e->n_candidates, e->n_tries, e->plan->n_microbatches);
    if (f->chosen == NULL || f->chosen->place.kind != HYD_TRACE_PLACE) {
        return;
    }
    if (f->chosen->n_blocks > 0) {
        (void)fprintf(out,
                      "considered    %" PRIu32 " blocks of %" PRIu32
                      " rank%s in all microbatches: %" PRIu32
                      " had room under the cap at its turn, %" PRIu32 " were empty\n",
                      f->chosen->n_blocks, f->chosen->place.degree,
                      f->chosen->place.degree == 1 ? "" : "s", f->chosen->n_room,
                      f->chosen->n_empty);
    }
    (void)fprintf(out,
                  "placed        on the block with room of least load: %s before, "
                  "%s for this shard\n",
                  hyd_text_seconds(f->chosen->place.load_s, a),
                  hyd_text_seconds(f->chosen->place.time_s, b));
    if (f->chosen->degree.kind == HYD_TRACE_DEGREE) {
        (void)fprintf(
            out,
            "degrees       were chosen for shards of at most %s, %.2f of the target\n",
            hyd_text_seconds(f->chosen->degree.target_s, a), f->chosen->begin.theta);
    }
    if (f->least_degree > 0) {
        (void)fprintf(
            out,
            "least degree  %" PRIu32
            " in this plan: cells outnumber the sequences, and smaller shards "
            "level them better\n",
            f->least_degree);
    }
    if (f->chosen->n_widened > 0) {
        (void)fprintf(out,
                      "widened       %" PRIu32
                      " times: no block of the smaller degree had room under the cap\n",
                      f->chosen->n_widened);
    }
}

static hyd_status show_text(struct hyd_cli *cli, const struct hyd_explain *e,
                            const struct facts *f, struct hyd_error *err)
{
    FILE *out = cli->out;
    char a[HYD_TEXT_BYTES];
    char b[HYD_TEXT_BYTES];
    hyd_status st = HYD_OK;

    hyd_explain_show_source(cli, e);
    (void)fprintf(out, "sequence      %" PRIu32 ": %" PRIu32 " tokens", f->seq,
                  f->tokens);
    if (f->counted_tokens != f->tokens) {
        (void)fprintf(out, ", counted as %" PRIu32, f->counted_tokens);
    }
    if (f->extra_s > 0) {
        (void)fprintf(out, ", %s of extra work", hyd_text_seconds(f->extra_s, a));
    }
    (void)fprintf(out, "; %s of work on one rank, %.2f %% of the batch\n",
                  hyd_text_seconds(f->work_s, b), 100 * f->work_share);
    if (e->figures.target_s > 0) {
        (void)fprintf(out, "target        %s a cell; cap %" PRIu32 " tokens\n",
                      hyd_text_seconds(e->figures.target_s, a),
                      e->counted.limits.cap_tokens);
    } else {
        (void)fprintf(out,
                      "target        none, this policy has no load target; cap %" PRIu32
                      " tokens\n",
                      e->counted.limits.cap_tokens);
    }
    (void)fprintf(out,
                  "degree        %" PRIu32 " = %" PRIu32
                  " by heads (Ulysses) x %" PRIu32 " by ring; %s a shard\n",
                  f->group.n_ranks, f->group.u, f->group.r,
                  hyd_text_seconds(f->shard_s, a));
    (void)fprintf(out, "cell          microbatch %" PRIu32 " of %" PRIu32 ", ",
                  f->place.microbatch, e->plan->n_microbatches);
    show_ranks(out, f->ranks, f->group.n_ranks);
    if (f->group.n_ids == 1) {
        (void)fputs(", alone in its group", out);
    } else {
        (void)fprintf(out, ", with %" PRIu32 " other sequence%s in its group",
                      f->group.n_ids - 1, f->group.n_ids == 2 ? "" : "s");
    }
    (void)fprintf(out, "; %s carr%s %s", f->group.n_ranks == 1 ? "the cell" : "cells",
                  f->group.n_ranks == 1 ? "ies" : "y",
                  hyd_text_seconds(f->least_load_s, a));
    if (f->most_load_s > f->least_load_s) {
        (void)fprintf(out, " to %s", hyd_text_seconds(f->most_load_s, a));
    }
    (void)fprintf(out, ", the hottest of the plan %s\n",
                  hyd_text_seconds(e->figures.hottest_cell_s, a));
    show_trace(out, e, f);
    (void)fputc('\n', out);
    st = show_degrees(cli, e, f, err);
    return st == HYD_OK ? show_splits(cli, f, err) : st;
}

static json_t *splits_json(const struct facts *f)
{
    json_t *list = json_array();

    for (size_t i = 0; i < f->n_splits; i++) {
        const struct hyd_explain_split *split = &f->split[i];

        (void)json_array_append_new(
            list, json_pack("{s:I, s:I, s:f, s:s}", "u", (json_int_t)split->u, "r",
                            (json_int_t)split->r, "shard_s", split->shard_s, "why",
                            split_verdict(f, split)));
    }
    return list;
}

static json_t *degrees_json(const struct hyd_explain *e, const struct facts *f)
{
    const uint32_t least = least_area(f);
    json_t *list = json_array();

    for (size_t i = 0; i < f->n_degrees; i++) {
        const struct hyd_explain_degree *d = &f->degree[i];

        (void)json_array_append_new(
            list,
            json_pack("{s:I, s:I, s:f, s:f, s:f, s:s}", "degree", (json_int_t)d->d, "u",
                      (json_int_t)d->u, "tokens", d->tokens, "shard_s", d->shard_s,
                      "area_s", d->area_s, "why", verdict(e, f, d, least)));
    }
    return list;
}

static hyd_status show_json(struct hyd_cli *cli, const struct hyd_explain *e,
                            const struct facts *f, struct hyd_error *err)
{
    json_t *ranks = json_array();
    json_t *root = NULL;

    for (uint32_t k = 0; k < f->group.n_ranks; k++) {
        (void)json_array_append_new(ranks, json_integer(f->ranks[k]));
    }
    root = json_pack(
        "{s:s, s:I, s:I, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:o, s:f, s:f, s:f, "
        "s:o}",
        "plan", hyd_explain_source_name(e->source), "sequence", (json_int_t)f->seq,
        "tokens", (json_int_t)f->tokens, "extra_work_s", f->extra_s, "work_s",
        f->work_s, "work_share", f->work_share, "target_s", e->figures.target_s,
        "degree", (json_int_t)f->group.n_ranks, "u", (json_int_t)f->group.u, "r",
        (json_int_t)f->group.r, "microbatch", (json_int_t)f->place.microbatch, "ranks",
        ranks, "shard_s", f->shard_s, "least_cell_s", f->least_load_s, "most_cell_s",
        f->most_load_s, "degrees", degrees_json(e, f));
    if (f->chosen != NULL && f->chosen->place.kind == HYD_TRACE_PLACE) {
        (void)json_object_set_new(root, "load_before_s",
                                  json_real(f->chosen->place.load_s));
        (void)json_object_set_new(root, "widened",
                                  json_integer((json_int_t)f->chosen->n_widened));
        (void)json_object_set_new(root, "least_degree",
                                  json_integer((json_int_t)f->least_degree));
        (void)json_object_set_new(root, "blocks",
                                  json_pack("{s:I, s:I, s:I}", "considered",
                                            (json_int_t)f->chosen->n_blocks,
                                            "with_room", (json_int_t)f->chosen->n_room,
                                            "empty", (json_int_t)f->chosen->n_empty));
    }
    (void)json_object_set_new(root, "splits", splits_json(f));
    (void)json_object_set_new(root, "candidates",
                              json_integer((json_int_t)e->n_candidates));
    (void)json_object_set_new(root, "placements", json_integer((json_int_t)e->n_tries));
    return hyd_json_print(cli->out, root, err);
}

hyd_status hyd_explain_show_seq(struct hyd_cli *cli, const struct hyd_explain *explain,
                                uint32_t seq, struct hyd_error *err)
{
    static struct facts facts;
    hyd_status st = HYD_OK;

    facts = (struct facts){.seq = seq};
    st = gather(explain, seq, &facts, cli->alloc, err);
    if (st != HYD_OK) {
        return st;
    }
    return cli->json ? show_json(cli, explain, &facts, err)
                     : show_text(cli, explain, &facts, err);
}
