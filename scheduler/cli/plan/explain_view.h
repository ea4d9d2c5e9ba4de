/*
 * explain_view.h - explanations in words and as JSON.
 *
 * Errors   HYD_ERR_INVALID, HYD_ERR_NO_MEMORY, HYD_ERR_IO
 * Threads  one thread.
 */
#ifndef HYD_SCHEDULER_CLI_PLAN_EXPLAIN_VIEW_H
#define HYD_SCHEDULER_CLI_PLAN_EXPLAIN_VIEW_H

#include "scheduler/cli/cli.h"
#include "scheduler/cli/plan/explain.h"

HYD_MUST_CHECK hyd_status hyd_explain_show_seq(struct hyd_cli *cli,
                                               const struct hyd_explain *explain,
                                               uint32_t seq, struct hyd_error *err);

HYD_MUST_CHECK hyd_status hyd_explain_show_cell(struct hyd_cli *cli,
                                                struct hyd_explain *explain,
                                                uint32_t microbatch, uint32_t rank,
                                                struct hyd_error *err);

/* For both: which plan this is about, and whether it is the file's. */
void hyd_explain_show_source(struct hyd_cli *cli, const struct hyd_explain *explain);
const char *hyd_explain_source_name(enum hyd_explain_source source);

#endif
