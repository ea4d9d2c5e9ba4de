/*
 * log.c - see log.h.
 *
 * The line is made on the stack and leaves in one write: lines of several threads do not
 * mix (pipes up to PIPE_BUF, files opened for appending), and no lock is held while the
 * receiver is slow. A short write is counted as lost rather than continued, since the
 * rest would land inside somebody else's line.
 */
#include "common/sys/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/check.h"

struct sink {
    int fd;
    bool journal_prefix;
    const struct hyd_clock *clock;
    atomic_int level;
    _Atomic uint64_t lost;
};

struct hyd_log {
    const struct hyd_alloc *alloc;
    const char *area;
    struct sink *sink;
    bool owns_sink;
};

static const char *const level_names[] = {"error", "warn", "info", "debug", "trace"};

hyd_status hyd_log_level_parse(const char *text, enum hyd_log_level *ret_level,
                               struct hyd_error *err)
{
    for (int level = 0; level <= HYD_LOG_TRACE; level++) {
        if (strcmp(text, level_names[level]) == 0) {
            *ret_level = (enum hyd_log_level)level;
            return HYD_OK;
        }
    }
    return hyd_error_value(err, HYD_ERR_INVALID, "log level",
                           "error, warn, info, debug or trace", "'%s'", text);
}

hyd_status hyd_log_create(const struct hyd_alloc *alloc,
                          const struct hyd_log_config *config, struct hyd_log **ret_log,
                          struct hyd_error *err)
{
    struct hyd_log *log = hyd_alloc_zeroed(alloc, 1, sizeof *log);
    struct sink *sink = hyd_alloc_zeroed(alloc, 1, sizeof *sink);

    if (log == NULL || sink == NULL) {
        hyd_alloc_free(alloc, log);
        hyd_alloc_free(alloc, sink);
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for the log");
    }
    sink->fd = config->fd;
    sink->journal_prefix = config->journal_prefix;
    sink->clock = config->clock != NULL ? config->clock : hyd_clock_system();
    atomic_init(&sink->level, (int)config->level);
    atomic_init(&sink->lost, 0);
    *log = (struct hyd_log){
        .alloc = alloc, .area = config->area, .sink = sink, .owns_sink = true};
    *ret_log = log;
    return HYD_OK;
}

hyd_status hyd_log_area(struct hyd_log *parent, const char *area,
                        struct hyd_log **ret_log)
{
    struct hyd_log *log = NULL;

    if (parent != NULL) {
        log = hyd_alloc_array(parent->alloc, 1, sizeof *log);
        if (log == NULL) {
            return HYD_ERR_NO_MEMORY;
        }
        *log = (struct hyd_log){
            .alloc = parent->alloc, .area = area, .sink = parent->sink};
    }
    *ret_log = log;
    return HYD_OK;
}

void hyd_log_free(struct hyd_log *log)
{
    if (log == NULL) {
        return;
    }
    if (log->owns_sink) {
        hyd_alloc_free(log->alloc, log->sink);
    }
    hyd_alloc_free(log->alloc, log);
}

void hyd_log_set_level(struct hyd_log *log, enum hyd_log_level level)
{
    if (log != NULL) {
        atomic_store_explicit(&log->sink->level, (int)level, memory_order_relaxed);
    }
}

bool hyd_log_wants(const struct hyd_log *log, enum hyd_log_level level)
{
    return log != NULL &&
           (int)level <= atomic_load_explicit(&log->sink->level, memory_order_relaxed);
}

uint64_t hyd_log_lost(const struct hyd_log *log)
{
    return log == NULL ? 0
                       : atomic_load_explicit(&log->sink->lost, memory_order_relaxed);
}

/* Fill `line` up to the values; returns what it would have needed. */
static size_t write_head(const struct hyd_log *log, enum hyd_log_level level,
                         const char *event, char line[HYD_LOG_LINE_BYTES])
{
    /* syslog's severities: error 3, warning 4, info 6, debug 7. */
    static const int severity[] = {3, 4, 6, 7, 7};
    int n = 0;

    if (log->sink->journal_prefix) {
        n = snprintf(line, HYD_LOG_LINE_BYTES, "<%d>%s %s \"%s\"", severity[level],
                     level_names[level], log->area, event);
    } else {
        const int64_t ms = hyd_clock_wall_ms(log->sink->clock);
        const time_t at = (time_t)(ms / 1000);
        struct tm utc;

        (void)gmtime_r(&at, &utc);
        n = snprintf(line, HYD_LOG_LINE_BYTES,
                     "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ %s %s \"%s\"",
                     utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour,
                     utc.tm_min, utc.tm_sec, (int)(ms % 1000), level_names[level],
                     log->area, event);
    }
    return n > 0 ? (size_t)n : 0;
}

void hyd_log_write(struct hyd_log *log, enum hyd_log_level level, const char *event,
                   const char *format, ...)
{
    char line[HYD_LOG_LINE_BYTES + 1];
    const int saved_errno = errno;
    size_t used = 0;
    ssize_t written = 0;
    va_list args;

    if (!hyd_log_wants(log, level)) {
        return;
    }
    used = write_head(log, level, event, line);
    if (format[0] != '\0' && used + 1 < HYD_LOG_LINE_BYTES) {
        int n = 0;

        line[used++] = ' ';
        va_start(args, format);
        n = vsnprintf(line + used, HYD_LOG_LINE_BYTES - used, format, args);
        va_end(args);
        used += n > 0 ? (size_t)n : 0;
    }
    if (used >= HYD_LOG_LINE_BYTES) {
        used = HYD_LOG_LINE_BYTES - 1;
        line[used - 3] = '.';
        line[used - 2] = '.';
        line[used - 1] = '.';
    }
    for (size_t i = 0; i < used; i++) {
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f) {
            line[i] = '?';
        }
    }
    line[used++] = '\n';
    do {
        written = write(log->sink->fd, line, used);
    } while (written < 0 && errno == EINTR);
    if (written != (ssize_t)used) {
        atomic_fetch_add_explicit(&log->sink->lost, 1, memory_order_relaxed);
    }
    errno = saved_errno;
}
