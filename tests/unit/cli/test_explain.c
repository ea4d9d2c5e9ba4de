/* hydractl explain and draw: what they say about a plan agrees with the plan. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "scheduler/cli/cli.h"
#include "scheduler/cli/file.h"
#include "scheduler/cli/plan/plan_doc.h"
#include "scheduler/core/policy.h"
#include "tests/lib/cli_run.h"
#include "tests/lib/test.h"

static char folder[HYD_CLI_PATH_BYTES];
static char lengths[HYD_CLI_FILE_BYTES];

static int make_folder(void **state)
{
    char text[4096] = "";
    size_t used = 0;

    (void)state;
    hyd_cli_folder_make(folder);
    for (int i = 0; i < 120; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%d\n",
                                 i == 7 ? 16000 : 100 + 37 * (i % 50));
    }
    hyd_cli_file_make(folder, "lengths", text, used, lengths);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    hyd_cli_folder_cleanup(folder);
    return 0;
}

/* Plan to folder/plan.json. */
static void make_plan(const char *more)
{
    char words[2048];
    struct hyd_cli_result r;

    (void)snprintf(words, sizeof words,
                   "plan %s --ranks 8 --cap 4K %s --out %s/plan.json", lengths, more,
                   folder);
    r = hyd_cli_run_text(words);
    assert_string_equal(r.err, "");
    assert_int_equal(r.code, 0);
    hyd_cli_result_release(&r);
}

static struct hyd_cli_result run(const char *command, const char *more)
{
    char words[2048];

    (void)snprintf(words, sizeof words, "%s %s/plan.json %s", command, folder, more);
    return hyd_cli_run_text(words);
}

static json_t *run_json(const char *command, const char *more)
{
    struct hyd_cli_result r = run(command, more);
    json_t *root = json_loads(r.out, 0, NULL);

    assert_string_equal(r.err, "");
    assert_non_null(root);
    hyd_cli_result_release(&r);
    return root;
}

/* Each u divides the degree, one is taken, and none that was allowed is faster. */
static void check_splits(const json_t *root)
{
    json_t *one = NULL;
    size_t i = 0;
    double taken_s = 0;
    double least_s = 1e30;
    int taken = 0;

    json_array_foreach(json_object_get(root, "splits"), i, one)
    {
        const char *why = json_string_value(json_object_get(one, "why"));
        const double shard_s = json_number_value(json_object_get(one, "shard_s"));
        const json_int_t u = json_integer_value(json_object_get(one, "u"));

        assert_int_equal(u * json_integer_value(json_object_get(one, "r")),
                         json_integer_value(json_object_get(root, "degree")));
        if (strncmp(why, "TAKEN", 5) == 0) {
            taken++;
            taken_s = shard_s;
            assert_int_equal(u, json_integer_value(json_object_get(root, "u")));
        }
        if (strstr(why, "time") != NULL && shard_s < least_s) {
            least_s = shard_s;
        }
    }
    assert_int_equal(taken, 1);
    assert_true(i > 1);
    assert_true(taken_s <= least_s);
}

/* The longest sequence is placed first: all blocks of its degree are empty. */
static void check_blocks(const json_t *root)
{
    const json_t *blocks = json_object_get(root, "blocks");
    const json_int_t degree = json_integer_value(json_object_get(root, "degree"));
    const json_int_t n = json_integer_value(json_object_get(blocks, "considered"));

    assert_true(n > 0 && n % (8 / degree) == 0);
    assert_int_equal(json_integer_value(json_object_get(blocks, "with_room")), n);
    assert_int_equal(json_integer_value(json_object_get(blocks, "empty")), n);
}

