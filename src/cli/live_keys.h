/*
 * live_keys.h: keys of commands that run until they are ended: mark, dump, capture a step, leave.
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

struct live_keys {
	const struct context *context;
	const char *keys; /* those that there are, in the order of the help: "mdcq" */
	const char *target; /* process to capture; NULL: the only one that is being recorded */
	void (*clear)(void *user); /* removes what is drawn, before a message is printed */
	void *user;
	sigset_t signals; /* mask of the programs that are started */
	/* zeros: */
	bool is_open, is_gone; /* the terminal */
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
