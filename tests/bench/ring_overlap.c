/* ring_overlap.c - see ring_overlap.h. */
#include "tests/bench/ring_overlap.h"

#include <math.h>

#include "tests/lib/overlap.h"
#include "worker/transport/ucx/transport_ucx.h"

static const uint32_t ranks[] = {0, 1, 2, 3, 4, 5, 6, 7};

static void sum_overlap(const struct hyd_rig *rig, struct hyd_overlap_row *row)
{
    const struct hyd_step_in in = {&rig->model, rig->plan.group, rig->plan.n_groups,
                                   rig->plan.n_layers, rig->backward};
    double hidden = 0.0;

    for (uint32_t i = 0; i < rig->plan.n_ranks; i++) {
        const struct hyd_overlap o = hyd_overlap_of(&in, i, rig->plan.n_ranks);

        for (size_t p = 0; p < 3; p++) {
            row->received_bytes += (double)o.received_bytes[p];
            hidden += (double)o.hidden_bytes[p];
        }
    }
    row->hidden_share = hidden / row->received_bytes;
}

const char *hyd_overlap_run(const struct hyd_overlap_case *one, uint32_t tokens,
                            struct hyd_overlap_row *ret_row)
{
    struct hyd_rig rig = {
        .model = {.dtype = HYD_DTYPE_F32,
                  .d = 64,
                  .n_heads = one->n_heads,
                  .n_kv_heads = one->n_kv_heads,
                  .see = one->window_tokens > 0 ? HYD_SEE_WINDOW : HYD_SEE_CAUSAL,
                  .window_tokens = one->window_tokens,
                  .part_min_rows = one->whole ? UINT32_MAX : 0},
        .plan = {.n_ranks = one->u * one->r, .n_microbatches = 1, .n_layers = 1},
        .backward = true,
        .unchecked = one->whole,
        .amplitude = 1.0F,
        .tolerance = 1e-5,
        .seed = 5};
    struct hyd_error err = {.text = ""};
    const char *why;

    if (hyd_compute_find("cpu", &rig.compute, &err) != HYD_OK) {
        return "no compute backend";
    }
    hyd_rig_add_group(&rig.plan, 0, one->u, one->r, ranks);
    for (uint32_t i = 0; i < one->n_seqs; i++) {
        hyd_rig_add_seq(&rig.plan, tokens / one->n_seqs);
    }
    hyd_rig_sort(&rig.plan);
    why = hyd_rig_run_threads(&rig, &hyd_transport_ucx);
    if (why != NULL) {
        return why;
    }
    *ret_row = (struct hyd_overlap_row){.wait_s = rig.wait_s,
                                        .compute_s = rig.compute_s,
                                        .worst_error =
                                            fmax(rig.worst_forward, rig.worst_backward),
                                        .digest = rig.digest};
    sum_overlap(&rig, ret_row);
    ret_row->exposed_share = (double)rig.exposed_bytes / ret_row->received_bytes;
    return NULL;
}
