#include "capture/engines/launch_claim.h"

#include <pthread.h>
#include <stddef.h>
#include <time.h>

#define HOLD_WAIT_NS (200 * NS_PER_MS)

atomic_uintptr_t launch_claim_owner;
static atomic_uint holding; /* threads that flush, or are about to */
static _Atomic(CUcontext) measuring; /* the context, while a measurement is underway */
static atomic_bool disturbed;

bool launch_claim(void)
{
	uintptr_t nobody = 0;

	return atomic_compare_exchange_strong(&launch_claim_owner, &nobody,
					      (uintptr_t)pthread_self());
}

bool launch_claim_is_mine(void)
{
	return atomic_load(&launch_claim_owner) == (uintptr_t)pthread_self();
}

void launch_claim_take_over(void)
{
	atomic_store(&launch_claim_owner, (uintptr_t)pthread_self());
}

void launch_claim_release(void)
{
	atomic_store(&measuring, NULL);
	atomic_store(&launch_claim_owner, 0);
}

/*
 * Polls `ready` for at most most_ns. Returns whether it became true. The thread may be the
 * program's, which must not be cancelled in a launch.
 */
static bool wait_until(bool (*ready)(void), uint64_t most_ns)
{
	struct timespec t = { .tv_nsec = NS_PER_MS };
	bool is_ready;
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	for (uint64_t ns = 0; !(is_ready = ready()) && ns < most_ns; ns += NS_PER_MS)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
	pthread_setcancelstate(cancel, NULL);
	return is_ready;
}

bool launch_claim_wait(uint64_t most_ns)
{
	return wait_until(launch_claim, most_ns);
}

/* --- flushes --- */

static bool is_not_held(void)
{
	return !atomic_load(&holding);
}

bool launch_claim_hold(void)
{
	atomic_fetch_add(&holding, 1);
	if (launch_claim_wait(HOLD_WAIT_NS))
		return true;
	atomic_fetch_sub(&holding, 1);
	return false;
}

void launch_claim_let(void)
{
	launch_claim_release();
	atomic_fetch_sub(&holding, 1);
}

void launch_claim_wait_for_flush(void)
{
	wait_until(is_not_held, LAUNCH_CLAIM_HELD_NS);
}

/* --- disturbances --- */

void launch_claim_begin(CUcontext context)
{
	atomic_store(&disturbed, false);
	atomic_store(&measuring, context);
}

CUcontext launch_claim_context(void)
{
	return atomic_load(&measuring);
}

void launch_claim_disturb(CUcontext context)
{
	if (atomic_load(&measuring) == context)
		atomic_store(&disturbed, true);
}

static bool is_measuring_or_free(void)
{
	return atomic_load(&measuring) || !launch_claim_exists();
}

/* Only owners that measure begin, and at once; a flush or a session's choice never does. */
void launch_claim_disturb_next(CUcontext context)
{
	wait_until(is_measuring_or_free, NS_PER_MS);
	launch_claim_disturb(context);
}

bool launch_claim_is_disturbed(void)
{
	return atomic_load(&disturbed);
}

void launch_claim_after_fork(void)
{
	atomic_store(&launch_claim_owner, 0);
	atomic_store(&holding, 0);
	atomic_store(&measuring, NULL);
}
