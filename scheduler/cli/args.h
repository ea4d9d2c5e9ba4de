/*
 * args.h - options of a command through argp, with one-line errors.
 *
 * What     argp reads options and prints --help; what it would say in several lines
 *          (an unknown option, a missing value) is found first and said in one, with
 *          the nearest option that exists. A parser function that refuses a value fills
 *          cli->error and returns EINVAL.
 * Owns     nothing; results point into argv.
 * Threads  one thread.
 */
#ifndef HYD_SCHEDULER_CLI_ARGS_H
#define HYD_SCHEDULER_CLI_ARGS_H

#include <argp.h>

#include "scheduler/cli/cli.h"

/* What to do after the options were read. */
enum hyd_args_next { HYD_ARGS_RUN, HYD_ARGS_STOP };

/* Keys that every command shares; command keys are characters or count from here. */
enum { HYD_ARG_HELP = 0x400, HYD_ARG_JSON, HYD_ARG_OWN = 0x410, HYD_ARG_PLAN = 0x500 };

/*
 * Read argv[1..] into `input`. argv[0] is the command's name; it may be reordered.
 * HYD_ARGS_STOP: the command ends with *ret_exit, help or error is printed.
 */
enum hyd_args_next hyd_args_parse(struct hyd_cli *cli, const struct argp *argp,
                                  int argc, char **argv, void *input, int *ret_exit);

/* For parser functions: turn a status into what argp wants. */
error_t hyd_args_status(hyd_status status);

/* One more positional word than the command takes, or one too few. */
error_t hyd_args_surplus(struct hyd_cli *cli, const char *word, const char *takes);
error_t hyd_args_missing(struct hyd_cli *cli, const char *what);

#endif
