/*
 * Rings: nothing is lost uncounted, nothing is torn, rings of ended threads are used again. Runs
 * under TSan too.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include <cmocka.h>

#include "capture/core/ring.h"

atomic_bool collector_idle;
static atomic_uint wakes;

void collector_wake(void)
{
	atomic_store(&collector_idle, false);
	atomic_fetch_add(&wakes, 1);
}

static unsigned rings_known(void)
{
	unsigned n = 0;

	while (ring_at(n))
		n++;
	return n;
}

/* Every test starts without rings in use. */
static int forget(void **state)
{
	uint64_t threads;

	(void)state;
	rings_after_fork();
	rings_refused(&threads);
	return 0;
}

static uint64_t lost(const struct ring *r)
{
	return atomic_load(&r->lost);
}

static void test_full_exactly(void **state)
{
	struct ring_event event = { .kind = RING_API_CALL };
	struct ring *r = ring_get();
	uint64_t lost_before, n = 0;

	(void)state;
	assert_non_null(r);
	assert_ptr_equal(r, ring_get());
	assert_int_equal(r->tid, syscall(SYS_gettid));
	lost_before = lost(r);
	for (; ring_push(r, &event, 1); n++)
		event.a = n + 1;
	assert_int_equal(n, RING_SLOTS);
	assert_int_equal(lost(r) - lost_before, 1);
	assert_int_equal(ring_available(r), RING_SLOTS);
	for (uint64_t i = 0; i < RING_SLOTS; i++)
		assert_int_equal(ring_slot(r, i)->a, i);
	ring_consume(r, 3);
	for (int i = 0; i < 3; i++)
		assert_true(ring_push(r, &event, 1));
	assert_false(ring_push(r, &event, 1));
	assert_int_equal(lost(r) - lost_before, 2);
	ring_consume(r, RING_SLOTS);
	assert_int_equal(ring_available(r), 0);
}

static void test_an_event_fits_whole_or_not_at_all(void **state)
{
	struct ring_event events[4] = { { .a = 1 }, { .a = 2 }, { .a = 3 }, { .a = 4 } };
	struct ring *r = ring_get();
	uint64_t lost_before = lost(r);

	(void)state;
	for (uint64_t i = 0; i < RING_SLOTS - 3; i++)
		assert_true(ring_push(r, events, 1));
	assert_false(ring_push(r, events, 4));
	assert_int_equal(ring_available(r), RING_SLOTS - 3);
	assert_true(ring_push(r, events, 3));
	assert_int_equal(lost(r) - lost_before, 1);
	ring_consume(r, RING_SLOTS - 1);
	/* now around the end */
	assert_true(ring_push(r, events, 4));
	assert_int_equal(ring_available(r), 5);
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(ring_slot(r, RING_SLOTS + i)->a, i + 1);
}

static void test_a_sleeping_collector_is_woken_once(void **state)
{
	struct ring_event event = { 0 };
	unsigned before = atomic_load(&wakes);

	(void)state;
	atomic_store(&collector_idle, true);
	for (int i = 0; i < 10; i++)
		ring_push(ring_get(), &event, 1);
	assert_int_equal(atomic_load(&wakes) - before, 1);
}

/* --- producers and a consumer at the same time --- */

#define PRODUCERS 6
#define SLOTS_MAX 5

static struct producer {
	pthread_t thread;
	unsigned number, pause_every;
	uint64_t attempts, pushed, lost; /* at the end */
	uint64_t taken, last; /* the consumer's */
} producers[PRODUCERS];
static atomic_bool done;

static void *produce(void *argument)
{
	struct producer *p = argument;
	struct ring *r = ring_get();
	uint64_t lost_before = lost(r), random = p->number;

	for (uint64_t i = 1; i <= p->attempts; i++) {
		struct ring_event events[SLOTS_MAX];
		uint32_t slots;

		random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
		slots = 1 + (uint32_t)(random >> 33) % SLOTS_MAX;
		for (uint32_t k = 0; k < slots; k++)
			events[k] = (struct ring_event){
				.a = i, .b = ~i, .c = p->number, .d = k, .e = slots
			};
		if (ring_push(r, events, slots))
			p->pushed++;
		if (p->pause_every && i % p->pause_every == 0)
			sched_yield();
	}
	p->lost = lost(r) - lost_before;
	return NULL;
}

