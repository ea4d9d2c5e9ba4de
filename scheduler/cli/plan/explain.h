/*
 * explain.h - why a sequence got its degree and cell, and what a cell is made of.
 *
 * What     The plan is made again from its file's input with a listener on the planner's
 *          decisions; what was decided about one sequence is kept for every placement that
 *          was tried, the one that won among them. Peers' policies tell nothing: for them
 *          the facts are those of the plan and of the cost model.
 * Units    seconds of a shard, predicted; tokens.
 * Errors   HYD_ERR_INVALID  no such sequence, microbatch or rank
 *          HYD_ERR_INFEASIBLE  the file's plan fails its proof
 *          HYD_ERR_NO_MEMORY
 * Owns     struct hyd_explain owns its planner and arena until release; the document is
 *          borrowed as long.
 * Threads  one thread.
 */
#ifndef HYD_SCHEDULER_CLI_PLAN_EXPLAIN_H
#define HYD_SCHEDULER_CLI_PLAN_EXPLAIN_H

#include "scheduler/cli/plan/plan_doc.h"
#include "scheduler/core/planner.h"
#include "scheduler/core/trace.h"

enum { HYD_EXPLAIN_MAX_DEGREES = 40, HYD_EXPLAIN_MAX_TRIES = 512 };

/* What one placement decided about the sequence. */
struct hyd_explain_try {
    struct hyd_trace_event begin; /* number of microbatches, cells, target */
    struct hyd_trace_event degree; /* of its length; kind DEGREE when told */
    struct hyd_trace_event place; /* kind PLACE when told */
    uint32_t n_widened;
    double step_s; /* < 0: no answer; 0: not simulated */
    /* At its turn, blocks of its degree over all microbatches; 0: not known. */
    uint32_t n_blocks;
    uint32_t n_room; /* of these with room under the cap */
    uint32_t n_empty; /* of these without any shard */
};

/* A sequence that a placement has put somewhere. */
struct hyd_explain_placed {
    uint32_t microbatch;
    uint32_t rank; /* first of the block, in the planner's numbers */
    uint32_t degree;
    double tokens; /* of a shard */
};

/* One way to make a degree of u and r. */
struct hyd_explain_split {
    uint32_t u;
    uint32_t r;
    double shard_s;
    const char *why_not; /* NULL: the planner may take it */
};

enum { HYD_EXPLAIN_MAX_SPLITS = 16 };

/* One degree that the sequence could have. */
struct hyd_explain_degree {
    uint32_t d;
    uint32_t u;
    double tokens; /* of a shard */
    double shard_s;
    double area_s; /* of all its ranks */
    bool over_cap;
    bool over_target;
};

/* How the plan at hand came about. */
enum hyd_explain_source {
    HYD_EXPLAIN_AGAIN, /* planned again, the fingerprint is the file's */
    HYD_EXPLAIN_DIFFERS, /* planned again, it is another plan */
    HYD_EXPLAIN_FILE, /* cannot be planned again here */
};

struct hyd_explain {
    const struct hyd_plan_doc *doc;
    struct hyd_arena arena;
    struct hyd_planner *planner;
    struct hyd_plan_input counted; /* lengths as they count */
    struct hyd_cost cost;
    const struct hyd_plan *plan; /* explained: the new one, else the file's */
    struct hyd_figures figures; /* of that plan */
    enum hyd_explain_source source;
    char why_not[HYD_ERROR_TEXT_BYTES]; /* FILE: why it cannot be planned again */
    uint32_t seq; /* listened for; UINT32_MAX: none */
    struct hyd_explain_try *tries; /* [n_tries] */
    size_t n_tries;
    size_t n_candidates; /* numbers of microbatches that were predicted */
    struct hyd_explain_placed *placed; /* of the last placement, in order */
    size_t n_placed;
    size_t chosen; /* index of the placement that won; n_tries: none told */
};

/* Read, prove, plan again. seq: UINT32_MAX where a cell is asked about. */
HYD_MUST_CHECK hyd_status hyd_explain_open(const struct hyd_alloc *alloc,
                                           const struct hyd_plan_doc *doc, uint32_t seq,
                                           struct hyd_explain *ret_explain,
                                           struct hyd_error *err);

/* A zeroed or released one is fine. */
void hyd_explain_release(struct hyd_explain *explain);

/* Where a sequence is: indexes into the plan. */
struct hyd_explain_place {
    uint32_t microbatch;
    uint32_t group;
};

HYD_MUST_CHECK hyd_status hyd_explain_find(const struct hyd_plan *plan, uint32_t seq,
                                           struct hyd_explain_place *ret_place,
                                           struct hyd_error *err);

/* Degrees worth showing: powers of two, divisors of the pool, the one it has. Gives how
 * many. */
size_t hyd_explain_degrees(const struct hyd_explain *explain, uint32_t seq,
                           uint32_t has_degree,
                           struct hyd_explain_degree ret[HYD_EXPLAIN_MAX_DEGREES]);

/* The ways to make degree d of a sequence, larger u first. Gives how many. */
size_t hyd_explain_splits(const struct hyd_explain *explain, uint32_t seq, uint32_t d,
                          struct hyd_explain_split ret[HYD_EXPLAIN_MAX_SPLITS]);

/* Count the blocks of the degree of t->place as they were at its turn, where blocks lie at
 * multiples of the degree. */
void hyd_explain_count_blocks(struct hyd_explain *explain, struct hyd_explain_try *t);

#endif
