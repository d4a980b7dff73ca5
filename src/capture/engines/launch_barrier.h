/*
 * launch_barrier.h: keeps the other threads' launches, and calls that load or change code, out of a
 * measured launch. CUPTI crashes in cuptiSassMetricsEnable beside such a call, and graphs that are
 * launched while a kernel is patched do not run (H100 and H200, CUPTI 13.0); and counters of a
 * launch would include those of another one.
 *
 * The owner of the engine closes the barrier for a launch, when the calls in progress are over.
 * Calls that begin then wait until the launch is measured, and come before the next one is; but
 * they do not wait for long, because the measured kernel may be waiting for one of theirs: when
 * that happens, the barrier is no longer used.
 */
#ifndef PITOT_CAPTURE_ENGINES_LAUNCH_BARRIER_H
#define PITOT_CAPTURE_ENGINES_LAUNCH_BARRIER_H

#include <stdbool.h>
#include <stdint.h>

/* How long a call waits: longer than the engines take to set up, before their first launch. */
#define LAUNCH_BARRIER_WAIT_NS (3 * NS_PER_S)

/* Whether a function of the driver loads or changes code. Launches have to be kept out as well. */
bool launch_barrier_is_function(const char *name);

/* Whether the barrier can be closed. A call that began before it could is not waited for. */
void launch_barrier_use(bool on);

/*
 * Must be called when such a call with this correlation id begins, and when it has ended. `enter`
 * returns false if the call has waited in vain.
 */
bool launch_barrier_enter(uint32_t correlation);
void launch_barrier_leave(uint32_t correlation);

/*
 * Closes the barrier. Returns false if calls of other threads take too long. The calling thread
 * must own the engine, whose release opens the barrier in any case.
 */
bool launch_barrier_close(void);

/* Whether a call waited in vain since the barrier was closed. */
bool launch_barrier_was_passed(void);

void launch_barrier_after_fork(void);

#endif
