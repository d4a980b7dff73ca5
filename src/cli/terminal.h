/*
 * terminal.h: properties of the terminal: whether it shows UTF-8, and whether a signal asked the
 * command to end.
 */
#ifndef PITOT_CLI_TERMINAL_H
#define PITOT_CLI_TERMINAL_H

#include <signal.h>
#include <stdbool.h>

/* Whether the locale allows block characters. */
bool terminal_shows_utf8(void);

/* The last SIGINT, SIGTERM or SIGHUP after terminal_catch_signals(), else 0. */
extern volatile sig_atomic_t terminal_stop_signal;
/*
 * From now on these signals only set terminal_stop_signal, so that incomplete files can be removed.
 */
void terminal_catch_signals(void);

#endif
