/*
 * plan_doc.h - a plan with everything needed to make it again, as a JSON file.
 *
 * What     The plan file of INTERFACES: input (policy, options, pool, limits, cost),
 *          lengths, microbatches of groups, figures, what was measured. Written in one
 *          layout with shortest numbers: equal plans give equal bytes but for `measured`
 *          and `plan_time_s`. Read with every key checked; nothing about the plan itself
 *          is believed, that is hyd_plan_check's work.
 * Shapes   as plan.h; ids are positions in lengths.
 * Errors   HYD_ERR_MALFORMED  not JSON, or not of this form; the text names the place
 *          HYD_ERR_INVALID    a field is unknown, missing or out of range
 *          HYD_ERR_LIMIT, HYD_ERR_NO_MEMORY, HYD_ERR_IO
 * Owns     struct hyd_plan_doc owns what it was read into until release.
 * Threads  one thread.
 */
#ifndef HYD_SCHEDULER_CLI_PLAN_PLAN_DOC_H
#define HYD_SCHEDULER_CLI_PLAN_PLAN_DOC_H

#include <jansson.h>

#include "common/base/arena.h"
#include "scheduler/cli/plan/cost_choice.h"
#include "scheduler/core/plan.h"

/* Seconds that making the plan took. */
struct hyd_plan_measured {
    double cpu_s; /* of this thread */
    double wall_s;
};

/* What there is to write; all borrowed. */
struct hyd_plan_out {
    const struct hyd_plan_input *in;
    const struct hyd_plan_input *counted; /* hyd_plan_input_count; for cells_table */
    const struct hyd_cost_choice *choice; /* in->cost was built from it */
    const struct hyd_plan *plan;
    struct hyd_plan_measured measured;
    bool cells_table; /* add tokens and seconds of each cell */
    const char *source; /* of the lengths, for people; NULL or "": nothing to say */
};

/* A new document, or NULL on no memory. */
json_t *hyd_plan_doc_write(const struct hyd_plan_out *out);

/* Parts of it, for other documents. */
json_t *hyd_plan_doc_input(const struct hyd_plan_input *in,
                           const struct hyd_cost_choice *choice);
json_t *hyd_plan_doc_figures(const struct hyd_figures *figures, double plan_time_s);

struct hyd_plan_doc {
    struct hyd_arena arena; /* everything below */
    struct hyd_plan_input in;
    struct hyd_cost_choice choice;
    struct hyd_cost cost;
    struct hyd_plan plan; /* figures as the file has them */
    bool
        known_policy; /* in.policy is the file's; else it is one of ours in its place */
    bool has_fingerprint;
    bool has_figures;
};

HYD_MUST_CHECK hyd_status hyd_plan_doc_read(const struct hyd_alloc *alloc,
                                            const char *path,
                                            struct hyd_plan_doc *ret_doc,
                                            struct hyd_error *err);

/* The same from bytes. */
HYD_MUST_CHECK hyd_status hyd_plan_doc_parse(const struct hyd_alloc *alloc,
                                             const char *bytes, size_t n_bytes,
                                             struct hyd_plan_doc *ret_doc,
                                             struct hyd_error *err);

/* A zeroed or released document is fine. */
void hyd_plan_doc_release(struct hyd_plan_doc *doc);

/* Tokens that each rank really holds of one microbatch, by the zigzag partition: member
 * k of a group of d has chunks k and 2d-1-k of 2d, cut at floor(c * l / 2d). Adds to
 * ret_tokens[n_ranks]. */
void hyd_plan_doc_cell_tokens(const uint32_t *length_tokens,
                              const struct hyd_plan *plan, uint32_t microbatch,
                              uint64_t *ret_tokens);

#endif
