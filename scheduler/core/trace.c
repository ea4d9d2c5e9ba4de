/* trace.c - see trace.h. */
#include "scheduler/core/trace.h"

#include <stdio.h>

#include "common/base/banned.h"

void hyd_trace_emit(struct hyd_trace *trace, const struct hyd_trace_event *event)
{
    if (trace != NULL) {
        trace->listen(trace->ctx, event);
    }
}

/* How sequences are placed: "exclusive theta=0.45", "mixed theta=0.45 least=2". */
struct way {
    char text[48];
};

static struct way way(const struct hyd_trace_event *event)
{
    struct way way;
    const int used =
        snprintf(way.text, sizeof way.text, "%s theta=%.2f",
                 event->exclusive != 0 ? "exclusive" : "mixed", event->theta);

    if (event->degree > 1 && used > 0 && (size_t)used < sizeof way.text) {
        (void)snprintf(way.text + used, sizeof way.text - (size_t)used, " least=%u",
                       event->degree);
    }
    return way;
}

int hyd_trace_text(const struct hyd_trace_event *event, char *text, size_t text_bytes)
{
    switch (event->kind) {
    case HYD_TRACE_CANDIDATE:
        return snprintf(text, text_bytes, "candidate M=%u target=%.6g predicted=%.6g",
                        event->n_microbatches, event->target_s, event->predicted_s);
    case HYD_TRACE_TRY:
        return snprintf(text, text_bytes, "try M=%u cells=%s target=%.6g",
                        event->n_microbatches, way(event).text, event->target_s);
    case HYD_TRACE_DEGREE:
        return snprintf(text, text_bytes,
                        "degree seq=%u tokens=%.0f degree=%u time=%.6g limit=%.6g",
                        event->seq, event->tokens, event->degree, event->time_s,
                        event->target_s);
    case HYD_TRACE_PLACE:
        return snprintf(text, text_bytes,
                        "place seq=%u tokens=%.0f degree=%u microbatch=%u rank=%u "
                        "load=%.6g time=%.6g",
                        event->seq, event->tokens, event->degree, event->microbatch,
                        event->rank, event->load_s, event->time_s);
    case HYD_TRACE_WIDEN:
        return snprintf(text, text_bytes, "widen seq=%u degree=%u no room for %.1f",
                        event->seq, event->degree, event->tokens);
    case HYD_TRACE_RESULT:
        if (event->time_s < 0.0) {
            return snprintf(text, text_bytes, "result M=%u cells=%s none",
                            event->n_microbatches, way(event).text);
        }
        return snprintf(text, text_bytes, "result M=%u cells=%s step=%.6g",
                        event->n_microbatches, way(event).text, event->time_s);
    case HYD_TRACE_CHOICE:
        return snprintf(text, text_bytes, "choice M=%u cells=%s step=%.6g",
                        event->n_microbatches, way(event).text, event->time_s);
    }
    return 0;
}
