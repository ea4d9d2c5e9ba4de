/* hydractl lengths: figures against published sets, files out, and errors in one line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "scheduler/cli/command.h"
#include "tests/lib/cli_run.h"
#include "tests/lib/test.h"

static char folder[HYD_CLI_PATH_BYTES];

static int make_folder(void **state)
{
    (void)state;
    hyd_cli_folder_make(folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    hyd_cli_folder_cleanup(folder);
    return 0;
}

static void expect_error(const char *words, int code, const char *want)
{
    struct hyd_cli_result r = hyd_cli_run_text(words);

    assert_string_equal(r.err, want);
    assert_string_equal(r.out, "");
    assert_int_equal(r.code, code);
    hyd_cli_result_release(&r);
}

static void errors_are_one_line_with_what_would_be_right(void **state)
{
    (void)state;
    expect_error("", 2,
                 "hydractl: a command is missing; 'hydractl --help' lists them\n");
    expect_error("lenght f", 2,
                 "hydractl: no command 'lenght'; did you mean 'lengths'?\n");
    expect_error("lengths", 2,
                 "hydractl lengths: PATH (a file, a folder, or -) is missing\n");
    expect_error("lengths f --formt csv", 2,
                 "hydractl lengths: no option '--formt'; did you mean '--format'?\n");
    expect_error("lengths f --se 1", 2,
                 "hydractl lengths: cannot read 'f': No such file or directory\n");
    expect_error("lengths f --s 1", 2,
                 "hydractl lengths: option '--s' could be several; write it in full\n");
    expect_error("lengths f --sample", 2,
                 "hydractl lengths: option '--sample' needs a value N\n");
    expect_error("lengths f --sample x", 2,
                 "hydractl lengths: option '--sample' is 'x', must be a whole number "
                 "from 1 to 16777216\n");
    expect_error("lengths f --json=1", 2,
                 "hydractl lengths: option '--json' takes no value\n");
    expect_error("lengths -z f", 2,
                 "hydractl lengths: no option '-z'; --help lists the options\n");
    expect_error("lengths /no/such/file", 2,
                 "hydractl lengths: cannot read '/no/such/file': No such file or "
                 "directory\n");
    expect_error("lengths --format xml /dev/null", 2,
                 "hydractl lengths: format is 'xml', must be auto, lines, jsonl, csv, "
                 "json, megatron or text\n");
    expect_error(
        "lengths /dev/null", 2,
        "hydractl lengths: no lengths in '/dev/null'; must hold at least one\n");
}

static void help_lists_every_option_and_ends_well(void **state)
{
    struct hyd_cli_result r = hyd_cli_run_text("lengths --help");

    (void)state;
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "--sample=N"));
    assert_non_null(strstr(r.out, "--json"));
    assert_string_equal(r.err, "");
    hyd_cli_result_release(&r);
}

static void every_command_has_help_and_refuses_unknown_options(void **state)
{
    (void)state;
    for (const struct hyd_command *c = hyd_command_table; c->name != NULL; c++) {
        const bool is_job = strcmp(c->name, "job") == 0;
        const char *help[] = {c->name, is_job ? "show" : "--help", "--help", NULL};
        const char *wrong[] = {c->name, is_job ? "show" : "--nonsense", "--nonsense",
                               NULL};
        struct hyd_cli_result r = hyd_cli_run_words(help);

        assert_int_equal(r.code, 0);
        assert_non_null(strstr(r.out, "Usage: hydractl"));
        assert_non_null(strstr(r.out, "--json"));
        hyd_cli_result_release(&r);
        r = hyd_cli_run_words(wrong);
        assert_int_equal(r.code, 2);
        assert_non_null(strstr(r.err, "no option '--nonsense'"));
        hyd_cli_result_release(&r);
    }
}

static void output_is_read_back_unchanged(void **state)
{
    char in[HYD_CLI_FILE_BYTES];
    char words[2048];
    struct hyd_cli_result r;

    (void)state;
    hyd_cli_file_make(folder, "in", "5 0.1\n7\n", 8, in);
    (void)snprintf(words, sizeof words, "lengths %s -o %s/out", in, folder);
    r = hyd_cli_run_text(words);
    assert_int_equal(r.code, 0);
    hyd_cli_result_release(&r);
    (void)snprintf(words, sizeof words, "lengths %s/out -o -", folder);
    r = hyd_cli_run_text(words);
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out, "5\t0.1\n7\t0\n");
    hyd_cli_result_release(&r);
    (void)snprintf(words, sizeof words, "lengths %s -o %s/none/out", in, folder);
    r = hyd_cli_run_text(words);
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "cannot write"));
    hyd_cli_result_release(&r);
}

static void estimates_are_called_estimates(void **state)
{
    char in[HYD_CLI_FILE_BYTES];
    char words[2048];
    struct hyd_cli_result r;

    (void)state;
    hyd_cli_file_make(folder, "text", "some words here", 15, in);
    (void)snprintf(words, sizeof words, "lengths %s", in);
    r = hyd_cli_run_text(words);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "tokens of 1 of 1 are an estimate: bytes / 4"));
    hyd_cli_result_release(&r);
}

struct known_set {
    const char *file;
    const char *format;
    json_int_t count, p50, p99, max;
    double mean, top;
};

static void figures_match_the_published_table(void **state)
{
    static const struct known_set sets[] = {
        {"data/pretrain_prolong.txt", "lines", 20000, 1919, 16671, 333180, 3080, 0.625},
        {"data/code_linux_dirs.txt", "lines", 4622, 13133, 961061, 1048576, 64763,
         0.403},
        {"data/raw/AzureLLMInferenceTrace_code.csv", "csv", 8819, 1493, 7462, 7841,
         2076, 0.069},
        {"data/raw/mooncake_synthetic_trace.jsonl", "jsonl", 3993, 11646, 66468, 191386,
         15475, 0.227},
        {"data/raw/mooncake_conversation_trace.head2000.jsonl", "jsonl", 2000, 8332,
         99339, 123783, 14073.2, 0.245},
        {"data/raw/distca_dist_prolong.json", "json", 77932, 1913, 16273, 340149,
         3051.9, 0.632},
        {"data/raw/megatron_seqlens.csv", "megatron", 2000, 1855, 14523, 43376, 2869.1,
         0.315},
        {"data/raw/vidur_splitwise_code.head2000.csv", "csv", 2000, 1365, 7449, 7574,
         2016.1, 0.072},
        {"data/raw/kv_cache_tester_trace_0291.json", "json", 32, 79670, 101125, 101125,
         71050.7, 0.056},
    };

    (void)state;
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        char path[2048];
        const char *words[] = {"lengths", "--json", path, NULL};
        struct hyd_cli_result r;
        json_t *doc = NULL;

        if (!hyd_test_data(sets[i].file, path, sizeof path)) {
            skip();
        }
        r = hyd_cli_run_words(words);
        assert_int_equal(r.code, 0);
        doc = json_loads(r.out, 0, NULL);
        assert_non_null(doc);
        assert_string_equal(json_string_value(json_object_get(doc, "format")),
                            sets[i].format);
        assert_int_equal(json_integer_value(json_object_get(doc, "count")),
                         sets[i].count);
        assert_int_equal(json_integer_value(json_object_get(doc, "p50")), sets[i].p50);
        assert_int_equal(json_integer_value(json_object_get(doc, "p99")), sets[i].p99);
        assert_int_equal(json_integer_value(json_object_get(doc, "max")), sets[i].max);
        assert_true(hyd_test_close(json_number_value(json_object_get(doc, "mean")),
                                   sets[i].mean, 0.51, 0));
        assert_true(hyd_test_close(
            json_number_value(json_object_get(doc, "top_1_percent_share_work")),
            sets[i].top, 0.00051, 0));
        json_decref(doc);
        hyd_cli_result_release(&r);
    }
}

/* Files that hold no list of lengths say what to do with them. */
static void files_without_lengths_say_what_they_are(void **state)
{
    static const struct {
        const char *file;
        const char *says;
    } files[] = {
        {"data/raw/magi_doc_length_distribution.csv",
         "no length column known among range,number,percentage(%),"},
        {"data/raw/megatron_mock_file.json", "use hydractl mock --config"},
        {"data/raw/megatron_mock_lognormal.json", "use hydractl mock --config"},
        {"data/raw/megatron_mock_verification.json", "use hydractl mock --config"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[2048];
        const char *words[] = {"lengths", path, NULL};
        struct hyd_cli_result r;

        if (!hyd_test_data(files[i].file, path, sizeof path)) {
            skip();
        }
        r = hyd_cli_run_words(words);
        assert_int_equal(r.code, 2);
        assert_non_null(strstr(r.err, files[i].says));
        hyd_cli_result_release(&r);
    }
}

/* Megatron's three mock configurations as published, made up and read back: count, first
 * length and the range that each promises. */
static void published_mock_configurations_are_followed(void **state)
{
    static const struct {
        const char *file;
        const char *first;
        int least;
        int most;
        double mean; /* 0: not known beforehand */
    } configs[] = {
        {"data/raw/megatron_mock_file.json", "2690\n1866\n1636\n", 599, 43376, 0},
        {"data/raw/megatron_mock_lognormal.json", "", 1024, 8192, 0},
        {"data/raw/megatron_mock_verification.json", "", 128, 8192, 768},
    };

    (void)state;
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        char path[2048];
        const char *words[] = {"mock", "--config", path, "-n", "2000", NULL};
        struct hyd_cli_result r;
        double sum = 0;
        int n = 0;

        if (!hyd_test_data(configs[i].file, path, sizeof path)) {
            skip();
        }
        r = hyd_cli_run_words(words);
        assert_int_equal(r.code, 0);
        assert_int_equal(strncmp(r.out, configs[i].first, strlen(configs[i].first)), 0);
        for (char *at = strtok(r.out, "\n"); at != NULL; at = strtok(NULL, "\n")) {
            const long length = strtol(at, NULL, 10);

            if (at[0] == '#') {
                continue;
            }
            assert_true(length >= configs[i].least && length <= configs[i].most);
            sum += (double)length;
            n++;
        }
        assert_int_equal(n, 2000);
        /* Clipping to 128..8192 keeps the mean of 768 within a few per cent. */
        assert_true(configs[i].mean <= 0 ||
                    hyd_test_close(sum / n, configs[i].mean, 0, 0.06));
        hyd_cli_result_release(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_one_line_with_what_would_be_right),
        cmocka_unit_test(help_lists_every_option_and_ends_well),
        cmocka_unit_test(every_command_has_help_and_refuses_unknown_options),
        cmocka_unit_test(output_is_read_back_unchanged),
        cmocka_unit_test(estimates_are_called_estimates),
        cmocka_unit_test(figures_match_the_published_table),
        cmocka_unit_test(files_without_lengths_say_what_they_are),
        cmocka_unit_test(published_mock_configurations_are_followed),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
