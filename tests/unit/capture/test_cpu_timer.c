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
#include "capture/host/host_source.h"
#include "capture/stack_rows.h"

#define WORKERS 2
#define PERIOD_NS (4 * NS_PER_MS) /* at 250 Hz */

atomic_bool collector_idle;

static atomic_uint wakes;

void collector_wake(void)
{
	atomic_fetch_add(&wakes, 1);
}

void source_name_thread(struct writer *w, uint32_t tid, const char *last_name)
{
	host_source.name_thread(w, tid, last_name);
}

struct worker {
	pthread_t thread;
	uint32_t tid;
	atomic_bool stop, begun;
	atomic_bool waits; /* at the gate, or about to */
	uint64_t before_ns, after_ns; /* its CPU clock before and after sampling ended */
};

static struct captured *captured;
static struct worker workers[WORKERS];
static atomic_uint_fast64_t sink;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* who holds it has all workers wait */

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
		atomic_store(&w->waits, true);
		pthread_mutex_lock(&gate);
		atomic_store(&w->waits, false);
		pthread_mutex_unlock(&gate);
	}
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

static uint64_t cpu_ns(const struct worker *w)
{
	clockid_t clock;

	assert_int_equal(pthread_getcpuclockid(w->thread, &clock), 0);
	return clock_read_ns(clock);
}

static uint64_t least_cpu_ns(void)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < WORKERS; i++)
		least = MIN(least, cpu_ns(&workers[i]));
	return least;
}

/* Until each worker has worked for so long since it began, which may take long. */
static void wait_for_work(uint64_t ns)
{
	while (least_cpu_ns() < ns)
		usleep(10000);
}

/* The same, and what the collector does meanwhile. */
static void collect(uint64_t ns)
{
	while (least_cpu_ns() < ns) {
		stack_capture_update(NS_PER_S);
		cpu_timer_collect(captured->writer, clock_monotonic_ns());
		usleep(10000);
	}
}

/* Until it waits at the gate, which is held. */
static void wait_for_sleep(const struct worker *w)
{
	char path[64], text[256] = "";

	snprintf(path, sizeof(path), "/proc/self/task/%u/stat", w->tid);
	do {
		FILE *f = fopen(path, "re");

		assert_non_null(f);
		assert_non_null(fgets(text, sizeof(text), f));
		fclose(f);
	} while (!atomic_load(&w->waits) || strncmp(strrchr(text, ')'), ") S", 3) != 0);
}

static int begin(void **state)
{
	struct settings settings = { .cpu = 250 };

	(void)state;
	captured = captured_begin();
	start_workers();
	assert_true(stack_capture_start(&settings));
	while (stack_capture_update(NS_PER_S))
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
	for (int i = 0; i < WORKERS; i++)
		workers[i].before_ns = cpu_ns(&workers[i]);
	cpu_timer_stop(captured->writer);
	for (int i = 0; i < WORKERS; i++)
		workers[i].after_ns = cpu_ns(&workers[i]);
	cpu_timer_periodic(captured->writer, 0, clock_monotonic_ns());
	stack_rows_reset();
	captured_close(captured);
}

static void assert_costs_are_of_samples(void)
{
	struct row_cost *rows;
	size_t count;

	rows = captured_rows(captured, TABLE_cost, &count);
	assert_true(count > 0);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(rows[i].kind, cost_kind_timer_sample);
	free(rows);
}

static void test_weights_are_cpu_time(void **state)
{
	uint64_t before[WORKERS];

	(void)state;
	for (int i = 0; i < WORKERS; i++)
		before[i] = slot_of(&workers[i])->clock_ns;
	collect(500 * NS_PER_MS);
	finish();
	stop_workers();
	for (int i = 0; i < WORKERS; i++) {
		uint64_t sum = weight_of(workers[i].tid, false);

		assert_true(sum <= workers[i].after_ns + PERIOD_NS);
		assert_true(sum + before[i] + PERIOD_NS >= workers[i].before_ns);
		assert_true(weight_of(workers[i].tid, true) >= sum / 2);
	}
	assert_int_equal(weight_of((uint32_t)syscall(SYS_gettid), false), 0); /* the collector */
	assert_costs_are_of_samples();
}

static uint64_t lost(const char *what)
{
	struct row_loss *losses;
	uint64_t sum = 0;
	size_t count;

	losses = captured_rows(captured, TABLE_loss, &count);
	for (size_t i = 0; i < count; i++)
		if (strstr(captured_text(captured, losses[i].detail), what))
			sum += losses[i].count;
	free(losses);
	return sum;
}

