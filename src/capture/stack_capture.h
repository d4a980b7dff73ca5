/*
 * stack_capture.h: the call stack of every recorded call, as an id.
 *
 * On the launch path the thread walks its own stack (src/stack: no lock, no allocation, no system
 * call once its walker is there), puts its Python frames where the interpreter's own stand, and
 * gets the number of the whole stack from a table of fixed size (stack/intern.h). A stack that is
 * met for the first time costs its frames once: they go to the collector through the thread's ring.
 *
 * What is new is not refused for what is old: nearly full tables are followed by a new generation,
 * with numbers of its own, in which stacks that are met again are new once more.
 */
#ifndef PITOT_CAPTURE_STACK_CAPTURE_H
#define PITOT_CAPTURE_STACK_CAPTURE_H

#include <stdbool.h>

#include "capture/ring.h"
#include "schema/settings.h"
#include "stack/intern.h"
#include "stack/python/python_code.h"
#include "stack/unwind/unwind_self.h"

#define STACKS_MAX (3u << 15)	/* distinct stacks of a generation of tables */
#define STACK_GENERATIONS 2u	/* that are kept: the current one and the one before */
/* of a stack, and of each kind: the outermost ones of deeper stacks are left out */
#define STACK_FRAMES_MAX 512u

/*
 * Reserves memory and notes which libraries' frames are left out. Before the first call is
 * recorded, or the first CPU sample taken.
 */
bool stack_capture_start(const struct settings *settings);

/*
 * Before a recording begins, while no collector runs: stacks that are met again are new once more.
 */
void stack_capture_begin(void);

/*
 * Which frames calls and samples get from here on, after stack_capture_start(). NULL: calls get no
 * stacks. Any thread.
 */
void stack_capture_window(const struct settings *wanted);

/*
 * Whether calls would get Python frames that do not yet, because the collector has not looked for
 * an interpreter. Any thread.
 */
bool stack_capture_waits_for_python(const struct settings *wanted);

/* Distinct stacks that a generation keeps. */
uint32_t stack_capture_max(void);

/* The stack of the calling thread's caller. 0: there is none. */
uint32_t stack_capture_take(struct ring *r);

/*
 * What samples of a thread's stack need: large, and no part of the stack that a signal handler runs
 * on. Zeroed.
 */
struct stack_sampler {
	bool ready;
	struct stack_walker walker;
	uint64_t native[STACK_FRAMES_MAX];
	struct python_frame python[STACK_FRAMES_MAX + 1];
	/* stacks whose Python frames are all at the innermost place */
	atomic_uint_fast64_t python_unmatched;
};

/*
 * In a signal handler: the stack of the calling thread from the registers that it was interrupted
 * with, at most STACK_FRAMES_MAX frames. Returns their number; 0: there is no stack, and *end is
 * not set.
 */
unsigned stack_capture_sample(struct stack_sampler *s, const struct stack_registers *registers,
			      uint64_t *frames, enum stack_end *end);

/* --- the collector's side --- */

/* Another thread will use it; its last one has ended. */
void stack_sampler_reset(struct stack_sampler *s);

/* Number of a sampled stack, the same that a call with it would have; 0: it is not kept. */
uint32_t stack_capture_intern(const uint64_t *frames, unsigned count, enum stack_end end,
			      stack_take *take, void *context);

/*
 * Follows dlopen, compiles unwind rules for at most budget_ns, looks for a Python. true while there
 * are more to compile.
 */
bool stack_capture_update(uint64_t budget_ns);

/* The code objects that Python frames refer to; NULL without Python. */
struct python_codes *stack_capture_codes(void);
/*
 * The code objects that frames of stack `id` refer to; NULL when its generation is no longer kept.
 */
struct python_codes *stack_capture_codes_of(uint32_t id);

/*
 * The rows of the generation that stack `id` is of are nearly too many: stack_capture_update()
 * begins the next one.
 */
void stack_capture_renew(uint32_t id);
/* Why there are no Python frames; "" when there are, or no Python is in the process. */
const char *stack_capture_python_reason(void);
/* Which Python is walked: PY_VERSION_HEX; 0: none. */
uint32_t stack_capture_python_version(void);

struct stack_capture_counts {
	uint64_t taken, none, python_unmatched;
	uint64_t table_full, no_memory; /* calls that got no stack */
	uint64_t ends[STACK_ENDS];	/* by enum stack_end */
	uint64_t rule_bytes, build_ns; /* of unwind rules */
	uint32_t parts;
	struct python_code_losses python;
};
void stack_capture_counts(struct stack_capture_counts *counts);

/* In the child of a fork: as if never started. */
void stack_capture_after_fork(void);

#endif
