/*
 * restore.h - jobs and steps of an earlier life, read from the journal at a start.
 *
 * What     Open jobs come back as they were: finished steps with their figures, the plans
 *          that are kept, and steps that were accepted and not finished, which run as
 *          soon as their agents are back. A plan that does not pass its proof any more is
 *          made again.
 * Errors   those of hyd_journal_read; HYD_ERR_MALFORMED names the job and step of a row
 *          that cannot be read.
 * Threads  loop thread, before the server starts.
 */
#ifndef HYD_SCHEDULER_DAEMON_RESTORE_H
#define HYD_SCHEDULER_DAEMON_RESTORE_H

#include "scheduler/daemon/service.h"

/* service->journal must be set. */
HYD_MUST_CHECK hyd_status hyd_service_restore(struct hyd_service *service,
                                              struct hyd_error *err);

#endif
