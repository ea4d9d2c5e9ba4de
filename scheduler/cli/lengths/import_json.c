/* import_json.c - JSON lines, and whole JSON documents: an array of lengths or records, or
 * an object that holds one (a plan file's "lengths", a session's "requests"). */
#include <string.h>

#include "scheduler/cli/lengths/cut.h"
#include "scheduler/cli/lengths/record.h"

/* Deep enough for agents that start agents. */
enum { MAX_NESTING = 16 };

static struct hyd_piece first_line(const struct hyd_import *in, struct hyd_cut *cut)
{
    struct hyd_piece line = {NULL, 0};

    *cut = hyd_cut_begin(in->bytes, in->n_bytes);
    while (hyd_cut_line(cut, &line) && line.n == 0) {
    }
    return line;
}

static bool is_object_line(struct hyd_piece line)
{
    return line.n >= 2 && line.at[0] == '{' && line.at[line.n - 1] == '}';
}

static bool jsonl_recognise(const struct hyd_import *in)
{
    struct hyd_cut cut;
    struct hyd_piece line = first_line(in, &cut);

    if (!is_object_line(line)) {
        return false;
    }
    if (hyd_import_path_ends(in, ".jsonl")) {
        return true;
    }
    while (hyd_cut_line(&cut, &line)) {
        if (line.n > 0) {
            return line.at[0] == '{';
        }
    }
    return false; /* a single object is a document */
}

static bool json_recognise(const struct hyd_import *in)
{
    struct hyd_cut cut;
    const struct hyd_piece line = first_line(in, &cut);

    return line.n > 0 && (line.at[0] == '[' || line.at[0] == '{');
}

static hyd_status jsonl_read(const struct hyd_import *in, struct hyd_lengths *list,
                             struct hyd_error *err)
{
    struct hyd_cut cut = hyd_cut_begin(in->bytes, in->n_bytes);
    struct hyd_piece line;
    hyd_status st = HYD_OK;

    while (st == HYD_OK && hyd_cut_line(&cut, &line)) {
        json_error_t where;
        json_t *record = NULL;

        if (line.n == 0) {
            continue;
        }
        record = json_loadb(line.at, line.n, JSON_DECODE_ANY, &where);
        if (record == NULL) {
            return hyd_import_fail(in, cut.line, err, "not JSON: %.80s (column %d)",
                                   where.text, where.column);
        }
        st = hyd_record_read(in, cut.line, record, list, err);
        json_decref(record);
    }
    return st;
}

/* The array inside a document that is an object. */
static const json_t *inner_array(const json_t *object)
{
    static const char *const keys[] = {"lengths",   "length_tokens", "requests",
                                       "samples",   "records",       "sequences",
                                       "documents", "data"};

    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
        const json_t *array = json_object_get(object, keys[k]);

        if (json_is_array(array)) {
            return array;
        }
    }
    return NULL;
}

/* The same, or the array of numbers that --field names: a document holds lengths there,
 * where one line of many holds the tokens of a sequence. */
static const json_t *named_array(const struct hyd_import *in, const json_t *root)
{
    const json_t *named = in->field != NULL ? json_object_get(root, in->field) : NULL;

    return json_is_number(json_array_get(named, 0)) ? named : inner_array(root);
}

/* Extra work beside "lengths", as plan files keep it. */
static hyd_status read_beside(const struct hyd_import *in, const json_t *root,
                              const json_t *array, struct hyd_lengths *list,
                              struct hyd_error *err)
{
    const json_t *work = json_object_get(root, "extra_work_s");
    const size_t n = json_array_size(array);

    if (json_array_size(work) != n) {
        return hyd_import_fail(
            in, 0, err, "extra_work_s has %zu entries, must be one a length: %zu",
            json_array_size(work), n);
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *tokens = json_array_get(array, i);
        const json_t *work_s = json_array_get(work, i);
        hyd_status st = HYD_OK;

        if (!json_is_integer(tokens) || json_integer_value(tokens) < 0 ||
            !json_is_number(work_s)) {
            return hyd_import_fail(
                in, 0, err, "entry %zu of lengths or extra_work_s is no number", i);
        }
        st = hyd_import_add(in, 0, (uint64_t)json_integer_value(tokens),
                            json_number_value(work_s), list, err);
        if (st != HYD_OK) {
            return st;
        }
    }
    return HYD_OK;
}

static hyd_status read_array(const struct hyd_import *in, const json_t *root,
                             struct hyd_lengths *list, struct hyd_error *err)
{
    struct {
        const json_t *array;
        size_t at;
    } stack[MAX_NESTING] = {{root, 0}};
    size_t depth = 1;

    while (depth > 0) {
        const json_t *array = stack[depth - 1].array;
        const size_t at = stack[depth - 1].at++;
        const json_t *record = json_array_get(array, at);
        const json_t *inner = json_is_object(record) ? inner_array(record) : NULL;
        hyd_status st = HYD_OK;

        if (record == NULL) {
            depth--;
        } else if (inner != NULL && !hyd_record_has_length(in, record)) {
            if (depth == MAX_NESTING) {
                return hyd_import_fail(in, 0, err, "records nested deeper than %d",
                                       MAX_NESTING);
            }
            stack[depth].array = inner;
            stack[depth].at = 0;
            depth++;
        } else {
            st = hyd_record_read(in, 0, record, list, err);
        }
        if (st != HYD_OK) {
            hyd_error_prefix(err, "entry %zu", at);
            return st;
        }
    }
    return HYD_OK;
}

static hyd_status json_read(const struct hyd_import *in, struct hyd_lengths *list,
                            struct hyd_error *err)
{
    json_error_t where;
    json_t *root = json_loadb(in->bytes, in->n_bytes, 0, &where);
    const json_t *array = root;
    hyd_status st = HYD_OK;

    if (root == NULL) {
        return hyd_import_fail(in, where.line > 0 ? (size_t)where.line : 0, err,
                               "not JSON: %.80s (column %d)", where.text, where.column);
    }
    if (json_is_object(root)) {
        array = named_array(in, root);
    }
    if (array == NULL && hyd_record_has_length(in, root)) {
        st = hyd_record_read(in, 0, root, list, err);
    } else if (array == NULL && json_object_get(root, "mode") != NULL) {
        st = hyd_import_fail(in, 0, err,
                             "a configuration of made-up lengths: use hydractl mock "
                             "--config");
    } else if (array == NULL) {
        st = hyd_import_fail(in, 0, err,
                             "the object holds no array called lengths, requests, "
                             "samples, records, sequences, documents or data: name it "
                             "with 'hydractl lengths --field NAME'");
    } else if (json_is_object(root) && json_object_get(root, "extra_work_s") != NULL) {
        st = read_beside(in, root, array, list, err);
    } else {
        st = read_array(in, array, list, err);
    }
    json_decref(root);
    return st;
}

const struct hyd_importer hyd_importer_jsonl = {
    .name = "jsonl",
    .reads =
        "JSON lines: request traces (Mooncake), chats, texts, token ids, or --field",
    .recognise = jsonl_recognise,
    .read = jsonl_read,
};

const struct hyd_importer hyd_importer_json = {
    .name = "json",
    .reads = "a JSON array of lengths or records, or an object that holds one (a plan)",
    .recognise = json_recognise,
    .read = json_read,
};
