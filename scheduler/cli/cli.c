/* cli.c - see cli.h. */
#include "scheduler/cli/cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { PIPE_COLUMNS = 80, PIPE_ROWS = 24, MIN_COLUMNS = 40, MAX_COLUMNS = 200 };

void hyd_cli_screen(int *ret_columns, int *ret_rows)
{
    struct winsize size = {0};

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) {
        size = (struct winsize){.ws_col = 0};
    }
    *ret_columns = size.ws_col > 0 ? size.ws_col : PIPE_COLUMNS;
    *ret_rows = size.ws_row > 0 ? size.ws_row : PIPE_ROWS;
}

static int text_columns(void)
{
    int columns = 0;
    int rows = 0;

    hyd_cli_screen(&columns, &rows);
    if (columns < MIN_COLUMNS) {
        return PIPE_COLUMNS;
    }
    return columns > MAX_COLUMNS ? MAX_COLUMNS : columns;
}

void hyd_cli_init(struct hyd_cli *cli, const struct hyd_alloc *alloc)
{
    const char *no_color = getenv("NO_COLOR");
    const char *kind = getenv("TERM");
    const bool tty = isatty(STDOUT_FILENO) == 1;

    *cli = (struct hyd_cli){
        .alloc = alloc,
        .out = stdout,
        .err = stderr,
        .command = "",
        .colour = tty && (no_color == NULL || no_color[0] == '\0'),
        .progress = isatty(STDERR_FILENO) == 1,
        .terminal = tty && kind != NULL && strcmp(kind, "dumb") != 0,
        .width = tty ? text_columns() : PIPE_COLUMNS,
    };
}

int hyd_cli_exit_code(hyd_status status)
{
    switch (status) {
    case HYD_OK:
        return HYD_EXIT_DONE;
    case HYD_ERR_INVALID:
    case HYD_ERR_MALFORMED:
    case HYD_ERR_LIMIT:
    case HYD_ERR_IO:
    case HYD_ERR_DENIED:
    case HYD_ERR_UNSUPPORTED:
        return HYD_EXIT_USAGE;
    case HYD_ERR_UNAVAILABLE:
    case HYD_ERR_TIMEOUT:
        return HYD_EXIT_UNREACHABLE;
    case HYD_ERR_INFEASIBLE:
    case HYD_ERR_NOT_FOUND:
    case HYD_ERR_EXISTS:
    case HYD_ERR_OUT_OF_RANGE:
    case HYD_ERR_CANCELLED:
    case HYD_ERR_NO_MEMORY:
    case HYD_ERR_INTERNAL:
        return HYD_EXIT_NO_ANSWER;
    }
    return HYD_EXIT_NO_ANSWER;
}

int hyd_cli_fail(struct hyd_cli *cli, hyd_status status, const struct hyd_error *err)
{
    const char *text = err != NULL && err->text[0] != '\0' ? err->text : NULL;

    if (cli->progress) {
        (void)fputs("\r\033[K", cli->err);
    }
    (void)fprintf(cli->err, "hydractl%s%s: ", cli->command[0] != '\0' ? " " : "",
                  cli->command);
    for (const char *c = text != NULL ? text : hyd_status_name(status); *c != '\0';
         c++) {
        /* One line, whatever a file name or a value holds. */
        (void)fputc((unsigned char)*c < ' ' || *c == 127 ? '?' : *c, cli->err);
    }
    (void)fputc('\n', cli->err);
    return hyd_cli_exit_code(status);
}

void hyd_cli_note(struct hyd_cli *cli, const char *format, ...)
{
    va_list args;

    if (cli->json) {
        return;
    }
    va_start(args, format);
    (void)vfprintf(cli->err, format, args);
    va_end(args);
    (void)fputc('\n', cli->err);
}

void hyd_cli_progress(struct hyd_cli *cli, const char *what, size_t done, size_t total)
{
    if (!cli->progress) {
        return;
    }
    if (done >= total && total > 0) {
        (void)fputs("\r\033[K", cli->err);
    } else if (total > 0) {
        (void)fprintf(cli->err, "\r\033[K%s %zu of %zu", what, done, total);
    } else {
        (void)fprintf(cli->err, "\r\033[K%s %zu", what, done);
    }
    (void)fflush(cli->err);
}
