/* import_text.c - a text file as one sequence; tokens estimated from its bytes. */
#include <string.h>

#include "scheduler/cli/lengths/import.h"

enum { PEEK_BYTES = 8192 };

static bool text_recognise(const struct hyd_import *in)
{
    (void)in;
    return true; /* the last one asked */
}

static hyd_status text_read(const struct hyd_import *in, struct hyd_lengths *list,
                            struct hyd_error *err)
{
    const size_t n_peek = in->n_bytes < PEEK_BYTES ? in->n_bytes : PEEK_BYTES;
    hyd_status st = HYD_OK;

    if (in->n_bytes == 0 || memchr(in->bytes, 0, n_peek) != NULL) {
        list->n_skipped++; /* empty, or no text */
        return HYD_OK;
    }
    st = hyd_import_add(in, 0, hyd_import_estimate(in, in->n_bytes), 0, list, err);
    if (st == HYD_OK) {
        list->n_estimated++;
    }
    return st;
}

const struct hyd_importer hyd_importer_text = {
    .name = "text",
    .reads = "a text file or a folder of them: one sequence a file, tokens estimated "
             "from bytes",
    .recognise = text_recognise,
    .read = text_read,
};
