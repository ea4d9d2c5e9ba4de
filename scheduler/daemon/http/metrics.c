/* metrics.c - see metrics.h. Samples of a family are a list; families are few and small. */
#include "scheduler/daemon/http/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/check.h"

struct sample {
    struct sample *next;
    char *label[HYD_METRICS_LABELS];
    double value; /* of a histogram: sum */
    uint64_t count;
    uint64_t bucket[HYD_METRICS_BUCKETS];
};

struct family {
    struct sample *first;
    size_t n_samples;
};

struct hyd_metrics {
    const struct hyd_alloc *alloc;
    const struct hyd_metric *metric;
    struct family *family;
    size_t n;
    uint64_t dropped;
};

struct text {
    const struct hyd_alloc *alloc;
    char *at;
    size_t used, room;
    hyd_status status;
};

hyd_status hyd_metrics_create(const struct hyd_alloc *alloc,
                              const struct hyd_metric *metric, size_t n,
                              struct hyd_metrics **ret_metrics)
{
    struct hyd_metrics *metrics = hyd_alloc_zeroed(alloc, 1, sizeof *metrics);

    if (metrics == NULL) {
        return HYD_ERR_NO_MEMORY;
    }
    metrics->family = hyd_alloc_zeroed(alloc, n, sizeof *metrics->family);
    if (metrics->family == NULL) {
        hyd_alloc_free(alloc, metrics);
        return HYD_ERR_NO_MEMORY;
    }
    metrics->alloc = alloc;
    metrics->metric = metric;
    metrics->n = n;
    *ret_metrics = metrics;
    return HYD_OK;
}

static void free_sample(const struct hyd_alloc *alloc, struct sample *sample)
{
    for (size_t i = 0; i < HYD_METRICS_LABELS; i++) {
        hyd_alloc_free(alloc, sample->label[i]);
    }
    hyd_alloc_free(alloc, sample);
}

void hyd_metrics_free(struct hyd_metrics *metrics)
{
    if (metrics == NULL) {
        return;
    }
    for (size_t i = 0; i < metrics->n; i++) {
        struct sample *sample = metrics->family[i].first;

        while (sample != NULL) {
            struct sample *next = sample->next;

            free_sample(metrics->alloc, sample);
            sample = next;
        }
    }
    hyd_alloc_free(metrics->alloc, metrics->family);
    hyd_alloc_free(metrics->alloc, metrics);
}

static int same_labels(const struct sample *sample, const char *const *label)
{
    for (size_t i = 0; i < HYD_METRICS_LABELS; i++) {
        const char *want = label != NULL ? label[i] : NULL;

        if ((want == NULL) != (sample->label[i] == NULL) ||
            (want != NULL && strcmp(want, sample->label[i]) != 0)) {
            return 0;
        }
        if (want == NULL) {
            break;
        }
    }
    return 1;
}

static struct sample *new_sample(struct hyd_metrics *metrics, const char *const *label)
{
    struct sample *sample = hyd_alloc_zeroed(metrics->alloc, 1, sizeof *sample);

    for (size_t i = 0; sample != NULL && label != NULL && i < HYD_METRICS_LABELS; i++) {
        if (label[i] == NULL) {
            break;
        }
        sample->label[i] = hyd_alloc_text(metrics->alloc, label[i]);
        if (sample->label[i] == NULL) {
            free_sample(metrics->alloc, sample);
            sample = NULL;
        }
    }
    return sample;
}

static hyd_status find(struct hyd_metrics *metrics, size_t metric,
                       const char *const *label, struct sample **ret_sample)
{
    struct family *family = NULL;
    struct sample **at = NULL;

    hyd_assert(metric < metrics->n);
    family = &metrics->family[metric];
    for (at = &family->first; *at != NULL; at = &(*at)->next) {
        if (same_labels(*at, label)) {
            *ret_sample = *at;
            return HYD_OK;
        }
    }
    if (family->n_samples >= HYD_METRICS_SAMPLES) {
        metrics->dropped++;
        return HYD_ERR_LIMIT;
    }
    *at = new_sample(metrics, label);
    if (*at == NULL) {
        metrics->dropped++;
        return HYD_ERR_NO_MEMORY;
    }
    family->n_samples++;
    *ret_sample = *at;
    return HYD_OK;
}

hyd_status hyd_metrics_add(struct hyd_metrics *metrics, size_t metric,
                           const char *const *label, double value)
{
    struct sample *sample = NULL;
    hyd_status st = find(metrics, metric, label, &sample);

    if (st == HYD_OK) {
        sample->value += value;
    }
    return st;
}

hyd_status hyd_metrics_set(struct hyd_metrics *metrics, size_t metric,
                           const char *const *label, double value)
{
    struct sample *sample = NULL;
    hyd_status st = find(metrics, metric, label, &sample);

    if (st == HYD_OK) {
        sample->value = value;
    }
    return st;
}

hyd_status hyd_metrics_observe(struct hyd_metrics *metrics, size_t metric,
                               const char *const *label, double value)
{
    struct sample *sample = NULL;
    hyd_status st = find(metrics, metric, label, &sample);

    if (st != HYD_OK) {
        return st;
    }
    sample->value += value;
    sample->count++;
    for (size_t i = 0; i < HYD_METRICS_BUCKETS; i++) {
        const double bound = metrics->metric[metric].bucket[i];

        if (bound == 0.0) {
            break;
        }
        if (value <= bound) {
            sample->bucket[i]++;
        }
    }
    return HYD_OK;
}

