/*
 * scope.h: a program's own scopes, marks and counters in a recording.
 *
 *	PITOT_SCOPE("forward") { ... }
 *
 * A scope is a named span of a thread. Scopes nest, and GPU work that is launched inside a scope
 * belongs to it. Scopes are in table nvtx of the recording, in the domain "pitot"; reports show
 * them like NVTX ranges.
 *
 * All functions may be called at any time, from any thread and in signal handlers, whether or not
 * anything is being recorded. They preserve errno. While nothing is recorded, a scope or a counter
 * costs a nanosecond or two. While recording, begin and end of a scope cost some 20 ns each, and
 * neither allocate nor wait; events that come faster than they can be stored are lost and counted.
 *
 * Strings are UTF-8, copied before the call returns, and cut after 4096 bytes; NULL: no name.
 */
#ifndef PITOT_SCOPE_H
#define PITOT_SCOPE_H

#include <stdint.h>

#include "pitot.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- scopes --- */

/* Begins a scope on this thread. pitot_scope_end ends the innermost one, if any is open. */
PITOT_API void pitot_scope_begin(const char *name);
PITOT_API void pitot_scope_end(void);

/*
 * Returns a number for a name, which saves the lookup of the name in hot loops:
 * pitot_scope_begin_name(number). Equal names have equal numbers, until the process ends. Returns 0
 * if name is NULL or there are too many names; a scope with number 0 has no name.
 */
PITOT_API uint32_t pitot_name(const char *name);
PITOT_API void pitot_scope_begin_name(uint32_t name);

/*
 * Begins a scope that runs the same code `warmup` times, which do not count, and then `repeat`
 * times. Reports use the counts for averages.
 */
PITOT_API void pitot_scope_begin_runs(const char *name, uint32_t repeat, uint32_t warmup);

/*
 * Continues a scope on another thread, such as one of a pool. The token identifies the innermost
 * scope of this thread; pitot_scope_carry(token) on the other thread continues that scope until
 * pitot_scope_end there. The scope may have ended meanwhile. The token is 0 if no scope is open,
 * nothing is being recorded, or more than 31 scopes are open; carrying token 0 records nothing, but
 * needs its pitot_scope_end, too.
 */
PITOT_API uint64_t pitot_scope_token(void);
PITOT_API void pitot_scope_carry(uint64_t token);

/*
 * Begins a scope that need not nest with the others of its thread, such as that of a coroutine, and
 * may end on another thread: pitot_scope_finish(id), once. It is an outermost scope, and GPU work
 * does not belong to it. The id is 0 while nothing is recorded; finishing 0 does nothing.
 */
PITOT_API uint64_t pitot_scope_start(const char *name);
PITOT_API void pitot_scope_finish(uint64_t id);

/* Records a text with the current time. */
PITOT_API void pitot_mark(const char *text);

/*
 * Opens and closes a process-wide window; start and stop may be called on different threads.
 * Windows nest: the last stop closes. The name (NULL: none) is recorded in marks, "system start:
 * name" and "system stop: name". If pitot_options.counters_always is PITOT_OFF, counters of GPUs
 * and the machine are read only while a window is open: when the first opens, at the interval, and
 * when the last closes.
 */
PITOT_API void pitot_system_start(const char *name);
PITOT_API void pitot_system_stop(const char *name);

/*
 * Labels the CUDA calls that this thread makes between push and pop with a number of the program,
 * such as that of an operator or a request. `kind` is below 8, as in CUPTI's external correlation;
 * the innermost number of each kind counts (table external_correlation). Push returns 1, or 0 if
 * CUDA calls are not recorded or 8 numbers are open; then it must not be popped. Pop removes the
 * innermost number of the kind, stores it in *id (unless NULL) and returns 1, or 0 if none is open.
 */
PITOT_API int pitot_external_push(uint32_t kind, uint64_t id);
PITOT_API int pitot_external_pop(uint32_t kind, uint64_t *id);

/* --- counters --- */

/*
 * Registers a counter for the two functions below. Unit ("tokens", "bytes") and description may be
 * NULL. Equal names are the same counter, with the unit and description of the first registration.
 * Returns 0 if name is NULL or there are 1024 counters; counter 0 is not recorded.
 */
PITOT_API uint32_t pitot_counter(const char *name, const char *unit, const char *description);

/*
 * Adds to a counter, from any number of threads at once. The sum, in total and for each scope, is
 * recorded every 40 ms or more often while it changes, and at the end, so that nothing is lost.
 * While nothing is recorded, the call does nothing.
 */
PITOT_API void pitot_counter_add(uint32_t counter, int64_t by);

/* Records a value with the current time. */
PITOT_API void pitot_gauge(uint32_t counter, double value);

#ifdef __cplusplus
}
#endif

/*
 * Makes a block a scope: PITOT_SCOPE("name") { ... }. The scope ends however the block is left,
 * also by return, goto or an exception. `break` and `continue` leave this block, not a loop around
 * it.
 */
#define PITOT_JOIN_(a, b) a##b
#define PITOT_UNIQUE_(name, line) PITOT_JOIN_(name, line)

#ifdef __cplusplus

struct pitot_scope_block_ {
	bool open;
	explicit pitot_scope_block_(const char *name) noexcept : open(true)
	{
		pitot_scope_begin(name);
	}
	~pitot_scope_block_() { pitot_scope_end(); }
	pitot_scope_block_(const pitot_scope_block_ &) = delete;
	pitot_scope_block_ &operator=(const pitot_scope_block_ &) = delete;
};
#define PITOT_SCOPE(name) PITOT_SCOPE_(PITOT_UNIQUE_(pitot_scope_, __LINE__), name)
#define PITOT_SCOPE_(block, name)                                                                  \
	for (pitot_scope_block_ block(name); block.open; block.open = false)

#else

static inline int pitot_scope_enter_(const char *name)
{
	pitot_scope_begin(name);
	return 1;
}

static inline void pitot_scope_leave_(const int *open)
{
	(void)open;
	pitot_scope_end();
}
#define PITOT_SCOPE(name) PITOT_SCOPE_(PITOT_UNIQUE_(pitot_scope_, __LINE__), name)
#define PITOT_SCOPE_(open, name)                                                                   \
	for (int open __attribute__((cleanup(pitot_scope_leave_))) = pitot_scope_enter_(name);     \
	     open; open = 0)

#endif

#endif