static void explain_finds_the_giant_where_the_plan_has_it(void **state)
{
    struct hyd_plan_doc doc;
    char path[HYD_CLI_FILE_BYTES];
    json_t *root = NULL;
    json_t *one = NULL;
    size_t i = 0;
    int taken = 0;

    (void)state;
    make_plan("--pp 2");
    root = run_json("explain", "--seq 7 --json");
    assert_string_equal(json_string_value(json_object_get(root, "plan")),
                        "planned again, same fingerprint");
    assert_int_equal(json_integer_value(json_object_get(root, "tokens")), 16000);
    assert_int_equal(json_array_size(json_object_get(root, "ranks")),
                     json_integer_value(json_object_get(root, "degree")));
    json_array_foreach(json_object_get(root, "degrees"), i, one)
    {
        const char *why = json_string_value(json_object_get(one, "why"));

        taken += strncmp(why, "TAKEN", 5) == 0 ? 1 : 0;
        /* 16,000 tokens need 4 ranks of 4,096. */
        assert_true(json_integer_value(json_object_get(one, "degree")) >= 4 ||
                    strcmp(why, "does not fit the cap") == 0);
    }
    assert_int_equal(taken, 1);
    assert_true(json_integer_value(json_object_get(root, "placements")) > 0);
    check_splits(root);
    check_blocks(root);

    (void)snprintf(path, sizeof path, "%s/plan.json", folder);
    assert_int_equal(hyd_plan_doc_read(hyd_alloc_system(), path, &doc, NULL), HYD_OK);
    for (uint32_t g = 0; g < doc.plan.n_groups; g++) {
        const struct hyd_plan_group *group = &doc.plan.group[g];

        for (uint32_t k = 0; k < group->n_ids; k++) {
            if (doc.plan.id[group->first_id + k] == 7) {
                assert_int_equal(json_integer_value(json_object_get(root, "degree")),
                                 group->n_ranks);
            }
        }
    }
    hyd_plan_doc_release(&doc);
    json_decref(root);
}

/* Fewer sequences than cells: the plan has a least degree, and that is the reason. */
static void explain_names_the_least_degree_of_the_plan(void **state)
{
    char words[2048];
    char path[HYD_CLI_FILE_BYTES];
    struct hyd_cli_result r;
    json_t *root = NULL;
    const json_t *first = NULL;
    json_int_t least = 0;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/few", folder);
    (void)snprintf(words, sizeof words,
                   "mock --lognormal 8192,1.5,64,262144 -n 400 -o %s", path);
    r = hyd_cli_run_text(words);
    assert_int_equal(r.code, 0);
    hyd_cli_result_release(&r);
    (void)snprintf(words, sizeof words,
                   "plan %s --ranks 64 --cap 16K --pp 8 --out %s/plan.json", path,
                   folder);
    r = hyd_cli_run_text(words);
    assert_int_equal(r.code, 0);
    hyd_cli_result_release(&r);
    for (int seq = 0; seq < 3; seq++) {
        char more[64];

        (void)snprintf(more, sizeof more, "--seq %d --json", seq);
        root = run_json("explain", more);
        least = json_integer_value(json_object_get(root, "least_degree"));
        assert_true(least > 1);
        assert_true(json_integer_value(json_object_get(root, "degree")) >= least);
        first = json_array_get(json_object_get(root, "degrees"), 0);
        assert_int_equal(json_integer_value(json_object_get(first, "degree")), 1);
        assert_null(
            strstr(json_string_value(json_object_get(first, "why")), "rank-seconds"));
        json_decref(root);
    }
    r = run("explain", "--seq 0");
    assert_non_null(strstr(r.out, "\nleast degree  "));
    hyd_cli_result_release(&r);
}

static void explained_shards_add_up_to_the_cell(void **state)
{
    json_t *root = NULL;
    json_t *shard = NULL;
    json_t *plan = NULL;
    size_t i = 0;
    double sum_s = 0;
    char path[HYD_CLI_FILE_BYTES];

    (void)state;
    make_plan("");
    root = run_json("explain", "--cell 0,3 --json");
    json_array_foreach(json_object_get(root, "shards"), i, shard)
    {
        sum_s += json_number_value(json_object_get(shard, "seconds"));
    }
    assert_true(i > 0);
    (void)snprintf(path, sizeof path, "%s/plan.json", folder);
    plan = json_load_file(path, 0, NULL);
    sum_s += json_number_value(json_object_get(
        json_object_get(json_object_get(plan, "input"), "cost"), "cell_s"));
    assert_true(hyd_test_close(json_number_value(json_object_get(root, "load_s")),
                               sum_s, 0, 1e-9));
    json_decref(plan);
    json_decref(root);
}