/* One event: all its slots belong together, and come in the order of the attempts. */
static uint64_t take(const struct ring *r, uint64_t position, uint64_t available)
{
	const struct ring_event *first = ring_slot(r, position);
	struct producer *p = &producers[first->c];
	uint32_t slots = first->e;

	assert_in_range(slots, 1, SLOTS_MAX);
	assert_true(slots <= available);
	assert_true(first->a > p->last);
	for (uint32_t k = 0; k < slots; k++) {
		const struct ring_event *e = ring_slot(r, position + k);

		assert_true(e->a == first->a && e->b == ~first->a && e->c == first->c &&
			    e->d == k && e->e == slots);
	}
	p->last = first->a;
	p->taken++;
	return slots;
}

static uint64_t consume_all(void)
{
	uint64_t events = 0;
	struct ring *r;

	for (unsigned i = 0; (r = ring_at(i)); i++) {
		bool dead = atomic_load_explicit(&r->state, memory_order_acquire) == RING_DEAD;
		uint64_t available = ring_available(r), used = 0;

		while (used < available) {
			uint64_t slots = take(r, atomic_load(&r->tail), available - used);

			ring_consume(r, slots);
			used += slots;
			events++;
		}
		if (dead && ring_available(r) == 0)
			ring_recycle(r);
	}
	return events;
}

static void *consume(void *unused)
{
	(void)unused;
	while (!atomic_load(&done))
		if (!consume_all())
			sched_yield();
	consume_all();
	return NULL;
}

static void test_producers_and_a_consumer(void **state)
{
	pthread_t consumer;

	(void)state;
	memset(producers, 0, sizeof(producers));
	atomic_store(&done, false);
	assert_int_equal(pthread_create(&consumer, NULL, consume, NULL), 0);
	for (unsigned i = 0; i < PRODUCERS; i++) {
		struct producer *p = &producers[i];

		p->number = i;
		p->attempts = 200000;
		p->pause_every = i % 2 ? 100 : 0; /* some faster than the consumer */
		assert_int_equal(pthread_create(&p->thread, NULL, produce, p), 0);
	}
	for (unsigned i = 0; i < PRODUCERS; i++)
		pthread_join(producers[i].thread, NULL);
	atomic_store(&done, true);
	pthread_join(consumer, NULL);
	for (unsigned i = 0; i < PRODUCERS; i++) {
		assert_int_equal(producers[i].pushed + producers[i].lost, producers[i].attempts);
		assert_int_equal(producers[i].taken, producers[i].pushed);
	}
}

static void test_without_a_consumer_losses_add_up(void **state)
{
	struct producer *p = &producers[0];

	(void)state;
	memset(producers, 0, sizeof(producers));
	p->attempts = 100000;
	pthread_create(&p->thread, NULL, produce, p);
	pthread_join(p->thread, NULL);
	assert_true(p->lost > 0);
	assert_int_equal(p->pushed + p->lost, p->attempts);
	assert_int_equal(consume_all(), p->pushed);
}

/* --- threads come and go --- */

static void test_rings_of_ended_threads_are_used_again(void **state)
{
	unsigned before = rings_known();
	uint64_t threads;

	(void)state;
	memset(producers, 0, sizeof(producers));
	for (int i = 0; i < 3000; i++) {
		struct producer *p = &producers[0];

		p->attempts = 3;
		p->pushed = p->taken = p->last = 0;
		pthread_create(&p->thread, NULL, produce, p);
		pthread_join(p->thread, NULL);
		assert_int_equal(consume_all(), 3);
		assert_int_equal(p->taken, 3);
	}
	assert_in_range(rings_known(), 1, before + 1);
	assert_int_equal(rings_refused(&threads), 0);
}

static void test_the_rest_of_an_ended_thread_is_kept(void **state)
{
	struct producer *p = &producers[1];
	struct ring *r, *ended = NULL;

	(void)state;
	memset(producers, 0, sizeof(producers));
	p->number = 1;
	p->attempts = 500;
	pthread_create(&p->thread, NULL, produce, p);
	pthread_join(p->thread, NULL);
	for (unsigned i = 0; (r = ring_at(i)); i++)
		if (atomic_load(&r->state) == RING_DEAD)
			ended = r;
	assert_non_null(ended);
	assert_ptr_not_equal(ring_get(), ended);
	assert_int_equal(consume_all(), 500);
	assert_int_equal(atomic_load(&ended->state), RING_FREE);
}

static pthread_barrier_t all_there;
static atomic_uint got_one;

static void *claim(void *unused)
{
	(void)unused;
	if (ring_get())
		atomic_fetch_add(&got_one, 1);
	else
		(void)!ring_get(); /* another event of the same thread */
	pthread_barrier_wait(&all_there);
	return NULL;
}

