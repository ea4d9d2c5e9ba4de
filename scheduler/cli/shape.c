/* shape.c - see shape.h. */
#include "scheduler/cli/shape.h"

#include <stdio.h>
#include <string.h>

#include "scheduler/cli/file.h"
#include "scheduler/cli/json_rows.h"

/* A model or device file is a page of text. */
#define SHAPE_MAX_BYTES ((size_t)1 << 20)

#define IN_MODEL(member) offsetof(struct hyd_model_shape, member)
#define IN_DEVICE(member) offsetof(struct hyd_device, member)

static const struct hyd_json_row model_rows[] = {
    {"name", NULL, HYD_JSON_TEXT, false, IN_MODEL(name), 0, HYD_NAME_BYTES},
    {"source", NULL, HYD_JSON_TEXT, false, IN_MODEL(source), 0, 160},
    {"layers", NULL, HYD_JSON_NUMBER, true, IN_MODEL(layers), 1, 4096},
    {"hidden", NULL, HYD_JSON_NUMBER, true, IN_MODEL(hidden), 1, 1 << 20},
    {"heads", NULL, HYD_JSON_NUMBER, true, IN_MODEL(heads), 1, 4096},
    {"kv_heads", NULL, HYD_JSON_NUMBER, true, IN_MODEL(kv_heads), 1, 4096},
    {"head_dim", NULL, HYD_JSON_NUMBER, true, IN_MODEL(head_dim), 1, 4096},
    {"ffn", NULL, HYD_JSON_NUMBER, true, IN_MODEL(ffn), 1, 1 << 24},
    {"recompute", NULL, HYD_JSON_FLAG, false, IN_MODEL(recompute), 0, 0},
    {"window", "window_tokens", HYD_JSON_NUMBER, false, IN_MODEL(window_tokens), 0,
     HYD_MAX_LENGTH_TOKENS},
    {"mask", NULL, HYD_JSON_IGNORED, false, 0, 0, 0},
    {0},
};

static const struct hyd_json_row device_rows[] = {
    {"name", NULL, HYD_JSON_TEXT, false, IN_DEVICE(name), 0, HYD_NAME_BYTES},
    {"source", NULL, HYD_JSON_TEXT, false, IN_DEVICE(source), 0, 160},
    {"gemm_flop_per_s", NULL, HYD_JSON_REAL, true, IN_DEVICE(gemm_flop_per_s), 1, 1e20},
    {"attention", NULL, HYD_JSON_PLACE, true, 0, 0, 0},
    {"nvlink_bytes_per_s", "nvlink", HYD_JSON_REAL, true, IN_DEVICE(nvlink_bytes_per_s),
     0, 1e18},
    {"nic_bytes_per_s", "nic", HYD_JSON_REAL, true, IN_DEVICE(nic_bytes_per_s), 0,
     1e18},
    {"latency_s", NULL, HYD_JSON_REAL, false, IN_DEVICE(latency_s), 0, 10},
    {"memory_bytes_per_s", "memory", HYD_JSON_REAL, false,
     IN_DEVICE(memory_bytes_per_s), 0, 1e18},
    {"cell_s", NULL, HYD_JSON_REAL, false, IN_DEVICE(cell_s), 0, 1000},
    {"copy_s_per_token", NULL, HYD_JSON_REAL, false, IN_DEVICE(copy_s_per_token), 0,
     10},
    {"bytes_per_element", NULL, HYD_JSON_REAL, false, IN_DEVICE(bytes_per_element), 1,
     16},
    {0},
};

static const char *const mask_words[] = {"causal", "full", "window"};

/* The mask follows from the window; "mask": "full" asks for full attention. */
static hyd_status read_mask(const json_t *object, const char *what,
                            struct hyd_model_shape *model, struct hyd_error *err)
{
    const char *word = json_string_value(json_object_get(object, "mask"));