static void explain_works_for_every_policy(void **state)
{
    (void)state;
    for (size_t i = 0; hyd_policy_table[i] != NULL; i++) {
        char more[128];
        struct hyd_cli_result r;

        (void)snprintf(more, sizeof more, "--policy %s", hyd_policy_table[i]->name);
        make_plan(more);
        r = run("explain", "--seq 7");
        assert_string_equal(r.err, "");
        assert_non_null(strstr(r.out, "same fingerprint"));
        assert_non_null(strstr(r.out, "TAKEN"));
        hyd_cli_result_release(&r);
        r = run("explain", "--cell 0,0");
        assert_string_equal(r.err, "");
        assert_non_null(strstr(r.out, "to balance"));
        hyd_cli_result_release(&r);
    }
}

static void explain_says_what_does_not_exist(void **state)
{
    struct hyd_cli_result r;

    (void)state;
    make_plan("");
    r = run("explain", "--seq 120");
    assert_int_equal(r.code, 2);
    assert_string_equal(r.err, "hydractl explain: option '--seq' is 120, must be below "
                               "120, the number of sequences\n");
    hyd_cli_result_release(&r);
    r = run("explain", "--cell 0,8");
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "option '--cell' is 0,8, must be below "));
    hyd_cli_result_release(&r);
    r = run("explain", "");
    assert_string_equal(r.err,
                        "hydractl explain: give one of --seq ID and --cell M,R\n");
    hyd_cli_result_release(&r);
}

static void explain_tells_when_the_plan_is_another(void **state)
{
    char path[HYD_CLI_FILE_BYTES];
    json_t *plan = NULL;
    char *text = NULL;
    struct hyd_cli_result r;

    (void)state;
    make_plan("--policy static --cp 4");
    (void)snprintf(path, sizeof path, "%s/plan.json", folder);
    plan = json_load_file(path, 0, NULL);
    /* The same groups, said to be another policy's answer. */
    assert_int_equal(json_object_set_new(json_object_get(plan, "input"), "policy",
                                         json_string("hydra")),
                     0);
    assert_int_equal(
        json_object_del(json_object_get(json_object_get(plan, "input"), "options"),
                        "cp"),
        0);
    text = json_dumps(plan, JSON_REAL_PRECISION(17));
    hyd_cli_file_make(folder, "plan.json", text, strlen(text), path);
    free(text);
    json_decref(plan);
    r = run("explain", "--seq 7");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "fingerprint differs"));
    hyd_cli_result_release(&r);
}

/* --- draw --- */

static char *draw(const char *ending)
{
    char more[HYD_CLI_FILE_BYTES];
    struct hyd_file file = {0};
    char *text = NULL;
    struct hyd_cli_result r;

    (void)snprintf(more, sizeof more, "-o %s/out%s", folder, ending);
    r = run("draw", more);
    assert_string_equal(r.err, "");
    assert_int_equal(r.code, 0);
    hyd_cli_result_release(&r);
    assert_int_equal(hyd_file_read(hyd_alloc_system(), more + 3, 1 << 24, &file, NULL),
                     HYD_OK);
    text = strdup(file.bytes);
    hyd_file_release(&file);
    return text;
}

/* Elements open and close in order: enough of XML for what we write. */
static void assert_well_formed(const char *text)
{
    const char *open[64] = {NULL};
    size_t length[64] = {0};
    size_t depth = 0;

    for (const char *at = strchr(text, '<'); at != NULL; at = strchr(at + 1, '<')) {
        const char *end = strchr(at, '>');
        const size_t n = strcspn(at + 1, " />\n");

        assert_non_null(end);
        if (at[1] == '/') {
            assert_true(depth > 0);
            depth--;
            assert_int_equal(strcspn(at + 2, ">"), length[depth]);
            assert_true(open[depth] != NULL &&
                        strncmp(at + 2, open[depth], length[depth]) == 0);
        } else if (at[1] != '!' && end[-1] != '/') {
            assert_true(depth < 64);
            open[depth] = at + 1;
            length[depth++] = n;
        }
    }
    assert_int_equal(depth, 0);
}

static void svg_is_well_formed_and_names_what_it_shows(void **state)
{
    char *text = NULL;

    (void)state;
    make_plan("--pp 4");
    text = draw(".svg");
    assert_well_formed(text);
    assert_non_null(strstr(text, "against the load target with a cell's fixed cost, "));
    assert_non_null(strstr(text, "hydra: 120 sequences on 8 ranks"));
    free(text);
    make_plan("--policy static");
    text = draw(".svg");
    assert_non_null(strstr(text, "against the mean cell, "));
    free(text);
}

