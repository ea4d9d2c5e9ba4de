/* plan_read_input.c - see plan_read.h: arrays, and what a plan answers to. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/cli/plan/plan_read.h"
#include "scheduler/core/options.h"

hyd_status hyd_plan_read_no_memory(struct hyd_error *err)
{
    return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory to read the plan");
}

hyd_status hyd_plan_read_form(struct hyd_error *err, const char *field,
                              const char *want)
{
    return hyd_error_field(err, HYD_ERR_MALFORMED, field, "%s must be %s", field, want);
}

/* Whole numbers from min to max, into to[]. */
hyd_status hyd_plan_read_numbers(const json_t *array, const char *field, uint32_t min,
                                 uint32_t max, uint32_t *to, struct hyd_error *err)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *value = json_array_get(array, i);
        const json_int_t number = json_integer_value(value);

        if (!json_is_integer(value) || number < (json_int_t)min ||
            number > (json_int_t)max) {
            return hyd_error_field(err, HYD_ERR_INVALID, field,
                                   "%s[%zu] must be a whole number from %" PRIu32
                                   " to %" PRIu32,
                                   field, i, min, max);
        }
        to[i] = (uint32_t)number;
    }
    return HYD_OK;
}

hyd_status hyd_plan_read_reals(struct hyd_arena *arena, const json_t *array,
                               const char *field, size_t n_want,
                               const double **ret_values, struct hyd_error *err)
{
    double *values = NULL;

    if (json_array_size(array) != n_want) {
        return hyd_error_field(err, HYD_ERR_INVALID, field,
                               "%s has %zu entries, must have %zu", field,
                               json_array_size(array), n_want);
    }
    values = hyd_arena_take(arena, n_want, sizeof *values);
    if (values == NULL) {
        return hyd_plan_read_no_memory(err);
    }
    for (size_t i = 0; i < n_want; i++) {
        const json_t *value = json_array_get(array, i);

        if (!json_is_number(value)) {
            return hyd_error_field(err, HYD_ERR_INVALID, field,
                                   "%s[%zu] must be a number", field, i);
        }
        values[i] = json_number_value(value);
    }
    *ret_values = values;
    return HYD_OK;
}

static hyd_status set_option(struct hyd_plan_input *in, const char *key,
                             const json_t *value, struct hyd_error *err)
{
    char text[HYD_OPTION_TEXT_BYTES];

    if (json_is_string(value)) {
        return hyd_option_set(in, key, json_string_value(value), err);
    }
    if (json_is_boolean(value)) {
        return hyd_option_set(in, key, json_is_true(value) ? "on" : "off", err);
    }
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        return hyd_plan_read_form(err, key, "a word, true, false or a whole number");
    }
    (void)snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT,
                   json_integer_value(value));
    return hyd_option_set(in, key, text, err);
}

static hyd_status read_options(struct hyd_plan_doc *doc, const json_t *options,
                               struct hyd_error *err)
{
    const char *key = NULL;
    json_t *value = NULL;

    if (!json_is_object(options)) {
        return hyd_plan_read_form(err, "input.options", "an object {...}");
    }
    json_object_foreach((json_t *)options, key, value)
    {
        const struct hyd_option *option = hyd_option_find(key);
        hyd_status st = HYD_OK;

        if (option == NULL || option->scope == HYD_OPTION_INPUT) {
            return hyd_error_field(err, HYD_ERR_INVALID, "input.options",
                                   "input.options has no field '%.40s'", key);
        }
        st = set_option(&doc->in, key, value, err);
        if (st != HYD_OK) {
            return st;
        }
    }
    return HYD_OK;
}

static hyd_status read_policy(struct hyd_plan_doc *doc, const json_t *value,
                              struct hyd_error *err)
{
    const char *name = json_string_value(value);
    const struct hyd_policy_ops *policy = hyd_policy_find(name);

    if (name == NULL) {
        return hyd_plan_read_form(err, "input.policy", "a text");
    }
    doc->known_policy = policy != NULL;
    doc->in.policy = policy != NULL ? policy->name : hyd_policy_table[0]->name;
    return HYD_OK;
}

hyd_status hyd_plan_read_input(const struct hyd_alloc *alloc, struct hyd_plan_doc *doc,
                               const json_t *input, struct hyd_error *err)
{
    const json_t *speed = json_object_get(input, "speed");
    const json_t *stages = json_object_get(input, "stages");
    const char *key = NULL;
    json_t *value = NULL;
    hyd_status st = HYD_OK;

    if (!json_is_object(input)) {
        return hyd_plan_read_form(err, "input", "an object {...}");
    }
    json_object_foreach((json_t *)input, key, value)
    {
        const struct hyd_option *option = hyd_option_find(key);

        if (strcmp(key, "policy") == 0) {
            st = read_policy(doc, value, err);
        } else if (strcmp(key, "options") == 0) {
            st = read_options(doc, value, err);
        } else if (strcmp(key, "cost") == 0) {
            st = hyd_cost_choice_read(alloc, value, &doc->choice, err);
        } else if (option != NULL && option->scope == HYD_OPTION_INPUT) {
            st = set_option(&doc->in, key, value, err);
        } else if (strcmp(key, "speed") != 0 && strcmp(key, "stages") != 0) {
            st = hyd_error_field(err, HYD_ERR_INVALID, "input",
                                 "input has no field '%.40s'", key);
        }
        if (st != HYD_OK) {
            return st;
        }
    }
    if (speed != NULL) {
        st = hyd_plan_read_reals(&doc->arena, speed, "input.speed",
                                 doc->in.pool.n_ranks, &doc->in.pool.speed, err);
    }
    if (st == HYD_OK && stages != NULL) {
        st = hyd_plan_read_reals(&doc->arena, stages, "input.stages", doc->in.pool.pp,
                                 &doc->in.pool.stage_cost, err);
    }
    return st;
}
