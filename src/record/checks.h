/*
 * checks.h: checks of what can be recorded on this machine and in this environment. `doctor` shows
 * all of them; `record` uses them to explain missing data.
 */
#ifndef PITOT_RECORD_CHECKS_H
#define PITOT_RECORD_CHECKS_H

#include <stdbool.h>

#include "base/compiler.h"

enum check_state {
	CHECK_OK,
	CHECK_LIMITED, /* works partly, or affects something else */
	CHECK_MISSING,
};

struct check {
	const char *name;
	const char *purpose; /* what needs it */
	bool needed; /* required for recording GPU work */
	enum check_state state;
	char detail[512]; /* what was found */
	char advice[512]; /* what to do; "" when nothing needs to be done */
};

/*
 * The checks in the order in which they build on each other. Fills in at most `max`, returns their
 * number.
 */
size_t checks_run(struct check *checks, size_t max);

/*
 * Explains why no GPU work can be recorded on this machine, as far as files show without
 * initialising CUDA. Returns false if it finds no reason.
 */
bool checks_no_gpu_reason(char *out, size_t size);
/* Whether /proc belongs to another pid namespace, in which pids mean other processes. */
bool checks_foreign_proc(void);

#endif
