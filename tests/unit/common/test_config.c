/* Settings: precedence, errors that name place and value, and a file that reads back. */
#include "common/sys/config.h"

#include <stdlib.h>
#include <string.h>

#include "tests/lib/fault_alloc.h"
#include "tests/lib/test.h"

struct values {
    struct hyd_setting_list listen;
    const char *state;
    int compute;
    bool fast;
    uint64_t plans;
    uint64_t message_bytes;
    uint64_t grace_us;
    double share;
};

static const struct hyd_setting rows[] = {
    {.key = "listen",
     .type = HYD_SETTING_LIST,
     .offset = offsetof(struct values, listen),
     .def = "unix:/run/x, 127.0.0.1:7400",
     .meta = "ADDRESS",
     .why = "Addresses to listen on."},
    {.key = "state",
     .type = HYD_SETTING_TEXT,
     .offset = offsetof(struct values, state),
     .def = "",
     .meta = "DIR",
     .why = "Folder of the journal.",
     .flag = 's'},
    {.key = "compute",
     .type = HYD_SETTING_CHOICE,
     .offset = offsetof(struct values, compute),
     .def = "auto",
     .choices = "auto|cpu|cuda",
     .why = "Device."},
    {.key = "fast",
     .type = HYD_SETTING_BOOL,
     .offset = offsetof(struct values, fast),
     .def = "no",
     .why = "Go fast."},
    {.key = "plan.keep_plans",
     .type = HYD_SETTING_COUNT,
     .offset = offsetof(struct values, plans),
     .def = "100",
     .min = 1,
     .max = 1000,
     .why = "Plans to keep."},
    {.key = "rpc.message_bytes",
     .type = HYD_SETTING_SIZE,
     .offset = offsetof(struct values, message_bytes),
     .def = "8MiB",
     .min = 1024,
     .max = 67108864,
     .why = "Largest message."},
    {.key = "rpc.grace",
     .type = HYD_SETTING_DURATION,
     .offset = offsetof(struct values, grace_us),
     .def = "3s",
     .why = "Time for running calls."},
    {.key = "rpc.share",
     .type = HYD_SETTING_REAL,
     .offset = offsetof(struct values, share),
     .def = "0.5",
     .min = 0,
     .max = 1,
     .why = "Share."},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

static struct values values;

static int setup(void **state)
{
    struct hyd_config *config = NULL;

    memset(&values, 0, sizeof values);
    assert_int_equal(
        hyd_config_create(hyd_alloc_system(), rows, N_ROWS, &values, &config, NULL),
        HYD_OK);
    *state = config;
    return 0;
}

static int teardown(void **state)
{
    hyd_config_free(*state);
    return 0;
}

static hyd_status read_text(struct hyd_config *config, const char *text,
                            struct hyd_error *err)
{
    return hyd_config_text(config, "x.conf", text, strlen(text), err);
}

static void config_starts_with_the_defaults(void **state)
{
    assert_int_equal(values.listen.n_items, 2);
    assert_string_equal(values.listen.item[0], "unix:/run/x");
    assert_string_equal(values.listen.item[1], "127.0.0.1:7400");
    assert_string_equal(values.state, "");
    assert_int_equal(values.compute, 0);
    assert_false(values.fast);
    assert_int_equal(values.plans, 100);
    assert_int_equal(values.message_bytes, 8388608);
    assert_int_equal(values.grace_us, 3000000);
    assert_true(hyd_test_close(values.share, 0.5, 0.0, 0.0));
    assert_string_equal(hyd_config_origin(*state, "state"), "default");
    assert_null(hyd_config_origin(*state, "nothing"));
}

static void config_reads_a_file_with_sections(void **state)
{
    struct hyd_error err;

    assert_int_equal(read_text(*state,
                               "; comment\nlisten = a\nlisten = b, c\nstate = /var/x\n"
                               "compute=cuda\nfast = on\n[plan]\nkeep_plans = 7\n"
                               "[rpc]\nmessage_bytes = 64KiB\ngrace = 1.5s\nshare=0.25",
                               &err),
                     HYD_OK);
    assert_int_equal(values.listen.n_items, 3);
    assert_string_equal(values.listen.item[2], "c");
    assert_string_equal(values.state, "/var/x");
    assert_int_equal(values.compute, 2);
    assert_true(values.fast);
    assert_int_equal(values.plans, 7);
    assert_int_equal(values.message_bytes, 65536);
    assert_int_equal(values.grace_us, 1500000);
    assert_true(hyd_test_close(values.share, 0.25, 0.0, 0.0));
    assert_string_equal(hyd_config_origin(*state, "plan.keep_plans"), "x.conf:8");
}

/* Both marks end a value when a blank is before them, and are letters in it otherwise. */
static void config_leaves_comments_behind_values_out(void **state)
{
    struct hyd_error err;

    assert_int_equal(read_text(*state,
                               "  # whole line\nstate = /var/a#b;c # kept\n"
                               "listen = a, b\t# two\nfast = on ; yes\n",
                               &err),
                     HYD_OK);
    assert_string_equal(values.state, "/var/a#b;c");
    assert_int_equal(values.listen.n_items, 2);
    assert_string_equal(values.listen.item[1], "b");
    assert_true(values.fast);
}

static void config_names_file_line_and_value_when_a_value_is_wrong(void **state)
{
    static const struct {
        const char *text;
        const char *part;
        const char *field;
    } cases[] = {
        {"\nfast = maybe\n", "x.conf:2: fast is 'maybe'; must be yes or no", "fast"},
        {"compute = tpu\n", "one of auto|cpu|cuda", "compute"},
        {"[plan]\nkeep_plans = 0\n", "1 to 1000", "plan.keep_plans"},
        {"[plan]\nkeep_plans = 10x\n", "'10x'", "plan.keep_plans"},
        {"[rpc]\nmessage_bytes = 1GiB\n", "1KiB to 64MiB", "rpc.message_bytes"},
        {"[rpc]\ngrace = 10\n", "duration like 250ms", "rpc.grace"},
        {"[rpc]\nshare = nan\n", "0 to 1", "rpc.share"},
        {"[plan]\nkeep_plan = 1\n", "the nearest is 'plan.keep_plans'",
         "plan.keep_plan"},
        {"state = a\nstate = b\n", "given twice, first at x.conf:1", "state"},
        {"state = a\nno equals sign\n", "x.conf:2: neither", ""},
        {"[broken\n", "x.conf:1: neither", ""},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hyd_error err = {0};

        assert_int_equal(read_text(*state, cases[i].text, &err), HYD_ERR_INVALID);
        if (strstr(err.text, cases[i].part) == NULL) {
            fail_msg("case %zu: '%s' lacks '%s'", i, err.text, cases[i].part);
        }
        assert_string_equal(err.field, cases[i].field);
        assert_int_equal(teardown(state), 0);
        assert_int_equal(setup(state), 0);
    }
}

static void config_refuses_long_lines_and_zero_bytes(void **state)
{
    static const char zero[] = "state = a\0b\n";
    struct hyd_error err;
    char text[4096];

    memset(text, 'x', sizeof text - 1);
    memcpy(text, "state = ", 8);
    text[sizeof text - 1] = '\0';
    assert_int_equal(read_text(*state, text, &err), HYD_ERR_INVALID);
    assert_non_null(strstr(err.text, "too long"));
    assert_int_equal(hyd_config_text(*state, "x.conf", zero, sizeof zero - 1, &err),
                     HYD_ERR_INVALID);
    assert_non_null(strstr(err.text, "zero byte"));
    assert_string_equal(values.state, "");
}

static void config_environment_goes_over_the_file(void **state)
{
    char one[] = "HYDRA_PLAN_KEEP_PLANS=9";
    char two[] = "HYDRA_LISTEN=d";
    char empty[] = "HYDRA_STATE=";
    char other[] = "HYDRA_UNKNOWN=1";
    char *environment[] = {one, other, two, empty, NULL};
    struct hyd_error err;

    assert_int_equal(
        read_text(*state, "listen=a\nstate=/x\n[plan]\nkeep_plans=7\n", &err), HYD_OK);
    assert_int_equal(hyd_config_environment(*state, environment, &err), HYD_OK);
    assert_int_equal(values.plans, 9);
    assert_int_equal(values.listen.n_items, 1);
    assert_string_equal(values.listen.item[0], "d");
    assert_string_equal(values.state, "/x");
    assert_string_equal(hyd_config_origin(*state, "listen"), "HYDRA_LISTEN");
    one[sizeof one - 2] = 'z';
    assert_int_equal(hyd_config_environment(*state, environment, &err),
                     HYD_ERR_INVALID);
    assert_non_null(strstr(err.text, "HYDRA_PLAN_KEEP_PLANS"));
    assert_int_equal(values.plans, 9);
}

static void config_print_reads_back_to_the_same(void **state)
{
    struct hyd_config *again = NULL;
    struct hyd_error err;
    struct values first;
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);

    assert_non_null(out);
    assert_int_equal(read_text(*state,
                               "listen=a\nlisten=b\nstate=/x y\nfast=yes\ncompute=cpu\n"
                               "[plan]\nkeep_plans=3\n[rpc]\nshare=0.125\ngrace=10ms\n",
                               &err),
                     HYD_OK);
    hyd_config_print(*state, out);
    assert_int_equal(fclose(out), 0);
    first = values;
    assert_int_equal(
        hyd_config_create(hyd_alloc_system(), rows, N_ROWS, &values, &again, &err),
        HYD_OK);
    assert_int_equal(hyd_config_text(again, "printed", text, n, &err), HYD_OK);
    assert_int_equal(values.listen.n_items, 2);
    assert_string_equal(values.listen.item[1], "b");
    assert_string_equal(values.state, "/x y");
    assert_true(values.fast == first.fast && values.compute == first.compute);
    assert_true(values.plans == first.plans && values.grace_us == first.grace_us);
    assert_true(hyd_test_close(values.share, first.share, 0.0, 0.0));
    assert_non_null(strstr(text, "# Largest message.\n"));
    hyd_config_free(again);
    free(text);
}

