#include "capture/core/park.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#include "base/compiler.h"

static atomic_uint forks; /* forks in progress; the futex that parked threads wait on */
static atomic_uint arrivals; /* changes when a thread parks; the futex that a fork waits on */

void futex_wait(atomic_uint *word, unsigned expected, uint64_t timeout_ns)
{
	struct timespec t = { (time_t)(timeout_ns / NS_PER_S), (long)(timeout_ns % NS_PER_S) };

	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, &t, NULL, 0);
}

void futex_wake(atomic_uint *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void park_begin(struct parked *p)
{
	atomic_store(&p->state, PARK_PARKED);
	park_here(p);
}

void park_end(struct parked *p)
{
	atomic_store(&p->state, PARK_NONE);
}

static void arrive(struct parked *p)
{
	atomic_store(&p->state, PARK_PARKED);
	if (!atomic_load(&forks))
		return;
	atomic_fetch_add(&arrivals, 1);
	futex_wake(&arrivals);
}

/*
 * depart stores PARK_RUNNING and then loads `forks`; park_all increments `forks` and then loads the
 * state. Therefore at least one of the two sees the other's store.
 */
static void depart(struct parked *p)
{
	unsigned n;

	atomic_store(&p->state, PARK_RUNNING);
	while ((n = atomic_load(&forks))) {
		arrive(p);
		futex_wait(&forks, n, NS_PER_S);
		atomic_store(&p->state, PARK_RUNNING);
	}
}

void park_here(struct parked *p)
{
	if (unlikely(atomic_load_explicit(&forks, memory_order_relaxed)))
		depart(p);
	else if (unlikely(atomic_load_explicit(&p->state, memory_order_relaxed) == PARK_PARKED))
		depart(p);
}

void park_wait(struct parked *p, atomic_uint *word, unsigned expected, uint64_t timeout_ns)
{
	arrive(p);
	futex_wait(word, expected, timeout_ns);
	depart(p);
}

bool park_is_requested(void)
{
	return unlikely(atomic_load_explicit(&forks, memory_order_relaxed));
}

void park_all(struct parked *const *threads, unsigned count)
{
	uint64_t end = clock_machine_ns() + PARK_LIMIT_NS, now;

	atomic_fetch_add(&forks, 1);
	for (unsigned i = 0; i < count; i++) {
		for (;;) {
			unsigned seen = atomic_load(&arrivals);

			if (atomic_load(&threads[i]->state) != PARK_RUNNING)
				break;
			now = clock_machine_ns();
			if (now >= end)
				return;
			futex_wait(&arrivals, seen, end - now);
		}
	}
}

void park_release(void)
{
	if (atomic_fetch_sub(&forks, 1) == 1)
		futex_wake(&forks);
}

void park_after_fork(void)
{
	atomic_store(&forks, 0);
}
