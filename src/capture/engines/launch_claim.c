#include "capture/engines/launch_claim.h"

#include <pthread.h>
#include <stddef.h>

#include "capture/engines/launch_gate.h"
#include "capture/pause.h"

#define HOLD_WAIT_NS (200 * NS_PER_MS)
#define POLL_MIN_NS (20 * NS_PER_US)
#define POLL_MAX_NS NS_PER_MS

atomic_uintptr_t launch_claim_owner;
static atomic_uint holding; /* threads that flush, or are about to */
static _Atomic(CUcontext) measuring; /* the context, while a measurement is underway */

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
	launch_gate_open();
	atomic_store(&launch_claim_owner, 0);
}

bool launch_claim_wait_until(bool (*ready)(void), uint64_t most_ns)
{
	uint64_t end = clock_monotonic_ns() + most_ns, poll = POLL_MIN_NS;

	for (; !ready(); poll = MIN(2 * poll, POLL_MAX_NS)) {
		if (clock_monotonic_ns() >= end)
			return false;
		pause_ns(poll);
	}
	return true;
}

bool launch_claim_wait(uint64_t most_ns)
{
	return launch_claim_wait_until(launch_claim, most_ns);
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
	launch_claim_wait_until(is_not_held, LAUNCH_CLAIM_HELD_NS);
}

/* --- measurements --- */

void launch_claim_begin(CUcontext context)
{
	atomic_store(&measuring, context);
}

CUcontext launch_claim_context(void)
{
	return atomic_load(&measuring);
}

void launch_claim_after_fork(void)
{
	atomic_store(&launch_claim_owner, 0);
	atomic_store(&holding, 0);
	atomic_store(&measuring, NULL);
}