/* Each stack that a sample lacks is told once, by reason, over several periods. */
static void test_samples_without_stacks_are_losses(void **state)
{
	struct cpu_slot *s = slot_of(&workers[0]);

	(void)state;
	stop_workers();
	for (int i = 1; i <= 3; i++) {
		atomic_fetch_add(&s->no_stack[CPU_NO_STACK_SMALL], i);
		atomic_fetch_add(&s->no_stack[CPU_NO_STACK_NONE], 10 * i);
		cpu_timer_periodic(captured->writer, 0, clock_monotonic_ns());
	}
	cpu_timer_stop(captured->writer);
	captured_close(captured);
	assert_int_equal(lost("no room on the stack"), 6);
	assert_true(lost("nothing to unwind") >= 60);
}

static void test_a_full_ring_keeps_the_weight(void **state)
{
	struct cpu_slot *s = slot_of(&workers[0]);
	uint64_t before[WORKERS], head;
	struct row_loss *losses;
	size_t count;

	(void)state;
	for (int i = 0; i < WORKERS; i++)
		before[i] = slot_of(&workers[i])->clock_ns;
	collect(200 * NS_PER_MS);
	pthread_mutex_lock(&gate);
	wait_for_sleep(&workers[0]);
	cpu_timer_collect(captured->writer, clock_monotonic_ns());
	head = atomic_load(&s->head);
	atomic_store(&wakes, 0);
	atomic_store(&s->tail, head - CPU_SLOT_WORDS / 2 + 1); /* half full but for one word */
	pthread_mutex_unlock(&gate);
	while (!atomic_load(&wakes)) /* by the next sample */
		usleep(10000);
	pthread_mutex_lock(&gate);
	wait_for_sleep(&workers[0]);
	atomic_store(&s->tail, head);
	cpu_timer_collect(captured->writer, clock_monotonic_ns());
	head = atomic_load(&s->head);
	atomic_store(&s->tail, head - CPU_SLOT_WORDS + 1);
	pthread_mutex_unlock(&gate);
	while (atomic_load(&s->no_stack[CPU_NO_STACK_FULL]) < 10)
		usleep(10000);
	assert_int_equal(atomic_load(&s->head), head); /* nothing came */
	atomic_store(&s->tail, head);
	collect(least_cpu_ns() + 100 * NS_PER_MS);
	finish();
	stop_workers();
	for (int i = 0; i < WORKERS; i++)
		assert_true(weight_of(workers[i].tid, false) + before[i] + PERIOD_NS >=
			    workers[i].before_ns);
	losses = captured_rows(captured, TABLE_loss, &count);
	assert_true(count >= 1);
	assert_int_equal(losses[0].reason, loss_reason_samples_dropped);
	free(losses);
}

static void ignore(void *context, struct cpu_slot *slot, uint64_t periods)
{
	(void)context;
	(void)slot;
	(void)periods;
}

/* As the kernel would send them, had they come late, or were they of somebody else's timer. */
static void test_signals_that_are_nobodys(void **state)
{
	struct cpu_slot *s = slot_of(&workers[0]);
	unsigned generation = atomic_load(&s->generation); /* of a timer that is gone soon */
	const uint64_t values[] = { 0, UINT64_MAX, 0x5074000000000000,
				    (uintptr_t)cpu_handler_value(s, generation).sival_ptr,
				    (uintptr_t)cpu_handler_value(s, generation + 2).sival_ptr };
	uint64_t counted;

	(void)state;
	cpu_threads_stop(ignore, NULL);
	counted = atomic_load(&s->counted);
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		siginfo_t info = { .si_code = SI_TIMER };

		info.si_value.sival_ptr = (void *)(uintptr_t)values[i];
		errno = 77;
		syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), CPU_SIGNAL, &info);
		assert_int_equal(errno, 77);
	}
	raise(CPU_SIGNAL);
	assert_int_equal(atomic_load(&s->counted), counted);
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
	wait_for_work(100 * NS_PER_MS);
	cpu_handler_enable(false);
	for (unsigned i = 0; (s = cpu_threads_slot(i)); i++)
		counted += atomic_load(&s->counted);
	wait_for_work(least_cpu_ns() + 100 * NS_PER_MS);
	cpu_threads_stop(unseen, &rest);
	finish();
	assert_true(rest >= 100 * NS_PER_MS / PERIOD_NS);
	assert_true(counted + rest <=
		    (workers[0].after_ns + workers[1].after_ns) / PERIOD_NS + WORKERS);
	stop_workers();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_periods_belong_to_one),
		cmocka_unit_test_setup_teardown(test_weights_are_cpu_time, begin, end),
		cmocka_unit_test_setup_teardown(test_a_full_ring_keeps_the_weight, begin, end),
		cmocka_unit_test_setup_teardown(test_signals_that_are_nobodys, begin, end),
		cmocka_unit_test_setup_teardown(test_the_rest, begin, end),
		cmocka_unit_test_setup_teardown(test_samples_without_stacks_are_losses, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
