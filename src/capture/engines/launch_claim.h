/*
 * launch_claim.h: the claim of the engine that measures launches. One thread at a time has it, and
 * makes all calls to CUPTI about measurements while it does. A claim that is taken in one callback
 * of a launch is released in the next; that of a range lasts while the range is open.
 *
 * Nobody waits for a claim for long: each wait has a limit, and is for a flush, a context's
 * destruction, the capture of a graph, another session's choice or a detach. A selected launch
 * waits at most LAUNCH_CLAIM_HELD_NS for a flush.
 */
#ifndef PITOT_CAPTURE_ENGINES_LAUNCH_CLAIM_H
#define PITOT_CAPTURE_ENGINES_LAUNCH_CLAIM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "capture/cuda/vendor.h"

#define LAUNCH_CLAIM_HELD_NS (PITOT_SLOWNESS * 20 * NS_PER_MS)
#define LAUNCH_CLAIM_FLUSH (UINTPTR_MAX ^ UINTPTR_MAX >> 1) /* a bit that no address has */

/* pthread_self() of the owner, with LAUNCH_CLAIM_FLUSH if it flushes; 0: unclaimed */
extern atomic_uintptr_t launch_claim_owner;

static inline bool launch_claim_exists(void)
{
	return atomic_load_explicit(&launch_claim_owner, memory_order_relaxed);
}

bool launch_claim(void);
bool launch_claim_wait(uint64_t most_ns);
/* For a selected launch, which waits for flushes, but for no other owner of the claim. */
bool launch_claim_beside_flushes(void);
bool launch_claim_is_mine(void);
/* Makes the calling thread the owner: it ends what the present owner has begun. */
void launch_claim_take_over(void);
/*
 * If the calling thread ends as the owner, it calls `lost` in place of the callback that releases
 * the claim.
 */
void launch_claim_watch(void (*lost)(void));
void launch_claim_release(void);
/* The release of the present claim calls `undo` first. Must be called by the owner. */
void launch_claim_at_release(void (*undo)(void));
/* Polls `ready` for at most most_ns. Returns whether it became true. */
bool launch_claim_wait_until(bool (*ready)(void), uint64_t most_ns);

/*
 * Claims the engine for a flush, which must not run beside a measurement; launches wait until
 * launch_claim_let(). Returns false if a measurement takes too long.
 */
bool launch_claim_hold(void);
void launch_claim_let(void);

/* A measurement in a context begins, on the owner's thread, and ends with the release. */
void launch_claim_begin(CUcontext context);
/* The context that is measured in, or NULL. */
CUcontext launch_claim_context(void);
void launch_claim_after_fork(void);

#endif
