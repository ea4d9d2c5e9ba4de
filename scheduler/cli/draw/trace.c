/* trace.c - see draw.h: the timeline as Chrome trace events, for Perfetto and speedscope. A
 * process is a stage, a thread a rank; a slice is a group's part in one pass or what a
 * rank computes alone; flows join the members of a group in the forward pass of stage 0. */
#include <inttypes.h>

#include "scheduler/cli/draw/draw.h"
#include "scheduler/cli/draw/timeline.h"

enum { DEFAULT_SLICES = 400000, NAMED_IDS = 4 };

struct writer {
    const struct hyd_draw *draw;
    FILE *out;
    uint32_t n_stages; /* written */
    uint64_t flow;
};

static const char *const kind_names[HYD_PIPELINE_KINDS] = {"forward", "backward",
                                                           "weight gradients"};

static void write_names(struct writer *w)
{
    for (uint32_t s = 0; s < w->n_stages; s++) {
        (void)fprintf(
            w->out,
            ",\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%" PRIu32
            ",\"args\":{\"name\":\"stage %" PRIu32 "\"}}"
            ",\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%" PRIu32
            ",\"args\":{\"sort_index\":%" PRIu32 "}}",
            s, s, s, s);
        for (uint32_t r = 0; r < w->draw->doc->plan.n_ranks; r++) {
            (void)fprintf(w->out,
                          ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%" PRIu32
                          ",\"tid\":%" PRIu32 ",\"args\":{\"name\":\"rank %" PRIu32
                          "\"}}",
                          s, r, r);
        }
    }
}

/* "17, 4, 9 and 3 more" */
static void write_ids(const struct writer *w, const struct hyd_plan_group *group)
{
    for (uint32_t i = 0; i < group->n_ids && i < NAMED_IDS; i++) {
        (void)fprintf(w->out, "%s%" PRIu32, i > 0 ? ", " : "",
                      w->draw->doc->plan.id[group->first_id + i]);
    }
    if (group->n_ids > NAMED_IDS) {
        (void)fprintf(w->out, " and %" PRIu32 " more", group->n_ids - NAMED_IDS);
    }
}

/* Whole nanoseconds, so that a slice ends exactly where the next one starts: readers that
 * nest slices by their times would take the last digit of a rounded length for overlap. */
static int64_t whole_ns(double seconds)
{
    return (int64_t)(seconds * 1e9 + 0.5);
}

static void write_us(FILE *out, const char *name, int64_t ns)
{
    (void)fprintf(out, ",\"%s\":%" PRId64 ".%03" PRId64, name, ns / 1000, ns % 1000);
}

static void write_slice(const struct writer *w, const struct hyd_pipeline_op *op,
                        uint32_t rank, double start_s, double end_s)
{
    const int64_t start_ns = whole_ns(start_s);

    (void)fprintf(w->out, "\",\"cat\":\"%s\"", kind_names[op->kind]);
    write_us(w->out, "ts", start_ns);
    write_us(w->out, "dur", whole_ns(end_s) - start_ns);
    (void)fprintf(w->out, ",\"pid\":%u,\"tid\":%" PRIu32 "}", (unsigned)op->stage,
                  rank);
}

static void write_flow_end(const struct writer *w, const char *kind, int64_t at_ns,
                           unsigned stage, uint32_t rank)
{
    (void)fprintf(w->out,
                  ",\n{\"ph\":%s,\"name\":\"group\",\"cat\":\"group\",\"id\":%" PRIu64,
                  kind, w->flow);
    write_us(w->out, "ts", at_ns);
    (void)fprintf(w->out, ",\"pid\":%u,\"tid\":%" PRIu32 "}", stage, rank);
}

/* Flows of one group: from its first member to the others. */
static void write_flows(struct writer *w, const struct hyd_pipeline_op *op,
                        const struct hyd_plan_group *group, double start_s,
                        double end_s)
{
    const int64_t middle_ns = (whole_ns(start_s) + whole_ns(end_s)) / 2;
    const uint32_t *rank = w->draw->doc->plan.rank + group->first_rank;

    for (uint32_t k = 1; k < group->n_ranks; k++) {
        write_flow_end(w, "\"s\"", middle_ns, (unsigned)op->stage, rank[0]);
        write_flow_end(w, "\"f\",\"bp\":\"e\"", middle_ns, (unsigned)op->stage,
                       rank[k]);
        w->flow++;
    }
}