void hyd_metrics_forget(struct hyd_metrics *metrics, const char *first_label)
{
    for (size_t i = 0; i < metrics->n; i++) {
        struct family *family = &metrics->family[i];
        struct sample **at = &family->first;

        while (*at != NULL) {
            struct sample *sample = *at;

            if (sample->label[0] != NULL &&
                strcmp(sample->label[0], first_label) == 0) {
                *at = sample->next;
                free_sample(metrics->alloc, sample);
                family->n_samples--;
            } else {
                at = &sample->next;
            }
        }
    }
}

static void put(struct text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void put(struct text *text, const char *format, ...)
{
    va_list args;
    int n = 0;

    va_start(args, format);
    n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0 || text->status != HYD_OK) {
        return;
    }
    if (text->used + (size_t)n + 1 > text->room) {
        const size_t room = 2 * (text->used + (size_t)n + 1) + 4096;
        char *grown = hyd_alloc_resize(text->alloc, text->at, room, 1);

        if (grown == NULL) {
            text->status = HYD_ERR_NO_MEMORY;
            return;
        }
        text->at = grown;
        text->room = room;
    }
    va_start(args, format);
    (void)vsnprintf(text->at + text->used, text->room - text->used, format, args);
    va_end(args);
    text->used += (size_t)n;
}

static void put_number(struct text *text, double value)
{
    if (isnan(value)) {
        put(text, " NaN\n");
    } else if (isinf(value)) {
        put(text, value > 0 ? " +Inf\n" : " -Inf\n");
    } else {
        put(text, " %.17g\n", value);
    }
}

/* {a="x",b="y",le="0.1"}: quotes, backslashes and line ends in values are escaped. */
static void put_labels(struct text *text, const struct hyd_metric *metric,
                       const struct sample *sample, const char *le)
{
    const char *between = "{";

    for (size_t i = 0; i < HYD_METRICS_LABELS && metric->label[i] != NULL; i++) {
        const char *value = sample->label[i] != NULL ? sample->label[i] : "";

        put(text, "%s%s=\"", between, metric->label[i]);
        for (; *value != '\0'; value++) {
            if (*value == '\n') {
                put(text, "\\n");
            } else if (*value == '"' || *value == '\\') {
                put(text, "\\%c", *value);
            } else {
                put(text, "%c", *value);
            }
        }
        put(text, "\"");
        between = ",";
    }
    if (le != NULL) {
        put(text, "%sle=\"%s\"", between, le);
        between = ",";
    }
    if (between[0] == ',') {
        put(text, "}");
    }
}

static void put_histogram(struct text *text, const struct hyd_metric *metric,
                          const struct sample *sample)
{
    for (size_t i = 0; i < HYD_METRICS_BUCKETS && metric->bucket[i] != 0.0; i++) {
        char le[32];

        (void)snprintf(le, sizeof le, "%g", metric->bucket[i]);
        put(text, "%s_bucket", metric->name);
        put_labels(text, metric, sample, le);
        put(text, " %" PRIu64 "\n", sample->bucket[i]);
    }
    put(text, "%s_bucket", metric->name);
    put_labels(text, metric, sample, "+Inf");
    put(text, " %" PRIu64 "\n%s_sum", sample->count, metric->name);
    put_labels(text, metric, sample, NULL);
    put_number(text, sample->value);
    put(text, "%s_count", metric->name);
    put_labels(text, metric, sample, NULL);
    put(text, " %" PRIu64 "\n", sample->count);
}

static void put_family(struct text *text, const struct hyd_metric *metric,
                       const struct family *family)
{
    static const char *const kind[] = {"counter", "gauge", "histogram"};

    put(text, "# HELP %s %s\n# TYPE %s %s\n", metric->name, metric->help, metric->name,
        kind[metric->kind]);
    for (const struct sample *s = family->first; s != NULL; s = s->next) {
        if (metric->kind == HYD_METRIC_HISTOGRAM) {
            put_histogram(text, metric, s);
        } else {
            put(text, "%s", metric->name);
            put_labels(text, metric, s, NULL);
            put_number(text, s->value);
        }
    }
}

hyd_status hyd_metrics_text(const struct hyd_metrics *metrics, char **ret_text,
                            size_t *ret_bytes)
{
    struct text text = {.alloc = metrics->alloc};

    for (size_t i = 0; i < metrics->n; i++) {
        put_family(&text, &metrics->metric[i], &metrics->family[i]);
    }
    put(&text,
        "# HELP hydra_metrics_dropped_total Samples not kept: too many label "
        "values or no memory.\n# TYPE hydra_metrics_dropped_total counter\n"
        "hydra_metrics_dropped_total %" PRIu64 "\n",
        metrics->dropped);
    if (text.status != HYD_OK) {
        hyd_alloc_free(text.alloc, text.at);
        return text.status;
    }
    *ret_text = text.at;
    *ret_bytes = text.used;
    return HYD_OK;
}