static void test_more_threads_than_rings(void **state)
{
	enum { THREADS = RINGS_MAX + 20 };
	static pthread_t threads[THREADS];
	pthread_attr_t attributes;
	uint64_t refused;
	struct ring *r;

	(void)state;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 256 << 10);
	pthread_barrier_init(&all_there, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], &attributes, claim, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(atomic_load(&got_one), RINGS_MAX);
	assert_int_equal(rings_refused(&refused), 2 * (THREADS - RINGS_MAX));
	assert_int_equal(refused, THREADS - RINGS_MAX);
	assert_int_equal(rings_refused(&refused), 0);
	assert_int_equal(refused, 0);
	for (int i = 0; i < 2; i++) {
		assert_null(ring_get());
		assert_int_equal(rings_refused(&refused), 1);
		assert_int_equal(refused, i == 0);
	}
	for (unsigned i = 0; (r = ring_at(i)); i++) {
		assert_int_equal(atomic_load(&r->state), RING_DEAD);
		ring_recycle(r);
	}
	/* A thread that was refused looks for a free ring again, though not each time. */
	for (int i = 0; i < 1000 && !r; i++)
		r = ring_get();
	assert_non_null(r);
}

static size_t resident(const struct ring *r)
{
	unsigned char pages[RING_SLOTS * sizeof(*r->events) / 4096];
	size_t count = 0;

	assert_int_equal(mincore(r->events, RING_SLOTS * sizeof(*r->events), pages), 0);
	for (size_t i = 0; i < ARRAY_SIZE(pages); i++)
		count += pages[i] & 1;
	return count;
}

/* An ended thread's ring gives all its memory back, and so does that of a thread which goes on. */
static void test_memory_goes_back(void **state)
{
	struct ring_event event = { .kind = RING_NVTX };
	struct ring *r = ring_get(), *other = NULL;
	struct producer *p = &producers[0];

	(void)state;
	memset(producers, 0, sizeof(producers));
	p->attempts = RING_SLOTS;
	pthread_create(&p->thread, NULL, produce, p);
	pthread_join(p->thread, NULL);
	for (unsigned i = 0; (other = ring_at(i)) && atomic_load(&other->state) != RING_DEAD; i++)
		;
	assert_non_null(other);
	assert_in_range(resident(other), 200, 256);
	for (unsigned i = 0; i < RING_SLOTS + 100; i++) {
		if (i >= RING_SLOTS / 2)
			ring_consume(r, 1);
		assert_true(ring_push(r, &event, 1));
	}
	ring_consume(other, ring_available(other));
	ring_recycle(other);
	assert_int_equal(resident(other), 0);
	assert_int_equal(resident(r), 256);
	rings_give_back();
	assert_in_range(resident(r), 8, 10); /* for an event that is just being pushed */
	ring_consume(r, ring_available(r));
	event.a = 7;
	assert_true(ring_push(r, &event, 1));
	assert_int_equal(ring_slot(r, atomic_load(&r->tail))->a, 7);
}

static void test_after_a_fork(void **state)
{
	struct ring_event event = { .a = 1 };
	struct ring *before = ring_get();

	(void)state;
	ring_push(before, &event, 1);
	rings_after_fork();
	assert_null(ring_of_thread);
	for (unsigned i = 0; ring_at(i); i++)
		assert_int_equal(ring_available(ring_at(i)), 0);
	assert_non_null(ring_get());
	assert_true(ring_push(ring_get(), &event, 1));
	assert_int_equal(ring_available(ring_get()), 1);
}

#define HANDLED 300
#define HANDLER_SLOTS 3

static volatile sig_atomic_t handled;
static uint64_t handler_pushed;

static void push_from_handler(int number)
{
	struct ring_event event[HANDLER_SLOTS];

	(void)number;
	for (uint32_t i = 0; i < HANDLER_SLOTS; i++)
		event[i] = (struct ring_event){ .a = i, .kind = RING_NVTX };
	handler_pushed += ring_push(ring_get(), event, HANDLER_SLOTS);
	handled++;
}

/* Takes all events, whose slots are to be whole; returns those of the handler. */
static uint64_t take_all(struct ring *r, uint64_t *next)
{
	uint64_t position = atomic_load(&r->tail), end = position + ring_available(r), found = 0;

	while (position < end) {
		if (ring_slot(r, position)->kind == RING_API_CALL) {
			assert_int_equal(ring_slot(r, position)->a, (*next)++);
			position++;
			continue;
		}
		for (uint32_t i = 0; i < HANDLER_SLOTS; i++, position++) {
			assert_int_equal(ring_slot(r, position)->kind, RING_NVTX);
			assert_int_equal(ring_slot(r, position)->a, i);
		}
		found++;
	}
	ring_consume(r, end - atomic_load(&r->tail));
	return found;
}

