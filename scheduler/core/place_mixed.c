/*
 * place_mixed.c - see place.h.
 *
 * Runs by degree and then by work; each sequence goes to the least loaded block of its
 * degree that has room, or of the first larger degree where there is one.
 */
#include "scheduler/core/place_grid.h"

#include "common/base/banned.h"

static void tell(const struct hyd_grids *grids, uint32_t run, uint32_t at, uint32_t row,
                 const struct hyd_grid_block *block, double time_s)
{
    const struct hyd_place_in *in = grids->in;
    struct hyd_trace_event event = {
        .kind = block != NULL ? HYD_TRACE_PLACE : HYD_TRACE_WIDEN,
        .seq = in->seqs->id[at],
        .degree = in->table->row[row].d,
        .tokens = in->seqs->tokens[run],
        .time_s = time_s,
    };

    if (block != NULL) {
        event.microbatch = block->microbatch;
        event.rank = hyd_degree_block(&in->table->row[row], block->number);
        event.load_s = block->load_s - hyd_grids_start_s(grids, block->microbatch);
    } else {
        event.tokens /= event.degree;
    }
    hyd_trace_emit(in->trace, &event);
}

/* One sequence at its wanted row, or at the first larger one where it fits. */
static hyd_status place_one(struct hyd_grids *grids, uint32_t run, uint32_t at,
                            struct hyd_placement *placement)
{
    const struct hyd_place_in *in = grids->in;

    for (uint32_t row = in->row[run]; row < in->table->n_rows; row++) {
        const double shard_tokens = in->seqs->tokens[run] / in->table->row[row].d;
        double time_s = hyd_degree_run_s(in->table, in->seqs, run, row);
        struct hyd_grid_block block = {0};
        bool found = false;
        const hyd_status st =
            hyd_grids_find(grids, row, shard_tokens, &time_s, &block, &found);

        if (st != HYD_OK) {
            return st;
        }
        if (!found) {
            if (in->trace != NULL) {
                tell(grids, run, at, row, NULL, 0.0);
            }
            continue;
        }
        if (in->trace != NULL) {
            tell(grids, run, at, row, &block, time_s);
        }
        hyd_grids_fill(grids, row, &block, shard_tokens, time_s);
        placement->microbatch[at] = block.microbatch;
        placement->block[at] = block.number;
        placement->row[at] = (uint8_t)row;
        placement->time_s[at] = time_s;
        return HYD_OK;
    }
    return HYD_ERR_INFEASIBLE;
}

hyd_status hyd_place_mixed(const struct hyd_place_in *in, struct hyd_arena *arena,
                           struct hyd_placement *placement)
{
    const struct hyd_arena_mark mark = hyd_arena_mark(arena);
    uint32_t *run = hyd_arena_take(arena, in->seqs->n_runs, sizeof *run);
    struct hyd_grids *grids = hyd_arena_take_zeroed(arena, 1, sizeof *grids);
    hyd_status st = HYD_OK;

    if (run == NULL || grids == NULL) {
        st = HYD_ERR_NO_MEMORY;
        goto out;
    }
    placement->n_microbatches = in->n_microbatches;
    placement->target_s = in->target_s;
    placement->theta = in->theta;
    placement->exclusive = false;
    placement->n_pops = 0;
    st = hyd_grids_init(grids, in, arena);
    if (st != HYD_OK) {
        goto out;
    }
    hyd_place_run_order(in, run);
    for (uint32_t k = 0; st == HYD_OK && k < in->seqs->n_runs; k++) {
        for (uint32_t at = in->seqs->run_first[run[k]];
             st == HYD_OK && at < in->seqs->run_first[run[k] + 1]; at++) {
            st = place_one(grids, run[k], at, placement);
        }
    }
    placement->n_pops = grids->n_pops;

out:
    hyd_arena_rewind(arena, mark);
    return st;
}