static void config_survives_no_memory_at_any_point(void **state)
{
    struct hyd_fault_alloc fault;
    struct hyd_config *config = NULL;
    hyd_status status = HYD_ERR_NO_MEMORY;

    (void)state;
    for (size_t n = 1; status != HYD_OK; n++) {
        assert_true(n < 100);
        hyd_fault_alloc_init(&fault);
        fault.fail_at = n;
        status = hyd_config_create(&fault.alloc, rows, N_ROWS, &values, &config, NULL);
        if (status == HYD_OK) {
            status = hyd_config_set(config, "listen", "p,q,r", "test", NULL);
            assert_int_equal(values.listen.n_items, status == HYD_OK ? 3 : 2);
            hyd_config_free(config);
        }
        assert_true(status == HYD_OK || status == HYD_ERR_NO_MEMORY);
        assert_int_equal(fault.live, 0);
    }
}

static hyd_status run_main(struct hyd_config *config, const char *const *words,
                           bool *ret_exit, struct hyd_error *err)
{
    static char *const environment[] = {NULL};
    const struct hyd_config_program program = {
        .name = "test",
        .version = "0",
        .summary = "A test.",
        .environment = environment,
    };
    char *argv[16] = {NULL};
    int argc = 0;

    for (; words[argc] != NULL; argc++) {
        assert_true(argc < 15);
        argv[argc] = (char *)(uintptr_t)words[argc];
    }
    return hyd_config_main(config, argc, argv, &program, ret_exit, err);
}

