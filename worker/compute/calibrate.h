/*
 * calibrate.h - how fast is this device? The compute part of a device profile.
 *
 * What     Measures through the table alone, so that it works for every backend: the
 *          rate of attention over sequence lengths, forward and backward; the rate of
 *          products without a mask, which stands in for matrix multiplication; seconds
 *          that packing and rounding take a token; the fixed cost of a call.
 * Units    useful FLOP a second: 4 * d * pairs forward, 2.5 times that backward, per
 *          head; pairs = l (l + 1) / 2. Seconds are those of `compute_s` and `copy_s`, so
 *          with several threads they are CPU seconds of all, as in reports.
 *          Best of several repeats: other load on the machine only ever adds time.
 * Errors   HYD_ERR_INVALID    max_tokens below 64, or a shape that the device lacks
 *          HYD_ERR_NO_MEMORY
 * Owns     nothing; device memory is freed on return, scratch is lent and taken back.
 * Cost     about 20 sweeps of max_tokens^2: two seconds at 4096 tokens and d = 128.
 * Source   worker/README.md "Calibration".
 */
#ifndef HYD_WORKER_COMPUTE_CALIBRATE_H
#define HYD_WORKER_COMPUTE_CALIBRATE_H

#include "worker/compute/compute.h"

enum { HYD_CALIBRATION_POINTS = 16 };

struct hyd_calibrate_config {
    struct hyd_attn_shape
        shape; /* heads of one rank at d = 1; see is taken as causal */
    uint32_t max_tokens; /* longest sequence to measure */
};

struct hyd_calibration {
    struct {
        uint32_t tokens; /* 64, 128, ... up to max_tokens */
        double forward_flop_per_s, backward_flop_per_s;
    } attention[HYD_CALIBRATION_POINTS];
    uint32_t n_attention;
    double gemm_flop_per_s; /* unmasked attention at the longest length */
    double copy_s_per_token; /* all heads of the shape, forward and backward */
    double cell_s; /* forward and backward of one token */
};

HYD_MUST_CHECK hyd_status hyd_calibrate(const struct hyd_compute_ops *ops,
                                        struct hyd_compute *dev,
                                        const struct hyd_calibrate_config *config,
                                        struct hyd_calibration *ret_calibration,
                                        struct hyd_error *err);

#endif
