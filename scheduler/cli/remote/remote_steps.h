/*
 * remote_steps.h - the steps of a job, however many: a daemon lists them page by page.
 *
 * Errors   as hyd_remote_call; HYD_ERR_NO_MEMORY
 * Owns     the list and its steps live in the connection's arena.
 * Threads  one thread.
 */
#ifndef HYD_SCHEDULER_CLI_REMOTE_REMOTE_STEPS_H
#define HYD_SCHEDULER_CLI_REMOTE_REMOTE_STEPS_H

#include <jansson.h>

#include "scheduler/cli/remote/remote.h"

struct hyd_remote_steps_query {
    const char *job;
    uint64_t from; /* first step */
    uint64_t limit; /* most steps; UINT64_MAX: all */
};

struct hyd_remote_steps {
    Hydra__V1__StepInfo **step; /* [n], ascending */
    size_t n;
    bool more; /* there are further ones */
};

HYD_MUST_CHECK hyd_status
hyd_remote_steps_list(struct hyd_remote *remote, const struct hyd_remote_args *args,
                      const struct hyd_remote_steps_query *query,
                      struct hyd_remote_steps *ret_list, struct hyd_error *err);

/* An array of the steps, the caller's. */
json_t *hyd_remote_steps_json(const struct hyd_remote_steps *list);

/* The last ones, ascending; at most 1000. more: there are older ones. */
HYD_MUST_CHECK hyd_status hyd_remote_steps_newest(struct hyd_remote *remote,
                                                  const struct hyd_remote_args *args,
                                                  const char *job, uint32_t limit,
                                                  struct hyd_remote_steps *ret_list,
                                                  struct hyd_error *err);

#endif
