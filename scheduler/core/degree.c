/*
 * degree.c - see degree.h.
 *
 * Rows are few, so a sequence looks at each that can fit. What makes it fast: shards are
 * never faster than their share of the work, which rules out small degrees without
 * working out their time, and from the first sequence that fits degree 1 on nothing is
 * looked at any more.
 */
#include "scheduler/core/degree.h"

#include <float.h>
#include <math.h>

#include "common/base/check.h"

#include "common/base/banned.h"

/* l/d is exact for powers of two; sums of others may be off by this much of the cap. */
static const double CAP_SLACK = 1e-9;
/* Rows are compared at lengths that grow by this factor. */
static const double GRID_STEP = 1.25;
static const double GRID_FROM_TOKENS = 16.0;
/* Below 1 by more than rounding: what is skipped could not have fitted. */
static const double SURE = 1.0 - 1e-9;

static bool is_pow2(uint32_t d)
{
    return (d & (d - 1)) == 0;
}

/* The degree after d in the wanted family; may exceed the largest. */
static uint32_t next_degree(enum hyd_degrees family, uint32_t n_ranks, uint32_t d)
{
    switch (family) {
    case HYD_DEGREES_POW2:
        while (!is_pow2(++d)) {
        }
        return d;
    case HYD_DEGREES_ANY:
        /* Every integer to 16, then steps of a twelfth: more rows gain nothing. */
        return d < 16 ? d + 1 : d + d / 12;
    case HYD_DEGREES_TILE:
        for (d++; d < n_ranks; d++) {
            if (is_pow2(d) || n_ranks % d == 0) {
                break;
            }
        }
        return d;
    }
    return d + 1;
}

static bool in_family(enum hyd_degrees family, uint32_t n_ranks, uint32_t d)
{
    return family == HYD_DEGREES_ANY || is_pow2(d) ||
           (family == HYD_DEGREES_TILE && n_ranks % d == 0);
}

/*
 * Powers of two in exclusive cells are for Megatron-Core, which makes process groups of
 * 2^i ranks for i < log2(pool), rounded down, and one of the pool. The largest of the
 * former.
 */
static uint32_t widest_part(const struct hyd_plan_input *in)
{
    const uint32_t n_ranks = in->pool.n_ranks;
    uint32_t d = 1;

    if (in->options.degrees != HYD_DEGREES_POW2 ||
        in->options.cells != HYD_CELLS_EXCLUSIVE || is_pow2(n_ranks)) {
        return n_ranks;
    }
    while (d * 4 <= n_ranks) {
        d *= 2;
    }
    return d;
}

/* Degrees from min to max, at most HYD_MAX_DEGREES. */
static uint32_t list_degrees(const struct hyd_plan_input *in, uint32_t max,
                             uint32_t *ret_degree)
{
    const enum hyd_degrees family = in->options.degrees;
    const uint32_t widest = widest_part(in);
    const uint32_t most = max < widest ? max : widest;
    uint32_t step = 0; /* percent by which degrees must differ */
    uint32_t n = 0;

    for (;;) {
        uint32_t d = in->limits.min_degree;
        uint32_t last = 0;

        if (!in_family(family, in->pool.n_ranks, d)) {
            d = next_degree(family, in->pool.n_ranks, d);
        }
        for (n = 0; d <= most && n < HYD_MAX_DEGREES;) {
            if ((uint64_t)d * 100 >= (uint64_t)last * (100 + step)) {
                ret_degree[n++] = d;
                last = d;
            }
            d = next_degree(family, in->pool.n_ranks, d);
        }
        if (n < HYD_MAX_DEGREES) {
            break;
        }
        step += 2;
    }
    if (family == HYD_DEGREES_ANY && n > 0 && ret_degree[n - 1] != max) {
        ret_degree[n++] = max;
    }
    if (most < max && max == in->pool.n_ranks) {
        ret_degree[n++] = max;
    }
    return n;
}

