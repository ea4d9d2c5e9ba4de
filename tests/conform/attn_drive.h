/*
 * attn_drive.h - run an attn_case on every device and compare with its answer.
 *
 * What     Forward and backward in fp32 and bf16, all calls of the case in turn, with
 *          guard words around every buffer and NaN in every row that no unit names.
 *          Tolerances, relative to the largest magnitude of the tensor:
 *            fp32                  o, lse 2e-6; gradients 1e-5
 *            bf16, host memory     the same: inputs are exact, all the rest is fp32
 *            bf16, device memory   o 8e-3, gradients 2e-2: P is rounded to bf16 too
 * Errors   fails the cmocka test.
 */
#ifndef HYD_TESTS_CONFORM_ATTN_DRIVE_H
#define HYD_TESTS_CONFORM_ATTN_DRIVE_H

#include "tests/conform/attn_case.h"
#include "tests/conform/guarded.h"

/* Releases the case. */
void attn_drive_case(const struct devices *on, struct attn_case *c);

#endif
