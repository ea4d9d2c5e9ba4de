/* Plan files: what is written is read back whole, the same plan gives the same bytes, and a
 * file that is wrong says where. */
#include "scheduler/cli/plan/plan_doc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/json.h"
#include "scheduler/core/fingerprint.h"
#include "scheduler/core/options.h"
#include "scheduler/core/plan_check.h"
#include "scheduler/core/planner.h"
#include "tests/lib/fault_alloc.h"
#include "tests/lib/prop.h"
#include "tests/lib/test.h"

enum { MAX_SEQS = 40, MAX_RANKS = 12, MAX_STAGES = 4 };

/* A random input whose plan can be written. */
struct rig {
    uint32_t tokens[MAX_SEQS];
    double work_s[MAX_SEQS];
    double speed[MAX_RANKS];
    double stage_cost[MAX_STAGES];
    struct hyd_plan_input in;
    struct hyd_cost_choice choice;
    struct hyd_cost cost;
};

static void make_rig(struct hyd_rng *rng, struct rig *rig)
{
    rig->in = hyd_plan_input_default();
    rig->in.policy = "static";
    rig->in.batch.n_seqs = 1 + hyd_rng_below(rng, MAX_SEQS);
    rig->in.pool.n_ranks = 1 + hyd_rng_below(rng, MAX_RANKS);
    rig->in.pool.ranks_per_node = 1 + hyd_rng_below(rng, 8);
    rig->in.pool.pp = 1 + hyd_rng_below(rng, MAX_STAGES);
    rig->in.limits.cap_tokens = 2000;
    rig->in.limits.align_tokens = hyd_rng_below(rng, 3) * 16;
    rig->in.options.dp_barrier = hyd_rng_below(rng, 2) == 1;
    rig->in.options.pad = hyd_rng_below(rng, 2) == 1 ? HYD_PAD_MAX : HYD_PAD_NONE;
    rig->in.options.seed = hyd_rng_next(rng);
    rig->in.pass = hyd_rng_below(rng, 2) == 1 ? HYD_PASS_FORWARD : HYD_PASS_TRAIN;
    for (size_t i = 0; i < MAX_SEQS; i++) {
        rig->tokens[i] = 1 + hyd_rng_below(rng, 1900);
        rig->work_s[i] = hyd_rng_unit(rng);
    }
    for (size_t r = 0; r < MAX_RANKS; r++) {
        rig->speed[r] = 0.5 + hyd_rng_unit(rng);
    }
    for (size_t s = 0; s < MAX_STAGES; s++) {
        rig->stage_cost[s] = 0.5 + hyd_rng_unit(rng);
    }
    rig->in.batch.length_tokens = rig->tokens;
    rig->in.batch.extra_work_s = hyd_rng_below(rng, 2) == 1 ? rig->work_s : NULL;
    rig->in.pool.speed = hyd_rng_below(rng, 2) == 1 ? rig->speed : NULL;
    rig->in.pool.stage_cost = hyd_rng_below(rng, 2) == 1 ? rig->stage_cost : NULL;
    rig->choice = hyd_cost_choice_default();
    switch (hyd_rng_below(rng, 3)) {
    case 0:
        rig->choice.plain = true;
        rig->choice.a_s = hyd_rng_unit(rng) * 1e-9;
        rig->choice.b_s = hyd_rng_unit(rng) * 1e-5;
        break;
    case 1: /* nobody's model: written in full */
        rig->choice.model.ffn += 128;
        rig->choice.device.latency_s *= 1.1;
        rig->choice.scope = HYD_SCOPE_ATTENTION;
        break;
    default:
        break;
    }
    assert_int_equal(hyd_cost_choice_build(&rig->choice, &rig->in, &rig->cost, NULL),
                     HYD_OK);
    rig->in.cost = &rig->cost;
}

static char *to_text(const struct hyd_plan_input *in,
                     const struct hyd_cost_choice *choice, const struct hyd_plan *plan)
{
    const struct hyd_plan_out out = {
        .in = in, .choice = choice, .plan = plan, .measured = {0.5, 0.25}};
    char *text = NULL;
    size_t n = 0;
    FILE *stream = open_memstream(&text, &n);

    assert_non_null(stream);
    assert_int_equal(hyd_json_print(stream, hyd_plan_doc_write(&out), NULL), HYD_OK);
    (void)fclose(stream);
    return text;
}

