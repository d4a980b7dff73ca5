/*
 * park.h: makes the recorder's threads stand still while the program forks.
 *
 * A child gets copies of all locks in their state at the moment of fork(): a lock that one of our
 * threads holds (the loader's, NVML's, the allocator's) would stay locked forever. Therefore a fork
 * waits, at most PARK_LIMIT_NS, until each thread is parked: asleep, or stopped at a point of its
 * loop where it holds no lock.
 */
#ifndef PITOT_CAPTURE_PARK_H
#define PITOT_CAPTURE_PARK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define PARK_LIMIT_NS (PITOT_SLOWNESS * 10 * NS_PER_MS)

struct parked {
	atomic_uint state; /* PARK_NONE, PARK_RUNNING, PARK_PARKED */
};

enum { PARK_NONE, PARK_RUNNING, PARK_PARKED };

void futex_wait(atomic_uint *word, unsigned expected, uint64_t timeout_ns);
void futex_wake(atomic_uint *word);

/* --- called by the recorder's threads --- */

void park_begin(struct parked *p);
void park_end(struct parked *p);

/* Marks a point at which the thread holds no lock: it stops here while the program forks. */
void park_here(struct parked *p);

/* Sleeps on a futex; the thread counts as parked while it does. */
void park_wait(struct parked *p, atomic_uint *word, unsigned expected, uint64_t timeout_ns);

/* Whether a fork is waiting: a long operation that holds a lock must stop and start over later. */
bool park_is_requested(void);

/* --- called by the thread that forks --- */

/* No thread passes park_here() from now on. Returns when all are parked, or at the limit. */
void park_all(struct parked *const *threads, unsigned count);
void park_release(void);
void park_after_fork(void);

#endif
