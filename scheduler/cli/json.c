/* json.c - see json.h. The walk is over jansson's tree: its own printer either puts every
 * number on a line of its own or the whole plan on one, and prints 0.1 in 17 digits. */
#include "scheduler/cli/json.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 16 };

const char *hyd_json_real(double value, char text[HYD_JSON_REAL_BYTES])
{
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(text, HYD_JSON_REAL_BYTES, "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    return text;
}

json_t *hyd_json_text(const char *text)
{
    json_t *value = json_string(text);
    char ascii[4096];
    size_t n = 0;

    if (value != NULL) {
        return value;
    }
    for (; text[n] != '\0' && n + 1 < sizeof ascii; n++) {
        ascii[n] = text[n];
        if ((unsigned char)text[n] >= 128) {
            ascii[n] = '?';
        }
    }
    ascii[n] = '\0';
    return json_string(ascii);
}

static void print_text(FILE *out, const char *text)
{
    (void)fputc('"', out);
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            (void)fprintf(out, "\\%c", *c);
        } else if ((unsigned char)*c < ' ') {
            (void)fprintf(out, "\\u%04x", (unsigned)*c);
        } else {
            (void)fputc(*c, out);
        }
    }
    (void)fputc('"', out);
}

static void print_scalar(FILE *out, const json_t *value)
{
    char real[HYD_JSON_REAL_BYTES];

    switch (json_typeof(value)) {
    case JSON_STRING:
        print_text(out, json_string_value(value));
        break;
    case JSON_INTEGER:
        (void)fprintf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        break;
    case JSON_REAL:
        (void)fputs(hyd_json_real(json_real_value(value), real), out);
        break;
    case JSON_TRUE:
        (void)fputs("true", out);
        break;
    case JSON_FALSE:
        (void)fputs("false", out);
        break;
    case JSON_NULL:
    case JSON_OBJECT:
    case JSON_ARRAY:
        (void)fputs("null", out);
        break;
    }
}

/* One container that is being printed. */
struct level {
    const json_t *value;
    void *key; /* jansson's iterator of an object */
    size_t index;
};

static bool is_container(const json_t *value)
{
    return json_is_array(value) || json_is_object(value);
}

/* The next element, or NULL at the end; an object's key is printed on the way. */
static const json_t *next_element(FILE *out, struct level *at, const char *separator)
{
    const json_t *element = NULL;

    if (json_is_array(at->value)) {
        element = json_array_get(at->value, at->index);
    } else {
        /* jansson wants a mutable object for iteration and does not change it. */
        json_t *object = (json_t *)at->value;

        at->key = at->index == 0 ? json_object_iter(object)
                                 : json_object_iter_next(object, at->key);
        element = at->key != NULL ? json_object_iter_value(at->key) : NULL;
    }
    if (element != NULL) {
        (void)fputs(at->index == 0 ? "" : separator, out);
        at->index++;
        if (json_is_object(at->value)) {
            print_text(out, json_object_iter_key(at->key));
            (void)fputs(": ", out);
        }
    }
    return element;
}

/* Whether the elements of this container get lines of their own. */
static bool is_tall(const struct level *level, size_t depth)
{
    return depth == 0 || (depth == 1 && json_is_array(level->value) &&
                          is_container(json_array_get(level->value, 0)));
}

static void print_tree(FILE *out, const json_t *root)
{
    struct level stack[MAX_DEPTH] = {{.value = root}};
    size_t depth = 0;

    (void)fputc(json_is_array(root) ? '[' : '{', out);
    for (;;) {
        struct level *at = &stack[depth];
        const bool tall = is_tall(at, depth);
        const json_t *element = next_element(out, at,
                                             !tall        ? ", "
                                             : depth == 0 ? ",\n "
                                                          : ",\n  ");

        if (element == NULL) {
            (void)fputc(json_is_array(at->value) ? ']' : '}', out);
            if (depth == 0) {
                break;
            }
            depth--;
        } else if (is_container(element) && depth + 1 < MAX_DEPTH) {
            stack[++depth] = (struct level){.value = element};
            (void)fputc(json_is_array(element) ? '[' : '{', out);
        } else {
            print_scalar(out, element);
        }
    }
    (void)fputc('\n', out);
}

hyd_status hyd_json_print(FILE *out, json_t *take_root, struct hyd_error *err)
{
    if (take_root == NULL || !is_container(take_root)) {
        json_decref(take_root);
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for a JSON document");
    }
    print_tree(out, take_root);
    json_decref(take_root);
    if (fflush(out) != 0 || ferror(out)) {
        return hyd_error_set(err, HYD_ERR_IO, "cannot write the JSON document: %s",
                             strerror(errno));
    }
    return HYD_OK;
}
