/* explain_cell.c - see explain_view.h: one cell, and what would have to move. */
#include <inttypes.h>
#include <stdlib.h>

#include "scheduler/cli/json.h"
#include "scheduler/cli/plan/explain_view.h"
#include "scheduler/cli/table.h"
#include "scheduler/core/plan_shape.h"

/* One sequence's part of the cell. */
struct shard {
    uint32_t seq;
    uint32_t group;
    double tokens;
    double seconds;
};

struct cell {
    uint32_t microbatch;
    uint32_t rank;
    struct shard *shard; /* [n_shards], longest first */
    size_t n_shards;
    double load_s;
    double tokens;
    double coldest_s; /* of the microbatch */
    uint32_t coldest_rank;
    double mean_s; /* of the microbatch */
};

static bool has_rank(const struct hyd_plan *plan, const struct hyd_plan_group *group,
                     uint32_t rank)
{
    for (uint32_t k = 0; k < group->n_ranks; k++) {
        if (plan->rank[group->first_rank + k] == rank) {
            return true;
        }
    }
    return false;
}

static int by_seconds(const void *a, const void *b)
{
    const struct shard *x = a;
    const struct shard *y = b;

    if (x->seconds < y->seconds || x->seconds > y->seconds) {
        return x->seconds < y->seconds ? 1 : -1;
    }
    return (x->seq > y->seq) - (x->seq < y->seq);
}

/* All shards of the rank in the microbatch; room for all of the microbatch's ids. */
static void fill_shards(const struct hyd_explain *e, struct cell *cell)
{
    const struct hyd_plan *plan = e->plan;
    const struct hyd_plan_input *in = &e->counted;
    const double speed = in->pool.speed != NULL ? in->pool.speed[cell->rank] : 1;
    const uint32_t end = plan->mb_first_group[cell->microbatch + 1];

    for (uint32_t g = plan->mb_first_group[cell->microbatch]; g < end; g++) {
        const struct hyd_plan_group *group = &plan->group[g];

        if (!has_rank(plan, group, cell->rank)) {
            continue;
        }
        for (uint32_t i = 0; i < group->n_ids; i++) {
            const uint32_t seq = plan->id[group->first_id + i];
            const double tokens = in->batch.length_tokens[seq];
            const double extra_s =
                in->batch.extra_work_s != NULL ? in->batch.extra_work_s[seq] : 0;

            cell->shard[cell->n_shards++] = (struct shard){
                .seq = seq,
                .group = g,
                .tokens = tokens / group->n_ranks,
                .seconds =
                    hyd_cost_shard_s(in->cost, tokens, extra_s, group->u, group->r) /
                    speed,
            };
        }
    }
    qsort(cell->shard, cell->n_shards, sizeof *cell->shard, by_seconds);
}

static hyd_status gather(struct hyd_explain *e, struct cell *cell,
                         struct hyd_error *err)
{
    const struct hyd_plan *plan = e->plan;
    double *load_s = hyd_arena_take(&e->arena, plan->n_ranks, sizeof *load_s);
    double *tokens = hyd_arena_take(&e->arena, plan->n_ranks, sizeof *tokens);

    cell->shard = hyd_arena_take(&e->arena, plan->n_seqs, sizeof *cell->shard);
    if (load_s == NULL || tokens == NULL || cell->shard == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for the cell");
    }
    hyd_plan_cells(&e->counted, plan, cell->microbatch, tokens, load_s);
    cell->load_s = load_s[cell->rank];
    cell->tokens = tokens[cell->rank];
    cell->coldest_s = load_s[0];
    for (uint32_t r = 0; r < plan->n_ranks; r++) {
        cell->mean_s += load_s[r] / plan->n_ranks;
        if (load_s[r] < cell->coldest_s) {
            cell->coldest_s = load_s[r];
            cell->coldest_rank = r;
        }
    }
    fill_shards(e, cell);
    return HYD_OK;
}

/* The local shard whose move to the coldest cell helps most; NULL: none helps. */
static const struct shard *best_move(const struct hyd_explain *e,
                                     const struct cell *cell)
{
    const double gap_s = cell->load_s - cell->coldest_s;
    const struct shard *best = NULL;
    double best_left_s = gap_s;

    for (size_t i = 0; i < cell->n_shards; i++) {
        const struct shard *s = &cell->shard[i];
        const double after_s = gap_s - 2 * s->seconds;
        const double left_s = after_s < 0 ? -after_s : after_s;

        if (e->plan->group[s->group].n_ranks == 1 && left_s < best_left_s) {
            best = s;
            best_left_s = left_s;
        }
    }
    return best;
}

static void show_move(FILE *out, const struct hyd_explain *e, const struct cell *cell)
{
    const struct shard *move = best_move(e, cell);
    char a[HYD_TEXT_BYTES];
    char b[HYD_TEXT_BYTES];

    if (cell->load_s <= cell->mean_s || cell->n_shards == 0) {
        (void)fputs(
            "to balance    nothing has to leave: it carries no more than the mean\n",
            out);
        return;
    }
    if (move == NULL) {
        (void)fprintf(
            out,
            "to balance    no whole sequence helps: %s above the mean, and every "
            "shard is larger than the gap or shared with other ranks\n",
            hyd_text_seconds(cell->load_s - cell->mean_s, a));
        return;
    }
    (void)fprintf(out,
                  "to balance    sequence %" PRIu32
                  " (%s) would have to move to rank %" PRIu32
                  ", the coldest here with %s\n",
                  move->seq, hyd_text_seconds(move->seconds, a), cell->coldest_rank,
                  hyd_text_seconds(cell->coldest_s, b));
}

