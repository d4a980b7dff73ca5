/* Stacks of calls and of samples on any number of threads: each that lives has its own walker, and counts are exact. */
#include "unit/capture/captured_rows.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/reserve.h"
#include "capture/stack_capture.h"
#include "capture/stack_rows.h"

#define AT_ONCE 900u
#define ONE_AFTER_ANOTHER 3000u
#define CALLS 20000u

atomic_bool collector_idle;

void collector_wake(void)
{
}

static int begin(void **state)
{
	const struct settings settings = { .stacks = SETTING_STACKS_NATIVE };

	(void)state;
	if (!stack_capture_start(&settings))
		return -1;
	while (stack_capture_update(NS_PER_S))
		;
	return 0;
}

/* What the collector does with rings: events are dropped, rings of ended threads go to the next ones. */
static void drain(void)
{
	struct ring *r;

	for (unsigned i = 0; (r = ring_at(i)); i++) {
		bool dead = atomic_load(&r->state) == RING_DEAD;

		ring_consume(r, ring_available(r));
		if (dead)
			ring_recycle(r);
	}
}

/* The stack of a call, by the walker of a sample too. 2: it has both. */
static unsigned both_stacks(struct stack_sampler *sampler)
{
	struct stack_registers registers;
	uint64_t frames[STACK_FRAMES_MAX];
	enum stack_end how;

	STACK_CAPTURE(&registers);
	return (ring_get() && stack_capture_take(ring_get())) +
	       (stack_capture_sample(sampler, &registers, frames, &how) > 0);
}

/* --- counts --- */

static void *call_often(void *unused)
{
	for (unsigned i = 0; i < CALLS; i++)
		assert_int_not_equal(stack_capture_take(ring_get()), 0);
	return unused;
}

static void sums_of_two_threads_are_exact(void **state)
{
	struct stack_capture_counts counts;
	pthread_t threads[2];

	(void)state;
	stack_capture_counts(&counts);
	assert_int_equal(counts.taken + counts.none, 0);
	for (unsigned round = 1; round <= 3; round++) {
		for (unsigned i = 0; i < ARRAY_SIZE(threads); i++)
			assert_int_equal(pthread_create(&threads[i], NULL, call_often, NULL), 0);
		for (unsigned i = 0; i < ARRAY_SIZE(threads); i++)
			pthread_join(threads[i], NULL);
		drain();
		stack_capture_counts(&counts);
		assert_int_equal(counts.taken + counts.none, 2 * CALLS * round);
		assert_int_equal(counts.no_memory, 0);
	}
}

/* --- threads --- */

static atomic_uint complete; /* threads that had both stacks */
static sem_t ready, gate;

static void *live(void *sampler)
{
	if (both_stacks(sampler) == 2)
		atomic_fetch_add(&complete, 1);
	return NULL;
}

static void *live_until_all_do(void *sampler)
{
	live(sampler);
	sem_post(&ready);
	sem_wait(&gate);
	return NULL;
}

/* So many threads at once; samplers are zeroed, as a new thread's are. */
static void run_at_once(unsigned count, struct stack_sampler *samplers)
{
	pthread_t *threads = calloc(count, sizeof(*threads));
	pthread_attr_t small;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 256 << 10);
	sem_init(&ready, 0, 0);
	sem_init(&gate, 0, 0);
	atomic_store(&complete, 0);
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(
			pthread_create(&threads[i], &small, live_until_all_do, &samplers[i]), 0);
	for (unsigned i = 0; i < count; i++)
		sem_wait(&ready);
	for (unsigned i = 0; i < count; i++)
		sem_post(&gate);
	for (unsigned i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < count; i++)
		stack_sampler_reset(&samplers[i]);
	drain();
	pthread_attr_destroy(&small);
	free(threads);
	assert_int_equal(atomic_load(&complete), count);
}

static void threads_that_live_have_walkers(void **state)
{
	struct stack_sampler *samplers = reserve_memory(AT_ONCE * sizeof(*samplers));
	struct stack_capture_counts counts;
	pthread_t thread;

	(void)state;
	assert_non_null(samplers);
	run_at_once(AT_ONCE, samplers);
	atomic_store(&complete, 0);
	for (unsigned i = 0; i < ONE_AFTER_ANOTHER; i++) {
		assert_int_equal(pthread_create(&thread, NULL, live, &samplers[0]), 0);
		pthread_join(thread, NULL);
		stack_sampler_reset(&samplers[0]);
		if (i % 3 == 0)
			drain();
	}
	drain();
	assert_int_equal(atomic_load(&complete), ONE_AFTER_ANOTHER);
	run_at_once(AT_ONCE, samplers);
	stack_capture_counts(&counts);
	assert_int_equal(counts.no_memory, 0);
	munmap(samplers, AT_ONCE * sizeof(*samplers));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_of_two_threads_are_exact),
		cmocka_unit_test(threads_that_live_have_walkers),
	};

	return cmocka_run_group_tests(tests, begin, NULL);
}
