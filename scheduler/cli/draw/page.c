/* page.c - see draw.h: the picture, its figures and what lies under the pointer, in one file
 * that needs nothing else. */
#include <inttypes.h>

#include "scheduler/cli/draw/draw.h"
#include "scheduler/cli/table.h"

static const char head[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
    "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<title>HyDra plan</title>\n"
    "<style>:root{color-scheme:light dark;background:#ffffff;color:#1a1a1a}\n"
    "body{font:14px/1.4 system-ui,sans-serif;margin:1.5rem auto;max-width:60rem;"
    "padding:0 1rem}\n"
    ".tables{display:flex;flex-wrap:wrap;align-items:flex-start;gap:0 4rem}\n"
    "table{border-collapse:collapse;margin:.5rem 0 1.5rem}\n"
    "caption{text-align:left;font-weight:600;white-space:nowrap;padding-bottom:.3rem}\n"
    "td,th{padding:.1rem .8rem .1rem 0;text-align:left;font-weight:normal}\n"
    "th{color:#5c5c5c}td{font-variant-numeric:tabular-nums}\n"
    "svg{max-width:100%;height:auto}svg:focus-visible{outline:2px solid #0550ae}\n"
    "#at{position:sticky;top:0;padding:.4rem .6rem;background:#f2f2f2;"
    "border:1px solid #8c8c8c;min-height:1.4em;margin:.5rem 0}\n"
    "@media (prefers-color-scheme:dark){:root{background:#16181c;color:#e8e8e8}"
    "th{color:#b0b0b0}#at{background:#2a2d33}svg:focus-visible{outline-color:#79c0ff}}"
    "</style></head><body><main>\n"
    "<h1>Plan</h1>\n";

/* Which cell is under the pointer; arrow keys move over the maps too. */
static const char script[] =
    "<script>\n"
    "const at=document.getElementById('at'),svg=document.querySelector('svg');\n"
    "const here=['l','d'].map(k=>{const e=document.createElementNS("
    "'http://www.w3.org/2000/svg','rect');\n"
    "e.setAttribute('class','here');e.setAttribute('width',cw);"
    "e.setAttribute('height',Math.max(ch,2));e.setAttribute('visibility','hidden');"
    "document.getElementById('map-'+k).append(e);return e;});\n"
    "let cell=[0,0];\n"
    "function show(m,r){cell=[Math.max(0,Math.min(M-1,m)),Math.max(0,Math.min(R-1,r))];"
    "[m,r]=cell;const k=m*R+r;\n"
    "here.forEach(e=>{e.setAttribute('x',m*cw);e.setAttribute('y',r*ch);"
    "e.setAttribute('visibility','visible');});\n"
    "at.textContent=`microbatch ${m}, rank ${r}: `+(degree[k]?"
    "`${(load[k]*unit).toFixed(3)} ms, "
    "${(100*load[k]*unit/reference).toFixed(1)} % of the ${what}, "
    "largest degree ${degree[k]}`:'empty');}\n"
    "for(const k of ['l','d']){const g=document.getElementById('map-'+k);\n"
    "g.addEventListener('pointermove',e=>{const p=new "
    "DOMPoint(e.clientX,e.clientY).matrixTransform(g.getScreenCTM().inverse());\n"
    "show(Math.floor(p.x/cw),Math.floor(p.y/ch));});}\n"
    "svg.setAttribute('role','application');"
    "svg.setAttribute('aria-roledescription','map of cells');svg.tabIndex=0;\n"
    "svg.addEventListener('keydown',e=>{const d={ArrowLeft:[-1,0],ArrowRight:[1,0],"
    "ArrowUp:[0,-1],ArrowDown:[0,1]}[e.key];\n"
    "if(d){show(cell[0]+d[0],cell[1]+d[1]);e.preventDefault();}});\n"
    "svg.addEventListener('focus',()=>show(...cell));\n"
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

    (void)fputs("<div class=\"tables\">\n<table><caption>Predicted figures</caption>\n",
                out);
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
    (void)fputs("</table>\n</div>\n", out);
}

/* Loads in 1/1000 ms of whole numbers: small enough for half a million cells. */
static void write_data(const struct hyd_draw *draw, FILE *out)
{
    const struct hyd_plan *plan = &draw->doc->plan;
    const size_t n = (size_t)plan->n_microbatches * plan->n_ranks;
    double width = 0;
    double height = 0;

    hyd_draw_cell_size(draw, &width, &height);
    (void)fprintf(out,
                  "<script>const M=%" PRIu32 ",R=%" PRIu32
                  ",unit=0.001,reference=%.6g,what='%s',cw=%.9g,ch=%.9g;\nconst load=[",
                  plan->n_microbatches, plan->n_ranks, 1e3 * draw->reference_s,
                  draw->reference, width, height);
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
    write_figures(draw, out);
    (void)fputs(
        "<p id=\"at\" role=\"status\">Point at a cell, or move to the picture with "
        "the Tab key and use the arrow keys.</p>\n",
        out);
    st = hyd_draw_svg(draw, out, err);
    write_data(draw, out);
    (void)fputs(script, out);
    (void)fputs("</main></body></html>\n", out);
    return st;
}
