/*
 * stack_capture.h: the call stack of every recorded call, as an id.
 *
 * On the launch path the thread walks its own stack (src/stack: no lock, no allocation, and no
 * system call once its walker exists), replaces the interpreter's frames by its Python frames, and
 * looks the whole stack's id up in a table of fixed size (stack/intern.h). A stack that is seen for
 * the first time transfers its frames once, to the collector through the thread's ring.
 *
 * Full tables do not refuse new stacks: when the tables are nearly full a new generation begins,
 * with its own ids, in which known stacks are new again.
 */
#ifndef PITOT_CAPTURE_STACK_CAPTURE_H
#define PITOT_CAPTURE_STACK_CAPTURE_H

#include <stdbool.h>

#include "capture/core/ring.h"
#include "schema/settings.h"
#include "stack/intern.h"
#include "stack/python/python_code.h"
#include "stack/unwind/unwind_self.h"

#define STACKS_MAX (3u << 15)	/* distinct stacks per generation of tables */
#define STACK_GENERATIONS 2u	/* that are retained: the current one and the one before */

/*
 * Reserves memory and finds the libraries whose frames are left out. Must be called before the
 * first call or CPU sample is recorded. Returns whether stacks can be recorded.
 */
bool stack_capture_start(const struct settings *settings);

/* Must be called before a recording begins, while no collector runs: known stacks are new again. */
void stack_capture_begin(void);

/*
 * Sets which frames calls and samples get from now on, after stack_capture_start(). NULL: calls get
 * no stacks. Any thread.
 */
void stack_capture_window(const struct settings *settings);

/*
 * Whether calls lack Python frames for the moment, because the collector has not yet searched for
 * an interpreter. Any thread.
 */
bool stack_capture_waits_for_python(const struct settings *settings);

/* Number of distinct stacks that a generation can hold. */
uint32_t stack_capture_max(void);

/* Returns the stack of the calling thread, from its caller outwards. 0: there is none. */
uint32_t stack_capture_call(struct ring *r);

/*
 * Working memory for samples of one thread. It is large, so it must not be on the stack that a
 * signal handler runs on. Must be zeroed.
 */
struct stack_sampler {
	bool ready;
	struct stack_walker walker;
	uint64_t native[STACK_NATIVE_MAX];
	struct python_frame python[STACK_PYTHON_MAX + 1];
		/* stacks whose Python frames are all placed innermost, for want of a match */
	atomic_uint_fast64_t python_unmatched;
};

/*
 * Samples the calling thread in a signal handler, from the registers at the interruption. Writes at
 * most STACK_FRAMES_MAX frames and returns their number; 0: there is no stack, and *end is not set.
 */
unsigned stack_capture_sample(struct stack_sampler *s, const struct stack_registers *registers,
			      uint64_t *frames, enum stack_end *end);

/* --- the collector's side --- */

/* Called when the sampled thread has ended and another one will use the sampler. */
void stack_sampler_reset(struct stack_sampler *s);

/* Returns the id of a sampled stack, equal to that of a call with it; 0: it is not recorded. */
uint32_t stack_capture_intern(const uint64_t *frames, unsigned count, enum stack_end end,
			      stack_take *take, void *context);

/*
 * Follows dlopen, compiles unwind rules for at most budget_ns, searches for Python. Returns true
 * while there are rules left to compile.
 */
bool stack_capture_update(uint64_t budget_ns);

/* Returns the code objects that Python frames refer to; NULL without Python. */
struct python_codes *stack_capture_codes(void);
/* Returns the code objects that frames of stack `id` refer to; NULL if its generation is gone. */
struct python_codes *stack_capture_codes_of(uint32_t id);

/*
 * The rows of stack `id`'s generation have nearly reached their limit: makes stack_capture_update()
 * begin the next generation.
 */
void stack_capture_renew(uint32_t id);
/* Says why there are no Python frames; "" if there are, or if no Python is in the process. */
const char *stack_capture_python_reason(void);
/* Returns the PY_VERSION_HEX of the Python that is walked; 0: none. */
uint32_t stack_capture_python_version(void);

struct stack_capture_counts {
	uint64_t walked, none, python_unmatched;
	uint64_t table_full, no_memory; /* calls without stack for these reasons */
	uint64_t ends[STACK_ENDS];	/* by enum stack_end */
	uint64_t rule_bytes, build_ns; /* of unwind rules */
	uint32_t parts;
	struct python_code_losses python;
};
void stack_capture_counts(struct stack_capture_counts *counts);

/* Called in the child of a fork: as if never started. */
void stack_capture_after_fork(void);

#endif
