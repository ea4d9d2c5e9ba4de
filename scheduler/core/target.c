/*
 * target.c - see target.h.
 *
 * Prefix sums over runs sorted by work make a target cost a few bisections. area_s[k][i]
 * sums, over the i heaviest runs, the least area at row k or a larger one: what a
 * sequence costs when row k is the smallest that fits T. For the bound that is never too
 * much, whatever the order of areas and times over the rows.
 */
#include "scheduler/core/target.h"

#include <float.h>
#include <math.h>

#include "common/base/banned.h"

enum { REFINE_ROUNDS = 2, BOUND_ROUNDS = 100 };

/* Overhead seconds that each participant after the first adds, at about w / T ranks. */
static double overhead_s(const struct hyd_degree_table *table,
                         const struct hyd_seqs *seqs, uint32_t i, double target_s)
{
    const double work_s = seqs->work_s[i];
    uint32_t k = 0;
    double over_s = 0.0;

    while (k + 1 < table->n_rows &&
           (table->row[k].d < 2 || table->row[k].d * target_s < work_s)) {
        k++;
    }
    if (table->row[k].d < 2) {
        return 0.0;
    }
    over_s = (table->row[k].d * hyd_degree_run_s(table, seqs, i, k) - work_s) /
             (table->row[k].d - 1);
    return over_s > 0.0 ? over_s : 0.0;
}

/* Column i of area_s: least area of run i at row k or larger, from the last row up. */
static void add_areas(const struct hyd_degree_table *table, const struct hyd_seqs *seqs,
                      uint32_t i, struct hyd_target_sums *sums)
{
    const double n = hyd_seqs_count(seqs, i);
    double least_area = DBL_MAX;
    double least_s = DBL_MAX;

    for (uint32_t k = table->n_rows; k-- > 0;) {
        const double d = table->row[k].d;

        if (seqs->tokens[i] / d <= table->cap_tokens) {
            const double time_s = hyd_degree_run_s(table, seqs, i, k);

            least_area = d * time_s < least_area ? d * time_s : least_area;
            least_s = time_s < least_s ? time_s : least_s;
        }
        sums->area_s[k][i + 1] = sums->area_s[k][i] + n * least_area;
    }
    sums->fastest_s = least_s > sums->fastest_s ? least_s : sums->fastest_s;
}

/* Area of the runs that are not looked at: row 0, or the first that fits the cap. */
static double rest_area(const struct hyd_degree_table *table,
                        const struct hyd_seqs *seqs, uint32_t from)
{
    double area_s = 0.0;

    for (uint32_t i = from; i < seqs->n_runs; i++) {
        if (table->row[0].d == 1 && seqs->tokens[i] <= table->cap_tokens) {
            area_s += hyd_seqs_count(seqs, i) * seqs->work_s[i];
        } else {
            const uint32_t k =
                hyd_degree_of(table, seqs->tokens[i], seqs->extra_s[i], DBL_MAX);

            area_s += hyd_seqs_count(seqs, i) * table->row[k].d *
                      hyd_degree_s(table, k, seqs->tokens[i], seqs->extra_s[i]);
        }
    }
    return area_s;
}

static bool take_sums(const struct hyd_degree_table *table, struct hyd_arena *arena,
                      struct hyd_target_sums *sums)
{
    const size_t n = (size_t)sums->n_long + 1;
    bool ok = true;

    sums->work_s = hyd_arena_take(arena, n, sizeof *sums->work_s);
    sums->overhead_s = hyd_arena_take(arena, n, sizeof *sums->overhead_s);
    sums->overhead_work = hyd_arena_take(arena, n, sizeof *sums->overhead_work);
    sums->area_s = hyd_arena_take(arena, table->n_rows, sizeof *sums->area_s);
    ok = sums->work_s != NULL && sums->overhead_s != NULL &&
         sums->overhead_work != NULL && sums->area_s != NULL;
    for (uint32_t k = 0; ok && k < table->n_rows; k++) {
        sums->area_s[k] = hyd_arena_take(arena, n, sizeof **sums->area_s);
        ok = sums->area_s[k] != NULL;
    }
    return ok;
}

static void fill_sums(const struct hyd_degree_table *table, const struct hyd_seqs *seqs,
                      double typical_s, struct hyd_target_sums *sums)
{
    sums->work_s[0] = 0.0;
    sums->overhead_s[0] = 0.0;
    sums->overhead_work[0] = 0.0;
    for (uint32_t k = 0; k < table->n_rows; k++) {
        sums->area_s[k][0] = 0.0;
    }
    for (uint32_t i = 0; i < sums->n_long; i++) {
        const double n = hyd_seqs_count(seqs, i);
        const double over_s = overhead_s(table, seqs, i, typical_s);

        sums->work_s[i + 1] = sums->work_s[i] + n * seqs->work_s[i];
        sums->overhead_s[i + 1] = sums->overhead_s[i] + n * over_s;
        sums->overhead_work[i + 1] =
            sums->overhead_work[i] + n * over_s * seqs->work_s[i];
        add_areas(table, seqs, i, sums);
    }
    sums->rest_area_s = rest_area(table, seqs, sums->n_long);
}

static uint32_t n_long(const struct hyd_seqs *seqs, double low_s)
{
    uint32_t n = 0;

    while (n < seqs->n_runs && seqs->work_s[n] > low_s) {
        n++;
    }
    return n;
}

