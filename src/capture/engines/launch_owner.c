#include "capture/engines/launch_owner.h"

#include <pthread.h>
#include <stddef.h>

#include "capture/core/pause.h"

#define HOLD_WAIT_NS (200 * NS_PER_MS)
#define POLL_MIN_NS (20 * NS_PER_US)
#define POLL_MAX_NS NS_PER_MS

atomic_uintptr_t launch_owner;
static atomic_uint holding; /* threads that flush, or are about to */
static _Atomic(CUcontext) measuring; /* the context, while a measurement is underway */
static void (*_Atomic at_release)(void);

/* Returns the present owner; 0: the calling thread is the owner now. */
static uintptr_t acquire(uintptr_t flush)
{
	uintptr_t owner = 0;

	atomic_compare_exchange_strong(&launch_owner, &owner, (uintptr_t)pthread_self() | flush);
	return owner;
}

bool launch_owner_try(void)
{
	return !acquire(0);
}

bool launch_owner_is_me(void)
{
	return (atomic_load(&launch_owner) & ~LAUNCH_OWNER_FLUSH) == (uintptr_t)pthread_self();
}

void launch_owner_take_over(void)
{
	atomic_store(&launch_owner, (uintptr_t)pthread_self());
}

void launch_owner_at_release(void (*undo)(void))
{
	atomic_store(&at_release, undo);
}

void launch_owner_release(void)
{
	void (*undo)(void) = atomic_exchange(&at_release, NULL);

	atomic_store(&measuring, NULL);
	if (undo)
		undo();
	atomic_store(&launch_owner, 0);
}

bool launch_owner_wait_until(bool (*ready)(void), uint64_t most_ns)
{
	uint64_t end = clock_monotonic_ns() + most_ns, poll = POLL_MIN_NS;

	for (; !ready(); poll = MIN(2 * poll, POLL_MAX_NS)) {
		if (clock_monotonic_ns() >= end)
			return false;
		pause_ns(poll);
	}
	return true;
}

bool launch_owner_wait(uint64_t most_ns)
{
	return launch_owner_wait_until(launch_owner_try, most_ns);
}

/* --- the owner's end --- */

static pthread_key_t thread_end;
static bool has_key;

static void on_thread_end(void *lost)
{
	if (launch_owner_is_me())
		((void (*)(void))lost)();
}

static void make_key(void)
{
	has_key = pthread_key_create(&thread_end, on_thread_end) == 0;
}

void launch_owner_watch(void (*lost)(void))
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_key);
	if (has_key)
		pthread_setspecific(thread_end, (void *)lost);
}

/* --- flushes --- */

static bool claim_for_flush(void)
{
	return !acquire(LAUNCH_OWNER_FLUSH);
}

bool launch_owner_hold(void)
{
	atomic_fetch_add(&holding, 1);
	if (launch_owner_wait_until(claim_for_flush, HOLD_WAIT_NS))
		return true;
	atomic_fetch_sub(&holding, 1);
	return false;
}

void launch_owner_resume(void)
{
	launch_owner_release();
	atomic_fetch_sub(&holding, 1);
}

/* Checks the owner only; a flush may acquire the engine right after this. */
static bool claimed_or_taken(void)
{
	return !atomic_load(&holding) && !(acquire(0) & LAUNCH_OWNER_FLUSH);
}

bool launch_owner_beside_flushes(void)
{
	return launch_owner_wait_until(claimed_or_taken, LAUNCH_OWNER_HELD_NS) &&
	       launch_owner_is_me();
}

/* --- measurements --- */

void launch_owner_begin(CUcontext context)
{
	atomic_store(&measuring, context);
}

CUcontext launch_owner_context(void)
{
	return atomic_load(&measuring);
}

void launch_owner_after_fork(void)
{
	atomic_store(&launch_owner, 0);
	atomic_store(&holding, 0);
	atomic_store(&measuring, NULL);
	atomic_store(&at_release, NULL);
}
