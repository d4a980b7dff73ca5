#include "capture/engines/launch_barrier.h"

#include <stdatomic.h>

#include "base/starts_with.h"
#include "capture/engines/calls_inside.h"
#include "capture/engines/launch_owner.h"
#include "capture/core/vendor_thread.h"

#define CLOSE_WAIT_NS (20 * NS_PER_MS)

static atomic_bool used, closed, passed;
static atomic_uint waiting; /* threads that wait to begin a call */

bool launch_barrier_is_function(const char *name)
{
	static const char *const prefixes[] = {
		"cuModuleLoad",       "cuModuleUnload",      "cuModuleGetFunction",
		"cuLibraryLoad",      "cuLibraryUnload",     "cuLibraryGetModule",
		"cuLibraryGetKernel", "cuKernelGetFunction", "cuFuncLoad",
		"cuGraphInstantiate", "cuGraphExec",         "cuGraphUpload",
	};

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (starts_with(name, prefixes[i]))
			return true;
	return false;
}

void launch_barrier_use(bool on)
{
	if (on && !atomic_load(&used))
		calls_forget(CALLS_GATED); /* those of an earlier recording */
	atomic_store(&used, on);
}

static bool is_open(void)
{
	return !atomic_load(&closed) || !atomic_load(&used);
}

/*
 * Waits for the barrier, which may be closed again before this thread is inside. Returns false if
 * the wait was too long.
 */
static bool wait_outside(uint32_t correlation)
{
	bool in_time = true;

	while (in_time && !is_open() && !launch_owner_is_me()) {
		atomic_fetch_add(&waiting, 1);
		calls_end(CALLS_GATED, correlation);
		in_time = launch_owner_wait_until(is_open, LAUNCH_BARRIER_WAIT_NS);
		if (!in_time) {
			atomic_store(&passed, true);
			launch_barrier_use(false);
		}
		calls_begin(CALLS_GATED, correlation);
		atomic_fetch_sub(&waiting, 1);
	}
	return in_time;
}

bool launch_barrier_enter(uint32_t correlation)
{
	return !atomic_load_explicit(&used, memory_order_relaxed) ||
	       !calls_begin(CALLS_GATED, correlation) || likely(is_open()) ||
	       wait_outside(correlation);
}

void launch_barrier_leave(uint32_t correlation)
{
	calls_end(CALLS_GATED, correlation);
}

static bool is_empty(void)
{
	return !calls_of_others(CALLS_GATED);
}

static bool is_nobody_waiting(void)
{
	return !atomic_load(&waiting);
}

static void open_barrier(void)
{
	atomic_store(&passed, false);
	atomic_store(&closed, false);
	vendor_thread_expect_long(false);
}

/* A thread that measures one launch after the other would keep the others waiting. */
bool launch_barrier_close(void)
{
	if (!launch_owner_wait_until(is_nobody_waiting, CLOSE_WAIT_NS))
		return false;
	launch_owner_at_release(open_barrier);
	atomic_store(&closed, true);
	vendor_thread_expect_long(true); /* CUPTI flushes nothing before the launch is measured */
	return launch_owner_wait_until(is_empty, CLOSE_WAIT_NS);
}

bool launch_barrier_was_passed(void)
{
	return atomic_load(&passed);
}

void launch_barrier_after_fork(void)
{
	atomic_store(&used, false);
	atomic_store(&closed, false);
	atomic_store(&waiting, 0);
	calls_forget(CALLS_GATED);
}