hyd_status hyd_target_sums_init(const struct hyd_degree_table *table,
                                const struct hyd_seqs *seqs, double low_s, double cells,
                                struct hyd_arena *arena,
                                struct hyd_target_sums *ret_sums)
{
    struct hyd_target_sums sums = {.total_work_s = seqs->total_work_s,
                                   .n_long = n_long(seqs, low_s)};

    if (!take_sums(table, arena, &sums)) {
        return HYD_ERR_NO_MEMORY;
    }
    fill_sums(table, seqs, seqs->total_work_s / cells, &sums);
    *ret_sums = sums;
    return HYD_OK;
}

double hyd_target_closed(const struct hyd_target_sums *sums,
                         const struct hyd_seqs *seqs, double cells)
{
    uint32_t lo = 0;
    uint32_t hi = sums->n_long;
    double base_s = 0.0;

    /* Run k is split iff the others, split at its work, leave T below it. */
    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo) / 2;
        const double w = seqs->work_s[mid];
        const double area_s =
            sums->total_work_s + sums->overhead_work[mid] / w - sums->overhead_s[mid];

        if (area_s < cells * w) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    base_s = sums->total_work_s - sums->overhead_s[lo];
    return (base_s + sqrt(base_s * base_s + 4.0 * cells * sums->overhead_work[lo])) /
           (2.0 * cells);
}

/* First run from which on all fit row k under T and the cap. */
static uint32_t first_fit(const struct hyd_degree_table *table,
                          const struct hyd_seqs *seqs, uint32_t n_long, uint32_t k,
                          double target_s)
{
    uint32_t lo = 0;
    uint32_t hi = n_long;

    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo) / 2;

        if (seqs->tokens[mid] / table->row[k].d <= table->cap_tokens &&
            hyd_degree_run_s(table, seqs, mid, k) <= target_s) {
            hi = mid;
        } else {
            lo = mid + 1;
        }
    }
    return lo;
}

struct fit {
    double area_s; /* of what fits under T */
    double giant_cells; /* of what fits under T at no degree */
};

static void add_giant(const struct hyd_degree_table *table, const struct hyd_seqs *seqs,
                      uint32_t i, double target_s, struct fit *fit)
{
    const uint32_t k =
        hyd_degree_of(table, seqs->tokens[i], seqs->extra_s[i], target_s);

    fit->giant_cells += (double)hyd_seqs_count(seqs, i) * table->row[k].d;
}

/* One run: smallest row that fits. */
static void add_fit(const struct hyd_target_sums *sums,
                    const struct hyd_degree_table *table, const struct hyd_seqs *seqs,
                    uint32_t i, double target_s, struct fit *fit)
{
    for (uint32_t k = 0; k < table->n_rows; k++) {
        const double d = table->row[k].d;

        if (seqs->tokens[i] / d <= table->cap_tokens &&
            seqs->work_s[i] * (1.0 - 1e-9) <= target_s * d &&
            hyd_degree_run_s(table, seqs, i, k) <= target_s) {
            fit->area_s += sums->area_s[k][i + 1] - sums->area_s[k][i];
            return;
        }
    }
    add_giant(table, seqs, i, target_s, fit);
}

static struct fit fit_at(const struct hyd_target_sums *sums,
                         const struct hyd_degree_table *table,
                         const struct hyd_seqs *seqs, double target_s)
{
    struct fit fit = {.area_s = sums->rest_area_s};
    uint32_t to = sums->n_long;

    if (!seqs->by_length) {
        for (uint32_t i = 0; i < sums->n_long; i++) {
            add_fit(sums, table, seqs, i, target_s, &fit);
        }
        return fit;
    }
    /* Row k takes what fits it and no smaller row: one range each. */
    for (uint32_t k = 0; k < table->n_rows && to > 0; k++) {
        const uint32_t from = first_fit(table, seqs, to, k, target_s);

        fit.area_s += sums->area_s[k][to] - sums->area_s[k][from];
        to = from;
    }
    for (uint32_t i = 0; i < to; i++) {
        add_giant(table, seqs, i, target_s, &fit);
    }
    return fit;
}

double hyd_target_refine(const struct hyd_target_sums *sums,
                         const struct hyd_degree_table *table,
                         const struct hyd_seqs *seqs, double cells, double target_s)
{
    for (uint32_t round = 0; round < REFINE_ROUNDS; round++) {
        const struct fit fit = fit_at(sums, table, seqs, target_s);

        if (cells - fit.giant_cells < table->n_ranks || fit.area_s <= 0.0) {
            break; /* nothing but giants: T says nothing more */
        }
        target_s = fit.area_s / (cells - fit.giant_cells);
    }
    return target_s;
}

double hyd_target_lower_bound(const struct hyd_target_sums *sums,
                              const struct hyd_degree_table *table,
                              const struct hyd_seqs *seqs, double cells)
{
    /* A fast rank needs less than t; every sequence must fit somewhere. */
    const double speed = table->best_speed;
    double lo = sums->fastest_s / speed;
    double hi = 0.0;

    if (fit_at(sums, table, seqs, lo * speed).area_s <= cells * lo) {
        return lo;
    }
    hi = fit_at(sums, table, seqs, lo * speed).area_s / cells;
    for (uint32_t round = 0; round < BOUND_ROUNDS && hi > lo; round++) {
        const double mid = lo + 0.5 * (hi - lo);

        if (mid <= lo || mid >= hi) {
            break;
        }
        if (fit_at(sums, table, seqs, mid * speed).area_s <= cells * mid) {
            hi = mid;
        } else {
            lo = mid;
        }
    }
    return lo;
}
