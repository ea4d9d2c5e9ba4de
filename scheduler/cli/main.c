/* main.c - hydractl: finds the command in the table and runs it. */
#include <locale.h>

#include "scheduler/cli/cli.h"

int main(int argc, char **argv)
{
    struct hyd_cli cli;

    /* Characters only: numbers are read and written with a point everywhere. */
    (void)setlocale(LC_CTYPE, "");
    hyd_cli_init(&cli, hyd_alloc_system());
    return hyd_cli_run(&cli, argc, argv);
}
