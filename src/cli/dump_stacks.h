/* dump_stacks.h: `pitot dump --stacks PID...`. */
#ifndef PITOT_CLI_DUMP_STACKS_H
#define PITOT_CLI_DUMP_STACKS_H

#include "cli/command.h"

#define DUMP_PIDS_MAX 1024u

/*
 * Prints the stacks of the processes whose ids these texts are, and of their descendants. Returns
 * an exit status.
 */
int dump_stacks(struct context *c, int count, char **texts, bool descendants);

#endif
