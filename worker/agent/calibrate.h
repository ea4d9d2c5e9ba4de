/*
 * calibrate.h - a device profile of this machine, as hydractl and job open read it.
 *
 * What     Opens the compute backend, measures it (worker/compute/calibrate.h) and the
 *          rate of copying memory, and writes {name, source, gemm_flop_per_s, attention,
 *          nvlink, nic, latency_s, cell_s, copy_s_per_token, bytes_per_element}. On CPUs
 *          ranks of a machine talk through shared memory, which one side writes and the
 *          other reads: the link's rate is half of that of a copy.
 * Units    FLOP/s, bytes/s, seconds, tokens.
 * Errors   HYD_ERR_INVALID      no output file, or a shape that the backend lacks
 *          HYD_ERR_UNAVAILABLE  the backend cannot run here
 *          HYD_ERR_IO           the file cannot be written
 *          HYD_ERR_NO_MEMORY
 * Threads  one.
 * Cost     a few seconds.
 */
#ifndef HYD_WORKER_AGENT_CALIBRATE_H
#define HYD_WORKER_AGENT_CALIBRATE_H

#include "common/base/error.h"
#include "worker/agent/settings.h"

HYD_MUST_CHECK hyd_status hyd_calibrate_to_file(const struct hyd_worker_settings *set,
                                                struct hyd_error *err);

#endif
