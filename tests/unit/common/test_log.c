/* A log line has one form, is one line whatever the values hold, and is never lost silently. */
#include "common/sys/log.h"

#include <string.h>
#include <unistd.h>

#include "tests/lib/fault_alloc.h"
#include "tests/lib/test.h"

struct fixture {
    struct hyd_fake_clock clock;
    struct hyd_log *log;
    int out; /* what was written is read here */
    int in;
};

static int setup(void **state)
{
    static struct fixture fix;
    struct hyd_log_config config = {
        .level = HYD_LOG_INFO,
        .area = "sched",
        .clock = &fix.clock.clock,
    };
    int ends[2];

    /* 2026-11-29 15:04:05.123 UTC */
    hyd_fake_clock_init(&fix.clock, 0, 1795964645123);
    assert_int_equal(pipe(ends), 0);
    fix.out = ends[0];
    fix.in = ends[1];
    config.fd = fix.in;
    assert_int_equal(hyd_log_create(hyd_alloc_system(), &config, &fix.log, NULL),
                     HYD_OK);
    *state = &fix;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fix = *state;

    hyd_log_free(fix->log);
    if (fix->in >= 0) {
        assert_int_equal(close(fix->in), 0);
    }
    if (fix->out >= 0) {
        assert_int_equal(close(fix->out), 0);
    }
    return 0;
}

static const char *written(struct fixture *fix)
{
    static char text[8192];
    const ssize_t n = read(fix->out, text, sizeof text - 1);

    assert_true(n > 0);
    text[n] = '\0';
    return text;
}

static void log_writes_time_level_area_event_and_values(void **state)
{
    struct fixture *fix = *state;

    hyd_log_warn(fix->log, "plan rejected", "batch=%d why='%s'", 812, "no room");
    assert_string_equal(written(fix), "2026-11-29T15:04:05.123Z warn sched \"plan "
                                      "rejected\" batch=812 why='no room'\n");
    hyd_log_info(fix->log, "ready", "%s", "");
    hyd_log_debug(fix->log, "not wanted", "x=%d", 1);
    assert_string_equal(written(fix),
                        "2026-11-29T15:04:05.123Z info sched \"ready\" \n");
}

static void log_keeps_a_value_with_newlines_on_one_line(void **state)
{
    struct fixture *fix = *state;
    const char *text = NULL;

    hyd_log_error(fix->log, "bad name", "name='%s'",
                  "x\n2026-11-29T15:04:05.123Z info sched \"forged\"\x7f");
    text = written(fix);
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    assert_non_null(strstr(text, "x?2026"));
    assert_null(strchr(text, 0x7f));
}

static void log_cuts_a_line_that_is_too_long(void **state)
{
    struct fixture *fix = *state;
    char value[2 * HYD_LOG_LINE_BYTES];
    const char *text = NULL;

    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    hyd_log_error(fix->log, "long", "value=%s", value);
    text = written(fix);
    assert_int_equal(strlen(text), HYD_LOG_LINE_BYTES);
    assert_string_equal(text + strlen(text) - 5, "v...\n");
}

static void log_child_shares_sink_and_level_under_its_own_area(void **state)
{
    struct fixture *fix = *state;
    struct hyd_log *child = NULL;

    assert_int_equal(hyd_log_area(fix->log, "rpc", &child), HYD_OK);
    hyd_log_set_level(fix->log, HYD_LOG_DEBUG);
    assert_true(hyd_log_wants(child, HYD_LOG_DEBUG));
    hyd_log_debug(child, "accepted", "fd=%d", 7);
    assert_non_null(strstr(written(fix), " debug rpc \"accepted\" fd=7\n"));
    hyd_log_free(child);
}

static void log_counts_lines_that_could_not_be_written(void **state)
{
    struct fixture *fix = *state;
    const struct hyd_log_config closed = {.fd = -1, .area = "x"};
    struct hyd_log *log = NULL;

    (void)fix;
    assert_int_equal(hyd_log_create(hyd_alloc_system(), &closed, &log, NULL), HYD_OK);
    hyd_log_error(log, "lost", "%s", "");
    assert_int_equal(hyd_log_lost(log), 1);
    hyd_log_free(log);
}

static void log_prefixes_severity_for_the_journal(void **state)
{
    struct fixture *fix = *state;
    const struct hyd_log_config config = {
        .fd = fix->in, .area = "sched", .journal_prefix = true};
    struct hyd_log *log = NULL;

    assert_int_equal(hyd_log_create(hyd_alloc_system(), &config, &log, NULL), HYD_OK);
    hyd_log_error(log, "gone", "node=%s", "a");
    assert_string_equal(written(fix), "<3>error sched \"gone\" node=a\n");
    hyd_log_free(log);
}

static void log_levels_parse_by_name(void **state)
{
    enum hyd_log_level level = HYD_LOG_TRACE;
    struct hyd_error err;

    (void)state;
    assert_int_equal(hyd_log_level_parse("warn", &level, &err), HYD_OK);
    assert_int_equal(level, HYD_LOG_WARN);
    assert_int_equal(hyd_log_level_parse("loud", &level, &err), HYD_ERR_INVALID);
    assert_non_null(strstr(err.text, "'loud'"));
    assert_int_equal(level, HYD_LOG_WARN);
}

static void log_of_null_writes_nothing(void **state)
{
    struct hyd_log *child = (struct hyd_log *)(uintptr_t)1;

    (void)state;
    hyd_log_error(NULL, "nobody listens", "%s", "");
    assert_int_equal(hyd_log_area(NULL, "x", &child), HYD_OK);
    assert_null(child);
}

static void log_create_survives_no_memory(void **state)
{
    struct hyd_fault_alloc fault;
    const struct hyd_log_config config = {.fd = 2, .area = "x"};
    struct hyd_log *log = NULL;

    (void)state;
    for (size_t n = 1; n <= 2; n++) {
        hyd_fault_alloc_init(&fault);
        fault.fail_at = n;
        assert_int_equal(hyd_log_create(&fault.alloc, &config, &log, NULL),
                         HYD_ERR_NO_MEMORY);
        assert_int_equal(fault.live, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(log_writes_time_level_area_event_and_values,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(log_keeps_a_value_with_newlines_on_one_line,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(log_cuts_a_line_that_is_too_long, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            log_child_shares_sink_and_level_under_its_own_area, setup, teardown),
        cmocka_unit_test_setup_teardown(log_counts_lines_that_could_not_be_written,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(log_prefixes_severity_for_the_journal, setup,
                                        teardown),
        cmocka_unit_test(log_levels_parse_by_name),
        cmocka_unit_test(log_of_null_writes_nothing),
        cmocka_unit_test(log_create_survives_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
