/*
 * status.h - the one result type of every call that can fail.
 *
 * What     0 is success, failures are negative. HYD_MUST_CHECK makes dropping one a
 *          compiler warning.
 * Errors   The value says what kind of failure it is, and so what the caller can do:
 *            INVALID      the caller's mistake; repeat with better arguments
 *            INFEASIBLE   a fair request that has no answer
 *            MALFORMED    bytes from outside that do not decode
 *            NOT_FOUND, EXISTS, OUT_OF_RANGE   the name or number does not fit the state
 *            UNAVAILABLE  a peer, service or device is away; may work later
 *            TIMEOUT      a deadline passed
 *            CANCELLED    somebody asked to stop
 *            LIMIT        a named limit (bytes, sequences, ranks) would be exceeded
 *            DENIED       who asks may not do this
 *            UNSUPPORTED  this build or device lacks the feature
 *            NO_MEMORY, IO, INTERNAL
 * Threads  reentrant.
 */
#ifndef HYD_COMMON_BASE_STATUS_H
#define HYD_COMMON_BASE_STATUS_H

#define HYD_MUST_CHECK __attribute__((warn_unused_result))

typedef enum hyd_status {
    HYD_OK = 0,
    HYD_ERR_INVALID = -1,
    HYD_ERR_INFEASIBLE = -2,
    HYD_ERR_MALFORMED = -3,
    HYD_ERR_NOT_FOUND = -4,
    HYD_ERR_EXISTS = -5,
    HYD_ERR_OUT_OF_RANGE = -6,
    HYD_ERR_UNAVAILABLE = -7,
    HYD_ERR_TIMEOUT = -8,
    HYD_ERR_CANCELLED = -9,
    HYD_ERR_LIMIT = -10,
    HYD_ERR_DENIED = -11,
    HYD_ERR_UNSUPPORTED = -12,
    HYD_ERR_NO_MEMORY = -13,
    HYD_ERR_IO = -14,
    HYD_ERR_INTERNAL = -15,
} hyd_status;

/* Lower-case name of a status, for example "invalid"; never NULL. */
const char *hyd_status_name(hyd_status status);

#endif
