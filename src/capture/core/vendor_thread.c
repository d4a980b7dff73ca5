#include "capture/core/vendor_thread.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/helper_thread.h"
#include "capture/core/park.h"
#include "capture/core/ring.h"

#define STACK_BYTES (256u << 10)
#define HOLD_WAIT_NS (100 * NS_PER_MS)

static struct {
	/* rounds; this thread sleeps on the futex `requested`, waiting threads on `done` */
	atomic_uint requested, done;
	atomic_uint reasons; /* of the next round */
	/* of the thread: one of an older generation ends when it returns from its call */
	atomic_uint generation;
	atomic_uint held; /* until the sources have started; the futex that the thread waits on */
	atomic_bool started, takes_long;
	atomic_uint holds; /* threads in calls that must end before the process does */
	atomic_uint loads; /* of them, those that load a library with destructors */
	atomic_bool stopped, destructed; /* destructed: such a library may be */
	_Atomic(const char *) in;
	atomic_uint_fast64_t since_ns, cpu_ns;
} self;

struct parked vendor_parked;
static __thread bool on_vendor_thread __attribute__((tls_model("initial-exec")));
static __thread unsigned own_generation __attribute__((tls_model("initial-exec")));

void vendor_enter(const char *function)
{
	if (!on_vendor_thread)
		return;
	atomic_store(&self.since_ns, clock_machine_ns());
	atomic_store(&self.in, function);
}

void vendor_leave(void)
{
	if (!on_vendor_thread)
		return;
	atomic_store(&self.in, NULL);
	collector_count_progress();
}

const char *vendor_thread_current_call(uint64_t *since_ns)
{
	*since_ns = atomic_load(&self.since_ns);
	return atomic_load(&self.in);
}

void vendor_thread_expect_long(bool does)
{
	atomic_store(&self.takes_long, does);
}

uint64_t vendor_thread_patience_ns(void)
{
	return atomic_load(&self.takes_long) ? LONG_HANG_NS : HANG_NS;
}

uint64_t vendor_thread_cpu_ns(void)
{
	return atomic_load(&self.cpu_ns);
}

static uint64_t run_round(unsigned reasons)
{
	uint64_t soonest = UINT64_MAX;

	FOR_EACH_SOURCE (s) {
		uint64_t wait;

		if (!(*s)->vendor)
			continue;
		park_here(&vendor_parked);
		wait = (*s)->vendor(reasons, clock_monotonic_ns());
		soonest = MIN(soonest, wait);
	}
	return soonest;
}

static void *vendor_main(void *argument)
{
	unsigned generation = (unsigned)(uintptr_t)argument, answered = atomic_load(&self.done);

	on_vendor_thread = true;
	own_generation = generation;
	pthread_setname_np(pthread_self(), "pitot-vendor");
	park_begin(&vendor_parked);
	while (atomic_load(&self.held) && atomic_load(&self.generation) == generation)
		park_wait(&vendor_parked, &self.held, true, NS_PER_S);
	while (atomic_load(&self.generation) == generation) {
		unsigned round = atomic_load(&self.requested);
		uint64_t wait = run_round(atomic_exchange(&self.reasons, 0));

		if (atomic_load(&self.generation) != generation)
			break;
		atomic_store(&self.cpu_ns, clock_read_ns(CLOCK_THREAD_CPUTIME_ID));
		atomic_store(&self.done, round);
		futex_wake(&self.done);
		collector_count_progress();
		if (round != answered)
			collector_wake();
		answered = round;
		if (atomic_load(&self.requested) == round)
			park_wait(&vendor_parked, &self.requested, round, MIN(wait, NS_PER_S));
	}
	park_end(&vendor_parked);
	return NULL;
}

int vendor_thread_start(void)
{
	int err;

	if (self.started)
		return 0;
	atomic_store(&self.held, true);
	atomic_store(&self.stopped, false);
	err = helper_thread_start(vendor_main, (void *)(uintptr_t)atomic_load(&self.generation),
				  STACK_BYTES);
	self.started = err == 0;
	return err;
}

void vendor_thread_begin(void)
{
	atomic_store(&self.held, false);
	futex_wake(&self.held);
}

unsigned vendor_thread_request(enum vendor_reason reason)
{
	unsigned round;

	atomic_fetch_or(&self.reasons, reason);
	round = atomic_fetch_add(&self.requested, 1) + 1;
	futex_wake(&self.requested);
	return round;
}

bool vendor_thread_done(unsigned round)
{
	return !self.started || (int)(atomic_load(&self.done) - round) >= 0;
}

void vendor_thread_wait(unsigned round, uint64_t limit_ns)
{
	uint64_t begun = clock_machine_ns(), waited = 0;

	while (waited < limit_ns) {
		unsigned seen = atomic_load(&self.done);

		if (vendor_thread_done(round))
			return;
		futex_wait(&self.done, seen, limit_ns - waited);
		waited = clock_machine_ns() - begun;
	}
}

bool vendor_hold(bool loads)
{
	atomic_fetch_add(&self.loads, loads);
	atomic_fetch_add(&self.holds, 1);
	if (!atomic_load(&self.destructed) && !atomic_load(&self.stopped) &&
	    (!on_vendor_thread || atomic_load(&self.generation) == own_generation))
		return true;
	vendor_let(loads);
	return false;
}

void vendor_let(bool loads)
{
	atomic_fetch_sub(&self.loads, loads);
	if (atomic_fetch_sub(&self.holds, 1) == 1)
		futex_wake(&self.holds);
	collector_count_progress();
}

void vendor_thread_exit_begins(void)
{
	if (atomic_load(&self.loads))
		atomic_store(&self.destructed, true);
}

void vendor_thread_stop(void)
{
	uint64_t begun = clock_machine_ns(), waited = 0;
	unsigned holds;

	atomic_store(&self.stopped, true);
	atomic_fetch_add(&self.generation, 1);
	while (self.started && (holds = atomic_load(&self.holds)) && waited < HOLD_WAIT_NS) {
		futex_wait(&self.holds, holds, HOLD_WAIT_NS - waited);
		waited = clock_machine_ns() - begun;
	}
	vendor_thread_begin();
	vendor_thread_request(VENDOR_FLUSH);
	self.started = false;
}

void vendor_thread_after_fork(void)
{
	atomic_store(&self.in, NULL);
	atomic_store(&self.requested, 0);
	atomic_store(&self.reasons, 0);
	atomic_store(&self.done, 0);
	atomic_store(&self.cpu_ns, 0);
	atomic_store(&self.takes_long, false);
	atomic_store(&self.holds, 0);
	atomic_store(&self.loads, 0);
	atomic_store(&self.destructed, false);
	atomic_store(&vendor_parked.state, PARK_NONE);
	self.started = false;
}
