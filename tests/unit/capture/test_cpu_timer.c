/*
 * CPU samples by timers: the test is the collector, other threads work. Weights against the threads' own clocks; rings
 * that are full; signals that are not of a timer; the end. Runs under the sanitizers too.
 */
#include "unit/capture/captured_rows.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "capture/cpu/cpu_handler.h"
#include "capture/cpu/cpu_threads.h"
#include "capture/cpu/cpu_timer.h"
#include "capture/stack_rows.h"

#define WORKERS 2

atomic_bool collector_idle;

void collector_wake(void)
{
}

struct worker {
	pthread_t thread;
	uint32_t tid;
	atomic_bool stop;
	uint64_t cpu_ns; /* at its end */
	atomic_bool begun;
};

static struct captured *captured;
static struct worker workers[WORKERS];
static atomic_uint_fast64_t sink;

static void *work(void *user)
{
	struct worker *w = user;

	w->tid = (uint32_t)syscall(SYS_gettid);
	atomic_store(&w->begun, true);
	while (!atomic_load(&w->stop)) {
		for (int i = 0; i < 1000; i++)
			atomic_fetch_add_explicit(&sink, 1, memory_order_relaxed);
#ifdef __SANITIZE_THREAD__
		usleep(1); /* where it delivers signals */
#endif
	}
	w->cpu_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
	return NULL;
}

static void start_workers(void)
{
	for (int i = 0; i < WORKERS; i++) {
		workers[i] = (struct worker){ 0 };
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (int i = 0; i < WORKERS; i++)
		while (!atomic_load(&workers[i].begun))
			sched_yield();
}

static void stop_workers(void)
{
	for (int i = 0; i < WORKERS; i++) {
		if (!atomic_exchange(&workers[i].stop, true))
			pthread_join(workers[i].thread, NULL);
	}
}

/* What the collector does, for a while. */
static void collect(uint64_t ns)
{
	uint64_t end = clock_monotonic_ns() + ns, now;
	struct timespec t = { .tv_nsec = 10 * NS_PER_MS };

	while ((now = clock_monotonic_ns()) < end) {
		launch_stacks_update(NS_PER_S);
		cpu_timer_collect(captured->writer, now);
		nanosleep(&t, NULL);
	}
}

static int begin(void **state)
{
	struct settings settings = { .cpu_hz = 250 };

	(void)state;
	captured = captured_begin();
	start_workers();
	assert_true(launch_stacks_start(&settings));
	while (launch_stacks_update(NS_PER_S))
		;
	cpu_timer_start(&settings);
	cpu_timer_window(true, captured->writer);
	return 0;
}

/* The next test is like the child of a fork. */
static int end(void **state)
{
	(void)state;
	stop_workers(); /* of a test that failed */
	captured_free(captured);
	cpu_timer_after_fork();
	stack_rows_reset();
	return 0;
}

static struct cpu_slot *slot_of(const struct worker *w)
{
	struct cpu_slot *s = NULL;

	for (unsigned i = 0; (s = cpu_threads_slot(i)) && s->tid != w->tid; i++)
		;
	assert_non_null(s);
	return s;
}

static uint64_t weight_of(uint32_t tid, bool with_stack)
{
	struct row_cpu_sample *rows;
	uint64_t sum = 0;
	size_t count;

	rows = captured_rows(captured, TABLE_cpu_sample, &count);
	for (size_t i = 0; i < count; i++)
		if (rows[i].thread == tid && (HAS(&rows[i], cpu_sample, stack) || !with_stack))
			sum += rows[i].weight_ns;
	free(rows);
	return sum;
}

static void finish(void)
{
	cpu_timer_stop(captured->writer);
	cpu_timer_periodic(captured->writer, 0, clock_monotonic_ns());
	stack_rows_reset();
	captured_close(captured);
}

static void test_weights_are_cpu_time(void **state)
{
	uint64_t before[WORKERS];

	(void)state;
	for (int i = 0; i < WORKERS; i++)
		before[i] = slot_of(&workers[i])->clock_ns;
	collect(NS_PER_S);
	finish();
	stop_workers();
	for (int i = 0; i < WORKERS; i++) {
		uint64_t sum = weight_of(workers[i].tid, false);

		assert_true(sum <= workers[i].cpu_ns + 8 * NS_PER_MS);
		assert_true(sum + before[i] + 150 * NS_PER_MS >= workers[i].cpu_ns);
		assert_true(weight_of(workers[i].tid, true) >= sum / 2);
	}
	assert_int_equal(weight_of((uint32_t)syscall(SYS_gettid), false), 0); /* the collector */
}

static void test_a_full_ring_keeps_the_weight(void **state)
{
	struct cpu_slot *s = slot_of(&workers[0]);
	struct row_loss *losses;
	uint64_t head;
	size_t count;

	(void)state;
	collect(200 * NS_PER_MS);
	head = atomic_load(&s->head);
	atomic_store(&s->tail, head - CPU_SLOT_WORDS + 1);
	for (int i = 0; i < 100 && atomic_load(&s->no_stack[CPU_NO_STACK_FULL]) < 10; i++)
		nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
	assert_true(atomic_load(&s->no_stack[CPU_NO_STACK_FULL]) >= 10);
	assert_int_equal(atomic_load(&s->head), head); /* nothing came */
	atomic_store(&s->tail, head);
	collect(200 * NS_PER_MS);
	finish();
	stop_workers();
	for (int i = 0; i < WORKERS; i++)
		assert_true(weight_of(workers[i].tid, false) + 150 * NS_PER_MS >=
			    workers[i].cpu_ns);
	losses = captured_rows(captured, TABLE_loss, &count);
	assert_true(count >= 1);
	assert_int_equal(losses[0].reason, loss_reason_samples_dropped);
	free(losses);
}

/* As the kernel would send them, had they come late, or were they of somebody else's timer. */
static void test_signals_that_are_nobodys(void **state)
{
	struct cpu_slot *s = slot_of(&workers[0]);
	unsigned generation = atomic_load(&s->generation);
	const uint64_t values[] = { 0, UINT64_MAX, 0x5074000000000000,
				    (uintptr_t)cpu_handler_value(s, generation - 1).sival_ptr,
				    (uintptr_t)cpu_handler_value(s, generation + 1).sival_ptr };
	uint64_t counted = atomic_load(&s->counted);

	(void)state;
	cpu_threads_stop(NULL, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		siginfo_t info = { .si_code = SI_TIMER };

		info.si_value.sival_ptr = (void *)(uintptr_t)values[i];
		errno = 77;
		syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), CPU_SIGNAL, &info);
		assert_int_equal(errno, 77);
	}
	raise(CPU_SIGNAL);
	assert_true(atomic_load(&s->counted) <= counted + 20);
	finish();
	stop_workers();
	raise(CPU_SIGNAL); /* after the end */
}