static hyd_status show_shards(const struct hyd_cli *cli, const struct hyd_explain *e,
                              const struct cell *cell, struct hyd_error *err)
{
    static const char *const names[] = {"sequence", "tokens",   "degree", "u", "r",
                                        "held",     "shard ms", "%",      NULL};
    struct hyd_table table;
    hyd_status st = HYD_OK;

    hyd_table_init(&table, cli->alloc, names);
    for (size_t i = 0; i < cell->n_shards; i++) {
        const struct shard *s = &cell->shard[i];
        const struct hyd_plan_group *group = &e->plan->group[s->group];

        hyd_table_add(&table, "%" PRIu32, s->seq);
        hyd_table_add(&table, "%" PRIu32, e->doc->in.batch.length_tokens[s->seq]);
        hyd_table_add(&table, "%" PRIu32, group->n_ranks);
        hyd_table_add(&table, "%" PRIu32, group->u);
        hyd_table_add(&table, "%" PRIu32, group->r);
        hyd_table_add(&table, "%.0f", s->tokens);
        hyd_table_add(&table, "%.4g", 1e3 * s->seconds);
        hyd_table_add(&table, "%.1f", 100 * s->seconds / cell->load_s);
    }
    st = hyd_table_print(&table, cli, err);
    hyd_table_release(&table);
    return st;
}

static hyd_status show_text(struct hyd_cli *cli, const struct hyd_explain *e,
                            const struct cell *cell, struct hyd_error *err)
{
    FILE *out = cli->out;
    char a[HYD_TEXT_BYTES];
    char b[HYD_TEXT_BYTES];
    char c[HYD_TEXT_BYTES];

    hyd_explain_show_source(cli, e);
    (void)fprintf(out,
                  "cell          microbatch %" PRIu32 " of %" PRIu32 ", rank %" PRIu32
                  ": %zu shards, %.0f of %" PRIu32 " tokens\n",
                  cell->microbatch, e->plan->n_microbatches, cell->rank, cell->n_shards,
                  cell->tokens, e->counted.limits.cap_tokens);
    (void)fprintf(out,
                  "load          %s; mean of the microbatch %s, hottest of the plan %s",
                  hyd_text_seconds(cell->load_s, a), hyd_text_seconds(cell->mean_s, b),
                  hyd_text_seconds(e->figures.hottest_cell_s, c));
    if (e->figures.target_s > 0) {
        (void)fprintf(out, ", target %s", hyd_text_seconds(e->figures.target_s, a));
    }
    if (cell->n_shards > 0) {
        (void)fprintf(out, "; %s of it is the fixed cost of a cell",
                      hyd_text_seconds(e->counted.cost->cell_s, a));
    }
    (void)fputc('\n', out);
    show_move(out, e, cell);
    if (cell->n_shards == 0) {
        (void)fputs("\nthe cell is empty: the rank waits in this microbatch\n", out);
        return HYD_OK;
    }
    (void)fputc('\n', out);
    return show_shards(cli, e, cell, err);
}

static hyd_status show_json(struct hyd_cli *cli, const struct hyd_explain *e,
                            const struct cell *cell, struct hyd_error *err)
{
    const struct shard *move = cell->load_s > cell->mean_s ? best_move(e, cell) : NULL;
    json_t *list = json_array();
    json_t *root = NULL;

    for (size_t i = 0; i < cell->n_shards; i++) {
        const struct shard *s = &cell->shard[i];
        const struct hyd_plan_group *group = &e->plan->group[s->group];

        (void)json_array_append_new(
            list, json_pack("{s:I, s:I, s:I, s:I, s:f, s:f}", "sequence",
                            (json_int_t)s->seq, "degree", (json_int_t)group->n_ranks,
                            "u", (json_int_t)group->u, "r", (json_int_t)group->r,
                            "tokens", s->tokens, "seconds", s->seconds));
    }
    root = json_pack("{s:s, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:I, s:o}", "plan",
                     hyd_explain_source_name(e->source), "microbatch",
                     (json_int_t)cell->microbatch, "rank", (json_int_t)cell->rank,
                     "load_s", cell->load_s, "tokens", cell->tokens, "mean_s",
                     cell->mean_s, "target_s", e->figures.target_s, "hottest_cell_s",
                     e->figures.hottest_cell_s, "coldest_rank",
                     (json_int_t)cell->coldest_rank, "shards", list);
    if (move != NULL) {
        (void)json_object_set_new(root, "move_sequence",
                                  json_integer((json_int_t)move->seq));
    }
    return hyd_json_print(cli->out, root, err);
}

hyd_status hyd_explain_show_cell(struct hyd_cli *cli, struct hyd_explain *explain,
                                 uint32_t microbatch, uint32_t rank,
                                 struct hyd_error *err)
{
    struct cell cell = {.microbatch = microbatch, .rank = rank};
    hyd_status st = HYD_OK;

    if (microbatch >= explain->plan->n_microbatches || rank >= explain->plan->n_ranks) {
        return hyd_error_field(
            err, HYD_ERR_INVALID, "cell",
            "option '--cell' is %" PRIu32 ",%" PRIu32 ", must be below %" PRIu32
            " microbatches and %" PRIu32 " ranks",
            microbatch, rank, explain->plan->n_microbatches, explain->plan->n_ranks);
    }
    st = gather(explain, &cell, err);
    if (st != HYD_OK) {
        return st;
    }
    return cli->json ? show_json(cli, explain, &cell, err)
                     : show_text(cli, explain, &cell, err);
}