static void on_group(void *ctx, const struct hyd_pipeline_op *op, uint32_t microbatch,
                     uint32_t group_index, double start_s, double end_s)
{
    struct writer *w = ctx;
    const struct hyd_plan *plan = &w->draw->doc->plan;
    const struct hyd_plan_group *group = &plan->group[group_index];

    if (op->stage >= w->n_stages) {
        return;
    }
    for (uint32_t k = 0; k < group->n_ranks; k++) {
        (void)fprintf(w->out,
                      ",\n{\"ph\":\"X\",\"name\":\"m%" PRIu32 " %" PRIu32 "/%" PRIu32
                      " of sequence ",
                      microbatch, k + 1, group->n_ranks);
        write_ids(w, group);
        write_slice(w, op, plan->rank[group->first_rank + k], start_s, end_s);
    }
    if (op->stage == 0 && op->kind == HYD_PIPELINE_FORWARD) {
        write_flows(w, op, group, start_s, end_s);
    }
}

/* The sequences that a rank has for itself in a microbatch. */
static const struct hyd_plan_group *own_group(const struct hyd_plan *plan, uint32_t m,
                                              uint32_t rank)
{
    for (uint32_t g = plan->mb_first_group[m]; g < plan->mb_first_group[m + 1]; g++) {
        if (plan->group[g].n_ranks == 1 &&
            plan->rank[plan->group[g].first_rank] == rank) {
            return &plan->group[g];
        }
    }
    return NULL;
}

static void on_local(void *ctx, const struct hyd_pipeline_op *op, uint32_t microbatch,
                     const double *start_s, const double *end_s)
{
    struct writer *w = ctx;
    const struct hyd_plan *plan = &w->draw->doc->plan;

    for (uint32_t r = 0; op->stage < w->n_stages && r < plan->n_ranks; r++) {
        const struct hyd_plan_group *group = NULL;

        if (!(end_s[r] > start_s[r])) {
            continue;
        }
        group = own_group(plan, microbatch, r);
        (void)fprintf(w->out, ",\n{\"ph\":\"X\",\"name\":\"m%" PRIu32, microbatch);
        if (group != NULL) {
            (void)fputs(" sequence ", w->out);
            write_ids(w, group);
        } else {
            (void)fputs(" fixed cost of the cell", w->out);
        }
        write_slice(w, op, r, start_s[r], end_s[r]);
    }
}

/* Slices of one stage: each group's members in each pass, and each cell. */
static size_t slices_of_stage(const struct hyd_draw *draw)
{
    const struct hyd_plan *plan = &draw->doc->plan;
    const size_t passes = draw->counted.pass == HYD_PASS_FORWARD ? 1
                          : draw->counted.options.zero_bubble    ? 3
                                                                 : 2;

    return passes *
           (plan->n_rank_entries + (size_t)plan->n_microbatches * plan->n_ranks);
}

hyd_status hyd_draw_trace(struct hyd_draw *draw, size_t max_slices, FILE *out,
                          uint32_t *ret_stages, struct hyd_error *err)
{
    const size_t most = max_slices > 0 ? max_slices : DEFAULT_SLICES;
    const uint32_t pp = draw->counted.pool.pp;
    struct writer w = {.draw = draw, .out = out, .n_stages = pp};
    const struct hyd_timeline_events events = {
        .on_group = on_group, .on_local = on_local, .ctx = &w};
    double step_s = 0;
    hyd_status st = HYD_OK;

    while (w.n_stages > 1 && w.n_stages * slices_of_stage(draw) > most) {
        w.n_stages--;
    }
    (void)fprintf(out,
                  "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"policy\":\"%s\","
                  "\"stages\":%" PRIu32 ",\"stages_of\":%" PRIu32
                  "},\"traceEvents\":[\n{\"ph\":\"M\",\"name\":\"trace\",\"pid\":0,"
                  "\"args\":{\"name\":\"predicted step\"}}",
                  draw->counted.policy, w.n_stages, pp);
    write_names(&w);
    st = hyd_timeline_run(&draw->counted, &draw->doc->plan, &events, &draw->arena,
                          &step_s, err);
    (void)fputs("\n]}\n", out);
    *ret_stages = w.n_stages;
    return st;
}