static void unseen(void *sum, struct cpu_slot *slot, uint64_t periods)
{
	(void)slot;
	*(uint64_t *)sum += periods;
}

static void test_periods_belong_to_one(void **state)
{
	struct cpu_slot *s = calloc(1, sizeof(*s));

	(void)state;
	assert_non_null(s);
	s->first_ns = 1000;
	s->period_ns = 100;
	assert_int_equal(cpu_slot_due(s, 999), 0);
	assert_int_equal(cpu_slot_due(s, 1000), 1);
	assert_int_equal(cpu_slot_due(s, 1099), 1);
	assert_int_equal(cpu_slot_due(s, 1500), 6);
	assert_int_equal(cpu_slot_claim(s, 2), 2);
	assert_int_equal(cpu_slot_claim(s, 2), 0);
	assert_int_equal(cpu_slot_claim(s, 6), 4);
	assert_int_equal(cpu_slot_claim(s, 5), 0);
	free(s);
}

/* What timers had no time for goes to `unseen`: all CPU time has an owner. */
static void test_the_rest(void **state)
{
	uint64_t rest = 0, counted = 0;
	struct cpu_slot *s;

	(void)state;
	nanosleep(&(struct timespec){ .tv_nsec = 200000000 }, NULL);
	cpu_handler_enable(false);
	for (unsigned i = 0; (s = cpu_threads_slot(i)); i++)
		counted += atomic_load(&s->counted);
	nanosleep(&(struct timespec){ .tv_nsec = 200000000 }, NULL);
	cpu_threads_stop(unseen, &rest);
	stop_workers();
	assert_true(rest > 5); /* 100 of a second of work, on a machine with time for it */
	assert_true(counted + rest <=
		    (workers[0].cpu_ns + workers[1].cpu_ns) / (4 * NS_PER_MS) + 2);
	finish();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_periods_belong_to_one),
		cmocka_unit_test_setup_teardown(test_weights_are_cpu_time, begin, end),
		cmocka_unit_test_setup_teardown(test_a_full_ring_keeps_the_weight, begin, end),
		cmocka_unit_test_setup_teardown(test_signals_that_are_nobodys, begin, end),
		cmocka_unit_test_setup_teardown(test_the_rest, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
