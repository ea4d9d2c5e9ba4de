/* hydractl compare: one table for all policies, reasons in the rows, a winner or the hint
 * that there is nothing to win. */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "scheduler/cli/cli.h"
#include "scheduler/core/policy.h"
#include "tests/lib/cli_run.h"
#include "tests/lib/test.h"

static char folder[HYD_CLI_PATH_BYTES];
static char skewed[HYD_CLI_FILE_BYTES];
static char equal[HYD_CLI_FILE_BYTES];

static int make_folder(void **state)
{
    char text[4096] = "";
    size_t used = 0;

    (void)state;
    hyd_cli_folder_make(folder);
    for (int i = 0; i < 200; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%d\n",
                                 i == 7 ? 16000 : 100 + 37 * (i % 50));
    }
    hyd_cli_file_make(folder, "skewed", text, used, skewed);
    used = 0;
    for (int i = 0; i < 64; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "4096\n");
    }
    hyd_cli_file_make(folder, "equal", text, used, equal);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    hyd_cli_folder_cleanup(folder);
    return 0;
}

static struct hyd_cli_result run(const char *file, const char *more)
{
    char words[4096];

    (void)snprintf(words, sizeof words, "compare %s %s", file, more);
    return hyd_cli_run_text(words);
}

static json_t *run_json(const char *file, const char *more, int code)
{
    struct hyd_cli_result r = run(file, more);
    json_t *root = json_loads(r.out, 0, NULL);

    assert_non_null(root);
    assert_int_equal(r.code, code);
    hyd_cli_result_release(&r);
    return root;
}

static const json_t *row_of(const json_t *root, size_t i)
{
    return json_array_get(json_object_get(root, "policies"), i);
}

static double step_s(const json_t *row)
{
    return json_number_value(
        json_object_get(json_object_get(row, "figures"), "step_s"));
}

static void every_policy_has_a_row_and_the_fastest_is_named(void **state)
{
    json_t *root = run_json(skewed, "--ranks 8 --cap 4K --pp 2 --json", 0);
    const char *best = json_string_value(json_object_get(root, "best"));
    double best_s = 0;
    size_t n = 0;

    (void)state;
    for (; hyd_policy_table[n] != NULL; n++) {
        const json_t *row = row_of(root, n);

        assert_string_equal(json_string_value(json_object_get(row, "policy")),
                            hyd_policy_table[n]->name);
        if (strcmp(hyd_policy_table[n]->name, best) == 0) {
            best_s = step_s(row);
        }
    }
    assert_int_equal(json_array_size(json_object_get(root, "policies")), n);
    assert_true(best_s > 0);
    for (size_t i = 0; i < n; i++) {
        assert_true(!json_is_true(json_object_get(row_of(root, i), "ok")) ||
                    step_s(row_of(root, i)) >= best_s);
    }
    json_decref(root);
}

static void a_lower_cap_is_shown_only_where_it_helps_a_peer(void **state)
{
    json_t *root = run_json(
        skewed, "--ranks 8 --cap 16K --pp 4 --policies hydra,static --json", 0);
    const json_t *hydra = row_of(root, 0);
    const json_t *peer = row_of(root, 1);
    const json_t *tuned = json_object_get(peer, "tuned");

    (void)state;
    assert_null(json_object_get(hydra, "tuned"));
    assert_non_null(tuned);
    assert_true(json_integer_value(json_object_get(tuned, "cap_tokens")) < 16384);
    assert_true(step_s(tuned) < step_s(peer));
    /* 16,000 tokens fit one rank of 16K: nobody would take more. */
    assert_int_equal(json_integer_value(json_object_get(peer, "cp")), 1);
    json_decref(root);
    root = run_json(
        skewed, "--ranks 8 --cap 16K --pp 4 --policies static --no-tune-caps --json",
        0);
    assert_null(json_object_get(row_of(root, 0), "tuned"));
    json_decref(root);
}

/* What a user of Megatron-Core asks: which of its options, and which of ours. */
static void the_plan_for_megatron_is_shown_apart(void **state)
{
    json_t *root = run_json(skewed, "--ranks 8 --cap 4K --pp 4 --json", 0);
    const json_t *core = json_object_get(row_of(root, 0), "for_megatron");
    json_t *asked = run_json(skewed,
                             "--ranks 8 --cap 4K --pp 4 --policies hydra,megatron "
                             "--degrees pow2 --cells exclusive --json",
                             0);
    struct hyd_cli_result r;

    (void)state;
    assert_string_equal(json_string_value(json_object_get(core, "degrees")), "pow2");
    assert_true(step_s(core) > 0);
    /* The same plan as when it is asked for, which then has no second row. */
    assert_true(hyd_test_close(step_s(core), step_s(row_of(asked, 0)), 0, 0));
    assert_null(json_object_get(row_of(asked, 0), "for_megatron"));
    assert_null(json_object_get(row_of(root, 1), "for_megatron"));
    json_decref(root);
    json_decref(asked);
    r = run(skewed, "--ranks 8 --cap 16K --pp 4 --policies hydra,megatron");
    assert_non_null(strstr(r.out, "\n  for Megatron-Core "));
    assert_non_null(strstr(r.out, "x by --max-seqlen-per-dp-cp-rank "));
    assert_non_null(strstr(r.out, "\nhydra for Megatron-Core (--degrees pow2 --cells "
                                  "exclusive) is "));
    hyd_cli_result_release(&r);
}

