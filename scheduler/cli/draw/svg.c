/* svg.c - see draw.h: three pictures above each other. Cells of one colour are one path, so
 * that half a million of them stay a file that a viewer opens; columns are merged over
 * ranks of equal colour. Colours are a blue-grey-orange scale and a dark-to-light one,
 * which people with any kind of colour vision can tell apart, in light and dark. */
#include <inttypes.h>
#include <stdbool.h>

#include "scheduler/cli/draw/draw.h"
#include "scheduler/cli/draw/timeline.h"
#include "scheduler/cli/table.h"

enum {
    LEFT = 64,
    MAP_WIDTH = 760,
    WIDTH = LEFT + MAP_WIDTH + 24,
    MAP_MAX_HEIGHT = 512,
    LEGEND_STEP = 84,
    STAGE_HEIGHT = 16,
    TITLE_HEIGHT = 64,
    GAP = 56
};

/* Plain rules, no variables: many viewers know no others. */
static const char style[] =
    "<style>\n"
    "svg{font-family:system-ui,sans-serif;font-size:12px}\n"
    "text{fill:#1a1a1a}.dim{fill:#5c5c5c}.t{font-size:15px;font-weight:600}\n"
    ".frame{fill:none;stroke:#bbbbbb}.e{fill:#ffffff}.b{fill:#eeeeee}\n"
    ".l0{fill:#08519c}.l1{fill:#3182bd}.l2{fill:#6baed6}.l3{fill:#bdd7e7}.l4{fill:#"
    "dddddd}"
    ".l5{fill:#fdd0a2}.l6{fill:#fd8d3c}.l7{fill:#d94801}.l8{fill:#7f2704}\n"
    ".d0{fill:#440154}.d1{fill:#472d7b}.d2{fill:#3b528b}.d3{fill:#2c728e}.d4{fill:#"
    "21918c}"
    ".d5{fill:#28ae80}.d6{fill:#5ec962}.d7{fill:#addc30}.d8{fill:#fde725}\n"
    ".k0{fill:#6baed6}.k1{fill:#08519c}.k2{fill:#9e9ac8}\n"
    "@media (prefers-color-scheme:dark){text{fill:#e8e8e8}.dim{fill:#a8a8a8}"
    ".frame{stroke:#555555}.e{fill:#16181c}.b{fill:#2c3036}.l4{fill:#4a4a4a}"
    ".l0{fill:#3f8fd6}.l1{fill:#5aa5dc}.d0{fill:#6a2c8a}.k1{fill:#3f8fd6}.k0{fill:#"
    "9ecae1}}\n"
    "</style>\n";

/* Size of one map. */
struct map {
    double x;
    double y;
    double cell_width;
    double cell_height;
};

static struct map map_at(const struct hyd_plan *plan, double y)
{
    const double high = (double)MAP_MAX_HEIGHT / plan->n_ranks;

    return (struct map){
        .x = LEFT,
        .y = y,
        .cell_width = (double)MAP_WIDTH / plan->n_microbatches,
        .cell_height = high > 14 ? 14 : high,
    };
}

typedef int level_of(const struct hyd_draw *draw, uint32_t m, uint32_t rank);

static int degree_level(const struct hyd_draw *draw, uint32_t m, uint32_t rank)
{
    const uint32_t degree = draw->degree[(size_t)m * draw->doc->plan.n_ranks + rank];

    return degree == 0 ? HYD_DRAW_EMPTY : hyd_draw_degree_level(degree);
}

/* All cells of one level as one path; runs of ranks are one rectangle. */
static void draw_level(const struct hyd_draw *draw, FILE *out, const struct map *map,
                       level_of *level, int which)
{
    const struct hyd_plan *plan = &draw->doc->plan;

    for (uint32_t m = 0; m < plan->n_microbatches; m++) {
        for (uint32_t r = 0; r < plan->n_ranks;) {
            uint32_t end = r;

            while (end < plan->n_ranks && level(draw, m, end) == which) {
                end++;
            }
            if (end == r) {
                r++;
                continue;
            }
            (void)fprintf(out, "M%.5g,%.5gh%.4gv%.5gh-%.4gz", m * map->cell_width,
                          r * map->cell_height, map->cell_width,
                          (end - r) * map->cell_height, map->cell_width);
            r = end;
        }
    }
}

