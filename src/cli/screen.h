/*
 * screen.h: a terminal that is redrawn in place: the alternate screen, keys (keys.h), and only
 * lines that have changed. Single-threaded; there is one screen.
 */
#ifndef PITOT_CLI_SCREEN_H
#define PITOT_CLI_SCREEN_H

#include <signal.h>
#include <stdbool.h>

#include "base/strbuf.h"
#include "cli/keys.h"

/* Whether standard input and output are terminals that can be drawn on. */
bool screen_is_possible(void);
/* Returns 0 or a negative errno. screen_close() must be called before the program ends. */
int screen_open(void) MUST_USE;
void screen_close(void);
/* Size of the terminal, at least 20 x 4. */
void screen_size(unsigned *columns, unsigned *lines);
/*
 * Shows a text, whose lines may contain style_begin() and must not be wider than the screen. What
 * does not fit is left out. Returns 0 or a negative errno.
 */
int screen_draw(const struct strbuf *text);
/* Forgets what is shown: the next screen_draw() draws everything. */
void screen_clear(void);
/* Stops this program, as Ctrl-Z does, with the terminal as it was. */
int screen_suspend(void) MUST_USE;

#endif
