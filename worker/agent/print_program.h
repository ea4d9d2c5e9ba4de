/*
 * print_program.h - a rank's part of a plan as text, operation by operation.
 *
 * What     Reads a plan file (as `hydractl plan --out` writes it) and walks the same
 *          programs that the engine runs. For people who debug a hang or count bytes.
 * Errors   HYD_ERR_IO         the file cannot be read
 *          HYD_ERR_MALFORMED  it is not a plan: names the place
 *          HYD_ERR_INVALID    the rank is not in the pool; a group cannot be run
 */
#ifndef HYD_WORKER_AGENT_PRINT_PROGRAM_H
#define HYD_WORKER_AGENT_PRINT_PROGRAM_H

#include <stdio.h>

#include "common/base/alloc.h"
#include "worker/attn/layout.h"

HYD_MUST_CHECK hyd_status hyd_print_program(const char *path,
                                            const struct hyd_attn_model *model,
                                            uint32_t rank,
                                            const struct hyd_alloc *alloc, FILE *out,
                                            struct hyd_error *err);

#endif
