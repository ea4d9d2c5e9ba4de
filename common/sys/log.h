/*
 * log.h - one line per event on one file descriptor.
 *
 * What     A line is: time, level, area, a constant phrase in quotes, then key=value with
 *          the unit in the key:
 *            2026-11-29T15:04:05.123Z warn sched "plan rejected" batch=812 why='no room'
 *          hyd_log_warn(log, "plan rejected", "batch=%u why='%s'", id, err.text). The
 *          format may be "" when there is nothing to add. Control characters that come in
 *          with values are written as '?', so that a peer cannot forge a line.
 *          Levels: error, this operation was given up; warn, handled, someone should
 *          look; info, a state changed (rare); debug, per batch; trace, per decision.
 *          Only daemon, agent and CLI log; libraries return status and error text.
 * Units    lines above HYD_LOG_LINE_BYTES are cut and end in "...".
 * Errors   a line that cannot be written is counted (hyd_log_lost), never reported.
 * Owns     hyd_log_create owns the object, not the descriptor. A child made by
 *          hyd_log_area shares its parent's sink and must be freed before it.
 * Threads  any number of threads may write to one log: a line is one write call.
 */
#ifndef HYD_COMMON_SYS_LOG_H
#define HYD_COMMON_SYS_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/alloc.h"
#include "common/base/error.h"
#include "common/sys/clock.h"

enum { HYD_LOG_LINE_BYTES = 2048 };

enum hyd_log_level {
    HYD_LOG_ERROR,
    HYD_LOG_WARN,
    HYD_LOG_INFO,
    HYD_LOG_DEBUG,
    HYD_LOG_TRACE,
};

struct hyd_log; /* opaque; NULL is a log that writes nothing */

struct hyd_log_config {
    int fd; /* lent; usually 2 */
    enum hyd_log_level level; /* what is finer than this is dropped */
    const char *area; /* lent; "sched", "agent", ... */
    bool journal_prefix; /* "<4>" in front, for stderr that systemd reads; no time */
    const struct hyd_clock *clock; /* lent; NULL: the system's */
};

HYD_MUST_CHECK hyd_status hyd_log_create(const struct hyd_alloc *alloc,
                                         const struct hyd_log_config *config,
                                         struct hyd_log **ret_log,
                                         struct hyd_error *err);

/* The same sink under another area name (lent). parent may be NULL: *ret_log is NULL. */
HYD_MUST_CHECK hyd_status hyd_log_area(struct hyd_log *parent, const char *area,
                                       struct hyd_log **ret_log);

void hyd_log_free(struct hyd_log *log);

/* Also changes parent and children. */
void hyd_log_set_level(struct hyd_log *log, enum hyd_log_level level);

/* To skip costly arguments. */
bool hyd_log_wants(const struct hyd_log *log, enum hyd_log_level level);

/* Lines that could not be written since the start. */
uint64_t hyd_log_lost(const struct hyd_log *log);

/* "error", "warn", "info", "debug", "trace". */
HYD_MUST_CHECK hyd_status hyd_log_level_parse(const char *text,
                                              enum hyd_log_level *ret_level,
                                              struct hyd_error *err);

void hyd_log_write(struct hyd_log *log, enum hyd_log_level level, const char *event,
                   const char *format, ...) __attribute__((format(printf, 4, 5)));

#define hyd_log_error(log, event, ...) \
    hyd_log_write((log), HYD_LOG_ERROR, (event), __VA_ARGS__)
#define hyd_log_warn(log, event, ...) \
    hyd_log_write((log), HYD_LOG_WARN, (event), __VA_ARGS__)
#define hyd_log_info(log, event, ...) \
    hyd_log_write((log), HYD_LOG_INFO, (event), __VA_ARGS__)
#define hyd_log_debug(log, event, ...) \
    hyd_log_write((log), HYD_LOG_DEBUG, (event), __VA_ARGS__)
#define hyd_log_trace(log, event, ...) \
    hyd_log_write((log), HYD_LOG_TRACE, (event), __VA_ARGS__)

#endif
