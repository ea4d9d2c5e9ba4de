/*
 * program_post.h - the messages of a program's posts; private to program.c.
 *
 * What     Each fills in the messages and byte sums of the post at the cursor's ring step.
 * Threads  reentrant.
 */
#ifndef HYD_WORKER_ATTN_PROGRAM_POST_H
#define HYD_WORKER_ATTN_PROGRAM_POST_H

#include "worker/attn/program.h"

/* Of the phase of `op`. */
void hyd_program_post_exchange(const struct hyd_program *program,
                               struct hyd_program_op *op);
void hyd_program_post_ring(const struct hyd_program *program,
                           struct hyd_program_op *op);
/* Behind the last ring step: gradients come home. */
void hyd_program_post_home(const struct hyd_program *program,
                           struct hyd_program_op *op);

#endif
