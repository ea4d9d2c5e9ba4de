/* fuzz_plan.c - no bytes in a plan file may hurt: reading, the proof and the figures of what
 * was read end with a plan or with a text that says what is wrong. */
#include <string.h>

#include "scheduler/cli/plan/plan_doc.h"
#include "scheduler/core/figures.h"
#include "scheduler/core/fingerprint.h"
#include "scheduler/core/plan_check.h"
#include "scheduler/core/planner.h"
#include "tests/lib/fuzz.h"

/* A plan of this many cells is simulated; more would only cost time. */
enum { MAX_CELLS = 1 << 14 };

static void judge(struct hyd_plan_doc *doc)
{
    struct hyd_error err = {.text = ""};
    struct hyd_cost cost;
    struct hyd_plan_input counted;
    struct hyd_figures figures = {.n_degrees = 0};
    hyd_status st = hyd_plan_input_check(&doc->in, &err);

    if (st == HYD_OK) {
        st = hyd_plan_check(&doc->in, &doc->plan, &doc->arena, &err);
    }
    if (st == HYD_OK && (uint64_t)doc->plan.n_ranks * doc->plan.n_microbatches *
                                doc->in.pool.pp * doc->in.pool.vpp <
                            MAX_CELLS) {
        (void)hyd_fingerprint(&doc->in, &doc->plan);
        st = hyd_plan_input_count(&doc->in, &doc->arena, &cost, &counted, &err);
        if (st == HYD_OK) {
            st = hyd_figures_compute(&counted, doc->in.batch.length_tokens, &doc->plan,
                                     &doc->arena, &figures, &err);
        }
    }
    hyd_fuzz_check(st == HYD_OK || err.text[0] != '\0', "a refusal without a text");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct hyd_fault_alloc fault;
    struct hyd_plan_doc doc;
    struct hyd_error err = {.text = ""};

    hyd_fuzz_begin(&fault, data, n_bytes);
    if (hyd_plan_doc_parse(&fault.alloc, (const char *)data, n_bytes, &doc, &err) ==
        HYD_OK) {
        judge(&doc);
        hyd_plan_doc_release(&doc);
    } else {
        hyd_fuzz_check(err.text[0] != '\0', "a failure without a text");
    }
    hyd_fuzz_end(&fault);
    return 0;
}
