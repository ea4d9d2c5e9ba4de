/*
 * oracle.h - the best plan of a tiny batch, found by trying all of them.
 *
 * What     Least hottest load over every choice of microbatch, degree and block for every
 *          sequence, cells mixed: what no placement can beat.
 * Shapes   length_tokens[n_seqs], n_seqs <= HYD_ORACLE_MAX_SEQS.
 * Units    seconds, without the fixed seconds of a cell.
 * Threads  reentrant.
 * Cost     exponential; branch and bound, fine for 8 sequences on 4 ranks.
 */
#ifndef HYD_TESTS_LIB_ORACLE_H
#define HYD_TESTS_LIB_ORACLE_H

#include <stddef.h>
#include <stdint.h>

#include "scheduler/core/degree.h"
#include "scheduler/core/seqs.h"

enum { HYD_ORACLE_MAX_SEQS = 8, HYD_ORACLE_MAX_CELLS = 32 };

/* HUGE_VAL when no assignment keeps the cap. */
double hyd_oracle_hottest_s(const struct hyd_degree_table *table,
                            const struct hyd_seqs *seqs, uint32_t n_microbatches);

#endif
