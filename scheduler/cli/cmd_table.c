/* cmd_table.c - the list of commands, and the way from a word to one. */
#include <errno.h>
#include <string.h>

#include "scheduler/cli/command.h"
#include "scheduler/cli/parse.h"

const struct hyd_command hyd_command_table[] = {
    {"lengths", "PATH...", "read or measure sequence lengths", hyd_cmd_lengths},
    {"mock", "--lognormal ... -n N", "made-up lengths, as Megatron makes them",
     hyd_cmd_mock},
    {"plan", "LENGTHS --ranks R --cap C", "plan a step offline", hyd_cmd_plan},
    {"compare", "LENGTHS --ranks R --cap C", "the same batch under several policies",
     hyd_cmd_compare},
    {"check", "PLAN.json [LENGTHS]", "prove a plan, whoever made it", hyd_cmd_check},
    {"explain", "PLAN.json --seq ID|--cell M,R", "why this degree, why this cell",
     hyd_cmd_explain},
    {"draw", "PLAN.json -o FILE", "picture (.svg), trace (.trace.json) or page (.html)",
     hyd_cmd_draw},
    {"policies", "", "what is built in, and its options", hyd_cmd_policies},
    {"models", "[NAME]", "built-in model shapes", hyd_cmd_models},
    {"devices", "[NAME]", "built-in devices and where their numbers are from",
     hyd_cmd_devices},
    {"job", "open|list|show|close", "training runs at the daemon", hyd_cmd_job},
    {"submit", "JOB LENGTHS", "hand a step to a job", hyd_cmd_submit},
    {"watch", "[JOB]", "follow a job, or all open ones", hyd_cmd_watch},
    {"steps", "JOB", "list the steps of a job", hyd_cmd_steps},
    {"report", "JOB...", "predicted against measured, jobs side by side",
     hyd_cmd_report},
    {"workers", "[JOB]", "list the agents that are attached", hyd_cmd_workers},
    {"health", "[SERVICE]", "is the daemon serving? (for probes)", hyd_cmd_health},
    {"drain", "JOB NODE", "take a node's agents out of a job", hyd_cmd_drain},
    {"readmit", "JOB NODE", "let a node in again that was shut out", hyd_cmd_readmit},
    {0},
};

static void print_commands(FILE *out)
{
    (void)fputs("Usage: hydractl COMMAND [ARGUMENTS] [OPTIONS]\n"
                "Plan load-driven context parallelism, offline or through hydra-schedd."
                "\n\n",
                out);
    for (const struct hyd_command *c = hyd_command_table; c->name != NULL; c++) {
        (void)fprintf(out, "  %-9s %-30s %s\n", c->name, c->args, c->summary);
    }
    (void)fputs("\n'hydractl help COMMAND' lists the options of one. Every command "
                "takes --json.\n"
                "Exit: 0 done, 1 no answer exists, 2 usage or bad input, 3 daemon "
                "unreachable.\n",
                out);
}

static int no_command(struct hyd_cli *cli, const char *word)
{
    const char *near = NULL;
    unsigned near_edits = 255;
    struct hyd_error err;

    for (const struct hyd_command *c = hyd_command_table; c->name != NULL; c++) {
        const unsigned edits = hyd_parse_distance(word, c->name);

        if (edits < near_edits) {
            near_edits = edits;
            near = c->name;
        }
    }
    if (near != NULL && hyd_parse_is_near(word, near)) {
        (void)hyd_error_set(&err, HYD_ERR_INVALID,
                            "no command '%.40s'; did you mean '%s'?", word, near);
    } else {
        (void)hyd_error_set(&err, HYD_ERR_INVALID,
                            "no command '%.40s'; 'hydractl --help' lists them", word);
    }
    return hyd_cli_fail(cli, HYD_ERR_INVALID, &err);
}

/* What is printed has arrived, or the command has failed. */
static int flush(struct hyd_cli *cli)
{
    struct hyd_error err;

    errno = 0;
    if (fflush(cli->out) == 0 && !ferror(cli->out)) {
        return HYD_EXIT_DONE;
    }
    (void)hyd_error_set(&err, HYD_ERR_IO, "cannot write to standard output: %s",
                        errno != 0 ? strerror(errno) : "an earlier write failed");
    return hyd_cli_fail(cli, HYD_ERR_IO, &err);
}

int hyd_cli_run(struct hyd_cli *cli, int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : NULL;

    if (word == NULL) {
        struct hyd_error err;

        (void)hyd_error_set(&err, HYD_ERR_INVALID,
                            "a command is missing; 'hydractl --help' lists them");
        return hyd_cli_fail(cli, HYD_ERR_INVALID, &err);
    }
    if (strcmp(word, "help") == 0 && argc > 2) {
        char help[] = "--help";
        char *const words[] = {argv[0], argv[2], help, NULL};

        return hyd_cli_run(cli, 3, (char **)words);
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 ||
        strcmp(word, "help") == 0) {
        print_commands(cli->out);
        return flush(cli);
    }
    if (strcmp(word, "--version") == 0) {
        (void)fprintf(cli->out, "hydractl %s\n", HYDRA_VERSION);
        return flush(cli);
    }
    for (const struct hyd_command *c = hyd_command_table; c->name != NULL; c++) {
        if (strcmp(word, c->name) == 0) {
            int code = 0;

            cli->command = c->name;
            code = c->run(cli, argc - 1, argv + 1);
            return code == HYD_EXIT_DONE ? flush(cli) : code;
        }
    }
    return no_command(cli, word);
}
