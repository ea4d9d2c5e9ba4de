/* cmd_check.c - the plan proof on a file, whoever made it. Three questions, each answered
 * apart: is it a legal plan for its input; does the fingerprint fit what the file holds; do
 * the figures fit the plan. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "scheduler/cli/args.h"
#include "scheduler/cli/command.h"
#include "scheduler/cli/json.h"
#include "scheduler/cli/plan/plan_doc.h"
#include "scheduler/cli/plan/plan_figures.h"
#include "scheduler/cli/plan/plan_run.h"
#include "scheduler/cli/table.h"
#include "scheduler/core/figures.h"
#include "scheduler/core/fingerprint.h"
#include "scheduler/core/plan_check.h"

/* Figures are compared as they were printed: 17 digits, so only another formula differs. */
static const double FIGURE_SLACK = 1e-12;

struct input {
    struct hyd_cli *cli;
    const char *path;
    const char *lengths_path;
};

/* Answers; empty text: yes. */
struct verdict {
    struct hyd_error proof;
    struct hyd_error fingerprint;
    struct hyd_error figures;
    struct hyd_figures computed;
    bool is_legal;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct input *in = state->input;

    switch (key) {
    case ARGP_KEY_ARG:
        if (in->lengths_path != NULL) {
            return hyd_args_surplus(in->cli, arg, "PLAN.json [LENGTHS]");
        }
        *(in->path == NULL ? &in->path : &in->lengths_path) = arg;
        return 0;
    case ARGP_KEY_END:
        return in->path != NULL ? 0 : hyd_args_missing(in->cli, "PLAN.json");
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .parser = parse,
    .args_doc = "PLAN.json [LENGTHS]",
    .doc =
        "Prove that a plan is right for its input: every sequence once, caps, degrees, "
        "node and listing rules; then its fingerprint and figures. With LENGTHS: also "
        "that it plans these lengths.",
};

static hyd_status compare_lengths(const struct input *in,
                                  const struct hyd_plan_doc *doc, struct hyd_error *err)
{
    struct hyd_lengths list;
    hyd_status st = hyd_plan_run_lengths(in->cli->alloc, in->lengths_path, &list, err);

    if (st != HYD_OK) {
        return st;
    }
    if (list.n != doc->in.batch.n_seqs) {
        st = hyd_error_field(err, HYD_ERR_INFEASIBLE, "lengths",
                             "the plan has %zu lengths, %.60s has %zu",
                             doc->in.batch.n_seqs, in->lengths_path, list.n);
    }
    for (size_t i = 0; st == HYD_OK && i < list.n; i++) {
        if (list.length_tokens[i] != doc->in.batch.length_tokens[i]) {
            st = hyd_error_field(err, HYD_ERR_INFEASIBLE, "lengths",
                                 "length %zu is %" PRIu32 " in the plan, %" PRIu32
                                 " in %.60s",
                                 i, doc->in.batch.length_tokens[i],
                                 list.length_tokens[i], in->lengths_path);
        }
    }
    hyd_lengths_release(&list);
    return st;
}

static bool differs(double a, double b)
{
    return !(fabs(a - b) <= FIGURE_SLACK * fmax(fabs(a), fabs(b)));
}

/* The first figure that is not what the plan gives. target_s is the policy's own word and
 * cannot be found again. */
static void compare_rows(const struct hyd_json_row *rows, const void *in_file,
                         const void *computed, struct hyd_error *err)
{
    for (; rows->key != NULL && err->text[0] == '\0'; rows++) {
        const char *a = (const char *)in_file + rows->offset;
        const char *b = (const char *)computed + rows->offset;
        double x = 0;
        double y = 0;

        if (strcmp(rows->key, "target_s") == 0) {
            continue;
        }
        if (rows->kind == HYD_JSON_REAL) {
            memcpy(&x, a, sizeof x);
            memcpy(&y, b, sizeof y);
        } else if (rows->kind == HYD_JSON_NUMBER) {
            uint32_t n = 0;

            memcpy(&n, a, sizeof n);
            x = n;
            memcpy(&n, b, sizeof n);
            y = n;
        }
        if (differs(x, y)) {
            (void)hyd_error_field(err, HYD_ERR_INVALID, rows->key,
                                  "%s is %.12g in the file, the plan gives %.12g",
                                  rows->key, x, y);
        }
    }
}

static hyd_status check_figures(struct hyd_plan_doc *doc, struct verdict *verdict,
                                struct hyd_error *err)
{
    struct hyd_cost cost;
    struct hyd_plan_input counted;
    hyd_status st = hyd_plan_input_count(&doc->in, &doc->arena, &cost, &counted, err);

