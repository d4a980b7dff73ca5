/*
 * launch_owner.h: the owner of the engine that measures launches: one thread at a time, which alone
 * calls CUPTI about measurements. A thread that becomes the owner in one callback of a launch
 * releases the engine in the next; the owner for a range is so while the range is open.
 *
 * Nobody waits for an owner for long: each wait has a limit, and is for a flush, a context's
 * destruction, the capture of a graph, another session's choice or a detach. A selected launch
 * waits at most LAUNCH_OWNER_HELD_NS for a flush.
 */
#ifndef PITOT_CAPTURE_ENGINES_LAUNCH_OWNER_H
#define PITOT_CAPTURE_ENGINES_LAUNCH_OWNER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "capture/cuda/vendor.h"

#define LAUNCH_OWNER_HELD_NS (PITOT_SLOWNESS * 20 * NS_PER_MS)
#define LAUNCH_OWNER_FLUSH (UINTPTR_MAX ^ UINTPTR_MAX >> 1) /* a bit that no address has */

/* pthread_self() of the owner, with LAUNCH_OWNER_FLUSH if it flushes; 0: nobody */
extern atomic_uintptr_t launch_owner;

static inline bool launch_owner_exists(void)
{
	return atomic_load_explicit(&launch_owner, memory_order_relaxed);
}

bool launch_owner_try(void);
bool launch_owner_wait(uint64_t most_ns);
/* For a selected launch, which waits for flushes, but for no other owner. */
bool launch_owner_beside_flushes(void);
bool launch_owner_is_me(void);
/* Makes the calling thread the owner: it ends what the present owner has begun. */
void launch_owner_take_over(void);
/*
 * If the calling thread ends as the owner, it calls `lost` in place of the callback that releases
 * the engine.
 */
void launch_owner_watch(void (*lost)(void));
void launch_owner_release(void);
/* The next release calls `undo` first. Must be called by the owner. */
void launch_owner_at_release(void (*undo)(void));
/* Polls `ready` for at most most_ns. Returns whether it became true. */
bool launch_owner_wait_until(bool (*ready)(void), uint64_t most_ns);

/*
 * Acquires the engine for a flush, which must not run beside a measurement; launches wait until
 * launch_owner_resume(). Returns false if a measurement takes too long.
 */
bool launch_owner_hold(void);
void launch_owner_resume(void);

/* A measurement in a context begins, on the owner's thread, and ends with the release. */
void launch_owner_begin(CUcontext context);
/* The context that is measured in, or NULL. */
CUcontext launch_owner_context(void);
void launch_owner_after_fork(void);

#endif
