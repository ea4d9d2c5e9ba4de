/* hydractl plan and check: a plan comes out, is proved again from its file, and a file that
 * was changed is refused with the reason. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "scheduler/cli/cli.h"
#include "scheduler/core/options.h"
#include "scheduler/core/policy.h"
#include "tests/lib/cli_run.h"
#include "tests/lib/test.h"

static char folder[HYD_CLI_PATH_BYTES];
static char lengths[HYD_CLI_FILE_BYTES];

static int make_folder(void **state)
{
    static const char text[] = "900\n100\n2500\n40\n700\n3000\n1\n60\n800\n1200\n";

    (void)state;
    hyd_cli_folder_make(folder);
    hyd_cli_file_make(folder, "lengths", text, sizeof text - 1, lengths);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    hyd_cli_folder_cleanup(folder);
    return 0;
}

static struct hyd_cli_result run(const char *before, const char *file,
                                 const char *after)
{
    char words[4096];

    (void)snprintf(words, sizeof words, "%s %s %s", before, file, after);
    return hyd_cli_run_text(words);
}

static void expect_error(const char *more, int code, const char *want)
{
    struct hyd_cli_result r = run("plan", lengths, more);

    assert_string_equal(r.err, want);
    assert_string_equal(r.out, "");
    assert_int_equal(r.code, code);
    hyd_cli_result_release(&r);
}

/* Lengths that are guesses, or one column of many, are called so. */
static void plan_says_what_was_read(void **state)
{
    static const char table[] = "id,length,other\n1,900,2\n2,500,3\n";
    static const char note[] = "a text of some words, not a length";
    char path[HYD_CLI_FILE_BYTES];
    struct hyd_cli_result r;

    (void)state;
    hyd_cli_file_make(folder, "table.csv", table, sizeof table - 1, path);
    r = run("plan", path, "--ranks 4 --cap 1K");
    assert_non_null(strstr(r.out, "\nread as       csv, field length\n"));
    hyd_cli_result_release(&r);
    hyd_cli_file_make(folder, "note", note, sizeof note - 1, path);
    r = run("plan", path, "--ranks 4 --cap 1K");
    assert_non_null(strstr(r.out, "1 sequence, 9 tokens, longest 9\n"
                                  "read as       tokens of 1 estimated from bytes\n"));
    hyd_cli_result_release(&r);
    r = run("compare", path, "--ranks 4 --cap 1K");
    assert_int_equal(strncmp(r.out,
                             "1 sequence (tokens of 1 estimated from bytes) on 4 "
                             "ranks, cap 1024, pp 1\n",
                             70),
                     0);
    hyd_cli_result_release(&r);
    r = run("plan", lengths, "--ranks 4 --cap 1K");
    assert_null(strstr(r.out, "read as"));
    hyd_cli_result_release(&r);
}

static void options_that_do_not_fit_say_what_would(void **state)
{
    (void)state;
    expect_error("--cap 1K", 2, "hydractl plan: option '--ranks R' is missing\n");
    expect_error("--ranks 4", 2, "hydractl plan: option '--cap TOKENS' is missing\n");
    expect_error("--ranks 0 --cap 1K", 2,
                 "hydractl plan: option '--ranks' is '0'; must be 1 to 65536\n");
    expect_error("--ranks 4 --cap 1x", 2,
                 "hydractl plan: option '--cap' is '1x'; must be 1 to 268435456\n");
    expect_error(
        "--ranks 4 --cap 1K --policy static --effort 3", 2,
        "hydractl plan: policy static has no option 'effort', it has: cp pad\n");
    expect_error("--ranks 4 --cap 1K --policy static --set pat=max", 2,
                 "hydractl plan: no option 'pat' to set; did you mean 'pad'?\n");
    expect_error("--ranks 4 --cap 1K --policy static --set pad", 2,
                 "hydractl plan: option '--set' is 'pad', must be KEY=VALUE\n");
    expect_error("--ranks 4 --cap 1K --policy static --cost 1,2 --model llama-8b", 2,
                 "hydractl plan: give --cost, or --model and --device, not both\n");
    expect_error(
        "--ranks 4 --cap 1K --policy static --cost 1", 2,
        "hydractl plan: option '--cost' is '1', must be 2 numbers of at least 0 "
        "with commas between them\n");
    expect_error("--ranks 4 --cap 1K --policy static --scope all", 2,
                 "hydractl plan: scope is 'all'; must be layer or attention\n");
    expect_error(
        "--ranks 4 --cap 1K --policy static extra", 2,
        "hydractl plan: unexpected word 'extra'; the command takes one file of "
        "LENGTHS\n");
}

static void a_sequence_that_fits_nowhere_has_no_answer(void **state)
{
    (void)state;
    expect_error("--ranks 2 --cap 1K --policy static", 1,
                 "hydractl plan: lengths[2] is 2500; must be at most 2048: 2 ranks of "
                 "1024 tokens\n");
}

static void unknown_policies_list_the_known_ones(void **state)
{
    struct hyd_cli_result r = run("plan", lengths, "--ranks 4 --cap 1K --policy best");

    (void)state;
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "hydractl plan: policy is 'best'; must be "));
    assert_non_null(strstr(r.err, "static"));
    hyd_cli_result_release(&r);
}

