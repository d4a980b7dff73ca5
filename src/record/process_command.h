/* process_command.h: the command line of a process that runs already. */
#ifndef PITOT_RECORD_PROCESS_COMMAND_H
#define PITOT_RECORD_PROCESS_COMMAND_H

#include <sys/types.h>

#include "base/error.h"
#include "base/strbuf.h"

struct process_command {
	struct strbuf text; /* arguments, a NUL after each */
	char **argv; /* into text; NULL at the end */
	size_t argc; /* at least 1 */
};

/*
 * Reads /proc; a kernel thread has its name as command. 0; or a negative code, and then there is
 * nothing to release.
 */
int process_command_read(struct process_command *command, pid_t pid, struct error *e) MUST_USE;
void process_command_release(struct process_command *command); /* a zeroed one is fine */

#endif