    model->mask = model->window_tokens > 0 ? HYD_MASK_WINDOW : HYD_MASK_CAUSAL;
    if (json_object_get(object, "mask") == NULL) {
        return HYD_OK;
    }
    for (unsigned m = 0; word != NULL && m < 3; m++) {
        if (strcmp(word, mask_words[m]) == 0) {
            model->mask = (enum hyd_mask)m;
            if ((model->mask == HYD_MASK_WINDOW) != (model->window_tokens > 0)) {
                return hyd_error_field(err, HYD_ERR_INVALID, "window",
                                       "%s: window is %u with mask '%s'; a window mask "
                                       "has a window above 0, others have none",
                                       what, model->window_tokens, word);
            }
            return HYD_OK;
        }
    }
    return hyd_error_field(err, HYD_ERR_INVALID, "mask",
                           "%s: mask must be causal, full or window", what);
}

hyd_status hyd_shape_model_read(const json_t *object, const char *what,
                                struct hyd_model_shape *ret_model,
                                struct hyd_error *err)
{
    struct hyd_model_shape model = {.name = ""};
    hyd_status st = hyd_json_rows_read(model_rows, object, what, &model, err);

    if (st == HYD_OK) {
        st = read_mask(object, what, &model, err);
    }
    if (st == HYD_OK) {
        *ret_model = model;
    }
    return st;
}

