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
    CELL_MAX_HEIGHT = 14,
    LEGEND_STEP = 84,
    STAGE_HEIGHT = 16,
    TITLE_HEIGHT = 64,
    MAP_HEAD = 44, /* title and legend of a map */
    GAP = 56, /* below a map: its axis */
    PIPE_HEAD = 58, /* title, explanation and legend of the pipeline */
    BOTTOM = 16,
    LEAST_NODE_HEIGHT = 24
};

/* Plain rules, no variables: many viewers know no others. In light pictures both scales end
 * dark, in dark ones bright, so that what is far from the target always stands out. */
static const char style[] =
    "<style>\n"
    "svg:root{background:#ffffff;color-scheme:light dark}\n"
    "svg{font-family:system-ui,sans-serif;font-size:12px}\n"
    "text{fill:#1a1a1a}.dim{fill:#5c5c5c}.t{font-size:15px;font-weight:600}\n"
    ".frame{fill:none;stroke:#8c8c8c}.node{fill:none;stroke:#000000;"
    "stroke-opacity:.18}.e{fill:#ffffff}.b{fill:#e4e4e4}.here{fill:none;"
    "stroke:#000000;stroke-width:2}\n"
    ".l0{fill:#08519c}.l1{fill:#3182bd}.l2{fill:#6baed6}.l3{fill:#bdd7e7}"
    ".l4{fill:#dddddd}.l5{fill:#fdd0a2}.l6{fill:#fd8d3c}.l7{fill:#d94801}"
    ".l8{fill:#7f2704}\n"
    ".d0{fill:#440154}.d1{fill:#472d7b}.d2{fill:#3b528b}.d3{fill:#2c728e}"
    ".d4{fill:#21918c}.d5{fill:#28ae80}.d6{fill:#5ec962}.d7{fill:#addc30}"
    ".d8{fill:#fde725}\n"
    ".k0{fill:#6baed6}.k1{fill:#08519c}.k2{fill:#a65e2e}\n"
    "@media (prefers-color-scheme:dark){svg:root{background:#16181c}"
    "text{fill:#e8e8e8}.dim{fill:#b0b0b0}.frame{stroke:#777777}"
    ".node{stroke:#ffffff}.e{fill:#16181c}.b{fill:#33373e}.here{stroke:#ffffff}\n"
    ".l0{fill:#a9d3ff}.l1{fill:#6fb2ee}.l2{fill:#4788c2}.l3{fill:#43627d}"
    ".l4{fill:#50545a}.l5{fill:#80603f}.l6{fill:#b8722c}.l7{fill:#ee9134}"
    ".l8{fill:#ffc68c}\n"
    ".d0{fill:#6b54a0}.d1{fill:#5f6cbd}.d2{fill:#5484c6}.d3{fill:#4a9cc4}"
    ".d4{fill:#45b3b3}.d5{fill:#56c795}.d6{fill:#85d970}.d7{fill:#c0e650}"
    ".d8{fill:#fdf35a}\n"
    ".k0{fill:#bcdcf5}.k1{fill:#3f8fd6}.k2{fill:#d08a55}}\n"
    "</style>\n";

/* Size of one map. */
struct map {
    double x;
    double y;
    double cell_width;
    double cell_height;
};

void hyd_draw_cell_size(const struct hyd_draw *draw, double *ret_width,
                        double *ret_height)
{
    const struct hyd_plan *plan = &draw->doc->plan;
    const double high = (double)MAP_MAX_HEIGHT / plan->n_ranks;

    *ret_width = (double)MAP_WIDTH / plan->n_microbatches;
    *ret_height = high > CELL_MAX_HEIGHT ? CELL_MAX_HEIGHT : high;
}

static struct map map_at(const struct hyd_draw *draw, double y)
{
    struct map map = {.x = LEFT, .y = y};

    hyd_draw_cell_size(draw, &map.cell_width, &map.cell_height);
    return map;
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

/* Lines between nodes, where they leave room for cells. */
static void draw_nodes(const struct hyd_draw *draw, FILE *out, const struct map *map)
{
    const uint32_t n_ranks = draw->doc->plan.n_ranks;
    const uint32_t per_node = draw->counted.pool.ranks_per_node;

    if (per_node == 0 || per_node >= n_ranks ||
        per_node * map->cell_height < LEAST_NODE_HEIGHT) {
        return;
    }
    (void)fputs("<path class=\"node\" d=\"", out);
    for (uint32_t r = per_node; r < n_ranks; r += per_node) {
        (void)fprintf(out, "M0,%.5gh%d", r * map->cell_height, MAP_WIDTH);
    }
    (void)fputs("\"/>\n", out);
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
    draw_nodes(draw, out, map);
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
        "hottest cell %s, %.3f times the mean; empty cells have no colour</text>\n",
        LEFT, hyd_text_seconds(draw->figures.step_s, step),
        100 * draw->figures.bubble.total,
        hyd_text_seconds(draw->figures.hottest_cell_s, hottest), draw->figures.balance);
}

