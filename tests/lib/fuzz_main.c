/* fuzz_main.c - see fuzz.h: replay of a corpus folder where libFuzzer is not linked. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "tests/lib/fuzz.h"

enum {
    MAX_INPUT_BYTES = 1 << 20,
    DEFAULT_MUTATIONS = 200,
    MAX_CHANGES = 4,
    MAX_FAILED_ALLOCATIONS = 200
};

struct totals {
    size_t n_files;
    size_t n_inputs;
    unsigned n_mutations;
    int oom;
};

static void run(struct totals *totals, const uint8_t *data, size_t n_bytes)
{
    /* A copy of exact size, so that the sanitizer sees one byte too far. */
    uint8_t *exact = malloc(n_bytes > 0 ? n_bytes : 1);

    if (exact == NULL) {
        abort();
    }
    memcpy(exact, data, n_bytes);
    hyd_fuzz_fail_at = 0;
    (void)LLVMFuzzerTestOneInput(exact, n_bytes);
    totals->n_inputs++;
    for (size_t n = 1; totals->oom && n <= hyd_fuzz_n_calls; n++) {
        const size_t n_calls = hyd_fuzz_n_calls;

        if (n > MAX_FAILED_ALLOCATIONS) {
            break;
        }
        hyd_fuzz_fail_at = n;
        (void)LLVMFuzzerTestOneInput(exact, n_bytes);
        hyd_fuzz_n_calls = n_calls;
    }
    free(exact);
}

/* Flip, insert, delete, repeat: the changes that find parser mistakes. */
static size_t change(struct hyd_rng *rng, uint8_t *data, size_t n_bytes)
{
    static const char interesting[] = "0-9.\"'{}[],:\n\r#\\e+N\0\xff";
    const size_t at = n_bytes > 0 ? hyd_rng_below(rng, (uint32_t)n_bytes) : 0;
    const uint8_t byte =
        (uint8_t)interesting[hyd_rng_below(rng, (uint32_t)sizeof interesting - 1)];

    switch (hyd_rng_below(rng, 5)) {
    case 0:
        if (n_bytes > 0) {
            data[at] = (uint8_t)(data[at] ^ (1U << hyd_rng_below(rng, 8)));
        }
        return n_bytes;
    case 1:
        if (n_bytes > 0) {
            data[at] = byte;
        }
        return n_bytes;
    case 2: /* insert */
        memmove(data + at + 1, data + at, n_bytes - at);
        data[at] = byte;
        return n_bytes + 1;
    case 3: /* delete the rest or one byte */
        if (n_bytes == 0 || hyd_rng_below(rng, 4) == 0) {
            return at;
        }
        memmove(data + at, data + at + 1, n_bytes - at - 1);
        return n_bytes - 1;
    default: /* repeat a piece */
        if (2 * n_bytes < MAX_INPUT_BYTES / 2 && n_bytes > 0) {
            const size_t n = 1 + hyd_rng_below(rng, (uint32_t)(n_bytes - at));

            memmove(data + at + n, data + at, n_bytes - at);
            return n_bytes + n;
        }
        return n_bytes;
    }
}

static void replay(struct totals *totals, const char *path)
{
    static uint8_t original[MAX_INPUT_BYTES];
    static uint8_t data[MAX_INPUT_BYTES];
    FILE *file = fopen(path, "rb");
    size_t n_original = 0;

    if (file == NULL) {
        (void)fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    n_original = fread(original, 1, MAX_INPUT_BYTES / 4, file);
    (void)fclose(file);
    totals->n_files++;
    run(totals, original, n_original);
    for (unsigned i = 0; i < totals->n_mutations; i++) {
        struct hyd_rng rng = {hyd_rng_mix(n_original, i)};
        size_t n_bytes = n_original;
        const uint32_t n_changes = 1 + hyd_rng_below(&rng, MAX_CHANGES);

        memcpy(data, original, n_original);
        for (uint32_t c = 0; c < n_changes; c++) {
            n_bytes = change(&rng, data, n_bytes);
        }
        run(totals, data, n_bytes);
    }
}

int main(int argc, char **argv)
{
    const char *mutations = getenv("HYDRA_FUZZ_MUTATIONS");
    struct totals totals = {.oom = getenv("HYDRA_FUZZ_OOM") != NULL};

    (void)setenv("HYDRA_FUZZ_REPLAY", "1", 1);
    totals.n_mutations =
        mutations != NULL ? (unsigned)strtoul(mutations, NULL, 10) : DEFAULT_MUTATIONS;
    for (int i = 1; i < argc; i++) {
        struct dirent **entry = NULL;
        const int n = scandir(argv[i], &entry, NULL, alphasort);

        if (n < 0) {
            replay(&totals, argv[i]); /* one input: a crash to look at */
            continue;
        }
        for (int k = 0; k < n; k++) {
            char path[4096];

            (void)snprintf(path, sizeof path, "%s/%s", argv[i], entry[k]->d_name);
            if (entry[k]->d_name[0] != '.') {
                replay(&totals, path);
            }
            free(entry[k]);
        }
        free(entry);
    }
    printf("%zu files, %zu inputs%s\n", totals.n_files, totals.n_inputs,
           totals.oom ? ", each with failing allocations" : "");
    return totals.n_files > 0 ? 0 : 1;
}
