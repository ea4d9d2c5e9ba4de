/* explain.c - see explain.h. */
#include "scheduler/cli/plan/explain.h"

#include <stdio.h>
#include <string.h>

#include "scheduler/core/figures.h"
#include "scheduler/core/fingerprint.h"
#include "scheduler/core/plan_check.h"

/* Start another placement; the last one is reused when there are too many to keep, since
 * the one that wins is tried among the first or told again. */
static struct hyd_explain_try *next_try(struct hyd_explain *e)
{
    if (e->n_tries < HYD_EXPLAIN_MAX_TRIES) {
        e->n_tries++;
    }
    e->tries[e->n_tries - 1] = (struct hyd_explain_try){.n_widened = 0};
    return &e->tries[e->n_tries - 1];
}

static bool same_placement(const struct hyd_explain_try *t,
                           const struct hyd_trace_event *event)
{
    return t->begin.n_microbatches == event->n_microbatches &&
           t->begin.exclusive == event->exclusive && t->step_s > 0 &&
           !(t->step_s < event->time_s) && !(t->step_s > event->time_s);
}

static void hear_choice(struct hyd_explain *e, const struct hyd_trace_event *event)
{
    for (size_t i = e->n_tries; i > 0; i--) {
        if (same_placement(&e->tries[i - 1], event)) {
            e->chosen = i - 1;
            return;
        }
    }
}

static void hear_place(struct hyd_explain *e, struct hyd_explain_try *last,
                       const struct hyd_trace_event *event)
{
    if (event->seq == e->seq) {
        last->place = *event;
        hyd_explain_count_blocks(e, last);
    }
    if (e->n_placed < e->counted.batch.n_seqs) {
        e->placed[e->n_placed++] = (struct hyd_explain_placed){
            .microbatch = event->microbatch,
            .rank = event->rank,
            .degree = event->degree,
            .tokens = event->tokens / event->degree,
        };
    }
}

static void hear(void *ctx, const struct hyd_trace_event *event)
{
    struct hyd_explain *e = ctx;
    struct hyd_explain_try *last = e->n_tries > 0 ? &e->tries[e->n_tries - 1] : NULL;

    switch (event->kind) {
    case HYD_TRACE_CANDIDATE:
        e->n_candidates++;
        return;
    case HYD_TRACE_TRY:
        last = next_try(e);
        last->begin = *event;
        e->n_placed = 0;
        return;
    case HYD_TRACE_CHOICE:
        hear_choice(e, event);
        return;
    case HYD_TRACE_DEGREE:
        /* Told once for all sequences of a length; the length is what identifies it. */
        if (last != NULL && e->seq != UINT32_MAX &&
            (uint32_t)event->tokens == e->counted.batch.length_tokens[e->seq]) {
            last->degree = *event;
        }
        return;
    case HYD_TRACE_PLACE:
        if (last != NULL) {
            hear_place(e, last, event);
        }
        return;
    case HYD_TRACE_WIDEN:
        if (last != NULL && event->seq == e->seq) {
            last->n_widened++;
        }
        return;
    case HYD_TRACE_RESULT:
        if (last != NULL) {
            last->step_s = event->time_s;
        }
        return;
    }
}

/* Plan again with an ear on it; without an answer the file's plan stays. */
static hyd_status plan_again(struct hyd_explain *e, struct hyd_error *err)
{
    struct hyd_trace trace = {.listen = hear, .ctx = e};
    struct hyd_plan_input in = e->doc->in;
    const struct hyd_plan *plan = NULL;
    struct hyd_error why = {.text = ""};
    hyd_status st = HYD_OK;

    if (!e->doc->known_policy) {
        (void)snprintf(e->why_not, sizeof e->why_not, "policy '%.60s' is not built in",
                       e->doc->plan.policy);
        return HYD_OK;
    }
    in.trace = &trace;
    st = hyd_planner_plan(e->planner, &in, &plan, &why);
    if (st == HYD_ERR_NO_MEMORY) {
        *err = why;
        return st;
    }
    if (st != HYD_OK) {
        (void)snprintf(e->why_not, sizeof e->why_not, "%s", why.text);
        return HYD_OK;
    }
    e->plan = plan;
    e->figures = plan->figures;
    e->source = plan->fingerprint == hyd_fingerprint(&e->doc->in, &e->doc->plan)
                    ? HYD_EXPLAIN_AGAIN
                    : HYD_EXPLAIN_DIFFERS;
    return HYD_OK;
}

