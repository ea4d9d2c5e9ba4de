/* job_report.c - what agents and trainers measured of a step; see job.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "scheduler/daemon/job.h"
#include "scheduler/daemon/service.h"

#include "common/base/banned.h"

static const struct hyd_alloc *alloc_of(const struct hyd_job *job)
{
    return job->service->config.alloc;
}

static bool good_seconds(double s)
{
    return s >= 0.0 && !isinf(s);
}

struct range {
    uint32_t first_rank;
    uint32_t n_ranks;
    uint32_t n_microbatches;
};

static hyd_status check_place(const char *what, size_t i, const struct range *range,
                              uint32_t rank, uint32_t microbatch, struct hyd_error *err)
{
    char field[HYD_ERROR_FIELD_BYTES];
    char limit[HYD_ERROR_LIMIT_BYTES];

    if (rank < range->first_rank || rank - range->first_rank >= range->n_ranks) {
        (void)snprintf(field, sizeof field, "report.%s[%zu].rank", what, i);
        (void)snprintf(limit, sizeof limit, "%" PRIu32 " to %" PRIu32,
                       range->first_rank, range->first_rank + range->n_ranks - 1);
        return hyd_error_value(err, HYD_ERR_INVALID, field, limit, "%" PRIu32, rank);
    }
    if (microbatch >= range->n_microbatches) {
        (void)snprintf(field, sizeof field, "report.%s[%zu].microbatch", what, i);
        (void)snprintf(limit, sizeof limit, "below %" PRIu32, range->n_microbatches);
        return hyd_error_value(err, HYD_ERR_INVALID, field, limit, "%" PRIu32,
                               microbatch);
    }
    return HYD_OK;
}

static hyd_status check_seconds(const char *what, size_t i, double s,
                                struct hyd_error *err)
{
    char field[HYD_ERROR_FIELD_BYTES];

    if (good_seconds(s)) {
        return HYD_OK;
    }
    (void)snprintf(field, sizeof field, "report.%s[%zu]", what, i);
    return hyd_error_value(err, HYD_ERR_INVALID, field, "seconds, finite and >= 0",
                           "%g", s);
}

hyd_status hyd_job_check_report(const struct hyd_job_step *step,
                                const Hydra__V1__StepReport *report,
                                uint32_t first_rank, uint32_t n_ranks,
                                struct hyd_error *err)
{
    const struct range range = {first_rank, n_ranks, step->summary.n_microbatches};
    const size_t n_cells = (size_t)n_ranks * range.n_microbatches;
    hyd_status st = HYD_OK;

    if (report == NULL) {
        return hyd_error_value(err, HYD_ERR_INVALID, "report", "given", "missing");
    }
    if (report->n_cells > n_cells) {
        return hyd_error_value(err, HYD_ERR_INVALID, "report.cells",
                               "one per rank and microbatch", "%zu long",
                               report->n_cells);
    }
    for (size_t i = 0; i < report->n_cells && st == HYD_OK; i++) {
        const Hydra__V1__CellReport *cell = report->cells[i];

        st = check_place("cells", i, &range, cell->rank, cell->microbatch, err);
        if (st == HYD_OK) {
            st = check_seconds("cells", i,
                               good_seconds(cell->wait_s) &&
                                       good_seconds(cell->exposed_s)
                                   ? cell->compute_s
                                   : -1.0,
                               err);
        }
    }
    for (size_t i = 0; i < report->n_shards && st == HYD_OK; i++) {
        const Hydra__V1__ShardReport *shard = report->shards[i];

        st = check_place("shards", i, &range, shard->rank, shard->microbatch, err);
        if (st == HYD_OK) {
            st = check_seconds("shards", i, shard->compute_s, err);
        }
    }
    return st;
}

void hyd_job_drop_reports(struct hyd_job *job, struct hyd_job_step *step)
{
    struct hyd_job_report *part = step->reports;

    step->reports = NULL;
    while (part != NULL) {
        struct hyd_job_report *next = part->next;

        hyd_arena_release(&part->arena);
        hyd_alloc_free(alloc_of(job), part);
        part = next;
    }
}

hyd_status hyd_job_keep_report(struct hyd_job *job, struct hyd_job_step *step,
                               struct hyd_arena *take_arena,
                               const Hydra__V1__StepReport *report)
{
    struct hyd_job_report *part = hyd_alloc_zeroed(alloc_of(job), 1, sizeof *part);

    if (part == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    part->arena = *take_arena;
    part->report = report;
    part->next = step->reports;
    step->reports = part;
    return HYD_OK;
}

/* ---- merging ---- */

static void add_check(Hydra__V1__CheckReport *sum, const Hydra__V1__CheckReport *part)
{
    if (part == NULL) {
        return;
    }
    sum->by_reference += part->by_reference;
    sum->by_single_rank += part->by_single_rank;
    sum->sampled_rows += part->sampled_rows;
    sum->unchecked += part->unchecked;
    if (part->max_error > sum->max_error) {
        sum->max_error = part->max_error;
    }
}