/* What the pictures show, for those who hear them. */
static void draw_description(const struct hyd_draw *draw, FILE *out)
{
    const struct hyd_plan *plan = &draw->doc->plan;
    const size_t n = (size_t)plan->n_microbatches * plan->n_ranks;
    size_t hottest = 0;
    size_t n_empty = 0;

    for (size_t i = 0; i < n; i++) {
        hottest = draw->load_s[i] > draw->load_s[hottest] ? i : hottest;
        n_empty += draw->degree[i] == 0 ? 1 : 0;
    }
    (void)fprintf(out,
                  "<desc id=\"plan-desc\">%" PRIu32 " ranks by %" PRIu32
                  " microbatches; hottest cell: microbatch %zu, rank %zu, %.4g ms, "
                  "%.2f times the %s; %zu of %zu cells are empty; busiest rank %" PRIu32
                  "</desc>\n",
                  plan->n_ranks, plan->n_microbatches, hottest / plan->n_ranks,
                  hottest % plan->n_ranks, 1e3 * draw->load_s[hottest],
                  draw->load_s[hottest] / draw->reference_s, draw->reference, n_empty,
                  n, draw->busiest_rank);
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
        "1", "2", "3-4", "5-8", "9-16", "17-32", "33-64", "65-128", "over 128"};

    for (int level = 0; level < HYD_DRAW_LEVELS; level++) {
        legend(out, y_load, 'l', level, hyd_draw_level_text(level));
        legend(out, y_degree, 'd', level, degrees[level]);
    }
}

/* Pictures above each other; returns where the last one goes. */
static double draw_maps(const struct hyd_draw *draw, FILE *out)
{
    const struct hyd_plan *plan = &draw->doc->plan;
    const struct map load = map_at(draw, TITLE_HEIGHT + MAP_HEAD);
    const double height = load.cell_height * plan->n_ranks;
    const struct map degree = map_at(draw, load.y + height + GAP + MAP_HEAD);
    char title[160];

    (void)snprintf(title, sizeof title, "Load of each cell, against the %s, %.4g ms",
                   draw->reference, 1e3 * draw->reference_s);
    draw_title(out, load.y - 26, title);
    draw_map(draw, out, &load, hyd_draw_load_level, 'l');
    draw_title(out, degree.y - 26, "Largest context-parallel degree in each cell");
    draw_map(draw, out, &degree, degree_level, 'd');
    draw_legends(out, load.y - 8, degree.y - 8);
    return degree.y + height + GAP + PIPE_HEAD;
}

static void draw_pipe_head(const struct hyd_draw *draw, FILE *out, double y)
{
    const bool trains = draw->counted.pass != HYD_PASS_FORWARD;
    char title[160];
    char step[HYD_TEXT_BYTES];
    char ends[2 * HYD_TEXT_BYTES];

    (void)snprintf(title, sizeof title,
                   "Pipeline of the busiest rank, %" PRIu32 ": its stages over time",
                   draw->busiest_rank);
    draw_title(out, y - 40, title);
    legend(out, y - 8, 'k', 0, "forward");
    if (trains) {
        legend(out, y - 8, 'k', 1, "backward");
    }
    if (trains && draw->counted.options.zero_bubble) {
        legend(out, y - 8, 'k', 2, "weight gradients");
    }
    (void)snprintf(ends, sizeof ends, "0 to %s; gaps are bubbles",
                   hyd_text_seconds(draw->figures.step_s, step));
    (void)fprintf(out, "<text class=\"dim\" x=\"%d\" y=\"%.5g\">%s</text>\n", LEFT,
                  y - 24, ends);
}

hyd_status hyd_draw_svg(struct hyd_draw *draw, FILE *out, struct hyd_error *err)
{
    const struct hyd_plan *plan = &draw->doc->plan;
    const double height = map_at(draw, 0).cell_height * plan->n_ranks;
    const double total = TITLE_HEIGHT + 2 * (MAP_HEAD + height + GAP) + PIPE_HEAD +
                         draw->counted.pool.pp * (double)STAGE_HEIGHT + BOTTOM;
    double pipe_y = 0;
    hyd_status st = HYD_OK;

    (void)fprintf(out,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" "
                  "width=\"%d\" height=\"%.0f\" role=\"img\" "
                  "aria-labelledby=\"plan-title plan-desc\">\n<title "
                  "id=\"plan-title\">plan by %s</title>\n",
                  WIDTH, total, WIDTH, total, draw->counted.policy);
    draw_description(draw, out);
    (void)fputs(style, out);
    (void)fputs("<rect width=\"100%\" height=\"100%\" class=\"e\"/>\n", out);
    draw_heading(draw, out);
    pipe_y = draw_maps(draw, out);
    draw_pipe_head(draw, out, pipe_y);
    st = draw_pipeline(draw, out, pipe_y, err);
    (void)fputs("</svg>\n", out);
    return st;
}
