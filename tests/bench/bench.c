/* bench.c - see bench.h: what the benches share. */
#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/banned.h"

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;

    return x < y ? -1 : x > y;
}

struct hyd_bench_times hyd_bench_times(double *time_s, size_t n)
{
    qsort(time_s, n, sizeof *time_s, by_size);
    return (struct hyd_bench_times){
        .min_s = time_s[0],
        .median_s = time_s[n / 2],
        .p95_s = time_s[(n - 1) * 95 / 100],
        .n = n,
    };
}

const char *hyd_bench_machine(void)
{
    static char text[256];
    char line[256];
    char model[128] = "unknown CPU";
    FILE *file = fopen("/proc/cpuinfo", "r");

    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char *colon = strchr(line, ':');

        if (strncmp(line, "model name", 10) == 0 && colon != NULL) {
            (void)snprintf(model, sizeof model, "%.*s", (int)strcspn(colon + 2, "\n"),
                           colon + 2);
            break;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    (void)snprintf(text, sizeof text, "%s, %ld cores, %s %s", model,
                   sysconf(_SC_NPROCESSORS_ONLN),
#ifdef __clang__
                   "clang " __clang_version__,
#else
                   "gcc " __VERSION__,
#endif
#ifdef NDEBUG
                   "release"
#else
                   "debug"
#endif
    );
    return text;
}

bool hyd_bench_has_word(const struct hyd_bench_args *args, const char *word)
{
    for (size_t i = 0; i < args->n_words; i++) {
        if (strcmp(args->word[i], word) == 0) {
            return true;
        }
    }
    return false;
}