static void speeds_come_one_a_rank(void **state)
{
    char path[HYD_CLI_FILE_BYTES];
    char more[2048];
    char want[2048];
    struct hyd_cli_result r;

    (void)state;
    hyd_cli_file_make(folder, "speed", "# four\n1\n0.5\n1\n", 15, path);
    (void)snprintf(more, sizeof more, "--ranks 4 --cap 1K --speed %s", path);
    (void)snprintf(want, sizeof want,
                   "hydractl plan: %.60s has 3 speeds, must be one a rank: 4\n", path);
    expect_error(more, 2, want);
    hyd_cli_file_make(folder, "speed", "1\n0\n1\n1\n", 8, path);
    (void)snprintf(want, sizeof want,
                   "hydractl plan: %.60s:2: speed is '0', must be 1e-6 to 1e6\n", path);
    expect_error(more, 2, want);
    hyd_cli_file_make(folder, "speed", "1\n0.5\n1\n1\n", 10, path);
    (void)snprintf(more, sizeof more, "--ranks 4 --cap 1K --json --speed %s", path);
    r = run("plan", lengths, more);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "\"speed\": [1, 0.5, 1, 1]"));
    hyd_cli_result_release(&r);
}

static void stages_come_one_a_stage(void **state)
{
    struct hyd_cli_result r;
    struct hyd_cli_result equal;
    const char *at = NULL;

    (void)state;
    expect_error("--ranks 4 --cap 1K --pp 4 --stages 1,1,2", 2,
                 "hydractl plan: option '--stages' has 3 costs, must be one a pipeline "
                 "stage: 4 with --pp 4\n");
    expect_error("--ranks 4 --cap 1K --stages 1,1", 2,
                 "hydractl plan: option '--stages' has 2 costs, must be one a pipeline "
                 "stage: 1 with --pp 1\n");
    expect_error("--ranks 4 --cap 1K --pp 2 --stages 1,zero", 2,
                 "hydractl plan: option '--stages' has 'zero' for stage 1, must be a "
                 "number from 0.001 to 1000\n");
    expect_error(
        "--ranks 4 --cap 1K --pp 2 --stages 1,", 2,
        "hydractl plan: option '--stages' has '' for stage 1, must be a number "
        "from 0.001 to 1000\n");
    r = run("plan", lengths, "--ranks 4 --cap 1K --pp 2 --stages 1,1.5 --json");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "\"stages\": [1, 1.5]"));
    hyd_cli_result_release(&r);
    r = run("plan", lengths, "--ranks 4 --cap 1K --pp 2 --stages 1,1.5");
    assert_non_null(strstr(r.out, "pp 2 (stages cost 1 to 1.5)"));
    hyd_cli_result_release(&r);
    /* Equal stages are no news. */
    r = run("plan", lengths, "--ranks 4 --cap 1K --pp 2 --stages 1,1 --json");
    equal = run("plan", lengths, "--ranks 4 --cap 1K --pp 2 --json");
    at = strstr(r.out, "\"plan_time_s\"");
    assert_non_null(at);
    assert_int_equal(strncmp(r.out, equal.out, (size_t)(at - r.out)), 0);
    hyd_cli_result_release(&equal);
    hyd_cli_result_release(&r);
}

/* Without the two lines that say how long planning took. */
static char *without_times(const char *text)
{
    json_t *root = json_loads(text, 0, NULL);
    char *rest = NULL;

    assert_non_null(root);
    assert_int_equal(json_object_del(root, "measured"), 0);
    assert_int_equal(json_object_del(json_object_get(root, "figures"), "plan_time_s"),
                     0);
    rest = json_dumps(root, JSON_REAL_PRECISION(17));
    json_decref(root);
    return rest;
}

static void the_same_input_gives_the_same_bytes_but_for_the_times(void **state)
{
    const char *more = "--ranks 4 --cap 1K --policy static --pp 2 --json";
    struct hyd_cli_result a = run("plan", lengths, more);
    struct hyd_cli_result b = run("plan", lengths, more);
    char *x = without_times(a.out);
    char *y = without_times(b.out);

    (void)state;
    assert_int_equal(a.code, 0);
    assert_string_equal(a.err, "");
    assert_string_equal(x, y);
    free(x);
    free(y);
    hyd_cli_result_release(&a);
    hyd_cli_result_release(&b);
}

static json_t *plan_json(const char *more)
{
    char words[512];
    struct hyd_cli_result r;
    json_t *root = NULL;

    (void)snprintf(words, sizeof words, "--ranks 4 --cap 1K --policy static --json %s",
                   more);
    r = run("plan", lengths, words);
    assert_int_equal(r.code, 0);
    root = json_loads(r.out, 0, NULL);
    assert_non_null(root);
    hyd_cli_result_release(&r);
    return root;
}

