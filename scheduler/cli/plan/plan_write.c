/* plan_write.c - see plan_doc.h: from a plan to JSON. */
#include <inttypes.h>
#include <stdio.h>

#include "scheduler/cli/plan/plan_doc.h"
#include "scheduler/cli/plan/plan_figures.h"
#include "scheduler/core/options.h"
#include "scheduler/core/pipeline.h"
#include "scheduler/core/plan_shape.h"

/* An option's value: words as texts, flags as true or false, numbers as numbers. */
static json_t *option_value(const struct hyd_option *option,
                            const struct hyd_plan_input *in)
{
    const uint64_t number = hyd_option_get(option, in);
    char text[HYD_OPTION_TEXT_BYTES];

    if (option->kind == HYD_OPTION_FLAG) {
        return json_boolean(number != 0);
    }
    if (option->kind == HYD_OPTION_CHOICE || number > INT64_MAX) {
        hyd_option_print(option, in, text);
        return json_string(text);
    }
    return json_integer((json_int_t)number);
}

/* Options that apply to the policy: pool and limits, or the others. */
static int put_options(json_t *object, const struct hyd_plan_input *in, bool inputs)
{
    const struct hyd_policy_ops *policy = hyd_policy_find(in->policy);

    for (const struct hyd_option *o = hyd_option_table; o->key != NULL; o++) {
        if ((o->scope == HYD_OPTION_INPUT) == inputs &&
            (policy == NULL || hyd_option_applies(o, policy)) &&
            json_object_set_new(object, o->key, option_value(o, in)) != 0) {
            return -1;
        }
    }
    return 0;
}

