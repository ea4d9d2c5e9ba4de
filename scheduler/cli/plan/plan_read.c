/* plan_read.c - see plan_doc.h: from JSON to a plan. The file may come from anyone: every
 * key, type and range is checked here, what the plan says is checked by hyd_plan_check. */
#include <stdlib.h>
#include <string.h>

#include "scheduler/cli/file.h"
#include "scheduler/cli/plan/plan_figures.h"
#include "scheduler/cli/plan/plan_read.h"
#include "scheduler/core/options.h"
#include "scheduler/core/planner.h"

static hyd_status read_lengths(struct hyd_plan_doc *doc, const json_t *root,
                               struct hyd_error *err)
{
    const json_t *lengths = json_object_get(root, "lengths");
    const json_t *work = json_object_get(root, "extra_work_s");
    const size_t n = json_array_size(lengths);
    uint32_t *tokens = NULL;
    hyd_status st = HYD_OK;

    if (n < 1 || n > HYD_MAX_SEQS) {
        return hyd_plan_read_form(err, "lengths", "an array of 1 to 1048576 lengths");
    }
    tokens = hyd_arena_take(&doc->arena, n, sizeof *tokens);
    if (tokens == NULL) {
        return hyd_plan_read_no_memory(err);
    }
    st = hyd_plan_read_numbers(lengths, "lengths", 1, HYD_MAX_LENGTH_TOKENS, tokens,
                               err);
    doc->in.batch.length_tokens = tokens;
    doc->in.batch.n_seqs = n;
    doc->plan.n_seqs = n;
    if (st == HYD_OK && work != NULL) {
        st = hyd_plan_read_reals(&doc->arena, work, "extra_work_s", n,
                                 &doc->in.batch.extra_work_s, err);
    }
    return st;
}

static hyd_status read_degrees(struct hyd_figures *figures, const json_t *degrees,
                               struct hyd_error *err)
{
    const char *key = NULL;
    json_t *value = NULL;

    json_object_foreach((json_t *)degrees, key, value)
    {
        char *rest = NULL;
        const unsigned long degree = strtoul(key, &rest, 10);

        if (*rest != '\0' || degree < 1 || degree > HYD_MAX_RANKS ||
            !json_is_integer(value) || figures->n_degrees == HYD_MAX_DEGREE_COUNTS) {
            return hyd_plan_read_form(err, "figures.degrees",
                                      "an object {\"degree\": sequences}");
        }
        figures->degree[figures->n_degrees].degree = (uint32_t)degree;
        figures->degree[figures->n_degrees].n_seqs =
            (uint32_t)json_integer_value(value);
        figures->n_degrees++;
    }
    return HYD_OK;
}

static hyd_status read_figures(struct hyd_plan_doc *doc, const json_t *object,
                               struct hyd_error *err)
{
    struct hyd_figures *figures = &doc->plan.figures;
    const json_t *bubble = json_object_get(object, "bubble");
    hyd_status st =
        hyd_json_rows_read(hyd_plan_figure_rows, object, "figures", figures, err);

    if (st == HYD_OK && bubble != NULL) {
        st = hyd_json_rows_read(hyd_plan_bubble_rows, bubble, "figures.bubble",
                                &figures->bubble, err);
    }
    if (st == HYD_OK) {
        st = read_degrees(figures, json_object_get(object, "degrees"), err);
    }
    doc->has_figures = st == HYD_OK;
    return st;
}

static hyd_status read_fingerprint(struct hyd_plan_doc *doc, const json_t *value,
                                   struct hyd_error *err)
{
    const char *text = json_string_value(value);
    char *rest = NULL;

    if (text == NULL || strlen(text) != 16 ||
        strspn(text, "0123456789abcdefABCDEF") != 16) {
        return hyd_plan_read_form(err, "fingerprint", "16 hexadecimal digits");
    }
    doc->plan.fingerprint = strtoull(text, &rest, 16);
    doc->has_fingerprint = true;
    return HYD_OK;
}

/* What stands at the top of a plan file. */
struct frame {
    uint32_t version;
    uint32_t n_ranks;
    uint32_t cap_tokens;
    uint32_t n_microbatches;
    char policy[HYD_NAME_BYTES];
};

#define AT(member) offsetof(struct frame, member)

static const struct hyd_json_row frame_rows[] = {
    {"version", NULL, HYD_JSON_NUMBER, true, AT(version), 1, 1},
    {"input", NULL, HYD_JSON_IGNORED, false, 0, 0, 0},
    {"policy", NULL, HYD_JSON_TEXT, false, AT(policy), 0, HYD_NAME_BYTES},
    {"ranks", NULL, HYD_JSON_NUMBER, true, AT(n_ranks), 1, HYD_MAX_RANKS},
    {"cap_tokens", NULL, HYD_JSON_NUMBER, true, AT(cap_tokens), 1,
     HYD_MAX_LENGTH_TOKENS},
    {"num_microbatches", NULL, HYD_JSON_NUMBER, true, AT(n_microbatches), 1,
     HYD_MAX_MICROBATCHES},
    {"fingerprint", NULL, HYD_JSON_IGNORED, false, 0, 0, 0},
    {"note", NULL, HYD_JSON_IGNORED, false, 0, 0, 0},
    {"lengths", NULL, HYD_JSON_IGNORED, true, 0, 0, 0},
    {"extra_work_s", NULL, HYD_JSON_IGNORED, false, 0, 0, 0},
    {"microbatches", NULL, HYD_JSON_IGNORED, true, 0, 0, 0},
    {"figures", NULL, HYD_JSON_IGNORED, false, 0, 0, 0},
    {"cells", NULL, HYD_JSON_IGNORED, false, 0, 0, 0},
    {"measured", NULL, HYD_JSON_IGNORED, false, 0, 0, 0},
    {0},
};

