/* draw.c - see draw.h. */
#include "scheduler/cli/draw/draw.h"

#include "scheduler/core/figures.h"
#include "scheduler/core/plan_check.h"
#include "scheduler/core/plan_shape.h"
#include "scheduler/core/planner.h"

static hyd_status take_arrays(struct hyd_draw *draw, struct hyd_error *err)
{
    const struct hyd_plan *plan = &draw->doc->plan;
    const size_t n = (size_t)plan->n_microbatches * plan->n_ranks;

    draw->load_s = hyd_arena_take(&draw->arena, n, sizeof *draw->load_s);
    draw->degree = hyd_arena_take_zeroed(&draw->arena, n, sizeof *draw->degree);
    if (draw->load_s == NULL || draw->degree == NULL) {
        return hyd_error_set(err, HYD_ERR_NO_MEMORY, "no memory for %zu cells", n);
    }
    return HYD_OK;
}

static void fill_cells(struct hyd_draw *draw)
{
    const struct hyd_plan *plan = &draw->doc->plan;

    for (uint32_t m = 0; m < plan->n_microbatches; m++) {
        const size_t row = (size_t)m * plan->n_ranks;

        hyd_plan_cells(&draw->counted, plan, m, NULL, draw->load_s + row);
        for (uint32_t g = plan->mb_first_group[m]; g < plan->mb_first_group[m + 1];
             g++) {
            const struct hyd_plan_group *group = &plan->group[g];

            for (uint32_t k = 0; k < group->n_ranks; k++) {
                uint32_t *at = draw->degree + row + plan->rank[group->first_rank + k];

                *at = group->n_ranks > *at ? group->n_ranks : *at;
            }
        }
    }
}

static uint32_t find_busiest(const struct hyd_draw *draw)
{
    const struct hyd_plan *plan = &draw->doc->plan;
    uint32_t busiest = 0;
    double most_s = -1;

    for (uint32_t r = 0; r < plan->n_ranks; r++) {
        double sum_s = 0;

        for (uint32_t m = 0; m < plan->n_microbatches; m++) {
            sum_s += draw->load_s[(size_t)m * plan->n_ranks + r];
        }
        if (sum_s > most_s) {
            most_s = sum_s;
            busiest = r;
        }
    }
    return busiest;
}

static hyd_status prepare(struct hyd_draw *draw, struct hyd_error *err)
{
    const struct hyd_plan_doc *doc = draw->doc;
    hyd_status st = hyd_plan_input_check(&doc->in, err);

    if (st == HYD_OK) {
        st = hyd_plan_check(&doc->in, &doc->plan, &draw->arena, err);
        if (st == HYD_ERR_INVALID) {
            hyd_error_prefix(err, "the plan fails its proof");
            st = HYD_ERR_INFEASIBLE;
        }
    }
    if (st == HYD_OK) {
        st = hyd_plan_input_count(&doc->in, &draw->arena, &draw->cost, &draw->counted,
                                  err);
    }
    if (st == HYD_OK) {
        st = hyd_figures_compute(&draw->counted, doc->in.batch.length_tokens,
                                 &doc->plan, &draw->arena, &draw->figures, err);
    }
    return st == HYD_OK ? take_arrays(draw, err) : st;
}

hyd_status hyd_draw_open(const struct hyd_alloc *alloc, const struct hyd_plan_doc *doc,
                         struct hyd_draw *ret_draw, struct hyd_error *err)
{
    hyd_status st = HYD_OK;

    *ret_draw = (struct hyd_draw){.doc = doc};
    hyd_arena_init(&ret_draw->arena, alloc);
    st = prepare(ret_draw, err);
    if (st != HYD_OK) {
        hyd_draw_release(ret_draw);
        return st;
    }
    fill_cells(ret_draw);
    ret_draw->figures.target_s = doc->plan.figures.target_s;
    ret_draw->reference = "mean cell";
    ret_draw->reference_s = ret_draw->figures.mean_cell_s;
    if (ret_draw->figures.target_s > 0) {
        /* The target is for sequences alone; a cell that holds any has its cost too. */
        ret_draw->reference = "load target with a cell's fixed cost";
        ret_draw->reference_s = ret_draw->figures.target_s + ret_draw->cost.cell_s;
    }
    ret_draw->busiest_rank = find_busiest(ret_draw);
    return HYD_OK;
}

void hyd_draw_release(struct hyd_draw *draw)
{
    if (draw->arena.alloc != NULL) {
        hyd_arena_release(&draw->arena);
    }
    *draw = (struct hyd_draw){.doc = NULL};
}

/* Bounds of the levels, as shares of the reference. A ramp loads the middle of a step with
 * up to about twice the target, so the scale has to tell that apart. */
static const struct {
    double below;
    const char *text;
} levels[HYD_DRAW_LEVELS] = {
    {0.25, "under 25 %"}, {0.50, "25-50 %"},   {0.75, "50-75 %"},
    {0.95, "75-95 %"},    {1.05, "95-105 %"},  {1.25, "105-125 %"},
    {1.50, "125-150 %"},  {2.00, "150-200 %"}, {0, "over 200 %"},
};

int hyd_draw_load_level(const struct hyd_draw *draw, uint32_t m, uint32_t rank)
{
    const size_t at = (size_t)m * draw->doc->plan.n_ranks + rank;
    const double share = draw->load_s[at] / draw->reference_s;

    if (draw->degree[at] == 0) {
        return HYD_DRAW_EMPTY;
    }
    for (int level = 0; level < HYD_DRAW_LEVELS - 1; level++) {
        if (share < levels[level].below) {
            return level;
        }
    }
    return HYD_DRAW_LEVELS - 1;
}

const char *hyd_draw_level_text(int level)
{
    return level >= 0 && level < HYD_DRAW_LEVELS ? levels[level].text : "empty";
}

int hyd_draw_degree_level(uint32_t degree)
{
    int level = 0;

    while (level < HYD_DRAW_LEVELS - 1 && (1U << level) < degree) {
        level++;
    }
    return level;
}
