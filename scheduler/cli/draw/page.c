/* page.c - see draw.h: the picture, its figures and what lies under the pointer, in one file
 * that needs nothing else. */
#include <inttypes.h>

#include "scheduler/cli/draw/draw.h"
#include "scheduler/cli/table.h"

static const char head[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
    "style-src "
    "'unsafe-inline'; script-src 'unsafe-inline'\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n<title>HyDra "
    "plan</title>\n"
    "<style>:root{color-scheme:light dark}body{font-family:system-ui,sans-serif;"
    "font-size:14px;margin:1.5rem auto;max-width:60rem;padding:0 1rem}"
    "table{border-collapse:collapse;margin:1rem 0}td,th{padding:.15rem .8rem .15rem 0;"
    "text-align:left;font-weight:normal}th{opacity:.7}td{font-variant-numeric:tabular-"
    "nums}"
    "svg{max-width:100%;height:auto}#at{position:sticky;top:0;padding:.4rem .6rem;"
    "background:Canvas;border:1px solid "
    "GrayText;min-height:1.3em}</style></head><body>\n"
    "<h1>Plan</h1>\n";

/* Which cell is under the pointer; arrow keys move over the map too. */
static const char script[] =
    "<script>\n"
    "const at=document.getElementById('at'),map=document.querySelector('svg');\n"
    "let cell=null;\n"
    "function show(m,r){if(m<0||r<0||m>=M||r>=R)return;cell=[m,r];const k=m*R+r;\n"
    "at.textContent=`microbatch ${m}, rank ${r}: "
    "`+(degree[k]?`${(load[k]*unit).toFixed(3)} "
    "ms, ${(100*load[k]*unit/reference).toFixed(1)} % of the ${what}, largest degree "
    "${degree[k]}`:'empty');}\n"
    "for(const id of ['map-l','map-d']){const g=document.getElementById(id);\n"
    "g.addEventListener('pointermove',e=>{const p=new "
    "DOMPoint(e.clientX,e.clientY).matrixTransform(g.getScreenCTM().inverse());\n"
    "show(Math.floor(p.x/cw),Math.floor(p.y/ch));});}\n"
    "map.tabIndex=0;map.addEventListener('keydown',e=>{const "
    "d={ArrowLeft:[-1,0],ArrowRight:[1,0],ArrowUp:[0,-1],ArrowDown:[0,1]}[e.key];\n"
    "if(d){cell=cell||[0,0];show(cell[0]+d[0],cell[1]+d[1]);e.preventDefault();}});\n"
    "</script>\n";

static void row(FILE *out, const char *name, const char *value)
{
    (void)fprintf(out, "<tr><th scope=\"row\">%s</th><td>%s</td></tr>\n", name, value);
}

static void seconds_row(FILE *out, const char *name, double seconds)
{
    char text[HYD_TEXT_BYTES];

    row(out, name, hyd_text_seconds(seconds, text));
}

static void share_row(FILE *out, const char *name, double share)
{
    char text[HYD_TEXT_BYTES];

    (void)snprintf(text, sizeof text, "%.2f %%", 100 * share);
    row(out, name, text);
}

static void write_figures(const struct hyd_draw *draw, FILE *out)
{
    const struct hyd_figures *f = &draw->figures;
    char text[HYD_TEXT_BYTES];

    (void)fputs("<table><caption>Predicted</caption>\n", out);
    seconds_row(out, "Step", f->step_s);
    seconds_row(out, "Lower bound of the step", f->step_bound_s);
    share_row(out, "Above the bound", f->gap);
    share_row(out, "Useful", f->useful_fraction);
    share_row(out, "Bubble", f->bubble.total);
    seconds_row(out, "Hottest cell", f->hottest_cell_s);
    seconds_row(out, "Mean cell", f->mean_cell_s);
    (void)snprintf(text, sizeof text, "%.4f", f->balance);
    row(out, "Balance (hottest / mean)", text);
    (void)snprintf(text, sizeof text, "%.0f of %" PRIu32, f->max_tokens,
                   draw->doc->plan.cap_tokens);
    row(out, "Most tokens in a cell", text);
    (void)fputs("</table>\n<table><caption>Sequences at each degree</caption>\n", out);
    for (uint32_t i = 0; i < f->n_degrees; i++) {
        char degree[HYD_TEXT_BYTES];

        (void)snprintf(degree, sizeof degree, "%" PRIu32, f->degree[i].degree);
        row(out, degree, hyd_text_count(f->degree[i].n_seqs, text));
    }
    (void)fputs("</table>\n", out);
}

/* Loads in 1/1000 ms of whole numbers: small enough for half a million cells. */
static void write_data(const struct hyd_draw *draw, FILE *out)
{
    const struct hyd_plan *plan = &draw->doc->plan;
    const size_t n = (size_t)plan->n_microbatches * plan->n_ranks;
    const double high = 512.0 / plan->n_ranks;

    (void)fprintf(out,
                  "<script>const M=%" PRIu32 ",R=%" PRIu32
                  ",unit=0.001,reference=%.6g,what='%s',cw=%.9g,ch=%.9g;\nconst load=[",
                  plan->n_microbatches, plan->n_ranks, 1e3 * draw->reference_s,
                  draw->reference, 760.0 / plan->n_microbatches, high > 14 ? 14 : high);
    for (size_t i = 0; i < n; i++) {
        (void)fprintf(out, "%s%.0f", i > 0 ? "," : "", 1e6 * draw->load_s[i]);
    }
    (void)fputs("];\nconst degree=[", out);
    for (size_t i = 0; i < n; i++) {
        (void)fprintf(out, "%s%" PRIu32, i > 0 ? "," : "", draw->degree[i]);
    }
    (void)fputs("];</script>\n", out);
}

hyd_status hyd_draw_page(struct hyd_draw *draw, FILE *out, struct hyd_error *err)
{
    hyd_status st = HYD_OK;

    (void)fputs(head, out);
    (void)fputs(
        "<p id=\"at\" aria-live=\"polite\">Point at a cell, or focus the picture and "
        "use the arrow keys.</p>\n",
        out);
    st = hyd_draw_svg(draw, out, err);
    write_figures(draw, out);
    write_data(draw, out);
    (void)fputs(script, out);
    (void)fputs("</body></html>\n", out);
    return st;
}
