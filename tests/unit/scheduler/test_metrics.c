/* Metrics come out in Prometheus' text form; labels are escaped; limits are counted. */
#include "scheduler/daemon/http/metrics.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/fault_alloc.h"
#include "tests/lib/test.h"

enum { PLANS, SECONDS, STEPS, N_METRICS };

static const struct hyd_metric metric[N_METRICS] = {
    {.name = "hydra_plans_total",
     .help = "Plans made.",
     .kind = HYD_METRIC_COUNTER,
     .label = {"job", "policy"}},
    {.name = "hydra_plan_seconds",
     .help = "Time to plan.",
     .kind = HYD_METRIC_HISTOGRAM,
     .bucket = {0.01, 0.1}},
    {.name = "hydra_steps", .help = "Steps.", .kind = HYD_METRIC_GAUGE},
};

static void metrics_text_is_the_exposition_format(void **state)
{
    struct hyd_metrics *metrics = NULL;
    const char *label[] = {"a\"b\\c\nd", "hydra"};
    char *text = NULL;
    size_t bytes = 0;

    (void)state;
    assert_int_equal(
        hyd_metrics_create(hyd_alloc_system(), metric, N_METRICS, &metrics), HYD_OK);
    assert_int_equal(hyd_metrics_add(metrics, PLANS, label, 1.0), HYD_OK);
    assert_int_equal(hyd_metrics_add(metrics, PLANS, label, 2.0), HYD_OK);
    assert_int_equal(hyd_metrics_observe(metrics, SECONDS, NULL, 0.0625), HYD_OK);
    assert_int_equal(hyd_metrics_observe(metrics, SECONDS, NULL, 7.0), HYD_OK);
    assert_int_equal(hyd_metrics_set(metrics, STEPS, NULL, 4.5), HYD_OK);
    assert_int_equal(hyd_metrics_text(metrics, &text, &bytes), HYD_OK);
    assert_int_equal(bytes, strlen(text));
    assert_string_equal(
        text,
        "# HELP hydra_plans_total Plans made.\n"
        "# TYPE hydra_plans_total counter\n"
        "hydra_plans_total{job=\"a\\\"b\\\\c\\nd\",policy=\"hydra\"} 3\n"
        "# HELP hydra_plan_seconds Time to plan.\n"
        "# TYPE hydra_plan_seconds histogram\n"
        "hydra_plan_seconds_bucket{le=\"0.01\"} 0\n"
        "hydra_plan_seconds_bucket{le=\"0.1\"} 1\n"
        "hydra_plan_seconds_bucket{le=\"+Inf\"} 2\n"
        "hydra_plan_seconds_sum 7.0625\n"
        "hydra_plan_seconds_count 2\n"
        "# HELP hydra_steps Steps.\n"
        "# TYPE hydra_steps gauge\n"
        "hydra_steps 4.5\n"
        "# HELP hydra_metrics_dropped_total Samples not kept: too many label values or "
        "no memory.\n"
        "# TYPE hydra_metrics_dropped_total counter\n"
        "hydra_metrics_dropped_total 0\n");
    hyd_alloc_free(hyd_alloc_system(), text);
    hyd_metrics_free(metrics);
}

static void metrics_forget_removes_the_samples_of_a_job(void **state)
{
    struct hyd_metrics *metrics = NULL;
    const char *one[] = {"one", "hydra"};
    const char *two[] = {"two", "hydra"};
    char *text = NULL;
    size_t bytes = 0;

    (void)state;
    assert_int_equal(
        hyd_metrics_create(hyd_alloc_system(), metric, N_METRICS, &metrics), HYD_OK);
    assert_int_equal(hyd_metrics_add(metrics, PLANS, one, 1.0), HYD_OK);
    assert_int_equal(hyd_metrics_add(metrics, PLANS, two, 1.0), HYD_OK);
    hyd_metrics_forget(metrics, "one");
    assert_int_equal(hyd_metrics_text(metrics, &text, &bytes), HYD_OK);
    assert_null(strstr(text, "job=\"one\""));
    assert_non_null(strstr(text, "job=\"two\""));
    hyd_alloc_free(hyd_alloc_system(), text);
    hyd_metrics_free(metrics);
}

static void metrics_drop_and_count_label_values_over_the_limit(void **state)
{
    struct hyd_metrics *metrics = NULL;
    char name[16];
    const char *label[] = {name, "hydra"};
    char *text = NULL;
    size_t bytes = 0;

    (void)state;
    assert_int_equal(
        hyd_metrics_create(hyd_alloc_system(), metric, N_METRICS, &metrics), HYD_OK);
    for (int i = 0; i < HYD_METRICS_SAMPLES; i++) {
        (void)snprintf(name, sizeof name, "job%d", i);
        assert_int_equal(hyd_metrics_add(metrics, PLANS, label, 1.0), HYD_OK);
    }
    (void)snprintf(name, sizeof name, "more");
    assert_int_equal(hyd_metrics_add(metrics, PLANS, label, 1.0), HYD_ERR_LIMIT);
    assert_int_equal(hyd_metrics_text(metrics, &text, &bytes), HYD_OK);
    assert_non_null(strstr(text, "hydra_metrics_dropped_total 1\n"));
    hyd_alloc_free(hyd_alloc_system(), text);
    hyd_metrics_free(metrics);
}

static void metrics_leak_nothing_when_the_nth_allocation_fails(void **state)
{
    const char *label[] = {"job", "hydra"};

    (void)state;
    for (size_t n = 1; n < 12; n++) {
        struct hyd_fault_alloc fault;
        struct hyd_metrics *metrics = NULL;
        char *text = NULL;
        size_t bytes = 0;

        hyd_fault_alloc_init(&fault);
        fault.fail_at = n;
        if (hyd_metrics_create(&fault.alloc, metric, N_METRICS, &metrics) == HYD_OK) {
            (void)hyd_metrics_add(metrics, PLANS, label, 1.0);
            if (hyd_metrics_text(metrics, &text, &bytes) == HYD_OK) {
                hyd_alloc_free(&fault.alloc, text);
            }
        }
        hyd_metrics_free(metrics);
        assert_int_equal(fault.live, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metrics_text_is_the_exposition_format),
        cmocka_unit_test(metrics_forget_removes_the_samples_of_a_job),
        cmocka_unit_test(metrics_drop_and_count_label_values_over_the_limit),
        cmocka_unit_test(metrics_leak_nothing_when_the_nth_allocation_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