/* Keep the forms that are fastest at some length of the grid, larger u first. */
static bool fill_forms(const struct hyd_degree_table *table, double longest,
                       const struct hyd_pool *pool, struct hyd_arena *arena,
                       struct hyd_degree *degree)
{
    const struct hyd_cost *cost = table->cost;
    struct hyd_cost_form all[HYD_MAX_DEGREE_FORMS];
    bool used[HYD_MAX_DEGREE_FORMS] = {false};
    double tokens = GRID_FROM_TOKENS;
    uint32_t n_all = 0;
    bool has_short = false;

    for (uint32_t u = HYD_MAX_ULYSSES; u > 0; u--) {
        const bool in_node = degree->node != 0 || pool->ranks_per_node % u == 0 ||
                             pool->n_ranks <= pool->ranks_per_node;

        if (!hyd_cost_u_allowed(cost, u, degree->d) || u > pool->ranks_per_node ||
            !in_node || (has_short && degree->d / u > 8)) {
            continue;
        }
        has_short = has_short || degree->d / u <= 8;
        all[n_all++] = hyd_cost_form(cost, u, degree->d / u);
    }
    for (bool more = true; more;) {
        uint32_t best = 0;

        more = tokens < longest;
        for (uint32_t f = 1; f < n_all; f++) {
            if (hyd_cost_form_s(cost, &all[f], tokens, 0.0) <
                hyd_cost_form_s(cost, &all[best], tokens, 0.0)) {
                best = f;
            }
        }
        used[best] = true;
        tokens = tokens * GRID_STEP < longest ? tokens * GRID_STEP : longest;
    }
    degree->form = hyd_arena_take(arena, n_all, sizeof *degree->form);
    if (degree->form == NULL) {
        return false;
    }
    for (uint32_t f = 0; f < n_all; f++) {
        if (used[f]) {
            degree->form[degree->n_forms++] = all[f];
        }
    }
    return true;
}

static void set_blocks(const struct hyd_cost *cost, const struct hyd_pool *pool,
                       struct hyd_degree *degree)
{
    const uint32_t d = degree->d;
    const uint32_t node = pool->ranks_per_node;

    hyd_assert(d > 0);
    if (hyd_cost_fits_node(cost, d) && d <= node && node % d != 0 &&
        node < pool->n_ranks) {
        degree->node = node;
        degree->n_blocks = pool->n_ranks / node * (node / d) + pool->n_ranks % node / d;
    } else {
        degree->n_blocks = pool->n_ranks / d;
    }
}

double hyd_degree_s(const struct hyd_degree_table *table, uint32_t row, double tokens,
                    double extra_s)
{
    const struct hyd_degree *degree = &table->row[row];
    double best_s = hyd_cost_form_s(table->cost, &degree->form[0], tokens, extra_s);

    for (uint32_t f = 1; f < degree->n_forms; f++) {
        const double s =
            hyd_cost_form_s(table->cost, &degree->form[f], tokens, extra_s);

        best_s = s < best_s ? s : best_s;
    }
    return best_s;
}

/* Is the last row at least as slow as an earlier one at every length? */
static bool is_beaten(const struct hyd_degree_table *table, double longest)
{
    const uint32_t last = table->n_rows - 1;

    for (uint32_t k = 0; k < last; k++) {
        double tokens = GRID_FROM_TOKENS;
        bool beaten = true;

        for (bool more = true; more && beaten;) {
            more = tokens < longest;
            beaten = hyd_degree_s(table, k, tokens, 0.0) <=
                     hyd_degree_s(table, last, tokens, 0.0);
            tokens = tokens * GRID_STEP < longest ? tokens * GRID_STEP : longest;
        }
        if (beaten) {
            return true;
        }
    }
    return false;
}

/* Does splitting further only add, at every length? */
static bool area_rises(const struct hyd_degree_table *table, double longest)
{
    for (uint32_t k = 1; k < table->n_rows; k++) {
        const double d = table->row[k].d;
        const double below = table->row[k - 1].d;
        double tokens = GRID_FROM_TOKENS;

        for (bool more = true; more;) {
            more = tokens < longest;
            if (d * hyd_degree_s(table, k, tokens, 0.0) <
                below * hyd_degree_s(table, k - 1, tokens, 0.0) * SURE) {
                return false;
            }
            tokens = tokens * GRID_STEP < longest ? tokens * GRID_STEP : longest;
        }
    }
    return true;
}

