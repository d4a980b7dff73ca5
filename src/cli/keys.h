/*
 * keys.h: keys of a terminal without Enter. Single-threaded; there is one terminal.
 *
 * Only the foreground process group of the terminal may read from it: a program that reads keys
 * must not share it with one that it runs.
 */
#ifndef PITOT_CLI_KEYS_H
#define PITOT_CLI_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/* Keys that are no characters. */
enum key {
	KEY_NONE = 0, /* no key was pressed */
	KEY_BACKSPACE = 8,
	KEY_ENTER = 13,
	KEY_ESCAPE = 27,
	KEY_UP = 256,
	KEY_DOWN,
	KEY_PAGE_UP,
	KEY_PAGE_DOWN,
	KEY_LEFT,
	KEY_RIGHT,
	KEY_HOME,
	KEY_LINE_END, /* the key End */
	KEY_DELETE,
	KEY_END, /* the terminal is gone: there will be no keys */
};
#define KEY_CTRL(letter) ((letter) - '@')

/* Whether standard input is a terminal, and we are in its foreground. */
bool keys_are_ours(void);
/* Returns 0 or a negative errno. keys_close() must be called before the program ends. */
int keys_open(void) MUST_USE;
void keys_close(void);
/*
 * Waits for a key, until a time (CLOCK_MONOTONIC) or until the size of the terminal changes or a
 * signal of terminal_catch_signals() arrives. `fd` is also waited for, -1: none.
 */
int keys_wait(uint64_t until_ns, int fd);
/* Whether more was typed, or pasted, than keys_wait() has returned. */
bool keys_are_pending(void);
/* Stops this program, as Ctrl-Z does; the terminal must be as it was. */
void keys_stop(void);

#endif
