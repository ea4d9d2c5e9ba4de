/* search_try.c - see search_try.h. */
#include "scheduler/core/search_try.h"

#include <float.h>
#include <string.h>

#include "common/base/banned.h"

void hyd_search_tell(const struct hyd_search *search, enum hyd_trace_kind kind,
                     const struct hyd_candidate *candidate,
                     const struct hyd_search_way *way, double step_s)
{
    const struct hyd_trace_event event = {
        .kind = kind,
        .n_microbatches = candidate->n_microbatches,
        .exclusive = way->exclusive,
        .degree = search->table.row[way->least_row].d,
        .target_s = candidate->target_s,
        .predicted_s = candidate->predicted_s,
        .theta = way->theta,
        .time_s = step_s,
    };

    hyd_trace_emit(search->in->trace, &event);
}

/* The degree of each length, as chosen. */
static void tell_degrees(const struct hyd_search *search,
                         const struct hyd_search_try *t, double target_s)
{
    const struct hyd_seqs *seqs = &search->seqs;

    for (uint32_t k = 0; search->in->trace != NULL && k < seqs->n_runs; k++) {
        const struct hyd_trace_event event = {
            .kind = HYD_TRACE_DEGREE,
            .seq = seqs->id[seqs->run_first[k]],
            .degree = search->table.row[t->row[k]].d,
            .tokens = seqs->tokens[k],
            .time_s = hyd_degree_s(&search->table, t->row[k], seqs->tokens[k],
                                   seqs->extra_s[k]),
            .target_s = target_s,
        };

        hyd_trace_emit(search->in->trace, &event);
    }
}

/* Keep a better placement: swap the arrays, copy the order. */
static void keep(struct hyd_search_try *t, const struct hyd_search_way *way,
                 double step_s)
{
    struct hyd_search *search = t->search;
    const struct hyd_placement better = t->placement;

    t->placement = search->best;
    search->best = better;
    search->way = *way;
    search->step_s = step_s;
    memcpy(search->order, t->order, better.n_microbatches * sizeof *search->order);
}

hyd_status hyd_search_try_run(struct hyd_search_try *t,
                              const struct hyd_search_way *way, double *ret_step_s)
{
    struct hyd_search *search = t->search;
    const struct hyd_place_in in = {
        .seqs = &search->seqs,
        .table = &search->table,
        .speed = way->exclusive ? search->in->pool.speed : search->speed,
        .row = t->row,
        .share = t->share,
        .n_microbatches = t->candidate.n_microbatches,
        .target_s = t->candidate.target_s,
        .theta = way->theta,
        .trace = search->in->trace,
    };
    double step_s = DBL_MAX;
    hyd_status st = HYD_OK;

    hyd_search_tell(search, HYD_TRACE_TRY, &t->candidate, way, 0.0);
    hyd_degree_choose(&search->table, &search->seqs, way->theta * in.target_s,
                      way->least_row, t->row);
    tell_degrees(search, t, way->theta * in.target_s);
    st = way->exclusive ? hyd_place_exclusive(&in, search->arena, &t->placement)
                        : hyd_place_mixed(&in, search->arena, &t->placement);
    search->n_tries++;
    search->n_pops += t->placement.n_pops;
    if (st == HYD_OK) {
        t->bench.speed = in.speed;
        /* Who listens wants to know every step. */
        t->bench.order_only = t->takes_first && search->in->trace == NULL;
        t->bench.enough_s = search->in->trace == NULL && search->step_s < DBL_MAX
                                ? search->step_s
                                : 0.0;
        st = hyd_trial_run(&t->bench, &t->placement, t->share, search->arena, t->order,
                           &step_s);
    }
    if (st != HYD_OK && st != HYD_ERR_INFEASIBLE) {
        return st;
    }
    hyd_search_tell(search, HYD_TRACE_RESULT, &t->candidate, way,
                    st == HYD_OK ? step_s : -1.0);
    if (step_s < search->step_s) {
        keep(t, way, step_s);
    }
    *ret_step_s = step_s;
    return HYD_OK;
}

void hyd_search_try_close(struct hyd_search_try *t)
{
    if (t->is_open) {
        hyd_arena_rewind(t->search->arena, t->mark);
        t->is_open = false;
    }
}

hyd_status hyd_search_try_open(struct hyd_search_try *t,
                               const struct hyd_candidate *candidate,
                               const double *share)
{
    struct hyd_search *search = t->search;
    struct hyd_arena *arena = search->arena;
    const uint32_t n_mb = candidate->n_microbatches;

    hyd_search_try_close(t);
    t->mark = hyd_arena_mark(arena);
    t->is_open = true;
    t->candidate = *candidate;
    t->share = share;
    t->order = hyd_arena_take(arena, n_mb, sizeof *t->order);
    t->row = hyd_arena_take(arena, search->seqs.n_runs, sizeof *t->row);
    if (t->order == NULL || t->row == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    return hyd_trial_bench_init(&t->bench, search->in, &search->seqs, &search->table,
                                n_mb, arena);
}