static double longest_of(const struct hyd_seqs *seqs)
{
    double longest = seqs->tokens[0];

    for (uint32_t k = 1; !seqs->by_length && k < seqs->n_runs; k++) {
        longest = seqs->tokens[k] > longest ? seqs->tokens[k] : longest;
    }
    return longest;
}

static double best_speed(const struct hyd_pool *pool)
{
    double best = pool->speed != NULL ? pool->speed[0] : 1.0;

    for (uint32_t r = 1; pool->speed != NULL && r < pool->n_ranks; r++) {
        best = pool->speed[r] > best ? pool->speed[r] : best;
    }
    return best;
}

static hyd_status check_caps(const struct hyd_plan_input *in,
                             const struct hyd_degree_table *table,
                             const struct hyd_seqs *seqs, struct hyd_error *err)
{
    const uint32_t most = table->row[table->n_rows - 1].d;

    for (uint32_t k = 0; k < seqs->n_runs; k++) {
        if (seqs->tokens[k] / most > table->cap_tokens) {
            char field[HYD_ERROR_FIELD_BYTES];
            struct hyd_error limit;

            hyd_error_index(field, "lengths", seqs->id[seqs->run_first[k]]);
            (void)hyd_error_set(&limit, HYD_OK,
                                "at most %.0f: raise the cap to %.0f, or let it have "
                                "%.0f ranks",
                                floor(table->cap_tokens * (double)most),
                                ceil(seqs->tokens[k] / most),
                                ceil(seqs->tokens[k] / in->limits.cap_tokens));
            return hyd_error_value(err, HYD_ERR_INFEASIBLE, field, limit.text, "%.0f",
                                   seqs->tokens[k]);
        }
    }
    return HYD_OK;
}

hyd_status hyd_degree_table_init(const struct hyd_plan_input *in,
                                 const struct hyd_seqs *seqs, struct hyd_arena *arena,
                                 struct hyd_degree_table *ret_table,
                                 struct hyd_error *err)
{
    const uint32_t max =
        in->limits.max_degree != 0 && in->limits.max_degree < in->pool.n_ranks
            ? in->limits.max_degree
            : in->pool.n_ranks;
    const double longest = longest_of(seqs);
    uint32_t degree[HYD_MAX_DEGREES + 1];
    const uint32_t n = list_degrees(in, max, degree);
    struct hyd_degree_table table = {
        .cost = in->cost,
        .row = hyd_arena_take(arena, HYD_MAX_DEGREES + 1, sizeof *table.row),
        .n_ranks = in->pool.n_ranks,
        .cap_tokens = in->limits.cap_tokens,
        .best_speed = best_speed(&in->pool),
    };

    if (n == 0) {
        return hyd_error_field(err, HYD_ERR_INVALID, "min_degree",
                               "min_degree %u leaves no degree up to %u",
                               in->limits.min_degree, max);
    }
    if (table.row == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for %u degrees", n);
    }
    for (uint32_t k = 0; k < n; k++) {
        struct hyd_degree *row = &table.row[table.n_rows++];

        *row = (struct hyd_degree){.d = degree[k]};
        set_blocks(in->cost, &in->pool, row);
        if (!fill_forms(&table, longest, &in->pool, arena, row)) {
            return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for %u degrees", n);
        }
        if (k + 1 < n && is_beaten(&table, longest)) {
            table.n_rows--;
        } else if (!is_pow2(row->d)) {
            table.cap_tokens = in->limits.cap_tokens * (1.0 + CAP_SLACK);
        }
    }
    table.area_rises = area_rises(&table, longest);
    *ret_table = table;
    return check_caps(in, &table, seqs, err);
}

