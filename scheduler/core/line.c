/* line.c - see line.h. */
#include "scheduler/core/line.h"

#include <string.h>

#include "common/base/banned.h"

size_t hyd_line_scratch(const struct hyd_pipeline_program *program)
{
    return (size_t)program->shape.n_stages + program->n_slots;
}

double hyd_line_step(const struct hyd_pipeline_program *program, const double *cell_s,
                     double *scratch)
{
    double *stage_s = scratch;
    double *slot_s = scratch + program->shape.n_stages;
    double last_s = 0.0;

    memset(stage_s, 0, program->shape.n_stages * sizeof *stage_s);
    for (size_t i = 0; i < program->n_ops; i++) {
        const struct hyd_pipeline_op *op = &program->op[i];
        double at_s = stage_s[op->stage];

        if (op->wait_slot != HYD_NO_SLOT && slot_s[op->wait_slot] > at_s) {
            at_s = slot_s[op->wait_slot];
        }
        at_s += hyd_pipeline_share(program, op) * cell_s[op->position];
        stage_s[op->stage] = at_s;
        if (op->done_slot != HYD_NO_SLOT) {
            slot_s[op->done_slot] = at_s;
        }
    }
    for (uint32_t s = 0; s < program->shape.n_stages; s++) {
        last_s = stage_s[s] > last_s ? stage_s[s] : last_s;
    }
    return last_s;
}

double hyd_line_path(const struct hyd_pipeline_program *program, const double *cell_s,
                     double *scratch, double *ret_coefficient)
{
    double *end_s = scratch;
    uint32_t at = 0;
    double last_s = 0.0;

    for (uint32_t i = 0; i < program->n_ops; i++) {
        const struct hyd_pipeline_op *op = &program->op[i];
        const double stage_s = op->stage_op != HYD_NO_OP ? end_s[op->stage_op] : 0.0;
        const double wait_s = op->wait_op != HYD_NO_OP ? end_s[op->wait_op] : 0.0;

        end_s[i] = (wait_s > stage_s ? wait_s : stage_s) +
                   hyd_pipeline_share(program, op) * cell_s[op->position];
        if (end_s[i] >= last_s) {
            last_s = end_s[i];
            at = i;
        }
    }
    for (uint32_t k = 0; k < program->shape.n_microbatches; k++) {
        ret_coefficient[k] = 0.0;
    }
    while (at != HYD_NO_OP) {
        const struct hyd_pipeline_op *op = &program->op[at];

        ret_coefficient[op->position] += hyd_pipeline_share(program, op);
        if (op->wait_op == HYD_NO_OP ||
            (op->stage_op != HYD_NO_OP && end_s[op->wait_op] < end_s[op->stage_op])) {
            at = op->stage_op;
        } else {
            at = op->wait_op;
        }
    }
    return last_s;
}
