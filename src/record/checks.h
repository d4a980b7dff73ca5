/*
 * checks.h: checks of what can be recorded on this machine and in this environment, which `doctor`
 * shows.
 */
#ifndef PITOT_RECORD_CHECKS_H
#define PITOT_RECORD_CHECKS_H

#include "vendor/machine.h"

#define CHECKS_MAX 64

struct checks {
	struct check list[CHECKS_MAX]; /* by vendor, then those of the machine */
	size_t count;
	bool can_record; /* GPU work of at least one vendor */
};

void checks_run(struct checks *out);
/* Only whether the GPU work of a running process can be recorded. */
void checks_of_process(struct checks *out, pid_t pid);

/* Whether /proc belongs to another pid namespace, in which pids mean other processes. */
bool checks_foreign_proc(void);

#endif
