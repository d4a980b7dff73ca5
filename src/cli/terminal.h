/*
 * terminal.h: properties of the terminal: whether it shows UTF-8, and whether a signal asked the
 * command to end.
 */
#ifndef PITOT_CLI_TERMINAL_H
#define PITOT_CLI_TERMINAL_H

#include <signal.h>
#include <stdbool.h>

/* Block characters only where the locale says that they can be shown. */
bool terminal_shows_utf8(void);

/* SIGINT, SIGTERM or SIGHUP after terminal_catch_signals(), else 0. */
extern volatile sig_atomic_t terminal_stop_signal;
/* From here on signals that end the command only set the above: what was written can be removed. */
void terminal_catch_signals(void);

#endif
