/* cost_choice.c - see cost_choice.h. */
#include "scheduler/cli/plan/cost_choice.h"

#include <float.h>
#include <string.h>

#include "scheduler/cli/json_rows.h"
#include "scheduler/cli/shape.h"

/* hyd_cost_nested's own name, for model and device of plain coefficients. */
static const char PLAIN[] = "nested";

struct hyd_cost_choice hyd_cost_choice_default(void)
{
    return (struct hyd_cost_choice){
        .scope = HYD_SCOPE_LAYER,
        .model = *hyd_model_find("llama-8b"),
        .device = *hyd_device_find("h100"),
    };
}

hyd_status hyd_cost_choice_build(const struct hyd_cost_choice *choice,
                                 const struct hyd_plan_input *in,
                                 struct hyd_cost *ret_cost, struct hyd_error *err)
{
    const struct hyd_cost_settings settings = {
        .scope = choice->scope,
        .pass = in->pass,
        .tp = in->pool.tp,
        .pp = in->pool.pp,
        .ranks_per_node = in->pool.ranks_per_node,
        .uneven_heads = in->options.uneven_heads,
    };
    struct hyd_cost cost;
    hyd_status st = HYD_OK;

    if (choice->plain) {
        st = hyd_cost_nested(choice->a_s, choice->b_s, choice->cell_s, &cost, err);
        if (st == HYD_OK) {
            cost.scope = choice->scope;
            cost.pass = in->pass;
        }
    } else {
        st =
            hyd_cost_from_model(&choice->model, &choice->device, &settings, &cost, err);
    }
    if (st != HYD_OK) {
        return st;
    }
    if (choice->as_used) {
        cost.a_s = choice->a_s;
        cost.b_s = choice->b_s;
        cost.cell_s = choice->cell_s;
    }
    *ret_cost = cost;
    return HYD_OK;
}

const char *hyd_cost_scope_name(enum hyd_scope scope)
{
    switch (scope) {
    case HYD_SCOPE_LAYER:
        return "layer";
    case HYD_SCOPE_ATTENTION:
        return "attention";
    }
    return "unknown";
}

hyd_status hyd_cost_scope_parse(const char *text, enum hyd_scope *ret_scope,
                                struct hyd_error *err)
{
    if (strcmp(text, "layer") == 0) {
        *ret_scope = HYD_SCOPE_LAYER;
    } else if (strcmp(text, "attention") == 0) {
        *ret_scope = HYD_SCOPE_ATTENTION;
    } else {
        return hyd_error_value(err, HYD_ERR_INVALID, "scope", "layer or attention",
                               "'%.40s'", text);
    }
    return HYD_OK;
}

/* Whether two objects of ours hold the same values; either may be NULL. */
static bool same_object(json_t *a, json_t *b)
{
    const bool same = a != NULL && b != NULL && json_equal(a, b);

    json_decref(a);
    json_decref(b);
    return same;
}

static json_t *write_model(const struct hyd_model_shape *model)
{
    const struct hyd_model_shape *known = hyd_model_find(model->name);

    if (known != NULL &&
        same_object(hyd_shape_model_write(known), hyd_shape_model_write(model))) {
        return json_string(model->name);
    }
    return hyd_shape_model_write(model);
}

static json_t *write_device(const struct hyd_device *device)
{
    const struct hyd_device *known = hyd_device_find(device->name);

    if (known != NULL &&
        same_object(hyd_shape_device_write(known), hyd_shape_device_write(device))) {
        return json_string(device->name);
    }
    return hyd_shape_device_write(device);
}

json_t *hyd_cost_choice_write(const struct hyd_cost_choice *choice,
                              const struct hyd_cost *cost)
{
    return json_pack(
        "{s:s, s:f, s:f, s:f, s:o, s:o}", "scope", hyd_cost_scope_name(choice->scope),
        "a_s", cost->a_s, "b_s", cost->b_s, "cell_s", cost->cell_s, "model",
        choice->plain ? json_string(PLAIN) : write_model(&choice->model), "device",
        choice->plain ? json_string(PLAIN) : write_device(&choice->device));
}

#define AT(member) offsetof(struct hyd_cost_choice, member)

static const struct hyd_json_row rows[] = {
    {"scope", NULL, HYD_JSON_IGNORED, false, 0, 0, 0},
    {"model", NULL, HYD_JSON_IGNORED, false, 0, 0, 0},
    {"device", NULL, HYD_JSON_IGNORED, false, 0, 0, 0},
    {"a_s", NULL, HYD_JSON_REAL, true, AT(a_s), 0, DBL_MAX},
    {"b_s", NULL, HYD_JSON_REAL, true, AT(b_s), 0, DBL_MAX},
    {"cell_s", NULL, HYD_JSON_REAL, true, AT(cell_s), 0, DBL_MAX},
    {0},
};

/* A name of the built-in ones, or an object with the whole of it. */
static hyd_status read_shapes(const struct hyd_alloc *alloc, const json_t *object,
                              struct hyd_cost_choice *choice, struct hyd_error *err)
{
    const json_t *model = json_object_get(object, "model");
    const json_t *device = json_object_get(object, "device");
    hyd_status st = HYD_OK;

    if (json_is_string(model) && hyd_model_find(json_string_value(model)) == NULL) {
        return hyd_error_field(
            err, HYD_ERR_INVALID, "cost.model",
            "cost.model is '%.40s', must be a built-in name or a model "
            "in full",
            json_string_value(model));
    }
    if (json_is_string(device) && hyd_device_find(json_string_value(device)) == NULL) {
        return hyd_error_field(err, HYD_ERR_INVALID, "cost.device",
                               "cost.device is '%.40s', must be a built-in name or a "
                               "device in full",
                               json_string_value(device));
    }
    st = json_is_string(model)
             ? hyd_shape_model(alloc, json_string_value(model), &choice->model, err)
             : hyd_shape_model_read(model, "cost.model", &choice->model, err);
    if (st == HYD_OK) {
        st = json_is_string(device)
                 ? hyd_shape_device(alloc, json_string_value(device), &choice->device,
                                    err)
                 : hyd_shape_device_read(device, "cost.device", &choice->device, err);
    }
    return st;
}

hyd_status hyd_cost_choice_read(const struct hyd_alloc *alloc, const json_t *object,
                                struct hyd_cost_choice *ret_choice,
                                struct hyd_error *err)
{
    struct hyd_cost_choice choice = hyd_cost_choice_default();
    const json_t *scope = json_object_get(object, "scope");
    const char *model = json_string_value(json_object_get(object, "model"));
    hyd_status st = hyd_json_rows_read(rows, object, "cost", &choice, err);

    if (st != HYD_OK) {
        return st;
    }
    if (scope != NULL) {
        const char *word = json_string_value(scope);

        st = hyd_cost_scope_parse(word != NULL ? word : "", &choice.scope, err);
    }
    choice.plain = json_object_get(object, "model") == NULL ||
                   (model != NULL && (strcmp(model, PLAIN) == 0 || model[0] == '\0'));
    choice.as_used = true;
    if (st == HYD_OK && !choice.plain) {
        st = read_shapes(alloc, object, &choice, err);
    }
    if (st == HYD_OK) {
        *ret_choice = choice;
    }
    return st;
}
