/* cli_run.c - see cli_run.h. */
#include "tests/lib/cli_run.h"

#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scheduler/cli/cli.h"
#include "tests/lib/test.h"

enum { MAX_WORDS = 64 };

struct hyd_cli_result hyd_cli_run_words(const char *const *words)
{
    struct hyd_cli_result result = {0};
    struct hyd_cli cli = {.alloc = hyd_alloc_system(), .command = "", .width = 80};
    char *argv[MAX_WORDS] = {strdup("hydractl")};
    char *freed[MAX_WORDS];
    size_t n_out = 0;
    size_t n_err = 0;
    int argc = 1;

    for (; words[argc - 1] != NULL && argc + 1 < MAX_WORDS; argc++) {
        argv[argc] = strdup(words[argc - 1]);
        assert_non_null(argv[argc]);
    }
    memcpy(freed, argv, sizeof freed); /* argp reorders argv */
    cli.out = open_memstream(&result.out, &n_out);
    cli.err = open_memstream(&result.err, &n_err);
    assert_non_null(cli.out);
    assert_non_null(cli.err);
    result.code = hyd_cli_run(&cli, argc, argv);
    (void)fclose(cli.out);
    (void)fclose(cli.err);
    for (int i = 0; i < argc; i++) {
        free(freed[i]);
    }
    return result;
}

struct hyd_cli_result hyd_cli_run_text(const char *text)
{
    const char *words[MAX_WORDS] = {NULL};
    char *copy = strdup(text);
    char *rest = NULL;
    size_t n = 0;
    struct hyd_cli_result result;

    assert_non_null(copy);
    for (char *word = strtok_r(copy, " ", &rest); word != NULL && n + 1 < MAX_WORDS;
         word = strtok_r(NULL, " ", &rest)) {
        words[n++] = word;
    }
    result = hyd_cli_run_words(words);
    free(copy);
    return result;
}

void hyd_cli_result_release(struct hyd_cli_result *result)
{
    free(result->out);
    free(result->err);
    *result = (struct hyd_cli_result){0};
}

void hyd_cli_folder_make(char folder[HYD_CLI_PATH_BYTES])
{
    const char *tmp = getenv("TMPDIR");

    (void)snprintf(folder, HYD_CLI_PATH_BYTES, "%s/hyd-cli-XXXXXX",
                   tmp != NULL ? tmp : "/tmp");
    assert_non_null(mkdtemp(folder));
}

void hyd_cli_folder_cleanup(const char *folder)
{
    char *const roots[] = {(char *)folder, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    FTSENT *at = NULL;

    assert_non_null(walk);
    while ((at = fts_read(walk)) != NULL) {
        if (at->fts_info != FTS_D) {
            (void)remove(at->fts_path);
        }
    }
    (void)fts_close(walk);
}

void hyd_cli_file_make(const char *folder, const char *name, const char *bytes,
                       size_t n_bytes, char path[HYD_CLI_FILE_BYTES])
{
    FILE *file = NULL;

    (void)snprintf(path, HYD_CLI_FILE_BYTES, "%s/%s", folder, name);
    file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    assert_int_equal(fclose(file), 0);
}
