/* status.c - see status.h. */
#include "common/base/status.h"

const char *hyd_status_name(hyd_status status)
{
    switch (status) {
    case HYD_OK:
        return "ok";
    case HYD_ERR_INVALID:
        return "invalid";
    case HYD_ERR_INFEASIBLE:
        return "infeasible";
    case HYD_ERR_MALFORMED:
        return "malformed";
    case HYD_ERR_NOT_FOUND:
        return "not found";
    case HYD_ERR_EXISTS:
        return "already exists";
    case HYD_ERR_OUT_OF_RANGE:
        return "out of range";
    case HYD_ERR_UNAVAILABLE:
        return "unavailable";
    case HYD_ERR_TIMEOUT:
        return "timeout";
    case HYD_ERR_CANCELLED:
        return "cancelled";
    case HYD_ERR_LIMIT:
        return "limit exceeded";
    case HYD_ERR_DENIED:
        return "denied";
    case HYD_ERR_UNSUPPORTED:
        return "unsupported";
    case HYD_ERR_NO_MEMORY:
        return "out of memory";
    case HYD_ERR_IO:
        return "input/output error";
    case HYD_ERR_INTERNAL:
        return "internal error";
    }
    return "unknown status";
}
