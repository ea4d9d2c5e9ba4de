/*
 * cli.h - what every hydractl command is handed: streams, settings, how to fail.
 *
 * What     A command writes its result to `out` and says what went wrong with one line
 *          on `err`; it never calls exit(), so tests run commands in their own process.
 * Errors   Exit codes: 0 done; 1 the request is fair but has no answer; 2 usage or bad
 *          input; 3 daemon unreachable.
 * Owns     nothing; streams and allocator are lent by main().
 * Threads  one thread.
 */
#ifndef HYD_SCHEDULER_CLI_CLI_H
#define HYD_SCHEDULER_CLI_CLI_H

#include <stdbool.h>
#include <stdio.h>

#include "common/base/alloc.h"
#include "common/base/error.h"

enum hyd_exit {
    HYD_EXIT_DONE = 0,
    HYD_EXIT_NO_ANSWER = 1,
    HYD_EXIT_USAGE = 2,
    HYD_EXIT_UNREACHABLE = 3,
};

struct hyd_cli {
    const struct hyd_alloc *alloc;
    FILE *out; /* results */
    FILE *err; /* one line a failure, notes, progress */
    const char *command; /* name of the command that runs */
    bool json; /* --json: one document on out, nothing else */
    bool colour; /* out is a terminal and NO_COLOR is not set */
    bool progress; /* err is a terminal */
    bool terminal; /* out is a terminal on which the cursor moves */
    int width; /* columns of the terminal; 80 in a pipe */
    struct hyd_error error; /* filled while options are read */
};

/* Streams of this process, terminal or not, NO_COLOR. */
void hyd_cli_init(struct hyd_cli *cli, const struct hyd_alloc *alloc);

/* Columns and rows of the terminal as it is now; 80 x 24 where there is none. */
void hyd_cli_screen(int *ret_columns, int *ret_rows);

/* The exit code that goes with a status; HYD_OK gives HYD_EXIT_DONE. */
int hyd_cli_exit_code(hyd_status status);

/* Print "hydractl COMMAND: text" as one line on err; returns the exit code. */
int hyd_cli_fail(struct hyd_cli *cli, hyd_status status, const struct hyd_error *err);

/* A line for people on err: what was assumed or left out. Nothing with --json. */
void hyd_cli_note(struct hyd_cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Overwrite the progress line on a terminal; nothing in a pipe. done == total clears. */
void hyd_cli_progress(struct hyd_cli *cli, const char *what, size_t done, size_t total);

/* Run argv[1] with the rest of the arguments; returns the process's exit code. */
int hyd_cli_run(struct hyd_cli *cli, int argc, char **argv);

#endif