static void cells_hold_every_token_once(void **state)
{
    json_t *root = plan_json("--cells-table");
    json_t *cells = json_object_get(root, "cells");
    json_t *one = NULL;
    json_t *count = NULL;
    size_t m = 0;
    size_t r = 0;
    json_int_t sum = 0;

    (void)state;
    assert_int_equal(json_array_size(cells),
                     json_integer_value(json_object_get(root, "num_microbatches")));
    json_array_foreach(cells, m, one)
    {
        assert_int_equal(json_array_size(json_object_get(one, "tokens")), 4);
        assert_int_equal(json_array_size(json_object_get(one, "seconds")), 4);
        json_array_foreach(json_object_get(one, "tokens"), r, count)
        {
            sum += json_integer_value(count);
        }
    }
    assert_int_equal(sum, 900 + 100 + 2500 + 40 + 700 + 3000 + 1 + 60 + 800 + 1200);
    json_decref(root);
}

/* Check a changed copy of a good plan. */
static struct hyd_cli_result check(json_t *take_root, const char *more)
{
    char *text = json_dumps(take_root, JSON_REAL_PRECISION(17));
    char path[HYD_CLI_FILE_BYTES];
    struct hyd_cli_result r;

    assert_non_null(text);
    hyd_cli_file_make(folder, "plan.json", text, strlen(text), path);
    free(text);
    json_decref(take_root);
    r = run("check", path, more);
    return r;
}

static void expect_verdict(json_t *take_root, const char *more, int code,
                           const char *want)
{
    struct hyd_cli_result r = check(take_root, more);

    assert_int_equal(r.code, code);
    assert_non_null(strstr(code == 0 ? r.out : r.err, want));
    hyd_cli_result_release(&r);
}

static json_t *first_group(json_t *root)
{
    return json_array_get(
        json_object_get(json_array_get(json_object_get(root, "microbatches"), 0),
                        "groups"),
        0);
}

static void check_accepts_what_plan_wrote(void **state)
{
    json_t *bad = NULL;

    (void)state;
    expect_verdict(plan_json(""), lengths, 0, "proof         ok");
    expect_verdict(plan_json("--align 64 --set pad=max --cap 4K"), "", 0,
                   "figures       ok");
    expect_verdict(plan_json(""), "--json", 0, "{\"ok\": true,");

    bad = plan_json("");
    assert_int_equal(json_array_set_new(json_object_get(first_group(bad), "ids"), 0,
                                        json_integer(1)),
                     0);
    expect_verdict(bad, "", 1, "hydractl check: sequence 1 is in the plan twice");

    bad = plan_json("");
    assert_int_equal(
        json_array_set_new(json_object_get(bad, "lengths"), 0, json_integer(901)), 0);
    expect_verdict(bad, "", 1, "in the file, its content gives");

    bad = plan_json("");
    assert_int_equal(
        json_object_set_new(json_object_get(bad, "figures"), "balance", json_real(1.5)),
        0);
    expect_verdict(bad, "", 1, "balance is 1.5 in the file, the plan gives 1.");
}

static void check_compares_with_other_lengths(void **state)
{
    char other[HYD_CLI_FILE_BYTES];

    (void)state;
    hyd_cli_file_make(folder, "other", "900\n101\n", 8, other);
    expect_verdict(plan_json(""), other, 1,
                   "hydractl check: the plan has 10 lengths, ");
    hyd_cli_file_make(folder, "other",
                      "900\n101\n2500\n40\n700\n3000\n1\n60\n800\n1200", 38, other);
    expect_verdict(plan_json(""), other, 1,
                   "hydractl check: length 1 is 100 in the plan, 101 in ");
}

static void policies_lists_every_policy_and_option(void **state)
{
    struct hyd_cli_result r = hyd_cli_run_text("policies");
    struct hyd_cli_result j = hyd_cli_run_text("policies --json");
    json_t *root = json_loads(j.out, 0, NULL);

    (void)state;
    assert_int_equal(r.code, 0);
    for (size_t i = 0; hyd_policy_table[i] != NULL; i++) {
        assert_non_null(strstr(r.out, hyd_policy_table[i]->name));
        assert_string_equal(
            json_string_value(json_object_get(
                json_array_get(json_object_get(root, "policies"), i), "name")),
            hyd_policy_table[i]->name);
    }
    for (const struct hyd_option *o = hyd_option_table; o->key != NULL; o++) {
        assert_true(o->scope == HYD_OPTION_INPUT || strstr(r.out, o->key) != NULL);
    }
    json_decref(root);
    hyd_cli_result_release(&r);
    hyd_cli_result_release(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_says_what_was_read),
        cmocka_unit_test(options_that_do_not_fit_say_what_would),
        cmocka_unit_test(a_sequence_that_fits_nowhere_has_no_answer),
        cmocka_unit_test(unknown_policies_list_the_known_ones),
        cmocka_unit_test(speeds_come_one_a_rank),
        cmocka_unit_test(stages_come_one_a_stage),
        cmocka_unit_test(the_same_input_gives_the_same_bytes_but_for_the_times),
        cmocka_unit_test(cells_hold_every_token_once),
        cmocka_unit_test(check_accepts_what_plan_wrote),
        cmocka_unit_test(check_compares_with_other_lengths),
        cmocka_unit_test(policies_lists_every_policy_and_option),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
