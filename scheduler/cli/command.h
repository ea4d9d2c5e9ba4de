/*
 * command.h - a hydractl command, and the table of all.
 *
 * What     A command gets its own words (argv[0] is its name) and returns an exit code.
 *          Adding one: a file cmd_<name>.c and a row in cmd_table.c.
 * Threads  one thread.
 */
#ifndef HYD_SCHEDULER_CLI_COMMAND_H
#define HYD_SCHEDULER_CLI_COMMAND_H

#include "scheduler/cli/cli.h"

struct hyd_command {
    const char *name;
    const char *args; /* what follows it, for the list of commands */
    const char *summary;
    int (*run)(struct hyd_cli *cli, int argc, char **argv);
};

/* Terminated by a row without a name, in the order in which they are listed. */
extern const struct hyd_command hyd_command_table[];

int hyd_cmd_check(struct hyd_cli *cli, int argc, char **argv);
int hyd_cmd_compare(struct hyd_cli *cli, int argc, char **argv);
int hyd_cmd_devices(struct hyd_cli *cli, int argc, char **argv);
int hyd_cmd_draw(struct hyd_cli *cli, int argc, char **argv);
int hyd_cmd_explain(struct hyd_cli *cli, int argc, char **argv);
int hyd_cmd_lengths(struct hyd_cli *cli, int argc, char **argv);
int hyd_cmd_mock(struct hyd_cli *cli, int argc, char **argv);
int hyd_cmd_models(struct hyd_cli *cli, int argc, char **argv);
int hyd_cmd_plan(struct hyd_cli *cli, int argc, char **argv);
int hyd_cmd_policies(struct hyd_cli *cli, int argc, char **argv);
int hyd_cmd_drain(struct hyd_cli *cli, int argc, char **argv);
int hyd_cmd_readmit(struct hyd_cli *cli, int argc, char **argv);
int hyd_cmd_health(struct hyd_cli *cli, int argc, char **argv);
int hyd_cmd_job(struct hyd_cli *cli, int argc, char **argv);
int hyd_cmd_report(struct hyd_cli *cli, int argc, char **argv);
int hyd_cmd_steps(struct hyd_cli *cli, int argc, char **argv);
int hyd_cmd_submit(struct hyd_cli *cli, int argc, char **argv);
int hyd_cmd_watch(struct hyd_cli *cli, int argc, char **argv);
int hyd_cmd_workers(struct hyd_cli *cli, int argc, char **argv);

#endif
