/*
 * launch_stacks.h: the call stack of every recorded call, as an id.
 *
 * On the launch path the thread walks its own stack (src/stack: no lock, no allocation, no system call once its walker is
 * there), puts its Python frames where the interpreter's own stand, and gets the number of the whole stack from a table of
 * fixed size (stack/intern.h). A stack that is met for the first time costs its frames once: they go to the collector
 * through the thread's ring.
 */
#ifndef PITOT_CAPTURE_LAUNCH_STACKS_H
#define PITOT_CAPTURE_LAUNCH_STACKS_H

#include <stdbool.h>

#include "capture/ring.h"

#define LAUNCH_STACKS_MAX (3u << 16)	/* distinct stacks; later ones get id 0 and are counted */
#define LAUNCH_STACK_FRAMES 160u	/* frames of a stack; the outermost ones of deeper stacks are left out */

struct python_codes;

/* Reserves memory and notes which libraries' frames are left out. Before the first call is recorded. */
struct settings;
bool launch_stacks_start(const struct settings *settings);

/* Distinct stacks that are kept. */
uint32_t launch_stacks_max(void);

/* The stack of the calling thread's caller. 0: there is none. */
uint32_t launch_stacks_take(struct ring *r);

/* --- the collector's side --- */

/* Follows dlopen, builds tables for at most budget_ns, looks for a Python. true while there is more to build. */
bool launch_stacks_update(uint64_t budget_ns);

/* The code objects that Python frames refer to; NULL without Python. */
struct python_codes *launch_stacks_codes(void);
/* Why there are no Python frames; "" when there are, or no Python is in the process. */
const char *launch_stacks_python_reason(void);
/* Which Python is walked: PY_VERSION_HEX; 0: none. */
uint32_t launch_stacks_python_version(void);

struct launch_stacks_counts {
	uint64_t taken, none, unsure_python;
	uint64_t table_full, no_memory; /* calls that got no stack */
	uint64_t ends[4];	/* by enum stack_end */
	uint64_t table_bytes, build_ns;
	uint32_t tables;
};
void launch_stacks_counts(struct launch_stacks_counts *counts);

/* In the child of a fork: as if never started. */
void launch_stacks_after_fork(void);

#endif