json_t *hyd_shape_model_write(const struct hyd_model_shape *model)
{
    json_t *object = hyd_json_rows_write(model_rows, model);

    if (object != NULL && model->mask == HYD_MASK_FULL &&
        json_object_set_new(object, "mask", json_string(mask_words[model->mask])) !=
            0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static hyd_status read_attention(const json_t *object, const char *what,
                                 struct hyd_device *device, struct hyd_error *err)
{
    const json_t *points = json_object_get(object, "attention");
    const size_t n = json_array_size(points);

    if (n < 1 || n > HYD_MAX_RATE_POINTS) {
        return hyd_error_field(err, HYD_ERR_INVALID, "attention",
                               "%s: attention has %zu points, must be 1 to %d of "
                               "[tokens, forward, backward FLOP/s]",
                               what, n, HYD_MAX_RATE_POINTS);
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *point = json_array_get(points, i);
        struct hyd_rate_point *to = &device->attention[i];

        to->tokens = json_number_value(json_array_get(point, 0));
        to->forward_flop_per_s = json_number_value(json_array_get(point, 1));
        to->backward_flop_per_s = json_number_value(json_array_get(point, 2));
        if (json_array_size(point) != 3 || !(to->tokens > 0) ||
            !(to->forward_flop_per_s > 0) || !(to->backward_flop_per_s > 0) ||
            (i > 0 && to->tokens <= to[-1].tokens)) {
            return hyd_error_field(err, HYD_ERR_INVALID, "attention",
                                   "%s: attention point %zu must be [tokens, forward, "
                                   "backward FLOP/s], all above 0, tokens rising",
                                   what, i);
        }
    }
    device->n_attention = (uint32_t)n;
    return HYD_OK;
}

hyd_status hyd_shape_device_read(const json_t *object, const char *what,
                                 struct hyd_device *ret_device, struct hyd_error *err)
{
    struct hyd_device device = {.name = "", .bytes_per_element = 2};
    hyd_status st = hyd_json_rows_read(device_rows, object, what, &device, err);

    if (st == HYD_OK) {
        st = read_attention(object, what, &device, err);
    }
    if (st == HYD_OK) {
        *ret_device = device;
    }
    return st;
}

json_t *hyd_shape_device_write(const struct hyd_device *device)
{
    json_t *object = hyd_json_rows_write(device_rows, device);
    json_t *points = json_array();

    for (uint32_t i = 0; i < device->n_attention; i++) {
        const struct hyd_rate_point *p = &device->attention[i];

        if (json_array_append_new(points, json_pack("[f, f, f]", p->tokens,
                                                    p->forward_flop_per_s,
                                                    p->backward_flop_per_s)) != 0) {
            json_decref(points);
            points = NULL;
            break;
        }
    }
    /* A reference to NULL is refused, and points is taken in every case. */
    if (object != NULL && json_object_set_new(object, "attention", points) != 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

/* A name that is no built-in one and no file: list the names. */
static hyd_status no_such_name(const char *kind, const char *word, bool is_model,
                               struct hyd_error *err)
{
    char names[96] = "";
    size_t used = 0;
    const size_t n = is_model ? hyd_model_count : hyd_device_count;

    for (size_t i = 0; i < n; i++) {
        const char *name =
            is_model ? hyd_model_table[i].name : hyd_device_table[i].name;

        if (used + strlen(name) + sizeof ", , ..." > sizeof names) {
            (void)snprintf(names + used, sizeof names - used, ", ...");
            break;
        }
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
                                 i > 0 ? ", " : "", name);
    }
    return hyd_error_field(err, HYD_ERR_INVALID, kind,
                           "no %s '%.40s': must be a JSON file or one of %s (hydractl "
                           "%ss)",
                           kind, word, names, kind);
}

static hyd_status load(const struct hyd_alloc *alloc, const char *path,
                       json_t **ret_root, struct hyd_error *err)
{
    struct hyd_file file = {0};
    json_error_t where;
    hyd_status st = hyd_file_read(alloc, path, SHAPE_MAX_BYTES, &file, err);

    if (st != HYD_OK) {
        return st;
    }
    *ret_root = json_loadb(file.bytes, file.n_bytes, JSON_REJECT_DUPLICATES, &where);
    hyd_file_release(&file);
    if (*ret_root == NULL) {
        return hyd_error_field(err, HYD_ERR_MALFORMED, "path",
                               "%.60s:%d: not JSON: %.80s", path, where.line,
                               where.text);
    }
    return HYD_OK;
}

static bool is_path(const char *word)
{
    FILE *file = NULL;

    if (strchr(word, '/') != NULL || strchr(word, '.') != NULL) {
        return true;
    }
    file = fopen(word, "re");
    if (file != NULL) {
        (void)fclose(file);
    }
    return file != NULL;
}

/* The last part of a path without its ending: what a file without a name is called. */
static void name_by_path(const char *path, char name[HYD_NAME_BYTES])
{
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    const size_t n = dot != NULL && dot > base ? (size_t)(dot - base) : strlen(base);

    (void)snprintf(name, HYD_NAME_BYTES, "%.*s", (int)(n < 60 ? n : 60), base);
    for (char *c = name; *c != '\0'; c++) {
        if ((unsigned char)*c >= 128) {
            *c = '_'; /* JSON takes no half characters */
        }
    }
}

hyd_status hyd_shape_model(const struct hyd_alloc *alloc, const char *name_or_path,
                           struct hyd_model_shape *ret_model, struct hyd_error *err)
{
    const struct hyd_model_shape *built_in = hyd_model_find(name_or_path);
    json_t *root = NULL;
    hyd_status st = HYD_OK;

    if (built_in != NULL) {
        *ret_model = *built_in;
        return HYD_OK;
    }
    if (!is_path(name_or_path)) {
        return no_such_name("model", name_or_path, true, err);
    }
    st = load(alloc, name_or_path, &root, err);
    if (st == HYD_OK) {
        st = hyd_shape_model_read(root, "model", ret_model, err);
    }
    if (st == HYD_OK && ret_model->name[0] == '\0') {
        name_by_path(name_or_path, ret_model->name);
    }
    json_decref(root);
    return st;
}

hyd_status hyd_shape_device(const struct hyd_alloc *alloc, const char *name_or_path,
                            struct hyd_device *ret_device, struct hyd_error *err)
{
    const struct hyd_device *built_in = hyd_device_find(name_or_path);
    json_t *root = NULL;
    hyd_status st = HYD_OK;

    if (built_in != NULL) {
        *ret_device = *built_in;
        return HYD_OK;
    }
    if (!is_path(name_or_path)) {
        return no_such_name("device", name_or_path, false, err);
    }
    st = load(alloc, name_or_path, &root, err);
    if (st == HYD_OK) {
        st = hyd_shape_device_read(root, "device", ret_device, err);
    }
    if (st == HYD_OK && ret_device->name[0] == '\0') {
        name_by_path(name_or_path, ret_device->name);
    }
    json_decref(root);
    return st;
}
