/* spec.c - see spec.h: statuses and gRPC codes. */
#include "common/rpc/spec.h"

#include <grpc/status.h>

#include "common/base/banned.h"

int hyd_rpc_code(hyd_status status)
{
    switch (status) {
    case HYD_OK:
        return GRPC_STATUS_OK;
    case HYD_ERR_INVALID:
    case HYD_ERR_MALFORMED:
        return GRPC_STATUS_INVALID_ARGUMENT;
    case HYD_ERR_INFEASIBLE:
        return GRPC_STATUS_FAILED_PRECONDITION;
    case HYD_ERR_NOT_FOUND:
        return GRPC_STATUS_NOT_FOUND;
    case HYD_ERR_EXISTS:
        return GRPC_STATUS_ALREADY_EXISTS;
    case HYD_ERR_OUT_OF_RANGE:
        return GRPC_STATUS_OUT_OF_RANGE;
    case HYD_ERR_UNAVAILABLE:
        return GRPC_STATUS_UNAVAILABLE;
    case HYD_ERR_TIMEOUT:
        return GRPC_STATUS_DEADLINE_EXCEEDED;
    case HYD_ERR_CANCELLED:
        return GRPC_STATUS_CANCELLED;
    case HYD_ERR_LIMIT:
    case HYD_ERR_NO_MEMORY:
        return GRPC_STATUS_RESOURCE_EXHAUSTED;
    case HYD_ERR_DENIED:
        return GRPC_STATUS_PERMISSION_DENIED;
    case HYD_ERR_UNSUPPORTED:
        return GRPC_STATUS_UNIMPLEMENTED;
    case HYD_ERR_IO:
    case HYD_ERR_INTERNAL:
        return GRPC_STATUS_INTERNAL;
    }
    return GRPC_STATUS_UNKNOWN;
}

static const struct {
    const char *name;
    hyd_status status;
} codes[] = {
    [GRPC_STATUS_OK] = {"OK", HYD_OK},
    [GRPC_STATUS_CANCELLED] = {"CANCELLED", HYD_ERR_CANCELLED},
    [GRPC_STATUS_UNKNOWN] = {"UNKNOWN", HYD_ERR_INTERNAL},
    [GRPC_STATUS_INVALID_ARGUMENT] = {"INVALID_ARGUMENT", HYD_ERR_INVALID},
    [GRPC_STATUS_DEADLINE_EXCEEDED] = {"DEADLINE_EXCEEDED", HYD_ERR_TIMEOUT},
    [GRPC_STATUS_NOT_FOUND] = {"NOT_FOUND", HYD_ERR_NOT_FOUND},
    [GRPC_STATUS_ALREADY_EXISTS] = {"ALREADY_EXISTS", HYD_ERR_EXISTS},
    [GRPC_STATUS_PERMISSION_DENIED] = {"PERMISSION_DENIED", HYD_ERR_DENIED},
    [GRPC_STATUS_RESOURCE_EXHAUSTED] = {"RESOURCE_EXHAUSTED", HYD_ERR_LIMIT},
    [GRPC_STATUS_FAILED_PRECONDITION] = {"FAILED_PRECONDITION", HYD_ERR_INFEASIBLE},
    [GRPC_STATUS_ABORTED] = {"ABORTED", HYD_ERR_UNAVAILABLE},
    [GRPC_STATUS_OUT_OF_RANGE] = {"OUT_OF_RANGE", HYD_ERR_OUT_OF_RANGE},
    [GRPC_STATUS_UNIMPLEMENTED] = {"UNIMPLEMENTED", HYD_ERR_UNSUPPORTED},
    [GRPC_STATUS_INTERNAL] = {"INTERNAL", HYD_ERR_INTERNAL},
    [GRPC_STATUS_UNAVAILABLE] = {"UNAVAILABLE", HYD_ERR_UNAVAILABLE},
    [GRPC_STATUS_DATA_LOSS] = {"DATA_LOSS", HYD_ERR_INTERNAL},
    [GRPC_STATUS_UNAUTHENTICATED] = {"UNAUTHENTICATED", HYD_ERR_DENIED},
};
enum { N_CODES = sizeof codes / sizeof codes[0] };

hyd_status hyd_rpc_status(int code)
{
    return code >= 0 && code < N_CODES ? codes[code].status : HYD_ERR_INTERNAL;
}

const char *hyd_rpc_code_name(int code)
{
    return code >= 0 && code < N_CODES ? codes[code].name : "UNKNOWN";
}