/* Of a signal handler that interrupts a push of its thread, an event is whole or lost. */
static void test_pushes_of_signal_handlers(void **state)
{
	struct sigaction action = { .sa_handler = push_from_handler }, before;
	const struct itimerval often = { { 0, 50 }, { 0, 50 } }, never = { 0 };
	struct ring_event event = { .kind = RING_API_CALL };
	struct ring *r = ring_get();
	uint64_t lost_before = lost(r), pushed = 0, next = 0, found = 0;

	(void)state;
	sigaction(SIGALRM, &action, &before);
	setitimer(ITIMER_REAL, &often, NULL);
	while (handled < HANDLED) {
		for (int i = 0; i < 1000; i++, pushed++) {
			event.a = pushed;
			assert_true(ring_push(r, &event, 1));
		}
		found += take_all(r, &next);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &before, NULL);
	found += take_all(r, &next);
	assert_int_equal(next, pushed);
	assert_int_equal(found, handler_pushed);
	assert_int_equal(found + lost(r) - lost_before, handled);
}

/* The second one is refused, whatever the first one is doing. */
static void test_a_push_within_a_push(void **state)
{
	struct ring_event event = { .kind = RING_API_CALL };
	struct ring *r = ring_get();
	uint64_t lost_before = lost(r), head = atomic_load(&r->head);

	(void)state;
	r->pushing = true;
	assert_false(ring_push(r, &event, 1));
	assert_int_equal(lost(r), lost_before + 1);
	assert_int_equal(atomic_load(&r->head), head);
	r->pushing = false;
	assert_true(ring_push(r, &event, 1));
	assert_false(r->pushing);
}

int __real_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);
int __wrap_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);

static _Thread_local bool interrupts; /* the next claim, while it asks for the thread's name */
static struct ring *claimed_by_handler, *claimed, *of_thread;

static void claim_in_handler(int number)
{
	(void)number;
	claimed_by_handler = ring_get();
}

int __wrap_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
	if (interrupts) {
		interrupts = false;
		raise(SIGUSR2);
	}
	return __real_prctl(option, a, b, c, d);
}

static void *claim_and_be_interrupted(void *unused)
{
	interrupts = true;
	claimed = ring_get();
	of_thread = ring_of_thread;
	return unused;
}

/* The thread has one ring then, and the other one is free. */
static void test_a_claim_within_a_claim(void **state)
{
	struct sigaction act = { .sa_handler = claim_in_handler }, old;
	unsigned live = 0;
	pthread_t thread;
	struct ring *r;

	(void)state;
	sigaction(SIGUSR2, &act, &old);
	assert_int_equal(pthread_create(&thread, NULL, claim_and_be_interrupted, NULL), 0);
	pthread_join(thread, NULL);
	sigaction(SIGUSR2, &old, NULL);
	assert_non_null(claimed_by_handler);
	assert_ptr_equal(claimed, claimed_by_handler);
	assert_ptr_equal(of_thread, claimed_by_handler);
	for (unsigned i = 0; (r = ring_at(i)); i++)
		live += atomic_load(&r->state) == RING_LIVE && r != ring_of_thread;
	assert_int_equal(live, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_full_exactly, forget),
		cmocka_unit_test_setup(test_an_event_fits_whole_or_not_at_all, forget),
		cmocka_unit_test_setup(test_a_sleeping_collector_is_woken_once, forget),
		cmocka_unit_test_setup(test_without_a_consumer_losses_add_up, forget),
		cmocka_unit_test_setup(test_producers_and_a_consumer, forget),
		cmocka_unit_test_setup(test_rings_of_ended_threads_are_used_again, forget),
		cmocka_unit_test_setup(test_the_rest_of_an_ended_thread_is_kept, forget),
		cmocka_unit_test_setup(test_memory_goes_back, forget),
		cmocka_unit_test_setup(test_after_a_fork, forget),
		cmocka_unit_test_setup(test_more_threads_than_rings, forget),
		cmocka_unit_test_setup(test_a_push_within_a_push, forget),
		cmocka_unit_test_setup(test_pushes_of_signal_handlers, forget),
		cmocka_unit_test_setup(test_a_claim_within_a_claim, forget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
