/* reflect_index.c - see reflect_index.h. */
#include "common/rpc/reflect_index.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rpc/codec.h"

#include "common/base/banned.h"

extern const unsigned char hyd_services_fds[];
extern const size_t hyd_services_fds_bytes;

enum { DECODE_BYTES = 16 << 20, FILE_TAG = 0x0a /* FileDescriptorSet.file */ };

typedef Google__Protobuf__FileDescriptorProto file_proto;
typedef Google__Protobuf__DescriptorProto message_proto;
typedef Google__Protobuf__EnumDescriptorProto enum_proto;
typedef Google__Protobuf__ServiceDescriptorProto service_proto;

/* Counts when symbols is NULL, else writes. */
struct filler {
    struct hyd_reflect *reflect;
    struct hyd_reflect_symbol *symbols;
    size_t n;
    size_t file;
    bool no_memory;
};

static const char *add(struct filler *filler, const char *scope, const char *name)
{
    const size_t bytes = strlen(scope) + strlen(name) + 2;
    char *full = hyd_arena_take(&filler->reflect->arena, bytes, 1);

    if (full == NULL) {
        filler->no_memory = true;
        return "";
    }
    (void)snprintf(full, bytes, "%s%s%s", scope, scope[0] != '\0' ? "." : "", name);
    if (filler->symbols != NULL) {
        filler->symbols[filler->n] = (struct hyd_reflect_symbol){full, filler->file};
    }
    filler->n++;
    return full;
}

static void add_enum(struct filler *filler, const char *scope, const enum_proto *proto)
{
    (void)add(filler, scope, proto->name);
    /* Values are siblings of their enum. */
    for (size_t i = 0; i < proto->n_value; i++) {
        (void)add(filler, scope, proto->value[i]->name);
    }
}

/* As deep as our own .proto files nest messages. */
static void add_message(struct filler *filler, const char *scope,
                        const message_proto *proto)
{
    const char *full = add(filler, scope, proto->name);

    for (size_t i = 0; i < proto->n_field; i++) {
        (void)add(filler, full, proto->field[i]->name);
    }
    for (size_t i = 0; i < proto->n_oneof_decl; i++) {
        (void)add(filler, full, proto->oneof_decl[i]->name);
    }
    for (size_t i = 0; i < proto->n_nested_type; i++) {
        add_message(filler, full, proto->nested_type[i]);
    }
    for (size_t i = 0; i < proto->n_enum_type; i++) {
        add_enum(filler, full, proto->enum_type[i]);
    }
}

static void add_service(struct filler *filler, const char *scope,
                        const service_proto *proto)
{
    struct hyd_reflect *reflect = filler->reflect;
    const char *full = add(filler, scope, proto->name);

    if (filler->symbols != NULL) {
        reflect->services[reflect->n_services++] = full;
    }
    for (size_t i = 0; i < proto->n_method; i++) {
        (void)add(filler, full, proto->method[i]->name);
    }
}

static void add_file(struct filler *filler, const file_proto *proto)
{
    const char *scope = proto->package != NULL ? proto->package : "";

    for (size_t i = 0; i < proto->n_message_type; i++) {
        add_message(filler, scope, proto->message_type[i]);
    }
    for (size_t i = 0; i < proto->n_enum_type; i++) {
        add_enum(filler, scope, proto->enum_type[i]);
    }
    for (size_t i = 0; i < proto->n_service; i++) {
        add_service(filler, scope, proto->service[i]);
    }
}

static bool read_varint(const unsigned char **at, const unsigned char *end,
                        size_t *ret_value)
{
    size_t value = 0;

    for (unsigned shift = 0; *at < end && shift < 35; shift += 7) {
        const unsigned char byte = *(*at)++;

        value |= (size_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

/* Walk the set; with files == NULL only count. */
static bool split(struct hyd_reflect_file *files, size_t *ret_n)
{
    const unsigned char *at = hyd_services_fds;
    const unsigned char *end = hyd_services_fds + hyd_services_fds_bytes;
    size_t n = 0;

    for (; at < end; n++) {
        size_t bytes = 0;

        if (*at++ != FILE_TAG || !read_varint(&at, end, &bytes) ||
            bytes > (size_t)(end - at)) {
            return false;
        }
        if (files != NULL) {
            files[n] = (struct hyd_reflect_file){.bytes = at, .n_bytes = bytes};
        }
        at += bytes;
    }
    *ret_n = n;
    return true;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct hyd_reflect_symbol *)a)->name,
                  ((const struct hyd_reflect_symbol *)b)->name);
}

static hyd_status decode_files(struct hyd_reflect *reflect, size_t *ret_n_services,
                               struct hyd_error *err)
{
    size_t n_services = 0;