static void flags_go_over_everything_and_lists_add_up(void **state)
{
    const char *argv[] = {
        "test",   "--listen",          "a",  "--listen=b",        "--fast", "-s",
        "/tmp/x", "--plan-keep-plans", "12", "--rpc-grace=250ms", NULL};
    struct hyd_error err;
    bool done = false;

    assert_int_equal(run_main(*state, argv, &done, &err), HYD_OK);
    assert_false(done);
    assert_int_equal(values.listen.n_items, 2);
    assert_string_equal(values.listen.item[1], "b");
    assert_true(values.fast);
    assert_string_equal(values.state, "/tmp/x");
    assert_int_equal(values.plans, 12);
    assert_int_equal(values.grace_us, 250000);
}

static void flags_name_what_is_wrong(void **state)
{
    static const struct {
        const char *flag;
        const char *part;
    } cases[] = {
        {"--lisen=a", "the nearest is 'listen'"},
        {"--plan-keep-plans=0", "--plan-keep-plans: plan.keep_plans is '0'"},
        {"--state", "needs a value"},
        {"stray", "unexpected argument 'stray'"},
        {"--fast=perhaps", "yes or no"},
        {"--config=/no/such/file", "/no/such/file"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char flag[64];
        const char *argv[] = {"test", flag, NULL};
        struct hyd_error err = {0};
        bool done = false;

        (void)snprintf(flag, sizeof flag, "%s", cases[i].flag);
        assert_int_not_equal(run_main(*state, argv, &done, &err), HYD_OK);
        if (strstr(err.text, cases[i].part) == NULL) {
            fail_msg("case %zu: '%s' lacks '%s'", i, err.text, cases[i].part);
        }
    }
}

static void flags_that_print_ask_to_end(void **state)
{
    static const char *const flags[] = {"--help", "--version", "--print-config",
                                        "--check-config"};

    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        char flag[32];
        const char *argv[] = {"test", flag, NULL};
        struct hyd_error err;
        bool done = false;

        (void)snprintf(flag, sizeof flag, "%s", flags[i]);
        assert_int_equal(run_main(*state, argv, &done, &err), HYD_OK);
        assert_true(done);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(config_starts_with_the_defaults, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(config_leaves_comments_behind_values_out, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(config_reads_a_file_with_sections, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            config_names_file_line_and_value_when_a_value_is_wrong, setup, teardown),
        cmocka_unit_test_setup_teardown(config_refuses_long_lines_and_zero_bytes, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(config_environment_goes_over_the_file, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(config_print_reads_back_to_the_same, setup,
                                        teardown),
        cmocka_unit_test(config_survives_no_memory_at_any_point),
        cmocka_unit_test_setup_teardown(flags_go_over_everything_and_lists_add_up,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(flags_name_what_is_wrong, setup, teardown),
        cmocka_unit_test_setup_teardown(flags_that_print_ask_to_end, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
