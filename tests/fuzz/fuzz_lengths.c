/* fuzz_lengths.c - no bytes in a file of lengths may hurt: each importer gives lengths in
 * range or a text that says what is wrong. The first byte chooses format and field. */
#include <string.h>

#include "scheduler/cli/lengths/import.h"
#include "scheduler/core/types.h"
#include "tests/lib/fuzz.h"

static const char *const formats[] = {"auto",  "jsonl",    "json", "csv",
                                      "lines", "megatron", "text", "none"};
static const char *const fields[] = {NULL, "a", "a+b", "2", "+", "messages"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    struct hyd_fault_alloc fault;
    struct hyd_lengths list;
    struct hyd_length_stats stats;
    struct hyd_error err = {.text = ""};
    struct hyd_import in = {.path = "input.csv", .bytes_per_token = 4};
    char *bytes = NULL;
    hyd_status st = HYD_OK;

    if (n_bytes == 0) {
        return 0;
    }
    hyd_fuzz_begin(&fault, data, n_bytes);
    hyd_lengths_init(&list, &fault.alloc);
    bytes = hyd_alloc_array(&fault.alloc, n_bytes, 1);
    if (bytes != NULL) {
        memcpy(bytes, data + 1, n_bytes - 1);
        bytes[n_bytes - 1] = '\0';
        in.bytes = bytes;
        in.n_bytes = n_bytes - 1;
        in.field = fields[(data[0] >> 3) % (sizeof fields / sizeof fields[0])];
        in.path = data[0] >= 128 ? "input.csv" : "input";
        st = hyd_import_bytes(&in, formats[data[0] % 8], &list, &err);
        hyd_fuzz_check(st == HYD_OK || err.text[0] != '\0', "a failure without a text");
        hyd_fuzz_check(strlen(err.text) < sizeof err.text, "a text without an end");
    }
    for (size_t i = 0; i < list.n; i++) {
        hyd_fuzz_check(list.length_tokens[i] >= 1 &&
                           list.length_tokens[i] <= HYD_MAX_LENGTH_TOKENS,
                       "a length out of range");
        hyd_fuzz_check(list.extra_work_s == NULL || list.extra_work_s[i] >= 0,
                       "negative work");
    }
    if (list.n > 0 && hyd_lengths_measure(&list, &stats, &err) == HYD_OK) {
        hyd_fuzz_check(stats.n == list.n, "a figure of another list");
    }
    hyd_lengths_release(&list);
    hyd_alloc_free(&fault.alloc, bytes);
    hyd_fuzz_end(&fault);
    return 0;
}
