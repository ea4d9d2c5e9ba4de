/*
 * core.h - what the files of this folder share and nobody else may see: gRPC's types.
 *
 * What     A tag is what an event of the completion queue points to: a function that is
 *          embedded in the object it belongs to, one per kind of batch that the object
 *          may have in flight. The gRPC thread links tags into a list without allocating,
 *          and the loop thread runs them in the order in which they came.
 *          ThreadSanitizer does not see into libgrpc; two annotations tell it that
 *          starting a batch happens before its completion.
 */
#ifndef HYD_COMMON_RPC_CORE_H
#define HYD_COMMON_RPC_CORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <uv.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/rpc/bridge.h"
#include "common/rpc/codec.h"
#include "common/rpc/spec.h"

#if defined(__SANITIZE_THREAD__)
#define HYD_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HYD_TSAN 1
#endif
#endif

#ifdef HYD_TSAN
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#define HYD_TSAN_ACQUIRE(address) __tsan_acquire(address)
#define HYD_TSAN_RELEASE(address) __tsan_release(address)
#else
#define HYD_TSAN_ACQUIRE(address) ((void)(address))
#define HYD_TSAN_RELEASE(address) ((void)(address))
#endif

/* The object that a member is embedded in. */
#define hyd_container(pointer, type, member) \
    ((type *)(void *)((unsigned char *)(pointer)-offsetof(type, member)))

enum {
    HYD_RPC_MESSAGE_BYTES = 8 << 20,
    HYD_RPC_DECODE_BYTES = 128 << 20,
    HYD_RPC_QUEUE_BYTES = 4 << 20,
    HYD_RPC_MEMORY_BYTES = 1 << 30,
    HYD_RPC_KEEP_ARENA_BYTES = 64
                               << 10, /* of a message; larger ones give memory back */
};

struct hyd_tag {
    void (*run)(struct hyd_tag *tag, bool ok);
    struct hyd_tag *next;
    bool ok;
};

struct hyd_bridge {
    const struct hyd_alloc *alloc;
    grpc_completion_queue *queue;
    uv_async_t async;
    _Atomic(struct hyd_tag *) inbox; /* newest first */
    pthread_t thread;
    size_t n_users; /* servers and clients that are not freed yet */
};

/* Arguments of a channel or server under construction; texts are lent until its use. */
struct hyd_grpc_args {
    grpc_arg arg[20];
    size_t n;
};

/* value above INT32_MAX counts as that. */
void hyd_grpc_args_add(struct hyd_grpc_args *args, const char *key, size_t value);
void hyd_grpc_args_add_text(struct hyd_grpc_args *args, const char *key,
                            const char *value);

void hyd_grpc_args_add_quota(struct hyd_grpc_args *args, grpc_resource_quota *quota);

/* start_batch with the annotation; a refusal is our own mistake and asserted. */
void hyd_batch(grpc_call *call, const grpc_op *ops, size_t n_ops, struct hyd_tag *tag);

/* A message as the slice that will be sent. */
grpc_slice hyd_slice_of(const ProtobufCMessage *message);

/* Decode what a call received. in->bytes and n_bytes are taken from the buffer. */
hyd_status hyd_decode_buffer(const struct hyd_codec_in *in, grpc_byte_buffer *buffer,
                             struct hyd_arena *arena,
                             const ProtobufCMessage **ret_message,
                             struct hyd_error *err);

/* Trailer value of a failure: google.rpc.Status. */
grpc_slice hyd_detail_pack(int code, const struct hyd_error *err);

/* Fill ret from a call's end; the details are looked for in the trailer. */
void hyd_detail_result(const struct hyd_alloc *alloc, grpc_status_code code,
                       const grpc_slice *text, const grpc_metadata_array *trailer,
                       struct hyd_rpc_result *ret);

/* Replace what is not UTF-8 by '?'; texts cut to fit may end inside a character. */
void hyd_text_clean(char *text);

/* A PEM file as text; field "tls_key": refused when everybody may read it. Fails naming
 * `field`. */
hyd_status hyd_pem_read(const struct hyd_alloc *alloc, const char *field,
                        const char *path, char **ret_text, struct hyd_error *err);
/* Overwrites before it frees; NULL is fine. */
void hyd_secret_free(const struct hyd_alloc *alloc, char *text);

/* Messages waiting behind the one in flight. */
struct hyd_outbox {
    grpc_slice *ring; /* [capacity] */
    uint32_t head;
    uint32_t n_slices;
    uint32_t capacity;
    size_t bytes;
};

/* Takes the slice's reference on HYD_OK only. */
hyd_status hyd_outbox_push(struct hyd_outbox *outbox, const struct hyd_alloc *alloc,
                           grpc_slice take_slice);
bool hyd_outbox_pop(struct hyd_outbox *outbox, grpc_slice *ret_slice);
void hyd_outbox_clear(struct hyd_outbox *outbox, const struct hyd_alloc *alloc);

/* Length of the longest valid UTF-8 prefix without zero bytes. */
size_t hyd_utf8_prefix(const unsigned char *text, size_t n_bytes);

#endif
