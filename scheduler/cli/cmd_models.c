/* cmd_models.c - the built-in model shapes and devices, and where their numbers are from. */
#include <string.h>

#include "scheduler/cli/args.h"
#include "scheduler/cli/command.h"
#include "scheduler/cli/json.h"
#include "scheduler/cli/shape.h"
#include "scheduler/cli/table.h"

struct input {
    struct hyd_cli *cli;
    const char *name; /* only this one, or NULL */
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct input *in = state->input;

    if (key != ARGP_KEY_ARG) {
        return ARGP_ERR_UNKNOWN;
    }
    if (in->name != NULL) {
        return hyd_args_surplus(in->cli, arg, "at most one NAME");
    }
    in->name = arg;
    return 0;
}

static const struct argp models_argp = {
    .parser = parse,
    .args_doc = "[NAME]",
    .doc = "List the built-in model shapes. With NAME and --json: one shape as a file "
           "that "
           "--model reads.",
};

static const struct argp devices_argp = {
    .parser = parse,
    .args_doc = "[NAME]",
    .doc = "List the built-in devices. With NAME and --json: one device as a file that "
           "--device reads.",
};

static json_t *model_at(size_t i)
{
    return hyd_shape_model_write(&hyd_model_table[i]);
}

static json_t *device_at(size_t i)
{
    return hyd_shape_device_write(&hyd_device_table[i]);
}

/* All rows as {key: [...]}, or the one called `name` alone. */
static hyd_status print_json(const struct input *in, const char *key, size_t n,
                             json_t *(*at)(size_t i), struct hyd_error *err)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++) {
        json_t *one = at(i);
        const char *name = json_string_value(json_object_get(one, "name"));

        if (in->name != NULL && name != NULL && strcmp(name, in->name) == 0) {
            json_decref(list);
            return hyd_json_print(in->cli->out, one, err);
        }
        (void)json_array_append_new(list, one);
    }
    return hyd_json_print(in->cli->out, json_pack("{s:o}", key, list), err);
}

static hyd_status print_models(const struct input *in, struct hyd_error *err)
{
    static const char *const names[] = {"<model",   "layers",   "hidden", "heads",
                                        "kv heads", "head dim", "ffn",    "window",
                                        "<source",  NULL};
    static const unsigned char source[] = {8};
    struct hyd_table table;
    hyd_status st = HYD_OK;

    hyd_table_init(&table, in->cli->alloc, names);
    for (size_t i = 0; i < hyd_model_count; i++) {
        const struct hyd_model_shape *m = &hyd_model_table[i];

        if (in->name != NULL && strcmp(in->name, m->name) != 0) {
            continue;
        }
        hyd_table_add(&table, "%s", m->name);
        hyd_table_add(&table, "%u", m->layers);
        hyd_table_add(&table, "%u", m->hidden);
        hyd_table_add(&table, "%u", m->heads);
        hyd_table_add(&table, "%u", m->kv_heads);
        hyd_table_add(&table, "%u", m->head_dim);
        hyd_table_add(&table, "%u", m->ffn);
        if (m->window_tokens > 0) {
            hyd_table_add(&table, "%u", m->window_tokens);
        } else {
            hyd_table_add(&table, "-");
        }
        hyd_table_add(&table, "%s", m->source);
    }
    hyd_table_fit(&table, in->cli, source, sizeof source);
    st = hyd_table_print(&table, in->cli, err);
    hyd_table_release(&table);
    return st;
}

static hyd_status print_device_sources(const struct input *in, struct hyd_error *err)
{
    static const char *const names[] = {"<device", "<where its numbers are from", NULL};
    struct hyd_table table;
    hyd_status st = HYD_OK;

    hyd_table_init(&table, in->cli->alloc, names);
    for (size_t i = 0; i < hyd_device_count; i++) {
        const struct hyd_device *d = &hyd_device_table[i];

        if (in->name == NULL || strcmp(in->name, d->name) == 0) {
            hyd_table_add(&table, "%s", d->name);
            hyd_table_add(&table, "%s", d->source);
        }
    }
    table.wrap = true;
    (void)fputc('\n', in->cli->out);
    st = hyd_table_print(&table, in->cli, err);
    hyd_table_release(&table);
    return st;
}

