/*
 * reflect_index.h - what reflection answers from: the embedded descriptor set, by file
 *                   and by symbol.
 *
 * What     Every file's bytes are handed out as protoc wrote them, slices of the embedded
 *          array; the decoded form only serves to build the index.
 * Owns     the index, until free; bytes live as long as the program.
 */
#ifndef HYD_COMMON_RPC_REFLECT_INDEX_H
#define HYD_COMMON_RPC_REFLECT_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "proto/google/protobuf/descriptor.pb-c.h"

struct hyd_reflect_file {
    const unsigned char *bytes;
    size_t n_bytes;
    const Google__Protobuf__FileDescriptorProto *proto;
};

struct hyd_reflect_symbol {
    const char *name; /* "hydra.v1.Plan.policy" */
    size_t file;
};

struct hyd_reflect {
    struct hyd_arena arena;
    struct hyd_reflect_file *files; /* [n_files] */
    size_t n_files;
    struct hyd_reflect_symbol *symbols; /* [n_symbols], by name */
    size_t n_symbols;
    const char **services; /* [n_services], in order of files */
    size_t n_services;
};

HYD_MUST_CHECK hyd_status hyd_reflect_create(const struct hyd_alloc *alloc,
                                             struct hyd_reflect **ret_reflect,
                                             struct hyd_error *err);
void hyd_reflect_free(struct hyd_reflect *reflect); /* NULL is fine */

/* Index of a file, or n_files. */
size_t hyd_reflect_by_name(const struct hyd_reflect *reflect, const char *name);
size_t hyd_reflect_by_symbol(const struct hyd_reflect *reflect, const char *symbol);

/* The file and all it imports, each once, itself first; files[n_files] of room. */
size_t hyd_reflect_closure(const struct hyd_reflect *reflect, size_t file,
                           size_t *ret_files);

#endif