static void add_part(Hydra__V1__StepReport *sum, const Hydra__V1__StepReport *part)
{
    add_check(sum->check, part->check);
    /* Digests are sums over rows, modulo 2^64: they add up in any order. */
    sum->digest += part->digest;
    if (part->predicted_peak_bytes > sum->predicted_peak_bytes) {
        sum->predicted_peak_bytes = part->predicted_peak_bytes;
    }
    if (part->measured_peak_bytes > sum->measured_peak_bytes) {
        sum->measured_peak_bytes = part->measured_peak_bytes;
    }
    if (part->wall_s > sum->wall_s) {
        sum->wall_s = part->wall_s;
    }
}

/* Hottest over mean of compute seconds, over ranks and over cells. Empty cells are not
 * reported and count as 0. */
static bool fill_balance(const struct hyd_job_step *step, Hydra__V1__StepReport *sum,
                         struct hyd_arena *arena)
{
    const uint32_t n_ranks = step->summary.n_ranks;
    double *of_rank = hyd_arena_take_zeroed(arena, n_ranks, sizeof *of_rank);
    double total = 0.0;
    double hottest_cell = 0.0;
    double hottest_rank = 0.0;

    if (of_rank == NULL) {
        return false;
    }
    for (size_t i = 0; i < sum->n_cells; i++) {
        const Hydra__V1__CellReport *cell = sum->cells[i];

        total += cell->compute_s;
        of_rank[cell->rank] += cell->compute_s;
        hottest_cell = cell->compute_s > hottest_cell ? cell->compute_s : hottest_cell;
    }
    for (uint32_t r = 0; r < n_ranks; r++) {
        hottest_rank = of_rank[r] > hottest_rank ? of_rank[r] : hottest_rank;
    }
    if (total > 0.0) {
        sum->measured_balance_ranks = hottest_rank * n_ranks / total;
        sum->measured_balance_cells =
            hottest_cell * n_ranks * step->summary.n_microbatches / total;
    }
    return true;
}

/* Copies, so that the parts' memory can go. */
static bool copy_cells(const struct hyd_job_step *step, Hydra__V1__StepReport *sum,
                       struct hyd_arena *arena)
{
    Hydra__V1__CellReport *cell = NULL;
    Hydra__V1__ShardReport *shard = NULL;
    size_t n_cells = 0;
    size_t n_shards = 0;

    for (const struct hyd_job_report *part = step->reports; part != NULL;
         part = part->next) {
        n_cells += part->report->n_cells;
        n_shards += part->report->n_shards;
    }
    cell = hyd_arena_take(arena, n_cells, sizeof *cell);
    shard = hyd_arena_take(arena, n_shards, sizeof *shard);
    sum->cells = hyd_arena_take(arena, n_cells, sizeof(void *));
    sum->shards = hyd_arena_take(arena, n_shards, sizeof(void *));
    if (cell == NULL || shard == NULL || sum->cells == NULL || sum->shards == NULL) {
        return false;
    }
    for (const struct hyd_job_report *part = step->reports; part != NULL;
         part = part->next) {
        for (size_t i = 0; i < part->report->n_cells; i++) {
            cell[sum->n_cells] = *part->report->cells[i];
            cell[sum->n_cells].base.n_unknown_fields = 0;
            sum->cells[sum->n_cells] = &cell[sum->n_cells];
            sum->n_cells++;
        }
        for (size_t i = 0; i < part->report->n_shards; i++) {
            shard[sum->n_shards] = *part->report->shards[i];
            shard[sum->n_shards].base.n_unknown_fields = 0;
            sum->shards[sum->n_shards] = &shard[sum->n_shards];
            sum->n_shards++;
        }
    }
    return true;
}

void hyd_job_merge_reports(struct hyd_job *job, struct hyd_job_step *step)
{
    Hydra__V1__StepReport sum = HYDRA__V1__STEP_REPORT__INIT;
    struct hyd_arena arena;
    bool ok = false;

    hyd_arena_init(&arena, alloc_of(job));
    sum.check = hyd_arena_take(&arena, 1, sizeof *sum.check);
    if (sum.check != NULL) {
        hydra__v1__check_report__init(sum.check);
        ok = copy_cells(step, &sum, &arena) && fill_balance(step, &sum, &arena);
    }
    for (const struct hyd_job_report *part = step->reports; ok && part != NULL;
         part = part->next) {
        add_part(&sum, part->report);
    }
    hyd_job_drop_reports(job, step);
    if (!ok) {
        hyd_log_warn(job->service->config.log, "report dropped: no memory",
                     "job=%s step=%llu", hyd_job_name(job),
                     (unsigned long long)step->step);
        hyd_arena_release(&arena);
        return;
    }
    if (step->has_report) {
        hyd_arena_release(&step->report_arena);
    }
    step->report_arena = arena;
    step->report = sum;
    step->has_report = true;
}
