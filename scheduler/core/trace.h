/*
 * trace.h - what the planner decided, and why, for people and golden tests.
 *
 * What     Decisions are handed to a listener as they fall. hyd_trace_text turns one into
 *          a line that a reader can follow.
 * Units    seconds, tokens.
 * Owns     nothing; a decision lives during the call only.
 * Threads  the listener is called on the planning thread.
 * Source   scheduler/README.md "Decision trace".
 */
#ifndef HYD_SCHEDULER_CORE_TRACE_H
#define HYD_SCHEDULER_CORE_TRACE_H

#include <stddef.h>
#include <stdint.h>

enum hyd_trace_kind {
    HYD_TRACE_CANDIDATE, /* a number of microbatches and its prediction */
    HYD_TRACE_TRY, /* a placement begins */
    HYD_TRACE_DEGREE, /* a length gets its degree */
    HYD_TRACE_PLACE, /* a sequence gets its block */
    HYD_TRACE_WIDEN, /* no room at its degree: the next larger one */
    HYD_TRACE_RESULT, /* a placement was simulated, or has no answer */
    HYD_TRACE_CHOICE, /* the plan that is returned */
};

struct hyd_trace_event {
    enum hyd_trace_kind kind;
    uint32_t seq; /* id; PLACE, WIDEN, DEGREE (the first of its length) */
    uint32_t degree; /* of a sequence; TRY, RESULT, CHOICE: the least there is */
    uint32_t n_microbatches; /* CANDIDATE, TRY, RESULT, CHOICE */
    uint32_t microbatch; /* PLACE */
    uint32_t rank; /* PLACE: first of the block, in the planner's numbers */
    uint32_t exclusive; /* TRY, RESULT, CHOICE */
    double tokens; /* DEGREE, PLACE: of the sequence; WIDEN: of its shard */
    double time_s; /* DEGREE, PLACE: of a shard; RESULT, CHOICE: step, < 0 none */
    double load_s; /* PLACE: of the block before, above the ramp's start */
    double target_s; /* CANDIDATE, TRY, DEGREE */
    double theta; /* TRY, RESULT, CHOICE */
    double predicted_s; /* CANDIDATE */
};

struct hyd_trace {
    void (*listen)(void *ctx, const struct hyd_trace_event *event);
    void *ctx;
};

/* trace may be NULL. */
void hyd_trace_emit(struct hyd_trace *trace, const struct hyd_trace_event *event);

/* One line without an end, cut to fit; gives what snprintf gives. */
int hyd_trace_text(const struct hyd_trace_event *event, char *text, size_t text_bytes);

#endif
