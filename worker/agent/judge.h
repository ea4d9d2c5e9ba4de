/*
 * judge.h - compare one whole sequence's outputs with what they should be.
 *
 * What     Two judges: the double reference, and the engine on a single rank (d = 1, no
 *          network), which tests prove against the reference. The second one also looks
 *          at some query rows in double.
 * Shapes   output[i] [n][heads][d] in the model's dtype: o, dq, dk, dv.
 * Units    errors are largest |difference| / largest |value| of a tensor; not a number
 *          counts as infinite.
 * Errors   HYD_ERR_NO_MEMORY; of the engine and its device; what `between` returned.
 * Owns     a judge keeps a device and an engine, made larger when a sequence asks.
 * Threads  one thread at a time.
 */
#ifndef HYD_WORKER_AGENT_JUDGE_H
#define HYD_WORKER_AGENT_JUDGE_H

#include "common/base/alloc.h"
#include "worker/agent/made.h"
#include "worker/agent/verify.h"
#include "worker/attn/attn.h"

/* Called between pieces of work; anything but HYD_OK ends the judging with it. */
struct hyd_judge_between {
    hyd_status (*call)(void *ctx);
    void *ctx;
};

struct hyd_judge {
    struct hyd_judge_between between;
    const struct hyd_alloc *alloc;
    const struct hyd_compute_ops *ops;
    int device;
    struct hyd_compute *dev; /* not the rank's: its seconds must stay clean */
    struct hyd_attn *attn;
    struct hyd_attn_model model; /* of attn */
    uint32_t room_tokens; /* of attn and its tensors */
    struct hyd_buf tensor[8]; /* q, k, v, o, dout, dq, dk, dv */
};

struct hyd_judge_case {
    struct hyd_made made;
    uint32_t seq_id;
    uint32_t n_tokens;
    bool backward;
    const void *output[HYD_VERIFY_OUTPUTS];
};

struct hyd_judge_verdict {
    double error; /* largest of the tensors */
    int worst; /* HYD_VERIFY_O... */
    uint32_t sampled_rows;
};

/* ops: a backend of the kind that ran; a device object of its own, on device `device`, is
 * opened when first needed. */
void hyd_judge_init(struct hyd_judge *judge, const struct hyd_compute_ops *ops,
                    int device, struct hyd_judge_between between,
                    const struct hyd_alloc *alloc);
void hyd_judge_release(struct hyd_judge *judge);

HYD_MUST_CHECK hyd_status hyd_judge_by_reference(struct hyd_judge *judge,
                                                 const struct hyd_judge_case *in,
                                                 struct hyd_judge_verdict *ret_verdict,
                                                 struct hyd_error *err);
HYD_MUST_CHECK hyd_status
hyd_judge_by_single_rank(struct hyd_judge *judge, const struct hyd_judge_case *in,
                         struct hyd_judge_verdict *ret_verdict, struct hyd_error *err);

#endif