    if (st == HYD_OK) {
        st = hyd_figures_compute(&counted, doc->in.batch.length_tokens, &doc->plan,
                                 &doc->arena, &verdict->computed, err);
    }
    if (st != HYD_OK || !doc->has_figures) {
        return st;
    }
    compare_rows(hyd_plan_figure_rows, &doc->plan.figures, &verdict->computed,
                 &verdict->figures);
    compare_rows(hyd_plan_bubble_rows, &doc->plan.figures.bubble,
                 &verdict->computed.bubble, &verdict->figures);
    return HYD_OK;
}

static hyd_status judge(struct hyd_plan_doc *doc, struct verdict *verdict,
                        struct hyd_error *err)
{
    hyd_status st = hyd_plan_input_check(&doc->in, err);

    if (st != HYD_OK) {
        return st;
    }
    st = hyd_plan_check(&doc->in, &doc->plan, &doc->arena, &verdict->proof);
    if (st == HYD_ERR_NO_MEMORY) {
        return st;
    }
    verdict->is_legal = st == HYD_OK;
    if (!verdict->is_legal) {
        return HYD_OK;
    }
    if (doc->has_fingerprint && doc->known_policy) {
        const uint64_t computed = hyd_fingerprint(&doc->in, &doc->plan);

        if (computed != doc->plan.fingerprint) {
            (void)hyd_error_field(&verdict->fingerprint, HYD_ERR_INVALID, "fingerprint",
                                  "fingerprint is %016" PRIx64
                                  " in the file, its content gives %016" PRIx64,
                                  doc->plan.fingerprint, computed);
        }
    }
    return check_figures(doc, verdict, err);
}

static const char *answer(bool asked, const struct hyd_error *err)
{
    return !asked ? "absent" : err->text[0] != '\0' ? err->text : "ok";
}

static hyd_status print_verdict(const struct input *in, const struct hyd_plan_doc *doc,
                                const struct verdict *v, struct hyd_error *err)
{
    const char *proof = answer(true, &v->proof);
    const char *fingerprint = answer(
        v->is_legal && doc->has_fingerprint && doc->known_policy, &v->fingerprint);
    const char *figures = answer(v->is_legal && doc->has_figures, &v->figures);
    char a[HYD_TEXT_BYTES];

    if (in->cli->json) {
        json_t *root = json_pack(
            "{s:b, s:s, s:s, s:s}", "ok",
            v->is_legal && v->fingerprint.text[0] == '\0' && v->figures.text[0] == '\0',
            "proof", proof, "fingerprint", fingerprint, "figures_match", figures);

        if (v->is_legal) {
            (void)json_object_set_new(root, "figures",
                                      hyd_plan_doc_figures(&v->computed, 0));
        }
        return hyd_json_print(in->cli->out, root, err);
    }
    (void)fprintf(in->cli->out,
                  "plan          %s of %s sequences on %" PRIu32 " ranks, cap %" PRIu32
                  ", %" PRIu32 " microbatches\n",
                  doc->plan.policy[0] != '\0' ? doc->plan.policy : "unnamed policy",
                  hyd_text_count(doc->plan.n_seqs, a), doc->plan.n_ranks,
                  doc->plan.cap_tokens, doc->plan.n_microbatches);
    (void)fprintf(in->cli->out, "proof         %s\n", proof);
    (void)fprintf(in->cli->out, "fingerprint   %s\n", fingerprint);
    (void)fprintf(in->cli->out, "figures       %s\n", figures);
    if (v->is_legal) {
        (void)fprintf(in->cli->out, "step          %s predicted, balance %.4f\n",
                      hyd_text_seconds(v->computed.step_s, a), v->computed.balance);
    }
    return HYD_OK;
}

int hyd_cmd_check(struct hyd_cli *cli, int argc, char **argv)
{
    struct input in = {.cli = cli};
    struct hyd_plan_doc doc = {.known_policy = false};
    struct verdict verdict = {.is_legal = false};
    const struct hyd_error *worst = NULL;
    struct hyd_error err = {.text = ""};
    hyd_status st = HYD_OK;
    int code = 0;

    if (hyd_args_parse(cli, &argp, argc, argv, &in, &code) == HYD_ARGS_STOP) {
        return code;
    }
    st = hyd_plan_doc_read(cli->alloc, in.path, &doc, &err);
    if (st == HYD_OK && in.lengths_path != NULL) {
        st = compare_lengths(&in, &doc, &err);
    }
    if (st == HYD_OK) {
        st = judge(&doc, &verdict, &err);
    }
    if (st == HYD_OK) {
        st = print_verdict(&in, &doc, &verdict, &err);
    }
    hyd_plan_doc_release(&doc);
    if (st != HYD_OK) {
        return hyd_cli_fail(cli, st, &err);
    }
    worst = verdict.proof.text[0] != '\0'         ? &verdict.proof
            : verdict.fingerprint.text[0] != '\0' ? &verdict.fingerprint
                                                  : &verdict.figures;
    return worst->text[0] == '\0' ? HYD_EXIT_DONE
                                  : hyd_cli_fail(cli, HYD_ERR_INFEASIBLE, worst);
}
