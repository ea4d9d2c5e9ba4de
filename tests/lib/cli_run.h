/*
 * cli_run.h - run a hydractl command in the test's own process.
 *
 * What     Words in, exit code and both outputs as texts. Files for input are made in a
 *          folder of their own.
 * Owns     struct hyd_cli_result owns its texts until hyd_cli_result_release.
 * Threads  one thread at a time.
 */
#ifndef HYD_TESTS_LIB_CLI_RUN_H
#define HYD_TESTS_LIB_CLI_RUN_H

#include <stddef.h>

struct hyd_cli_result {
    int code;
    char *out;
    char *err;
};

/* words: NULL-terminated, without the program's name. Fails the test on no memory. */
struct hyd_cli_result hyd_cli_run_words(const char *const *words);

/* The same for one text whose words are blank-separated. */
struct hyd_cli_result hyd_cli_run_text(const char *text);

void hyd_cli_result_release(struct hyd_cli_result *result);

enum { HYD_CLI_PATH_BYTES = 256, HYD_CLI_FILE_BYTES = 512 };

/* Make a folder for a test's files; removed with everything in it by _cleanup. */
void hyd_cli_folder_make(char folder[HYD_CLI_PATH_BYTES]);
void hyd_cli_folder_cleanup(const char *folder);

/* Write n_bytes to folder/name; the path is written to path. */
void hyd_cli_file_make(const char *folder, const char *name, const char *bytes,
                       size_t n_bytes, char path[HYD_CLI_FILE_BYTES]);

#endif
