/* plan_lists.c - see plan_lists.h. */
#include "scheduler/cli/plan/plan_lists.h"

#include <stdio.h>
#include <string.h>

#include "scheduler/cli/file.h"
#include "scheduler/cli/lengths/cut.h"
#include "scheduler/cli/parse.h"

enum { SPEED_MAX_BYTES = 1 << 24 };

/* One speed a line; *ret_n is how many there were, also beyond n_max. */
static hyd_status read_lines(const struct hyd_file *file, const char *path,
                             double *speed, uint32_t n_max, uint32_t *ret_n,
                             struct hyd_error *err)
{
    struct hyd_cut cut = hyd_cut_begin(file->bytes, file->n_bytes);
    struct hyd_piece line;
    uint32_t n = 0;

    while (hyd_cut_line(&cut, &line)) {
        double value = 0;

        if (line.n == 0 || line.at[0] == '#') {
            continue;
        }
        if (!hyd_piece_real(line, &value) || !(value >= 1e-6) || !(value <= 1e6)) {
            return hyd_error_field(err, HYD_ERR_INVALID, "speed",
                                   "%.60s:%zu: speed is '%.*s', must be 1e-6 to 1e6",
                                   path, cut.line, hyd_piece_show(line), line.at);
        }
        if (n < n_max) {
            speed[n] = value;
        }
        n++;
    }
    *ret_n = n;
    return HYD_OK;
}

hyd_status hyd_plan_read_speeds(struct hyd_plan_args *args, struct hyd_error *err)
{
    const uint32_t n_ranks = args->in.pool.n_ranks;
    struct hyd_file file = {0};
    uint32_t n = 0;
    hyd_status st =
        hyd_file_read(args->cli->alloc, args->speed_path, SPEED_MAX_BYTES, &file, err);

    if (st != HYD_OK) {
        return st;
    }
    args->speed = hyd_alloc_array(args->cli->alloc, n_ranks, sizeof *args->speed);
    if (args->speed == NULL) {
        st = hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for %u speeds", n_ranks);
    } else {
        st = read_lines(&file, args->speed_path, args->speed, n_ranks, &n, err);
    }
    if (st == HYD_OK && n != n_ranks) {
        st = hyd_error_field(err, HYD_ERR_INVALID, "speed",
                             "%.60s has %u speeds, must be one a rank: %u",
                             args->speed_path, n, n_ranks);
    }
    hyd_file_release(&file);
    return st;
}

hyd_status hyd_plan_read_stages(struct hyd_plan_args *args, struct hyd_error *err)
{
    const uint32_t n_stages = args->in.pool.pp;
    const char *at = args->stages;
    uint32_t n = 0;

    args->stage_cost =
        hyd_alloc_array(args->cli->alloc, n_stages, sizeof *args->stage_cost);
    if (args->stage_cost == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for %u stages",
                             n_stages);
    }
    for (;; at++) {
        const int n_chars = (int)strcspn(at, ",");
        char text[32];
        double cost = 0;

        (void)snprintf(text, sizeof text, "%.*s", n_chars, at);
        if (n_chars >= (int)sizeof text ||
            hyd_parse_real("", text, HYD_LEAST_STAGE_COST, HYD_MOST_STAGE_COST, &cost,
                           NULL) != HYD_OK) {
            return hyd_error_field(err, HYD_ERR_INVALID, "stages",
                                   "option '--stages' has '%.40s' for stage %u, must "
                                   "be a number from %g to %g",
                                   text, n, HYD_LEAST_STAGE_COST, HYD_MOST_STAGE_COST);
        }
        if (n < n_stages) {
            args->stage_cost[n] = cost;
        }
        n++;
        at += n_chars;
        if (*at == '\0') {
            break;
        }
    }
    return n == n_stages
               ? HYD_OK
               : hyd_error_field(err, HYD_ERR_INVALID, "stages",
                                 "option '--stages' has %u costs, must be one a "
                                 "pipeline stage: %u with --pp %u",
                                 n, n_stages, n_stages);
}

void hyd_plan_stages_text(const struct hyd_pool *pool, char *text, size_t text_bytes)
{
    double least = HYD_MOST_STAGE_COST;
    double most = 0;

    for (uint32_t s = 0; pool->stage_cost != NULL && s < pool->pp; s++) {
        least = pool->stage_cost[s] < least ? pool->stage_cost[s] : least;
        most = pool->stage_cost[s] > most ? pool->stage_cost[s] : most;
    }
    text[0] = '\0';
    if (most > 0 && (least < 1 || most > 1)) {
        (void)snprintf(text, text_bytes, " (stages cost %.4g to %.4g)", least, most);
    }
}
