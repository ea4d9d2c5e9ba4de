/*
 * metrics.h - counters, gauges and histograms, and their text for Prometheus.
 *
 * What     A family is a row {name, help, kind, label names}; its samples are made when a
 *          label value is first used. Names follow Prometheus' conventions: a prefix
 *          "hydra_", base units, "_total" on counters.
 * Units    as the name says: seconds, bytes, ratio.
 * Errors   HYD_ERR_NO_MEMORY: the sample is not counted, nothing else is lost.
 *          HYD_ERR_LIMIT: a family holds HYD_METRICS_SAMPLES label values; later ones are
 *          counted in hydra_metrics_dropped_total.
 * Owns     the registry: samples and copies of label values. Family rows are lent until
 *          free.
 * Threads  loop thread only.
 * Source   the text exposition format 0.0.4.
 */
#ifndef HYD_SCHEDULER_DAEMON_HTTP_METRICS_H
#define HYD_SCHEDULER_DAEMON_HTTP_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/alloc.h"
#include "common/base/error.h"

enum { HYD_METRICS_LABELS = 2, HYD_METRICS_SAMPLES = 512, HYD_METRICS_BUCKETS = 16 };

enum hyd_metric_kind { HYD_METRIC_COUNTER, HYD_METRIC_GAUGE, HYD_METRIC_HISTOGRAM };

struct hyd_metric {
    const char *name; /* "hydra_plans_total" */
    const char *help; /* one sentence */
    enum hyd_metric_kind kind;
    const char *label[HYD_METRICS_LABELS]; /* names; NULL: none */
    double bucket[HYD_METRICS_BUCKETS]; /* histogram: ascending upper bounds, 0 ends */
};

struct hyd_metrics; /* opaque */

/* metric[n] is lent; a metric is named by its index from now on. */
HYD_MUST_CHECK hyd_status hyd_metrics_create(const struct hyd_alloc *alloc,
                                             const struct hyd_metric *metric, size_t n,
                                             struct hyd_metrics **ret_metrics);

void hyd_metrics_free(struct hyd_metrics *metrics);

/* Label values: NULL where the metric has no such label. */
hyd_status hyd_metrics_add(struct hyd_metrics *metrics, size_t metric,
                           const char *const *label, double value);
hyd_status hyd_metrics_set(struct hyd_metrics *metrics, size_t metric,
                           const char *const *label, double value);
hyd_status hyd_metrics_observe(struct hyd_metrics *metrics, size_t metric,
                               const char *const *label, double value);

/* Forget samples whose first label is this value (a job that was closed). */
void hyd_metrics_forget(struct hyd_metrics *metrics, const char *first_label);

/* All families as text in memory of the allocator; the caller frees it. */
HYD_MUST_CHECK hyd_status hyd_metrics_text(const struct hyd_metrics *metrics,
                                           char **ret_text, size_t *ret_bytes);

#endif