static hyd_status open_parts(struct hyd_explain *e, struct hyd_error *err)
{
    const struct hyd_plan_doc *doc = e->doc;
    hyd_status st = hyd_plan_input_check(&doc->in, err);

    if (st == HYD_OK) {
        st = hyd_plan_check(&doc->in, &doc->plan, &e->arena, err);
        if (st == HYD_ERR_INVALID) {
            hyd_error_prefix(err, "the plan fails its proof");
            st = HYD_ERR_INFEASIBLE;
        }
    }
    if (st == HYD_OK) {
        st = hyd_plan_input_count(&doc->in, &e->arena, &e->cost, &e->counted, err);
    }
    if (st == HYD_OK && e->seq != UINT32_MAX && e->seq >= doc->in.batch.n_seqs) {
        st = hyd_error_field(err, HYD_ERR_INVALID, "seq",
                             "option '--seq' is %u, must be below %zu, the number of "
                             "sequences",
                             e->seq, doc->in.batch.n_seqs);
    }
    if (st == HYD_OK) {
        e->tries = hyd_arena_take(&e->arena, HYD_EXPLAIN_MAX_TRIES, sizeof *e->tries);
        e->placed = hyd_arena_take(&e->arena, doc->in.batch.n_seqs, sizeof *e->placed);
        st = e->tries == NULL || e->placed == NULL
                 ? HYD_ERR_NO_MEMORY
                 : hyd_planner_create(e->arena.alloc, &e->planner);
        if (st != HYD_OK) {
            return hyd_error_set(err, st, "no memory to plan again");
        }
    }
    return st;
}

hyd_status hyd_explain_open(const struct hyd_alloc *alloc,
                            const struct hyd_plan_doc *doc, uint32_t seq,
                            struct hyd_explain *ret_explain, struct hyd_error *err)
{
    struct hyd_explain *e = ret_explain;
    hyd_status st = HYD_OK;

    *e = (struct hyd_explain){.doc = doc, .seq = seq, .plan = &doc->plan};
    e->source = HYD_EXPLAIN_FILE;
    e->chosen = SIZE_MAX;
    hyd_arena_init(&e->arena, alloc);
    st = open_parts(e, err);
    if (st == HYD_OK) {
        st = hyd_figures_compute(&e->counted, doc->in.batch.length_tokens, &doc->plan,
                                 &e->arena, &e->figures, err);
        e->figures.target_s = doc->plan.figures.target_s;
    }
    if (st == HYD_OK) {
        st = plan_again(e, err);
    }
    if (e->chosen == SIZE_MAX) {
        e->chosen = e->n_tries;
    }
    if (st != HYD_OK) {
        hyd_explain_release(e);
    }
    return st;
}

void hyd_explain_release(struct hyd_explain *explain)
{
    hyd_planner_free(explain->planner);
    if (explain->arena.alloc != NULL) {
        hyd_arena_release(&explain->arena);
    }
    *explain = (struct hyd_explain){.doc = NULL};
}

static bool has_id(const struct hyd_plan *plan, uint32_t g, uint32_t seq)
{
    const struct hyd_plan_group *group = &plan->group[g];

    for (uint32_t i = 0; i < group->n_ids; i++) {
        if (plan->id[group->first_id + i] == seq) {
            return true;
        }
    }
    return false;
}

hyd_status hyd_explain_find(const struct hyd_plan *plan, uint32_t seq,
                            struct hyd_explain_place *ret_place, struct hyd_error *err)
{
    for (uint32_t m = 0; m < plan->n_microbatches; m++) {
        for (uint32_t g = plan->mb_first_group[m]; g < plan->mb_first_group[m + 1];
             g++) {
            if (has_id(plan, g, seq)) {
                *ret_place = (struct hyd_explain_place){m, g};
                return HYD_OK;
            }
        }
    }
    return hyd_error_field(err, HYD_ERR_INVALID, "seq", "no sequence %u in the plan",
                           seq);
}

static bool is_shown(uint32_t d, uint32_t n_ranks, uint32_t has_degree)
{
    return d == has_degree || (d & (d - 1)) == 0 || n_ranks % d == 0;
}

size_t hyd_explain_degrees(const struct hyd_explain *explain, uint32_t seq,
                           uint32_t has_degree,
                           struct hyd_explain_degree ret[HYD_EXPLAIN_MAX_DEGREES])
{
    const struct hyd_plan_input *in = &explain->counted;
    const double tokens = in->batch.length_tokens[seq];
    const double extra_s =
        in->batch.extra_work_s != NULL ? in->batch.extra_work_s[seq] : 0;
    const uint32_t max =
        in->limits.max_degree > 0 ? in->limits.max_degree : in->pool.n_ranks;
    size_t n = 0;

    for (uint32_t d = in->limits.min_degree; d <= max && n < HYD_EXPLAIN_MAX_DEGREES;
         d++) {
        struct hyd_explain_degree *one = &ret[n];

        if (!is_shown(d, in->pool.n_ranks, has_degree)) {
            continue;
        }
        one->d = d;
        one->tokens = tokens / d;
        one->shard_s = hyd_cost_degree_s(in->cost, tokens, extra_s, d, &one->u);
        one->area_s = one->shard_s * d;
        one->over_cap = one->tokens > in->limits.cap_tokens * (1 + 1e-9);
        one->over_target = explain->figures.target_s > 0 &&
                           one->shard_s > explain->figures.target_s * (1 + 1e-9);
        n++;
    }
    return n;
}
