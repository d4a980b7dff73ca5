/*
 * live_keys.h: keys of commands that run until they are ended: mark, dump, capture a step, deepen,
 * leave.
 *
 * They are read only in the foreground, and only where nothing else reads the terminal: a command
 * that `pitot record` runs owns it. Dumps and captures are made by `pitot dump` and
 * `pitot capture`, one at a time; what they say is shown between two drawings.
 */
#ifndef PITOT_CLI_LIVE_KEYS_H
#define PITOT_CLI_LIVE_KEYS_H

#include <sys/types.h>

#include "base/strbuf.h"
#include "cli/command.h"
#include "format/writer.h"

enum live_action {
	LIVE_MARK,
	LIVE_DUMP, /* the last 30 s of a ring */
	LIVE_CAPTURE, /* a step */
	LIVE_MEASURE, /* a step, with hardware counters */
	LIVE_DEEPEN, /* the recording, with hardware counters: the command does that */
	LIVE_LEAVE,
};

struct live_key {
	char key; /* 0: the last one */
	enum live_action action;
	const char *what; /* in the help */
};

struct live_keys {
	const struct context *context;
	const struct live_key *keys; /* in the order of the help */
	const char *target; /* process to capture; NULL: the only one that is being recorded */
	void (*clear)(void *user); /* removes what is drawn, before a message is printed */
	void *user;
	sigset_t signals; /* mask of the programs that are started */
	/* zeros: */
	bool is_open, is_gone; /* the terminal */
	bool deepens; /* LIVE_DEEPEN was requested; the caller resets it */
	unsigned marks;
	pid_t child; /* 0: none */
	int output; /* of the child */
	struct strbuf said;
};

/*
 * Waits until a time for keys, and obeys them. `w` is the writer of the recording of this command,
 * NULL: there is none. Returns false if the user leaves.
 */
bool live_keys_poll(struct live_keys *k, uint64_t until_ns, struct writer *w);
/* Restores the terminal. A capture goes on. */
void live_keys_close(struct live_keys *k);

#endif
