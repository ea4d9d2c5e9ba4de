/*
 * spec.h - what both ends know about a method, and how failures travel.
 *
 * What     struct hyd_rpc_spec names a method and its messages once, for server table
 *          and client calls. hydra_v1.h lists those of hydra.v1.
 *          struct hyd_rpc_result is how a call ended. A failed call carries
 *          google.rpc.Status with one hydra.v1.ErrorDetail {field, value, limit} in its
 *          trailer; the client side hands it out as hyd_error.
 *          Statuses map to gRPC codes in one place (hyd_rpc_code, hyd_rpc_status):
 *            INVALID, MALFORMED  INVALID_ARGUMENT     EXISTS        ALREADY_EXISTS
 *            INFEASIBLE          FAILED_PRECONDITION  OUT_OF_RANGE  OUT_OF_RANGE
 *            NOT_FOUND           NOT_FOUND            UNAVAILABLE   UNAVAILABLE
 *            TIMEOUT             DEADLINE_EXCEEDED    CANCELLED     CANCELLED
 *            LIMIT, NO_MEMORY    RESOURCE_EXHAUSTED   DENIED        PERMISSION_DENIED
 *            UNSUPPORTED         UNIMPLEMENTED        IO, INTERNAL  INTERNAL
 *          and back; UNAUTHENTICATED is DENIED too, ABORTED is UNAVAILABLE, UNKNOWN and
 *          DATA_LOSS are INTERNAL.
 * Threads  reentrant.
 * Source   common/README.md, "Remote calls".
 */
#ifndef HYD_COMMON_RPC_SPEC_H
#define HYD_COMMON_RPC_SPEC_H

#include <stdbool.h>

#include <protobuf-c/protobuf-c.h>

#include "common/base/error.h"

enum hyd_rpc_kind {
    HYD_RPC_UNARY,
    HYD_RPC_SERVER_STREAM, /* one request, many responses */
    HYD_RPC_BIDI,
};

struct hyd_rpc_spec {
    const char *path; /* "/hydra.v1.Scheduler/Plan" */
    enum hyd_rpc_kind kind;
    const ProtobufCMessageDescriptor *request;
    const ProtobufCMessageDescriptor *response;
    bool idempotent; /* a client may send it again after UNAVAILABLE */
};

struct hyd_rpc_result {
    hyd_status status;
    int code; /* gRPC's; 0 is OK */
    struct hyd_error error; /* text, field, value, limit; empty when OK */
};

/* gRPC code of a status. */
int hyd_rpc_code(hyd_status status);
/* Status of a gRPC code, also of one that is not known. */
hyd_status hyd_rpc_status(int code);
/* "INVALID_ARGUMENT"; never NULL. */
const char *hyd_rpc_code_name(int code);

#endif