/* Slices of a thread do not overlap, and the last one ends with the step. */
static void check_trace(void)
{
    char *text = draw(".trace.json");
    json_t *root = json_loads(text, 0, NULL);
    json_t *event = NULL;
    size_t i = 0;
    double end_us[4][8] = {{0}};
    double last_us = 0;
    size_t n = 0;
    struct hyd_plan_doc doc;
    char path[HYD_CLI_FILE_BYTES];

    assert_non_null(root);
    /* Slices are written in the order of execution. */
    json_array_foreach(json_object_get(root, "traceEvents"), i, event)
    {
        const json_int_t pid = json_integer_value(json_object_get(event, "pid"));
        const json_int_t tid = json_integer_value(json_object_get(event, "tid"));
        const double ts = json_number_value(json_object_get(event, "ts"));
        const double dur = json_number_value(json_object_get(event, "dur"));

        if (strcmp(json_string_value(json_object_get(event, "ph")), "X") != 0) {
            continue;
        }
        assert_true(pid < 4 && tid < 8);
        assert_true(ts >= end_us[pid][tid] - 0.002);
        end_us[pid][tid] = ts + dur;
        last_us = ts + dur > last_us ? ts + dur : last_us;
        n++;
    }
    assert_true(n > 10);
    (void)snprintf(path, sizeof path, "%s/plan.json", folder);
    assert_int_equal(hyd_plan_doc_read(hyd_alloc_system(), path, &doc, NULL), HYD_OK);
    assert_true(hyd_test_close(last_us * 1e-6, doc.plan.figures.step_s, 2e-9, 1e-9));
    hyd_plan_doc_release(&doc);
    json_decref(root);
    free(text);
}

static void traces_follow_the_simulator_for_every_policy(void **state)
{
    (void)state;
    make_plan("--pp 4");
    check_trace();
    make_plan("--pp 4 --zero-bubble");
    check_trace();
    make_plan("--pp 2 --pass forward --dp-barrier");
    check_trace();
    make_plan("--pp 2 --vpp 2 --vpp-group 2 --policy megatron");
    check_trace();
    for (size_t i = 0; hyd_policy_table[i] != NULL; i++) {
        char more[128];

        (void)snprintf(more, sizeof more, "--policy %s", hyd_policy_table[i]->name);
        make_plan(more);
        check_trace();
    }
}

static void the_page_needs_nothing_from_elsewhere(void **state)
{
    char *text = NULL;

    (void)state;
    make_plan("--pp 2");
    text = draw(".html");
    assert_non_null(strstr(text, "default-src 'none'"));
    assert_null(strstr(text, " src="));
    assert_null(strstr(text, " href="));
    assert_null(strstr(text, "import"));
    assert_non_null(strstr(text, "<svg"));
    free(text);
}

static void draw_refuses_other_endings(void **state)
{
    struct hyd_cli_result r;

    (void)state;
    make_plan("");
    r = run("draw", "-o picture.png");
    assert_int_equal(r.code, 2);
    assert_string_equal(r.err,
                        "hydractl draw: option '-o' is 'picture.png', must end in "
                        ".svg, .trace.json or .html\n");
    hyd_cli_result_release(&r);
    r = run("draw", "");
    assert_string_equal(r.err, "hydractl draw: option '-o FILE' is missing\n");
    hyd_cli_result_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(explain_finds_the_giant_where_the_plan_has_it),
        cmocka_unit_test(explain_names_the_least_degree_of_the_plan),
        cmocka_unit_test(explained_shards_add_up_to_the_cell),
        cmocka_unit_test(explain_works_for_every_policy),
        cmocka_unit_test(explain_says_what_does_not_exist),
        cmocka_unit_test(explain_tells_when_the_plan_is_another),
        cmocka_unit_test(svg_is_well_formed_and_names_what_it_shows),
        cmocka_unit_test(traces_follow_the_simulator_for_every_policy),
        cmocka_unit_test(the_page_needs_nothing_from_elsewhere),
        cmocka_unit_test(draw_refuses_other_endings),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