static const char *round_trip(struct hyd_rng *rng, void *ctx)
{
    static struct rig rig;
    struct hyd_planner *planner = ctx;
    const struct hyd_plan *plan = NULL;
    struct hyd_plan_doc doc;
    struct hyd_error err = {.text = ""};
    char *first = NULL;
    char *second = NULL;
    const char *why = NULL;

    make_rig(rng, &rig);
    if (hyd_planner_plan(planner, &rig.in, &plan, &err) != HYD_OK) {
        return hyd_prop_reason("no plan: %s", err.text);
    }
    first = to_text(&rig.in, &rig.choice, plan);
    if (hyd_plan_doc_parse(hyd_alloc_system(), first, strlen(first), &doc, &err) !=
        HYD_OK) {
        free(first);
        return hyd_prop_reason("not read back: %s", err.text);
    }
    second = to_text(&doc.in, &doc.choice, &doc.plan);
    if (hyd_plan_check(&doc.in, &doc.plan, &doc.arena, &err) != HYD_OK) {
        why = hyd_prop_reason("proof of what was read: %s", err.text);
    } else if (hyd_fingerprint(&doc.in, &doc.plan) != plan->fingerprint) {
        why = "another fingerprint";
    } else if (strstr(second, "\"plan_time_s\": 0.5") == NULL) {
        why = "plan_time_s is not the CPU seconds";
    } else if (strcmp(first, second) != 0) {
        why = "written, read and written again, the bytes differ";
    }
    free(first);
    free(second);
    hyd_plan_doc_release(&doc);
    return why;
}

static void plan_files_are_read_back_whole(void **state)
{
    struct hyd_planner *planner = NULL;

    (void)state;
    assert_int_equal(hyd_planner_create(hyd_alloc_system(), &planner), HYD_OK);
    hyd_prop_run("round trip", 200, round_trip, planner);
    hyd_planner_free(planner);
}

/* A small file by hand; %s places what a test changes. */
static const char good[] =
    "{\"version\": 1, \"input\": {\"policy\": \"static\", \"options\": {\"cp\": 2},"
    " \"ranks\": 2, \"cap_tokens\": 100, \"cost\": {\"a_s\": 1e-9, \"b_s\": 1e-6,"
    " \"cell_s\": 0}}, \"policy\": \"static\", \"ranks\": 2, \"cap_tokens\": 100,"
    " \"num_microbatches\": 1, \"lengths\": [10, 20], \"microbatches\": [{\"groups\":"
    " [{\"ranks\": [0, 1], \"u\": 1, \"r\": 2, \"ids\": [0, 1]}]}]}";

static void expect_error(const char *from, const char *to, const char *want)
{
    char text[2048];
    struct hyd_plan_doc doc;
    struct hyd_error err = {.text = ""};
    const char *at = strstr(good, from);

    assert_non_null(at);
    (void)snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, to,
                   at + strlen(from));
    assert_int_not_equal(
        hyd_plan_doc_parse(hyd_alloc_system(), text, strlen(text), &doc, &err), HYD_OK);
    assert_string_equal(err.text, want);
}