static void what_cannot_be_planned_says_why_in_its_row(void **state)
{
    json_t *root =
        run_json(skewed, "--ranks 8 --cap 4K --policies hydra,static --cp 1 --json", 0);
    const json_t *row = row_of(root, 1);
    struct hyd_cli_result r;

    (void)state;
    assert_true(json_is_true(json_object_get(row_of(root, 0), "ok")));
    assert_true(json_is_false(json_object_get(row, "ok")));
    assert_non_null(strstr(json_string_value(json_object_get(row, "error")),
                           "lengths[7] is 16000"));
    json_decref(root);
    r = run(skewed, "--ranks 8 --cap 1K");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.out, "no policy has a plan: raise --cap or --ranks"));
    hyd_cli_result_release(&r);
}

/* Ten ranks are where Megatron-Core's widening leaves the pool: a reader must see it. */
static void what_a_peer_cannot_do_is_said_below_the_table(void **state)
{
    char two[HYD_CLI_FILE_BYTES];
    struct hyd_cli_result r;
    json_t *root = NULL;

    (void)state;
    hyd_cli_file_make(folder, "two", "50\n50\n", 6, two);
    r = run(two, "--ranks 10 --cap 100 --policies hydra,megatron");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "\nmegatron: Megatron-Core fails on this batch: "));
    hyd_cli_result_release(&r);
    root = run_json(two, "--ranks 10 --cap 100 --policies hydra,megatron --json", 0);
    assert_null(json_object_get(row_of(root, 0), "note"));
    assert_non_null(json_object_get(row_of(root, 1), "note"));
    json_decref(root);
}

/* Every sequence on one rank under both policies, but one of them fills the ranks badly:
 * there is something to gain. */
static void one_degree_is_not_taken_for_no_gain(void **state)
{
    char text[512] = "";
    char path[HYD_CLI_FILE_BYTES];
    size_t used = 0;
    struct hyd_cli_result r;

    (void)state;
    for (int i = 0; i < 24; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%d\n",
                                 i % 3 == 0 ? 4000 : 400);
    }
    hyd_cli_file_make(folder, "uneven", text, used, path);
    r = run(path, "--ranks 4 --cap 4K --max-degree 1 --policies hydra,static --cp 1");
    assert_int_equal(r.code, 0);
    assert_null(strstr(r.out, "nothing is gained"));
    assert_null(strstr(r.out, "one degree only"));
    hyd_cli_result_release(&r);
}

static void nothing_to_gain_is_said(void **state)
{
    struct hyd_cli_result r =
        run(equal, "--ranks 8 --cap 8K --policies hydra,static --cp 1");

    (void)state;
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "nothing is gained"));
    hyd_cli_result_release(&r);
}

static void options_in_vain_and_wrong_input_are_refused(void **state)
{
    struct hyd_cli_result r =
        run(skewed, "--ranks 8 --cap 8K --policies static --effort 2");

    (void)state;
    assert_int_equal(r.code, 2);
    assert_string_equal(r.err, "hydractl compare: no policy of those compared has an "
                               "option 'effort'\n");
    hyd_cli_result_release(&r);
    r = run(skewed, "--ranks 8 --cap 8K --policies static,best");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "policy is 'best'; must be "));
    hyd_cli_result_release(&r);
    r = run(skewed, "--ranks 8 --cap 8K --min-degree 9");
    assert_int_equal(r.code, 2);
    assert_string_equal(r.err,
                        "hydractl compare: min_degree is 9 with at most 8; must "
                        "be no more than max_degree and the ranks of the pool\n");
    hyd_cli_result_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_policy_has_a_row_and_the_fastest_is_named),
        cmocka_unit_test(a_lower_cap_is_shown_only_where_it_helps_a_peer),
        cmocka_unit_test(the_plan_for_megatron_is_shown_apart),
        cmocka_unit_test(what_cannot_be_planned_says_why_in_its_row),
        cmocka_unit_test(what_a_peer_cannot_do_is_said_below_the_table),
        cmocka_unit_test(one_degree_is_not_taken_for_no_gain),
        cmocka_unit_test(nothing_to_gain_is_said),
        cmocka_unit_test(options_in_vain_and_wrong_input_are_refused),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
