/*
 * checks.h: what this machine and environment let Pitot do. `doctor` shows all of it; `record` says
 * why it has no data.
 */
#ifndef PITOT_RECORD_CHECKS_H
#define PITOT_RECORD_CHECKS_H

#include <stdbool.h>

#include "base/compiler.h"

enum check_state {
	CHECK_OK,
	CHECK_LIMITED, /* works in part, or something else suffers */
	CHECK_MISSING,
};

struct check {
	const char *name;
	const char *purpose; /* what needs it */
	bool needed; /* recording GPU work is impossible without */
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
 * Why no GPU work can be recorded on this machine, as far as files show without initialising CUDA;
 * false where no reason is found.
 */
bool checks_no_gpu_reason(char *out, size_t size);
/* Whether /proc is of another pid namespace, where a pid means another process. */
bool checks_foreign_proc(void);

#endif