static hyd_status print_devices(const struct input *in, struct hyd_error *err)
{
    static const char *const names[] = {
        "<device",     "GEMM TFLOP/s", "attention TFLOP/s",
        "NVLink GB/s", "NIC GB/s",     "latency us",
        NULL};
    struct hyd_table table;
    hyd_status st = HYD_OK;

    hyd_table_init(&table, in->cli->alloc, names);
    for (size_t i = 0; i < hyd_device_count; i++) {
        const struct hyd_device *d = &hyd_device_table[i];
        const struct hyd_rate_point *best = &d->attention[d->n_attention - 1];

        if (in->name != NULL && strcmp(in->name, d->name) != 0) {
            continue;
        }
        hyd_table_add(&table, "%s", d->name);
        hyd_table_add(&table, "%.0f", d->gemm_flop_per_s / 1e12);
        hyd_table_add(&table, "%.0f fwd, %.0f bwd", best->forward_flop_per_s / 1e12,
                      best->backward_flop_per_s / 1e12);
        hyd_table_add(&table, "%.0f", d->nvlink_bytes_per_s / 1e9);
        hyd_table_add(&table, "%.0f", d->nic_bytes_per_s / 1e9);
        hyd_table_add(&table, "%.1f", d->latency_s * 1e6);
    }
    st = hyd_table_print(&table, in->cli, err);
    hyd_table_release(&table);
    return st == HYD_OK ? print_device_sources(in, err) : st;
}

int hyd_cmd_models(struct hyd_cli *cli, int argc, char **argv)
{
    struct input in = {.cli = cli};
    struct hyd_model_shape model;
    struct hyd_error err = {.text = ""};
    hyd_status st = HYD_OK;
    int code = 0;

    if (hyd_args_parse(cli, &models_argp, argc, argv, &in, &code) == HYD_ARGS_STOP) {
        return code;
    }
    if (in.name != NULL && hyd_model_find(in.name) == NULL) {
        st = hyd_shape_model(cli->alloc, in.name, &model, &err);
        if (st == HYD_OK) {
            st = hyd_error_field(&err, HYD_ERR_INVALID, "model",
                                 "'%.60s' is a file, must be a built-in name", in.name);
        }
    } else if (cli->json) {
        st = print_json(&in, "models", hyd_model_count, model_at, &err);
    } else {
        st = print_models(&in, &err);
    }
    return st == HYD_OK ? HYD_EXIT_DONE : hyd_cli_fail(cli, st, &err);
}

int hyd_cmd_devices(struct hyd_cli *cli, int argc, char **argv)
{
    struct input in = {.cli = cli};
    struct hyd_device device;
    struct hyd_error err = {.text = ""};
    hyd_status st = HYD_OK;
    int code = 0;

    if (hyd_args_parse(cli, &devices_argp, argc, argv, &in, &code) == HYD_ARGS_STOP) {
        return code;
    }
    if (in.name != NULL && hyd_device_find(in.name) == NULL) {
        st = hyd_shape_device(cli->alloc, in.name, &device, &err);
        if (st == HYD_OK) {
            st = hyd_error_field(&err, HYD_ERR_INVALID, "device",
                                 "'%.60s' is a file, must be a built-in name", in.name);
        }
    } else if (cli->json) {
        st = print_json(&in, "devices", hyd_device_count, device_at, &err);
    } else {
        st = print_devices(&in, &err);
    }
    return st == HYD_OK ? HYD_EXIT_DONE : hyd_cli_fail(cli, st, &err);
}
