/* program_names.c - see program.h. */
#include "worker/attn/program.h"

#include "common/base/banned.h"

const char *hyd_program_kind_name(enum hyd_program_kind kind)
{
    switch (kind) {
    case HYD_PROGRAM_PACK:
        return "pack";
    case HYD_PROGRAM_POST:
        return "post";
    case HYD_PROGRAM_WAIT:
        return "wait";
    case HYD_PROGRAM_UNPACK:
        return "unpack";
    case HYD_PROGRAM_BEGIN:
        return "begin";
    case HYD_PROGRAM_COMPUTE:
        return "compute";
    case HYD_PROGRAM_ADD:
        return "add";
    case HYD_PROGRAM_FINISH:
        return "finish";
    }
    return "unknown";
}

const char *hyd_program_phase_name(enum hyd_program_phase phase)
{
    switch (phase) {
    case HYD_PHASE_IN:
        return "in";
    case HYD_PHASE_RING:
        return "ring";
    case HYD_PHASE_OUT:
        return "out";
    }
    return "unknown";
}

const char *hyd_region_name(enum hyd_region region)
{
    static const char *const name[HYD_N_REGIONS] = {
        [HYD_REGION_Q] = "q",           [HYD_REGION_K] = "k",
        [HYD_REGION_V] = "v",           [HYD_REGION_O] = "o",
        [HYD_REGION_LSE] = "lse",       [HYD_REGION_SEND] = "send",
        [HYD_REGION_RECV] = "recv",     [HYD_REGION_RING_0] = "ring0",
        [HYD_REGION_RING_1] = "ring1",  [HYD_REGION_RING_SEND] = "ring-send",
        [HYD_REGION_O_ACC] = "o-acc",   [HYD_REGION_DOUT] = "dout",
        [HYD_REGION_DELTA] = "delta",   [HYD_REGION_DQ_ACC] = "dq-acc",
        [HYD_REGION_ACC_0] = "acc0",    [HYD_REGION_ACC_1] = "acc1",
        [HYD_REGION_ACC_2] = "acc2",    [HYD_REGION_ACC_3] = "acc3",
        [HYD_REGION_KV_SUM] = "kv-sum",
    };

    return name[region];
}