    for (size_t i = 0; i < reflect->n_files; i++) {
        struct hyd_reflect_file *file = &reflect->files[i];
        const struct hyd_codec_in in = {
            .type = &google__protobuf__file_descriptor_proto__descriptor,
            .bytes = file->bytes,
            .n_bytes = file->n_bytes,
            .budget_bytes = DECODE_BYTES,
        };
        const ProtobufCMessage *message = NULL;
        const hyd_status status = hyd_codec_decode(&in, &reflect->arena, &message, err);

        if (status != HYD_OK) {
            return status;
        }
        file->proto = (const file_proto *)message;
        n_services += file->proto->n_service;
    }
    *ret_n_services = n_services;
    return HYD_OK;
}

static hyd_status fill(struct hyd_reflect *reflect, struct hyd_error *err)
{
    struct filler filler = {.reflect = reflect};
    size_t n_services = 0;
    hyd_status status = HYD_OK;

    if (!split(NULL, &reflect->n_files)) {
        return hyd_error_set(err, HYD_ERR_INTERNAL, "the descriptor set is broken");
    }
    reflect->files =
        hyd_arena_take(&reflect->arena, reflect->n_files, sizeof *reflect->files);
    if (reflect->files == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for reflection");
    }
    (void)split(reflect->files, &reflect->n_files);
    status = decode_files(reflect, &n_services, err);
    if (status != HYD_OK) {
        return status;
    }
    for (size_t i = 0; i < reflect->n_files; i++) {
        add_file(&filler, reflect->files[i].proto);
    }
    reflect->n_symbols = filler.n;
    reflect->symbols =
        hyd_arena_take(&reflect->arena, filler.n, sizeof *filler.symbols);
    reflect->services =
        hyd_arena_take(&reflect->arena, n_services, sizeof *reflect->services);
    filler = (struct filler){.reflect = reflect, .symbols = reflect->symbols};
    for (size_t i = 0;
         reflect->services != NULL && reflect->symbols != NULL && i < reflect->n_files;
         i++) {
        filler.file = i;
        add_file(&filler, reflect->files[i].proto);
    }
    if (reflect->services == NULL || reflect->symbols == NULL || filler.no_memory) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for reflection");
    }
    qsort(reflect->symbols, reflect->n_symbols, sizeof *reflect->symbols, by_name);
    return HYD_OK;
}

hyd_status hyd_reflect_create(const struct hyd_alloc *alloc,
                              struct hyd_reflect **ret_reflect, struct hyd_error *err)
{
    struct hyd_reflect *reflect = hyd_alloc_zeroed(alloc, 1, sizeof *reflect);
    hyd_status status = HYD_OK;

    if (reflect == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for reflection");
    }
    hyd_arena_init(&reflect->arena, alloc);
    status = fill(reflect, err);
    if (status != HYD_OK) {
        hyd_reflect_free(reflect);
        return status;
    }
    *ret_reflect = reflect;
    return HYD_OK;
}

void hyd_reflect_free(struct hyd_reflect *reflect)
{
    const struct hyd_alloc *alloc = NULL;

    if (reflect != NULL) {
        alloc = reflect->arena.alloc;
        hyd_arena_release(&reflect->arena);
        hyd_alloc_free(alloc, reflect);
    }
}

size_t hyd_reflect_by_name(const struct hyd_reflect *reflect, const char *name)
{
    size_t i = 0;

    while (i < reflect->n_files && strcmp(reflect->files[i].proto->name, name) != 0) {
        i++;
    }
    return i;
}

size_t hyd_reflect_by_symbol(const struct hyd_reflect *reflect, const char *symbol)
{
    const struct hyd_reflect_symbol key = {.name = symbol};
    const struct hyd_reflect_symbol *found = NULL;

    if (reflect->n_symbols > 0) {
        found = bsearch(&key, reflect->symbols, reflect->n_symbols,
                        sizeof *reflect->symbols, by_name);
    }
    return found != NULL ? found->file : reflect->n_files;
}

size_t hyd_reflect_closure(const struct hyd_reflect *reflect, size_t file,
                           size_t *ret_files)
{
    size_t n = 0;

    ret_files[n++] = file;
    for (size_t done = 0; done < n; done++) {
        const file_proto *proto = reflect->files[ret_files[done]].proto;

        for (size_t k = 0; k < proto->n_dependency; k++) {
            const size_t dependency =
                hyd_reflect_by_name(reflect, proto->dependency[k]);
            size_t seen = 0;

            while (seen < n && ret_files[seen] != dependency) {
                seen++;
            }
            if (seen == n && dependency < reflect->n_files) {
                ret_files[n++] = dependency;
            }
        }
    }
    return n;
}
