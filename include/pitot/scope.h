/*
 * scope.h: what a program says of itself in a recording: scopes, marks, counters.
 *
 *	PITOT_SCOPE("forward") { ... }
 *
 * A scope is a named span of a thread. Scopes nest; GPU work that is launched within one belongs to
 * it. They are in the table nvtx of the recording, in the domain "pitot", and reports show them as
 * they show NVTX ranges.
 *
 * All functions may be called at any time, from any thread, in signal handlers, and whether or not
 * anything is being recorded: while nothing is, a scope or a counter costs a nanosecond or two.
 * While recording, a scope's begin and end cost some 20 ns each and neither allocate nor wait; what
 * a thread makes faster than it can be stored is lost and counted. errno stays as it was.
 *
 * Texts are UTF-8, copied before the call returns, and cut after 4096 bytes; NULL: no name.
 */
#ifndef PITOT_SCOPE_H
#define PITOT_SCOPE_H

#include <stdint.h>

#include "pitot.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- scopes --- */

/*
 * Begins a scope on this thread; pitot_scope_end ends the innermost one, and does nothing where
 * none is open.
 */
PITOT_API void pitot_scope_begin(const char *name);
PITOT_API void pitot_scope_end(void);

/*
 * A number for a name, for loops in which even looking it up takes too long:
 * pitot_scope_begin_name(number). The same name has the same number, until the process ends.
 * 0: name is NULL, or there are too many; a scope of that has no name.
 */
PITOT_API uint32_t pitot_name(const char *name);
PITOT_API void pitot_scope_begin_name(uint32_t name);

/*
 * A scope in which the same is done `warmup` times, which do not count, and then `repeat` times:
 * for averages.
 */
PITOT_API void pitot_scope_begin_runs(const char *name, uint32_t repeat, uint32_t warmup);

/*
 * Work of a scope that another thread does, such as one of a pool: the token names the innermost
 * scope of this thread, and pitot_scope_carry(token) on the other thread carries that scope on,
 * until pitot_scope_end there. The scope may have ended meanwhile. Token 0: no scope is open,
 * nothing is being recorded, or more than 31 scopes are open; carrying it on records nothing, but
 * needs its pitot_scope_end too.
 */
PITOT_API uint64_t pitot_scope_token(void);
PITOT_API void pitot_scope_carry(uint64_t token);

/* A moment with a text. */
PITOT_API void pitot_mark(const char *text);

/*
 * A window of the program, from any thread to any thread; as many stops as starts close it. The
 * name (NULL: none) is in the recording as marks, "system start: name" and "system stop: name".
 * With pitot_options.counters_always PITOT_OFF counters of GPUs and the machine are read only while
 * a window is open: when the first opens, at the interval, and when the last closes.
 */
PITOT_API void pitot_system_start(const char *name);
PITOT_API void pitot_system_stop(const char *name);

/*
 * Numbers of the program's own for the CUDA calls that this thread makes until the pop: of an
 * operator, of a request. `kind` is below 8, as those of CUPTI's external correlation are; of each
 * kind the innermost number counts (table external_correlation). Push: 1, or 0 where CUDA calls are
 * not recorded, or 8 numbers are open; then there is nothing to pop. Pop takes the innermost of the
 * kind, which *id gets (id may be NULL): 1, or 0 where none is open.
 */
PITOT_API int pitot_external_push(uint32_t kind, uint64_t id);
PITOT_API int pitot_external_pop(uint32_t kind, uint64_t *id);

/* --- counters --- */

/*
 * A counter for the two functions below: name, unit ("tokens", "bytes") and meaning; the last two
 * may be NULL. The same name is the same counter, as it was registered first. 0: name is NULL, or
 * there are 1024 counters; what is counted in that goes nowhere.
 */
PITOT_API uint32_t pitot_counter(const char *name, const char *unit, const char *description);

/*
 * Adds to a counter, from any number of threads at once. The sum so far is recorded every 20 ms
 * while it changes, and at the end: what is added is never lost. Nothing is added while nothing is
 * recorded.
 */
PITOT_API void pitot_counter_add(uint32_t counter, int64_t by);

/* Records a value as it is now, each call by itself. */
PITOT_API void pitot_gauge(uint32_t counter, double value);

#ifdef __cplusplus
}
#endif

/*
 * A block as a scope: PITOT_SCOPE("name") { ... }. However the block is left, by return, goto or an
 * exception too, the scope ends. `break` and `continue` leave this block, not a loop around it.
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