/* Row of least time among those that fit the cap: for sequences over every target. */
static uint32_t fastest(const struct hyd_degree_table *table, double tokens,
                        double extra_s)
{
    double least_s = DBL_MAX;
    uint32_t best = HYD_NO_DEGREE;

    for (uint32_t k = 0; k < table->n_rows; k++) {
        if (tokens / table->row[k].d <= table->cap_tokens) {
            const double time_s = hyd_degree_s(table, k, tokens, extra_s);

            if (time_s < least_s) {
                least_s = time_s;
                best = k;
            }
        }
    }
    return best;
}

uint32_t hyd_degree_of(const struct hyd_degree_table *table, double tokens,
                       double extra_s, double target_s)
{
    const double work_s = hyd_cost_work_s(table->cost, tokens, extra_s);
    double least_area = DBL_MAX;
    uint32_t best = HYD_NO_DEGREE;

    if (table->row[0].d == 1 && work_s <= target_s && tokens <= table->cap_tokens) {
        return 0; /* splitting only adds */
    }
    for (uint32_t k = 0; k < table->n_rows; k++) {
        const double d = table->row[k].d;

        /* A shard is never faster than its share of the work. */
        if (work_s * SURE <= target_s * d && tokens / d <= table->cap_tokens) {
            const double time_s = hyd_degree_s(table, k, tokens, extra_s);

            if (time_s <= target_s && d * time_s < least_area) {
                least_area = d * time_s;
                best = k;
            }
        }
    }
    return best != HYD_NO_DEGREE ? best : fastest(table, tokens, extra_s);
}

hyd_status hyd_degree_keep_times(struct hyd_degree_table *table,
                                 const struct hyd_seqs *seqs, struct hyd_arena *arena)
{
    const size_t n = (size_t)seqs->n_runs * table->n_rows;

    table->run_s = hyd_arena_take(arena, n, sizeof *table->run_s);
    if (table->run_s == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < n; i++) {
        table->run_s[i] = -1.0;
    }
    return HYD_OK;
}

double hyd_degree_find_run_s(const struct hyd_degree_table *table,
                             const struct hyd_seqs *seqs, uint32_t run, uint32_t row)
{
    const double time_s =
        hyd_degree_s(table, row, seqs->tokens[run], seqs->extra_s[run]);

    if (table->run_s != NULL) {
        table->run_s[(size_t)row * seqs->n_runs + run] = time_s;
    }
    return time_s;
}

/* hyd_degree_of for a run, from times that are kept; rows below `from` are too small. */
static uint32_t degree_of_run(const struct hyd_degree_table *table,
                              const struct hyd_seqs *seqs, uint32_t run,
                              double target_s, uint32_t from)
{
    const double tokens = seqs->tokens[run];
    double least_area = DBL_MAX;
    uint32_t best = HYD_NO_DEGREE;

    for (uint32_t k = from; k < table->n_rows; k++) {
        const double d = table->row[k].d;
        double time_s = 0.0;

        if (tokens / d > table->cap_tokens) {
            continue;
        }
        time_s = hyd_degree_run_s(table, seqs, run, k);
        if (time_s <= target_s && d * time_s < least_area) {
            least_area = d * time_s;
            best = k;
        }
        if (best != HYD_NO_DEGREE && table->area_rises) {
            break;
        }
    }
    return best != HYD_NO_DEGREE ? best : fastest(table, tokens, seqs->extra_s[run]);
}

void hyd_degree_choose(const struct hyd_degree_table *table,
                       const struct hyd_seqs *seqs, double target_s, uint32_t least_row,
                       uint8_t *ret_row)
{
    const bool has_one = table->row[0].d == 1;
    uint32_t from = table->n_rows - 1;

    for (uint32_t k = 0; k < seqs->n_runs; k++) {
        /* A shard is never faster than its share of the work, which falls from run to
         * run. */
        while (from > 0 &&
               seqs->work_s[k] * SURE <= target_s * table->row[from - 1].d) {
            from--;
        }
        uint32_t row = 0;

        /* Splitting only adds. */
        if (!has_one || seqs->work_s[k] > target_s ||
            seqs->tokens[k] > table->cap_tokens) {
            row = degree_of_run(table, seqs, k, target_s, from);
        }
        ret_row[k] = (uint8_t)(row > least_row ? row : least_row);
    }
}
