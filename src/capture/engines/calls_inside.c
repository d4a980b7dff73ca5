#include "capture/engines/calls_inside.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/compiler.h"

#define GENERATION_SHIFT 32
#define FIRST (UINT64_C(1) << GENERATION_SHIFT)

/*
 * The number of threads, and above it a generation, which is never 0. A thread that was counted in
 * an older generation is not in the number.
 */
static atomic_uint_fast64_t counts[CALLS_KINDS] = { FIRST, FIRST };

/* The thread's calls, and the generation in which they are counted; 0: it is in none. */
static __thread struct {
	uint32_t correlation, generation;
} inside[CALLS_KINDS] __attribute__((tls_model("initial-exec")));

static uint32_t generation_of(uint64_t count)
{
	return (uint32_t)(count >> GENERATION_SHIFT);
}

static bool is_inside(enum calls kind)
{
	return inside[kind].generation == generation_of(atomic_load(&counts[kind]));
}

static void leave(enum calls kind)
{
	uint64_t count = atomic_load(&counts[kind]);

	while (inside[kind].generation == generation_of(count) &&
	       !atomic_compare_exchange_weak(&counts[kind], &count, count - 1))
		;
	inside[kind].generation = 0;
}

/* --- the end of a thread --- */

static pthread_key_t thread_end;
static bool has_key;

static void on_thread_end(void *unused)
{
	(void)unused;
	for (unsigned kind = 0; kind < CALLS_KINDS; kind++)
		leave((enum calls)kind);
}

static void make_key(void)
{
	has_key = pthread_key_create(&thread_end, on_thread_end) == 0;
}

static void watch_thread(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_key);
	if (has_key && !pthread_getspecific(thread_end))
		pthread_setspecific(thread_end, inside);
}

/* --- calls --- */

bool calls_begin(enum calls kind, uint32_t correlation)
{
	inside[kind].correlation = correlation;
	if (is_inside(kind))
		return false;
	inside[kind].generation = generation_of(atomic_fetch_add(&counts[kind], 1));
	watch_thread();
	return true;
}

bool calls_end(enum calls kind, uint32_t correlation)
{
	if (!inside[kind].generation || inside[kind].correlation != correlation)
		return false;
	leave(kind);
	return true;
}

unsigned calls_of_others(enum calls kind)
{
	uint64_t count = atomic_load(&counts[kind]);

	return (uint32_t)count - (inside[kind].generation == generation_of(count));
}

void calls_forget(enum calls kind)
{
	uint64_t count = atomic_load(&counts[kind]), next;

	do
		next = (uint64_t)MAX(generation_of(count) + 1, 1u) << GENERATION_SHIFT;
	while (!atomic_compare_exchange_weak(&counts[kind], &count, next));
}
