/* dump_stacks.h: `pitot dump --stacks PID...`. */
#ifndef PITOT_CLI_DUMP_STACKS_H
#define PITOT_CLI_DUMP_STACKS_H

#include "cli/command.h"

#define DUMP_PIDS_MAX 1024u

struct stacks_request {
	bool descendants; /* also of the processes below those that are named */
	const char *output; /* a recording to be made of them; NULL: none */
	bool force; /* it may replace another */
};

/* Prints the stacks of the processes whose ids these texts are. Returns an exit status. */
int dump_stacks(struct context *c, int count, char **texts, const struct stacks_request *request);

#endif
