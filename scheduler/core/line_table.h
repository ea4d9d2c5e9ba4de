/*
 * line_table.h - g*(M) of common pipelines, worked out beforehand.
 *
 * What     1F1B and interleaved 1F1B with backward twice the forward and chunk groups of
 *          p microbatches. cells[i] is g*(M) for M = (i + 1) * step, rounded down.
 * Source   `hydra-bench bounds --long` prints the file; a test holds each value against
 *          the best profile known.
 */
#ifndef HYD_SCHEDULER_CORE_LINE_TABLE_H
#define HYD_SCHEDULER_CORE_LINE_TABLE_H

#include <stdint.h>

struct hyd_line_known {
    uint32_t n_stages;
    uint32_t n_chunks;
    uint32_t step;
    uint32_t n_cells;
    const double *cells; /* NULL ends the table */
};

extern const struct hyd_line_known hyd_line_table[];

#endif