static void wrong_files_say_where_and_what_would_be_right(void **state)
{
    struct hyd_plan_doc doc;

    (void)state;
    assert_int_equal(
        hyd_plan_doc_parse(hyd_alloc_system(), good, strlen(good), &doc, NULL), HYD_OK);
    assert_int_equal(hyd_plan_check(&doc.in, &doc.plan, &doc.arena, NULL), HYD_OK);
    hyd_plan_doc_release(&doc);

    expect_error("\"version\": 1", "\"version\": 2",
                 "plan: version must be a whole number from 1 to 1");
    expect_error("\"lengths\"", "\"length\"",
                 "plan has no field 'length'; did you mean 'lengths'?");
    expect_error("[10, 20]", "[10, 0]",
                 "lengths[1] must be a whole number from 1 to 268435456");
    expect_error("[10, 20]", "[]", "lengths must be an array of 1 to 1048576 lengths");
    expect_error("\"num_microbatches\": 1", "\"num_microbatches\": 2",
                 "num_microbatches is not 1, the number of microbatches");
    expect_error(
        "\"ids\": [0, 1]", "\"ids\": []",
        "microbatches[0].groups[0]: ranks and ids must be arrays with at least "
        "one entry");
    expect_error("\"ids\": [0, 1]", "\"ids\": [0, -1]",
                 "microbatches[0].groups[0]: ids[1] must be a whole number from 0 to "
                 "1048575");
    expect_error(
        "\"u\": 1, ", "",
        "microbatches[0].groups[0]: u and r must be two whole numbers from 1 to "
        "65536");
    expect_error("\"u\": 1", "\"v\": 1",
                 "microbatches[0].groups[0]: a group has no field 'v'");
    expect_error("\"cp\": 2", "\"cq\": 2", "input.options has no field 'cq'");
    expect_error("\"cp\": 2", "\"pad\": \"most\"", "pad is 'most'; must be none|max");
    expect_error("\"cell_s\": 0", "\"cell_s\": -1",
                 "cost: cell_s must be a number from 0 to 1.79769313486e+308");
    expect_error("\"cell_s\": 0", "\"cell_s\": 0, \"model\": \"x\", \"device\": \"y\"",
                 "cost.model is 'x', must be a built-in name or a model in full");
    expect_error("\"ranks\": 2, \"cap_tokens\": 100, \"cost\"",
                 "\"speed\": [1], \"ranks\": 2, \"cost\"",
                 "input.speed has 1 entries, must have 2");
    expect_error("{\"version\"", "[\"version\"",
                 "line 1: not JSON: ']' expected near ':'");
}

static void foreign_plans_need_no_input_and_no_ulysses(void **state)
{
    static const char foreign[] =
        "{\"version\": 1, \"policy\": \"ours\", \"ranks\": 2, \"cap_tokens\": 100, "
        "\"num_microbatches\": 1, \"lengths\": [10, 20], \"microbatches\": "
        "[{\"groups\": [{\"ranks\": [0, 1], \"ids\": [0, 1]}]}]}";
    struct hyd_plan_doc doc;
    struct hyd_error err = {.text = ""};

    (void)state;
    assert_int_equal(
        hyd_plan_doc_parse(hyd_alloc_system(), foreign, strlen(foreign), &doc, &err),
        HYD_OK);
    assert_false(doc.known_policy);
    assert_string_equal(doc.plan.policy, "ours");
    assert_int_equal(doc.plan.group[0].r, 2);
    assert_int_equal(hyd_plan_check(&doc.in, &doc.plan, &doc.arena, &err), HYD_OK);
    hyd_plan_doc_release(&doc);
}

static void reading_gives_no_memory_and_leaks_nothing(void **state)
{
    (void)state;
    for (size_t fail_at = 1;; fail_at++) {
        struct hyd_fault_alloc fault;
        struct hyd_plan_doc doc;
        hyd_status st = HYD_OK;

        hyd_fault_alloc_init(&fault);
        fault.fail_at = fail_at;
        st = hyd_plan_doc_parse(&fault.alloc, good, strlen(good), &doc, NULL);
        if (st == HYD_OK) {
            hyd_plan_doc_release(&doc);
            assert_int_equal(fault.live, 0);
            assert_true(fail_at > 1);
            break;
        }
        assert_int_equal(st, HYD_ERR_NO_MEMORY);
        assert_int_equal(fault.live, 0);
    }
}

static void cell_tokens_are_whole_and_add_up(void **state)
{
    struct hyd_plan_doc doc;
    uint64_t tokens[2] = {0, 0};

    (void)state;
    assert_int_equal(
        hyd_plan_doc_parse(hyd_alloc_system(), good, strlen(good), &doc, NULL), HYD_OK);
    hyd_plan_doc_cell_tokens(doc.in.batch.length_tokens, &doc.plan, 0, tokens);
    /* 10 tokens in 4 chunks end at 2, 5, 7, 10: member 0 has 2 + 3, member 1 has 3 + 2. */
    assert_int_equal(tokens[0], 5 + 10);
    assert_int_equal(tokens[1], 5 + 10);
    hyd_plan_doc_release(&doc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_files_are_read_back_whole),
        cmocka_unit_test(wrong_files_say_where_and_what_would_be_right),
        cmocka_unit_test(foreign_plans_need_no_input_and_no_ulysses),
        cmocka_unit_test(reading_gives_no_memory_and_leaks_nothing),
        cmocka_unit_test(cell_tokens_are_whole_and_add_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
