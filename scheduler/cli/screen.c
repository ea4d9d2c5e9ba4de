/* screen.c - see screen.h. */
#include "scheduler/cli/screen.h"

#include <stdbool.h>
#include <string.h>

/* One line, cut; returns where it ends in the text: at its newline or at the end. */
static const char *draw_line(FILE *out, const char *at, int columns)
{
    int used = 0;
    bool coloured = false;

    while (*at != '\0' && *at != '\n') {
        const bool starts = ((unsigned char)*at & 0xC0U) != 0x80U;

        if (*at == '\033') {
            const size_t n = strcspn(at, "m");

            (void)fwrite(at, 1, at[n] == 'm' ? n + 1 : n, out);
            at += at[n] == 'm' ? n + 1 : n;
            coloured = true;
            continue;
        }
        used += starts ? 1 : 0;
        if (used <= columns) {
            (void)fputc(*at, out);
        }
        at++;
    }
    (void)fputs(coloured ? "\033[0m\033[K" : "\033[K", out);
    return at;
}

void hyd_screen_draw(FILE *out, const char *text, int columns, int rows)
{
    (void)fputs("\033[H", out);
    for (int row = 0; row < rows && *text != '\0'; row++) {
        (void)fputs(row > 0 ? "\r\n" : "", out);
        text = draw_line(out, text, columns);
        text += *text == '\n' ? 1 : 0;
    }
    (void)fputs("\033[J", out);
}