static void draw_axes(const struct hyd_plan *plan, FILE *out, const struct map *map)
{
    const double height = map->cell_height * plan->n_ranks;
    const uint32_t rank_step = (plan->n_ranks + 7) / 8;
    const uint32_t mb_step = (plan->n_microbatches + 15) / 16;

    (void)fprintf(out,
                  "<rect class=\"frame\" x=\"%.5g\" y=\"%.5g\" width=\"%d\" "
                  "height=\"%.5g\"/>\n",
                  map->x, map->y, MAP_WIDTH, height);
    for (uint32_t r = 0; r < plan->n_ranks; r += rank_step) {
        (void)fprintf(out,
                      "<text class=\"dim\" text-anchor=\"end\" x=\"%.5g\" "
                      "y=\"%.5g\">%" PRIu32 "</text>\n",
                      map->x - 6, map->y + (r + 0.5) * map->cell_height + 4, r);
    }
    for (uint32_t m = 0; m < plan->n_microbatches; m += mb_step) {
        (void)fprintf(out,
                      "<text class=\"dim\" text-anchor=\"middle\" x=\"%.5g\" "
                      "y=\"%.5g\">%" PRIu32 "</text>\n",
                      map->x + (m + 0.5) * map->cell_width, map->y + height + 15, m);
    }
    (void)fprintf(out,
                  "<text class=\"dim\" transform=\"translate(14,%.5g) rotate(-90)\" "
                  "text-anchor=\"middle\">rank</text>\n",
                  map->y + height / 2);
    (void)fprintf(out,
                  "<text class=\"dim\" x=\"%d\" y=\"%.5g\" "
                  "text-anchor=\"end\">microbatch, in order</text>\n",
                  LEFT + MAP_WIDTH, map->y + height + 30);
}

static void draw_map(const struct hyd_draw *draw, FILE *out, const struct map *map,
                     level_of *level, char letter)
{
    (void)fprintf(out,
                  "<g id=\"map-%c\" transform=\"translate(%.5g,%.5g)\" "
                  "shape-rendering=\"crispEdges\">\n",
                  letter, map->x, map->y);
    for (int which = 0; which < HYD_DRAW_LEVELS; which++) {
        (void)fprintf(out, "<path class=\"%c%d\" d=\"", letter, which);
        draw_level(draw, out, map, level, which);
        (void)fputs("\"/>\n", out);
    }
    (void)fputs("</g>\n", out);
    draw_axes(&draw->doc->plan, out, map);
}

static void legend(FILE *out, double y, char letter, int level, const char *text)
{
    const double x = LEFT + level * LEGEND_STEP;

    (void)fprintf(out,
                  "<rect class=\"%c%d\" x=\"%.5g\" y=\"%.5g\" width=\"12\" "
                  "height=\"12\"/><text class=\"dim\" x=\"%.5g\" y=\"%.5g\" "
                  "font-size=\"10\">%s</text>\n",
                  letter, level, x, y - 10, x + 15, y, text);
}

static void draw_heading(const struct hyd_draw *draw, FILE *out)
{
    const struct hyd_plan *plan = &draw->doc->plan;
    char step[HYD_TEXT_BYTES];
    char hottest[HYD_TEXT_BYTES];

    (void)fprintf(out,
                  "<text class=\"t\" x=\"%d\" y=\"24\">%s: %zu sequences on %" PRIu32
                  " ranks, cap %" PRIu32 " tokens, %" PRIu32 " microbatches</text>\n",
                  LEFT, draw->counted.policy, plan->n_seqs, plan->n_ranks,
                  plan->cap_tokens, plan->n_microbatches);
    (void)fprintf(
        out,
        "<text class=\"dim\" x=\"%d\" y=\"44\">predicted: step %s, %.1f %% bubble; "
        "hottest cell %s, %.3f times the mean</text>\n",
        LEFT, hyd_text_seconds(draw->figures.step_s, step),
        100 * draw->figures.bubble.total,
        hyd_text_seconds(draw->figures.hottest_cell_s, hottest), draw->figures.balance);
}

static void draw_title(FILE *out, double y, const char *text)
{
    (void)fprintf(out, "<text class=\"t\" x=\"%d\" y=\"%.5g\">%s</text>\n", LEFT, y,
                  text);
}

/* --- pipeline of one rank --- */

struct lane {
    const struct hyd_draw *draw;
    FILE *out;
    double y;
    double x_per_s;
};

static bool has_busiest(const struct lane *lane, uint32_t g)
{
    const struct hyd_plan *plan = &lane->draw->doc->plan;
    const struct hyd_plan_group *group = &plan->group[g];

    for (uint32_t k = 0; k < group->n_ranks; k++) {
        if (plan->rank[group->first_rank + k] == lane->draw->busiest_rank) {
            return true;
        }
    }
    return false;
}

static void draw_slice(const struct lane *lane, const struct hyd_pipeline_op *op,
                       double start_s, double end_s)
{
    (void)fprintf(lane->out,
                  "<rect class=\"k%u\" x=\"%.6g\" y=\"%.5g\" width=\"%.5g\" "
                  "height=\"%d\"/>\n",
                  (unsigned)op->kind, LEFT + start_s * lane->x_per_s,
                  lane->y + op->stage * STAGE_HEIGHT + 1,
                  (end_s - start_s) * lane->x_per_s, STAGE_HEIGHT - 2);
}