static hyd_status read_frame(struct hyd_plan_doc *doc, const json_t *root,
                             struct hyd_error *err)
{
    struct frame frame = {.policy = ""};
    const struct hyd_policy_ops *policy = NULL;
    char *name = NULL;
    hyd_status st = hyd_json_rows_read(frame_rows, root, "plan", &frame, err);

    if (st != HYD_OK) {
        return st;
    }
    doc->plan.n_ranks = frame.n_ranks;
    doc->plan.cap_tokens = frame.cap_tokens;
    /* Without an input the frame is all there is to hold the plan against. */
    doc->in.pool.n_ranks = frame.n_ranks;
    doc->in.limits.cap_tokens = frame.cap_tokens;
    policy = hyd_policy_find(frame.policy);
    doc->known_policy = policy != NULL;
    doc->in.policy = policy != NULL ? policy->name : hyd_policy_table[0]->name;
    if (policy != NULL) {
        doc->plan.policy = policy->name;
        return HYD_OK;
    }
    name = hyd_arena_take(&doc->arena, sizeof frame.policy, 1);
    if (name == NULL) {
        return hyd_plan_read_no_memory(err);
    }
    memcpy(name, frame.policy, sizeof frame.policy);
    doc->plan.policy = name;
    return HYD_OK;
}

static hyd_status read_root(const struct hyd_alloc *alloc, struct hyd_plan_doc *doc,
                            const json_t *root, struct hyd_error *err)
{
    const json_t *input = json_object_get(root, "input");
    const json_t *figures = json_object_get(root, "figures");
    const json_t *fingerprint = json_object_get(root, "fingerprint");
    hyd_status st = read_frame(doc, root, err);

    if (st == HYD_OK && input != NULL) {
        st = hyd_plan_read_input(alloc, doc, input, err);
    }
    if (st == HYD_OK) {
        st = read_lengths(doc, root, err);
    }
    if (st == HYD_OK) {
        st = hyd_plan_read_microbatches(doc, root, err);
    }
    if (st == HYD_OK && figures != NULL) {
        st = read_figures(doc, figures, err);
    }
    if (st == HYD_OK && fingerprint != NULL) {
        st = read_fingerprint(doc, fingerprint, err);
    }
    return st;
}

hyd_status hyd_plan_doc_parse(const struct hyd_alloc *alloc, const char *bytes,
                              size_t n_bytes, struct hyd_plan_doc *ret_doc,
                              struct hyd_error *err)
{
    struct hyd_plan_doc doc = {
        .in = hyd_plan_input_default(),
        .choice = hyd_cost_choice_default(),
    };
    json_error_t where;
    json_t *root = json_loadb(bytes, n_bytes, JSON_REJECT_DUPLICATES, &where);
    hyd_status st = HYD_OK;

    if (root == NULL) {
        return hyd_error_field(err, HYD_ERR_MALFORMED, "plan",
                               "line %d: not JSON: %.100s", where.line, where.text);
    }
    hyd_arena_init(&doc.arena, alloc);
    st = read_root(alloc, &doc, root, err);
    json_decref(root);
    if (st == HYD_OK) {
        st = hyd_cost_choice_build(&doc.choice, &doc.in, &doc.cost, err);
    }
    if (st != HYD_OK) {
        hyd_plan_doc_release(&doc);
        return st;
    }
    *ret_doc = doc;
    ret_doc->in.cost = &ret_doc->cost;
    return HYD_OK;
}

hyd_status hyd_plan_doc_read(const struct hyd_alloc *alloc, const char *path,
                             struct hyd_plan_doc *ret_doc, struct hyd_error *err)
{
    struct hyd_file file = {0};
    hyd_status st = hyd_file_read(alloc, path, HYD_FILE_MAX_BYTES, &file, err);

    if (st == HYD_OK) {
        st = hyd_plan_doc_parse(alloc, file.bytes, file.n_bytes, ret_doc, err);
        if (st != HYD_OK) {
            hyd_error_prefix(err, "%.60s", path);
        }
    }
    hyd_file_release(&file);
    return st;
}

void hyd_plan_doc_release(struct hyd_plan_doc *doc)
{
    if (doc->arena.alloc != NULL) {
        hyd_arena_release(&doc->arena);
    }
    *doc = (struct hyd_plan_doc){.known_policy = false};
}
