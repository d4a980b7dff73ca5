/*
 * timed_work.h: runs what may hang, such as a call of a driver, on a thread of its own. Whoever
 * does not wait any longer leaves the work to its thread.
 */
#ifndef PITOT_BASE_TIMED_WORK_H
#define PITOT_BASE_TIMED_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

struct timed_work;

/*
 * Starts run(context) with all signals blocked. release(context) is called once, when run has
 * returned and nobody needs the context any more. NULL: it cannot be started; the context is the
 * caller's then.
 */
struct timed_work *timed_work_start(void (*run)(void *context), void (*release)(void *context),
				    void *context) MUST_USE;
/* Waits until run has returned, at most until then (CLOCK_MONOTONIC). Returns whether it has. */
bool timed_work_await(struct timed_work *w, uint64_t end_ns);
/* The context of work that has returned. */
void *timed_work_context(const struct timed_work *w);
/* The caller does not use the context any more. NULL: nothing. */
void timed_work_leave(struct timed_work *w);

#endif