static void lane_group(void *ctx, const struct hyd_pipeline_op *op, uint32_t microbatch,
                       uint32_t group, double start_s, double end_s)
{
    (void)microbatch;
    if (has_busiest(ctx, group)) {
        draw_slice(ctx, op, start_s, end_s);
    }
}

static void lane_local(void *ctx, const struct hyd_pipeline_op *op, uint32_t microbatch,
                       const double *start_s, const double *end_s)
{
    const struct lane *lane = ctx;
    const uint32_t r = lane->draw->busiest_rank;

    (void)microbatch;
    if (end_s[r] > start_s[r]) {
        draw_slice(lane, op, start_s[r], end_s[r]);
    }
}

static hyd_status draw_pipeline(struct hyd_draw *draw, FILE *out, double y,
                                struct hyd_error *err)
{
    const uint32_t n_stages = draw->counted.pool.pp;
    struct lane lane = {.draw = draw, .out = out, .y = y};
    const struct hyd_timeline_events events = {
        .on_group = lane_group, .on_local = lane_local, .ctx = &lane};
    double step_s = 0;

    lane.x_per_s = MAP_WIDTH / draw->figures.step_s;
    (void)fprintf(out,
                  "<rect class=\"b\" x=\"%d\" y=\"%.5g\" width=\"%d\" "
                  "height=\"%" PRIu32 "\"/>\n",
                  LEFT, y, MAP_WIDTH, n_stages * STAGE_HEIGHT);
    for (uint32_t s = 0; s < n_stages; s++) {
        (void)fprintf(out,
                      "<text class=\"dim\" text-anchor=\"end\" x=\"%d\" "
                      "y=\"%.5g\">%" PRIu32 "</text>\n",
                      LEFT - 6, y + (s + 0.5) * STAGE_HEIGHT + 4, s);
    }
    return hyd_timeline_run(&draw->counted, &draw->doc->plan, &events, &draw->arena,
                            &step_s, err);
}

static void draw_legends(FILE *out, double y_load, double y_degree)
{
    static const char *const degrees[HYD_DRAW_LEVELS] = {
        "1", "2", "to 4", "to 8", "to 16", "to 32", "to 64", "to 128", "above"};

    for (int level = 0; level < HYD_DRAW_LEVELS; level++) {
        legend(out, y_load, 'l', level, hyd_draw_level_text(level));
        legend(out, y_degree, 'd', level, degrees[level]);
    }
}

/* Pictures above each other; returns where the last one goes. */
static double draw_maps(const struct hyd_draw *draw, FILE *out)
{
    const struct hyd_plan *plan = &draw->doc->plan;
    const struct map load = map_at(plan, TITLE_HEIGHT + 44);
    const double height = load.cell_height * plan->n_ranks;
    const struct map degree = map_at(plan, load.y + height + GAP + 44);
    char title[160];

    (void)snprintf(title, sizeof title, "Load of each cell, against the %s of %.4g ms",
                   draw->reference, 1e3 * draw->reference_s);
    draw_title(out, load.y - 26, title);
    draw_map(draw, out, &load, hyd_draw_load_level, 'l');
    draw_title(out, degree.y - 26, "Largest context-parallel degree in each cell");
    draw_map(draw, out, &degree, degree_level, 'd');
    draw_legends(out, load.y - 8, degree.y - 8);
    return degree.y + height + GAP + 40;
}

hyd_status hyd_draw_svg(struct hyd_draw *draw, FILE *out, struct hyd_error *err)
{
    const struct hyd_plan *plan = &draw->doc->plan;
    const double height = map_at(plan, 0).cell_height * plan->n_ranks;
    const double total = TITLE_HEIGHT + 2 * (height + GAP + 44) +
                         draw->counted.pool.pp * (double)STAGE_HEIGHT + 28;
    char title[160];
    char step[HYD_TEXT_BYTES];
    double pipe_y = 0;
    hyd_status st = HYD_OK;

    (void)fprintf(out,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" "
                  "width=\"%d\" height=\"%.0f\" role=\"img\">\n<title>plan by "
                  "%s</title>\n",
                  WIDTH, total, WIDTH, total, draw->counted.policy);
    (void)fputs(style, out);
    (void)fputs("<rect width=\"100%\" height=\"100%\" class=\"e\"/>\n", out);
    draw_heading(draw, out);
    pipe_y = draw_maps(draw, out);
    (void)snprintf(title, sizeof title, "Pipeline of the busiest rank, %" PRIu32,
                   draw->busiest_rank);
    draw_title(out, pipe_y - 26, title);
    (void)fprintf(
        out,
        "<text class=\"dim\" x=\"%d\" y=\"%.5g\">stages over %s; forward light, "
        "backward dark, gaps are bubbles</text>\n",
        LEFT, pipe_y - 9, hyd_text_seconds(draw->figures.step_s, step));
    st = draw_pipeline(draw, out, pipe_y, err);
    (void)fputs("</svg>\n", out);
    return st;
}
