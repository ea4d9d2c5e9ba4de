/* bench_main.c - hydra-bench: finds the bench in the table. */
#include <stdio.h>
#include <string.h>

#include "tests/bench/bench.h"

#include "common/base/banned.h"

enum { MAX_WORDS = 16 };

static int usage(FILE *out)
{
    (void)fputs("usage: hydra-bench NAME [--json] [--check] [--long] [WORD...]\n", out);
    for (const struct hyd_bench *b = hyd_bench_table; b->name != NULL; b++) {
        (void)fprintf(out, "  %-8s %s\n", b->name, b->summary);
        if (b->words != NULL && b->words[0] != '\0') {
            (void)fprintf(out, "           words: %s\n", b->words);
        }
    }
    return 2;
}

/* A word that a bench does not know would run nothing and look like success. */
static bool knows(const struct hyd_bench *bench, const char *word)
{
    const size_t n = strlen(word);

    for (const char *at = bench->words; at != NULL; at = strchr(at, ' ')) {
        at += *at == ' ' ? 1 : 0;
        if (strncmp(at, word, n) == 0 && (at[n] == ' ' || at[n] == '\0') && n > 0) {
            return true;
        }
    }
    return bench->words == NULL;
}

static int run(const struct hyd_bench *bench, const struct hyd_bench_args *args)
{
    for (size_t i = 0; i < args->n_words; i++) {
        if (!knows(bench, args->word[i])) {
            (void)fprintf(stderr, "hydra-bench %s: no word '%.40s'; there %s %s\n",
                          bench->name, args->word[i],
                          bench->words[0] == '\0' ? "is" : "are",
                          bench->words[0] == '\0' ? "none" : bench->words);
            return 2;
        }
    }
    return bench->run(args);
}

int main(int argc, char **argv)
{
    const char *word[MAX_WORDS];
    struct hyd_bench_args args = {.word = word};

    if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        (void)usage(stdout);
        return 0;
    }
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            args.json = true;
        } else if (strcmp(argv[i], "--check") == 0) {
            args.check = true;
        } else if (strcmp(argv[i], "--long") == 0) {
            args.full = true;
        } else if (argv[i][0] == '-' || args.n_words == MAX_WORDS) {
            return usage(stderr);
        } else {
            word[args.n_words++] = argv[i];
        }
    }
    for (const struct hyd_bench *b = hyd_bench_table; argc >= 2 && b->name != NULL;
         b++) {
        if (strcmp(b->name, argv[1]) == 0) {
            return run(b, &args);
        }
    }
    return usage(stderr);
}