static json_t *reals(const double *values, size_t n)
{
    json_t *array = json_array();

    for (size_t i = 0; i < n; i++) {
        if (json_array_append_new(array, json_real(values[i])) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

static json_t *numbers(const uint32_t *values, size_t n)
{
    json_t *array = json_array();

    for (size_t i = 0; i < n; i++) {
        if (json_array_append_new(array, json_integer((json_int_t)values[i])) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

json_t *hyd_plan_doc_input(const struct hyd_plan_input *in,
                           const struct hyd_cost_choice *choice)
{
    struct hyd_plan_input whole = *in;
    /* Stages that all cost 1 are not worth a line. */
    const struct hyd_pipeline shape = hyd_pipeline_of(in, 1);
    json_t *options = json_object();
    json_t *object = json_pack("{s:s, s:O}", "policy", in->policy, "options", options);
    int bad = object == NULL;

    /* 0 stands for all ranks: the file says how many. */
    if (whole.limits.max_degree == 0) {
        whole.limits.max_degree = whole.pool.n_ranks;
    }
    bad = bad || put_options(options, &whole, false) != 0 ||
          put_options(object, &whole, true) != 0;
    if (!bad && in->pool.speed != NULL) {
        bad = json_object_set_new(object, "speed",
                                  reals(in->pool.speed, in->pool.n_ranks));
    }
    if (!bad && shape.stage_cost != NULL) {
        bad = json_object_set_new(object, "stages",
                                  reals(shape.stage_cost, shape.n_stages));
    }
    bad = bad || json_object_set_new(object, "cost",
                                     hyd_cost_choice_write(choice, in->cost)) != 0;
    json_decref(options);
    if (bad) {
        json_decref(object);
        return NULL;
    }
    return object;
}

json_t *hyd_plan_doc_figures(const struct hyd_figures *figures, double plan_time_s)
{
    json_t *object = hyd_json_rows_write(hyd_plan_figure_rows, figures);
    json_t *degrees = json_object();
    int bad = object == NULL || degrees == NULL;

    for (uint32_t i = 0; !bad && i < figures->n_degrees; i++) {
        char key[16];

        (void)snprintf(key, sizeof key, "%" PRIu32, figures->degree[i].degree);
        bad = json_object_set_new(degrees, key,
                                  json_integer((json_int_t)figures->degree[i].n_seqs));
    }
    bad = bad ||
          json_object_set_new(
              object, "bubble",
              hyd_json_rows_write(hyd_plan_bubble_rows, &figures->bubble)) != 0 ||
          json_object_set(object, "degrees", degrees) != 0 ||
          json_object_set_new(object, "plan_time_s", json_real(plan_time_s)) != 0;
    json_decref(degrees);
    if (bad) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *write_microbatch(const struct hyd_plan *plan, uint32_t m)
{
    json_t *groups = json_array();

    for (uint32_t g = plan->mb_first_group[m]; g < plan->mb_first_group[m + 1]; g++) {
        const struct hyd_plan_group *group = &plan->group[g];
        json_t *one =
            json_pack("{s:o, s:I, s:I, s:o}", "ranks",
                      numbers(plan->rank + group->first_rank, group->n_ranks), "u",
                      (json_int_t)group->u, "r", (json_int_t)group->r, "ids",
                      numbers(plan->id + group->first_id, group->n_ids));

        if (json_array_append_new(groups, one) != 0) {
            json_decref(groups);
            return NULL;
        }
    }
    return json_pack("{s:o}", "groups", groups);
}

static json_t *write_microbatches(const struct hyd_plan *plan)
{
    json_t *array = json_array();

    for (uint32_t m = 0; m < plan->n_microbatches; m++) {
        if (json_array_append_new(array, write_microbatch(plan, m)) != 0) {
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

void hyd_plan_doc_cell_tokens(const uint32_t *length_tokens,
                              const struct hyd_plan *plan, uint32_t microbatch,
                              uint64_t *ret_tokens)
{
    const uint32_t end = plan->mb_first_group[microbatch + 1];

    for (uint32_t g = plan->mb_first_group[microbatch]; g < end; g++) {
        const struct hyd_plan_group *group = &plan->group[g];
        const uint64_t chunks = 2 * (uint64_t)group->n_ranks;

        for (uint32_t i = 0; i < group->n_ids; i++) {
            const uint64_t l = length_tokens[plan->id[group->first_id + i]];

            for (uint64_t k = 0; k < group->n_ranks; k++) {
                const uint64_t back = chunks - 1 - k;
                const uint64_t tokens = (k + 1) * l / chunks - k * l / chunks +
                                        (back + 1) * l / chunks - back * l / chunks;

                ret_tokens[plan->rank[group->first_rank + k]] += tokens;
            }
        }
    }
}

/* Tokens and predicted seconds of each cell, one object a microbatch. */
static json_t *write_cells(const struct hyd_plan_out *out)
{
    const struct hyd_alloc *alloc = hyd_alloc_system();
    const uint32_t n_ranks = out->plan->n_ranks;
    double *seconds = hyd_alloc_array(alloc, n_ranks, sizeof *seconds);
    uint64_t *tokens = hyd_alloc_array(alloc, n_ranks, sizeof *tokens);
    json_t *array = json_array();
    int bad = seconds == NULL || tokens == NULL || array == NULL;

    for (uint32_t m = 0; !bad && m < out->plan->n_microbatches; m++) {
        json_t *counts = json_array();

        for (uint32_t r = 0; r < n_ranks; r++) {
            tokens[r] = 0;
        }
        hyd_plan_doc_cell_tokens(out->in->batch.length_tokens, out->plan, m, tokens);
        hyd_plan_cells(out->counted, out->plan, m, NULL, seconds);
        for (uint32_t r = 0; r < n_ranks; r++) {
            (void)json_array_append_new(counts, json_integer((json_int_t)tokens[r]));
        }
        bad = json_array_size(counts) != n_ranks;
        bad |=
            json_array_append_new(array, json_pack("{s:o, s:o}", "tokens", counts,
                                                   "seconds", reals(seconds, n_ranks)));
    }
    hyd_alloc_free(alloc, seconds);
    hyd_alloc_free(alloc, tokens);
    if (bad) {
        json_decref(array);
        return NULL;
    }
    return array;
}

json_t *hyd_plan_doc_write(const struct hyd_plan_out *out)
{
    const struct hyd_plan *plan = out->plan;
    const struct hyd_batch *batch = &out->in->batch;
    char fingerprint[24];
    json_t *root = NULL;
    int bad = 0;

    (void)snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, plan->fingerprint);
    root = json_pack("{s:i, s:o, s:s, s:I, s:I, s:I, s:s, s:o}", "version", 1, "input",
                     hyd_plan_doc_input(out->in, out->choice), "policy", plan->policy,
                     "ranks", (json_int_t)plan->n_ranks, "cap_tokens",
                     (json_int_t)plan->cap_tokens, "num_microbatches",
                     (json_int_t)plan->n_microbatches, "fingerprint", fingerprint,
                     "lengths", numbers(batch->length_tokens, batch->n_seqs));
    bad = root == NULL;
    if (!bad && plan->note != NULL) {
        bad = json_object_set_new(root, "note", json_string(plan->note));
    }
    if (!bad && batch->extra_work_s != NULL) {
        bad = json_object_set_new(root, "extra_work_s",
                                  reals(batch->extra_work_s, batch->n_seqs));
    }
    bad = bad ||
          json_object_set_new(root, "microbatches", write_microbatches(plan)) != 0 ||
          json_object_set_new(
              root, "figures",
              hyd_plan_doc_figures(&plan->figures, out->measured.cpu_s)) != 0;
    if (!bad && out->cells_table) {
        bad = json_object_set_new(root, "cells", write_cells(out));
    }
    bad = bad ||
          json_object_set_new(root, "measured",
                              json_pack("{s:f, s:f}", "plan_cpu_s", out->measured.cpu_s,
                                        "plan_wall_s", out->measured.wall_s)) != 0;
    if (bad) {
        json_decref(root);
        return NULL;
    }
    return root;
}
