/* fuzz_codec.c - no bytes from a peer may hurt: they decode within the budget and encode
 * back to something that decodes to the same, or they are refused with a text. The first
 * byte chooses the message. */
#include <string.h>

#include "common/rpc/codec.h"
#include "proto/google/protobuf/descriptor.pb-c.h"
#include "proto/google/rpc/status.pb-c.h"
#include "proto/grpc/health/v1/health.pb-c.h"
#include "proto/grpc/reflection/v1/reflection.pb-c.h"
#include "proto/hydra/v1/scheduler.pb-c.h"
#include "proto/hydra/v1/worker.pb-c.h"
#include "tests/lib/fuzz.h"

/* Blocks are rounded up and double in size. */
enum { BUDGET_BYTES = 1 << 20, SLACK_BYTES = 2 << 20 };

static const ProtobufCMessageDescriptor *const types[] = {
    &hydra__v1__open_job_request__descriptor,
    &hydra__v1__submit_step_request__descriptor,
    &hydra__v1__submit_step_response__descriptor,
    &hydra__v1__plan_request__descriptor,
    &hydra__v1__report_step_request__descriptor,
    &hydra__v1__agent_message__descriptor,
    &hydra__v1__scheduler_message__descriptor,
    &hydra__v1__error_detail__descriptor,
    &google__rpc__status__descriptor,
    &grpc__health__v1__health_check_request__descriptor,
    &grpc__reflection__v1__server_reflection_request__descriptor,
    &google__protobuf__file_descriptor_proto__descriptor,
};
enum { N_TYPES = sizeof types / sizeof types[0] };

/* Passes on to the fault allocator and adds up. */
struct counted {
    struct hyd_alloc alloc;
    const struct hyd_alloc *under;
    size_t bytes;
};

static void *count(void *ctx, void *old, size_t bytes)
{
    struct counted *counted = ctx;

    counted->bytes += bytes;
    return counted->under->resize(counted->under->ctx, old, bytes);
}

static void check_round_trip(const struct hyd_codec_in *in,
                             const ProtobufCMessage *message, struct hyd_arena *arena)
{
    const size_t n = hyd_codec_size_bytes(message);
    unsigned char *bytes = hyd_arena_take(arena, n + 1, 1);
    unsigned char *again = NULL;
    struct hyd_codec_in back = *in;
    const ProtobufCMessage *second = NULL;
    struct hyd_error err;
    hyd_status status = HYD_OK;

    if (bytes == NULL) {
        return;
    }
    hyd_codec_encode(message, bytes);
    back.bytes = bytes;
    back.n_bytes = n;
    status = hyd_codec_decode(&back, arena, &second, &err);
    if (status == HYD_ERR_NO_MEMORY || status == HYD_ERR_LIMIT) {
        return;
    }
    hyd_fuzz_check(status == HYD_OK, "what was encoded does not decode");
    hyd_fuzz_check(hyd_codec_size_bytes(second) == n, "another size the second time");
    again = hyd_arena_take(arena, n + 1, 1);
    if (again != NULL) {
        hyd_codec_encode(second, again);
        hyd_fuzz_check(memcmp(bytes, again, n) == 0, "other bytes the second time");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct hyd_fault_alloc fault;
    struct counted counted = {.under = &fault.alloc};
    struct hyd_codec_in in = {.budget_bytes = BUDGET_BYTES};
    struct hyd_arena arena;
    struct hyd_error err = {.text = ""};
    const ProtobufCMessage *message = NULL;
    hyd_status status = HYD_OK;

    if (n_bytes == 0) {
        return 0;
    }
    hyd_fuzz_begin(&fault, data, n_bytes);
    counted.alloc = (struct hyd_alloc){.resize = count, .ctx = &counted};
    hyd_arena_init(&arena, &counted.alloc);
    in.type = types[data[0] % N_TYPES];
    in.bytes = data + 1;
    in.n_bytes = n_bytes - 1;
    status = hyd_codec_decode(&in, &arena, &message, &err);
    hyd_fuzz_check(counted.bytes <= 2 * (size_t)BUDGET_BYTES + SLACK_BYTES,
                   "more memory than the budget");
    if (status == HYD_OK) {
        check_round_trip(&in, message, &arena);
    } else {
        hyd_fuzz_check(err.text[0] != '\0', "a failure without a text");
        hyd_fuzz_check(status == HYD_ERR_MALFORMED || status == HYD_ERR_LIMIT ||
                           status == HYD_ERR_NO_MEMORY,
                       "a failure of another kind");
    }
    hyd_arena_release(&arena);
    hyd_fuzz_end(&fault);
    return 0;
}
