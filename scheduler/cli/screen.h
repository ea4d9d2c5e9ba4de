/*
 * screen.h - a picture on a terminal that is drawn over itself.
 *
 * What     Text of several lines goes to the top left; lines are cut at the right edge and
 *          at the bottom, so that nothing scrolls and nothing of the last picture is left.
 *          Colours may be in the text, other escape sequences may not.
 * Units    columns and rows of characters; a character is one column wide.
 * Threads  one thread.
 */
#ifndef HYD_SCHEDULER_CLI_SCREEN_H
#define HYD_SCHEDULER_CLI_SCREEN_H

#include <stdio.h>

void hyd_screen_draw(FILE *out, const char *text, int columns, int rows);

#endif
