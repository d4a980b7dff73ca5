/*
 * CPU samples by timers: the test is the collector, other threads work. Weights against the
 * threads' own clocks; rings that are full; signals that are not of a timer; the end. Runs under
 * the sanitizers too.
 */
#include "unit/capture/captured_rows.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "base/helper_thread.h"
#include "capture/cpu/cpu_handler.h"
#include "capture/cpu/cpu_threads.h"
#include "capture/core/source.h"
#include "capture/stack/stack_rows.h"

#define WORKERS 2
#define PERIOD_NS (4 * NS_PER_MS) /* at 250 Hz */

extern const struct source cpu_timer_source, host_source;

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
	uint32_t tid, cpu; /* cpu: of the last one, which is pinned */
	atomic_bool stop, begun;
	atomic_bool waits; /* at the gate, or about to */
	uint64_t before_ns, after_ns; /* its CPU clock before and after sampling ended */
};

static struct captured *captured;
static uint64_t collector_before_ns; /* CPU time of this thread before the window opened */
static struct worker workers[WORKERS];
static atomic_uint_fast64_t sink;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* who holds it has all workers wait */

/* The last processor that it may run on; which it stays on, then. */
static void pin(struct worker *w)
{
	cpu_set_t allowed, one;

	assert_int_equal(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
	for (unsigned i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &allowed))
			w->cpu = i;
	CPU_ZERO(&one);
	CPU_SET(w->cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
}

static void *work(void *user)
{
	struct worker *w = user;

	if (w == &workers[WORKERS - 1])
		pin(w);
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
		cpu_timer_source.collect(captured->writer, clock_monotonic_ns());
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
	collector_before_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
	cpu_timer_source.begin(captured->writer, &(struct source_start){ .wanted = &settings });
	cpu_timer_source.window(&settings, captured->writer);
	return 0;
}

/* The next test is like the child of a fork. */
static int end(void **state)
{
	(void)state;
	stop_workers(); /* of a test that failed */
	captured_free(captured);
	cpu_timer_source.after_fork();
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

/* Samples with a stack were taken where the thread ran; of the others it is not known. */
static void assert_cpus(const struct worker *w)
{
	struct row_cpu_sample *rows;
	size_t count, pinned = 0;

	rows = captured_rows(captured, TABLE_cpu_sample, &count);
	for (size_t i = 0; i < count; i++) {
		if (rows[i].thread != w->tid || !HAS(&rows[i], cpu_sample, cpu))
			continue;
		assert_int_equal(rows[i].cpu, w->cpu);
		pinned++;
	}
	assert_true(pinned > 0);
	free(rows);
}

static void finish(void)
{
	for (int i = 0; i < WORKERS; i++)
		workers[i].before_ns = cpu_ns(&workers[i]);
	cpu_timer_source.stop(captured->writer);
	for (int i = 0; i < WORKERS; i++)
		workers[i].after_ns = cpu_ns(&workers[i]);
	cpu_timer_source.periodic(captured->writer, 0, clock_monotonic_ns());
	stack_rows_reset();
	captured_close(captured);
}

/* Each sample has cost once, in whichever row. */
static void assert_costs_are_of_samples(void)
{
	uint64_t samples = 0, told = 0;
	struct row_cost *rows;
	struct cpu_slot *s;
	size_t count;

	for (unsigned i = 0; (s = cpu_threads_slot(i)); i++)
		samples += atomic_load(&s->samples);
	rows = captured_rows(captured, TABLE_cost, &count);
	assert_true(count > 1);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(rows[i].kind, cost_kind_timer_sample);
		told += rows[i].count;
	}
	assert_int_equal(told, samples);
	free(rows);
}

/* The last words say how much has samples, and how much has samples without a stack. */
static void assert_words_are_of_rows(void)
{
	struct row_capability *said;
	struct row_cpu_sample *rows;
	double all = 0, without = 0, said_all = -1, said_without = -1;
	const char *text, *part;
	size_t count;

	rows = captured_rows(captured, TABLE_cpu_sample, &count);
	for (size_t i = 0; i < count; i++) {
		all += (double)rows[i].weight_ns / 1e9;
		if (!HAS(&rows[i], cpu_sample, stack))
			without += (double)rows[i].weight_ns / 1e9;
	}
	free(rows);
	said = captured_rows(captured, TABLE_capability, &count);
	assert_true(count > 0);
	for (size_t i = 0; i < count; i++) { /* what was requested, and what came of it */
		text = captured_text(captured, said[i].requested);
		assert_string_equal(text + strspn(text, "0123456789"), " Hz");
		text = captured_text(captured, said[i].actual);
		assert_ptr_equal(strstr(text, "timer inside the process"), text);
	}
	text = captured_text(captured, said[count - 1].reason);
	part = strstr(text, "samples cover ");
	assert_non_null(part);
	assert_int_equal(
		sscanf(part, "samples cover %lf of %*f s of CPU time in %*u threads; %lf s without",
		       &said_all, &said_without),
		2);
	assert_true(said_all > all - 0.001 && said_all < all + 0.001);
	assert_true(said_without > without - 0.001 && said_without < without + 0.001);
	free(said);
}

static void test_weights_are_cpu_time(void **state)
{
	uint64_t before[WORKERS];

	(void)state;
	for (int i = 0; i < WORKERS; i++)
		before[i] = slot_of(&workers[i])->clock_ns;
	for (uint64_t i = 1; i <= 3; i++) {
		collect(i * 170 * NS_PER_MS);
		cpu_timer_source.periodic(captured->writer, 0,
					  clock_monotonic_ns() + 2 * i * NS_PER_S);
	}
	finish();
	stop_workers();
	for (int i = 0; i < WORKERS; i++) {
		uint64_t sum = weight_of(workers[i].tid, false);

		assert_true(sum <= workers[i].after_ns + PERIOD_NS);
		assert_true(sum + before[i] + PERIOD_NS >= workers[i].before_ns);
		assert_true(weight_of(workers[i].tid, true) >= sum / 2);
	}
	assert_int_equal(weight_of((uint32_t)syscall(SYS_gettid), false), 0); /* the collector */
	assert_cpus(&workers[WORKERS - 1]);
	assert_costs_are_of_samples();
	assert_words_are_of_rows();
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
		cpu_timer_source.periodic(captured->writer, 0, clock_monotonic_ns());
	}
	cpu_timer_source.stop(captured->writer);
	captured_close(captured);
	assert_int_equal(lost("no room on the signal handler's stack"), 6);
	assert_true(lost("before unwinding was possible") >= 60);
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
	cpu_timer_source.collect(captured->writer, clock_monotonic_ns());
	head = atomic_load(&s->head);
	atomic_store(&wakes, 0);
	atomic_store(&s->tail, head - CPU_SLOT_WORDS / 2 + 1); /* half full but for one word */
	pthread_mutex_unlock(&gate);
	while (!atomic_load(&wakes)) /* by the next sample */
		usleep(10000);
	pthread_mutex_lock(&gate);
	wait_for_sleep(&workers[0]);
	atomic_store(&s->tail, head);
	cpu_timer_source.collect(captured->writer, clock_monotonic_ns());
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
	assert_words_are_of_rows();
	losses = captured_rows(captured, TABLE_loss, &count);
	assert_true(count >= 1);
	assert_int_equal(losses[0].reason, loss_reason_samples_dropped);
	free(losses);
}

struct helper {
	atomic_uint tid;
	atomic_bool done, leave;
};

static void *help(void *user)
{
	struct helper *h = user;
	uint64_t end_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID) + 300 * NS_PER_MS;

	atomic_store(&h->tid, (unsigned)syscall(SYS_gettid));
	while (clock_read_ns(CLOCK_THREAD_CPUTIME_ID) < end_ns)
		atomic_fetch_add_explicit(&sink, 1, memory_order_relaxed);
	atomic_store(&h->done, true);
	while (!atomic_load(&h->leave))
		usleep(1000);
	return NULL;
}

/*
 * Threads of the recorder have no samples, and none are missed of them: of one that runs at the
 * end, and of one that has ended. The collector is one, too, but here it is the test, whose CPU
 * time is the program's.
 */
static void test_threads_of_the_recorder(void **state)
{
	static struct helper helpers[2];
	uint64_t collector_ns;

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(helper_thread_start(help, &helpers[i], 1 << 20), 0);
		while (!atomic_load(&helpers[i].done)) {
			cpu_timer_source.collect(captured->writer, clock_monotonic_ns());
			usleep(10000);
		}
		atomic_store(&helpers[0].leave, true);
		while (i == 0 && helper_threads())
			usleep(1000);
	}
	finish();
	collector_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - collector_before_ns;
	stop_workers();
	atomic_store(&helpers[1].leave, true);
	while (helper_threads())
		usleep(1000);
	for (int i = 0; i < 2; i++)
		assert_int_equal(weight_of(atomic_load(&helpers[i].tid), false), 0);
	assert_true(lost("ended before they were found") <= collector_ns / PERIOD_NS + 2 * WORKERS);
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

static uint32_t rest_of; /* thread */
static uint64_t rest; /* periods of its that no signal came for */

static void unseen_of(void *context, struct cpu_slot *slot, uint64_t periods)
{
	(void)context;
	rest += slot->tid == rest_of ? periods : 0;
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
	assert_int_equal(cpu_slot_reserve(s, 2), 2);
	assert_int_equal(cpu_slot_reserve(s, 2), 0);
	assert_int_equal(cpu_slot_reserve(s, 6), 4);
	assert_int_equal(cpu_slot_reserve(s, 5), 0);
	free(s);
}

static void window(uint64_t hz)
{
	const struct settings settings = { .cpu = hz };

	cpu_timer_source.window(hz ? &settings : NULL, captured->writer);
}

/* Samples whose weight is not a number of periods of 20 ms. */
static size_t fine_samples(void)
{
	struct row_cpu_sample *rows;
	size_t count, fine = 0;

	rows = captured_rows(captured, TABLE_cpu_sample, &count);
	for (size_t i = 0; i < count; i++)
		fine += rows[i].weight_ns % (20 * NS_PER_MS) != 0;
	free(rows);
	return fine;
}

/*
 * A session that wants more samples comes and goes: the rate follows, and weights are CPU time all
 * along.
 */
static void test_another_rate(void **state)
{
	const uint64_t most =
		2 * (20 * NS_PER_MS + PERIOD_NS); /* a part of a period at each change */
	uint64_t before[WORKERS];

	(void)state;
	window(50);
	cpu_timer_source.collect(captured->writer, clock_monotonic_ns());
	for (int i = 0; i < WORKERS; i++)
		before[i] = cpu_ns(&workers[i]);
	for (int round = 0; round < 3; round++) {
		window(round == 1 ? 250 : 50);
		collect(least_cpu_ns() + 200 * NS_PER_MS);
		assert_int_equal(slot_of(&workers[0])->period_ns,
				 round == 1 ? MAX(PERIOD_NS, clock_tick_ns()) : 20 * NS_PER_MS);
	}
	finish();
	stop_workers();
	for (int i = 0; i < WORKERS; i++) {
		uint64_t sum = weight_of(workers[i].tid, false);

		assert_true(sum <= workers[i].after_ns + most);
		assert_true(sum + before[i] + most >= workers[i].before_ns);
	}
	assert_true(fine_samples() >= 10);
	assert_words_are_of_rows();
}

/* Nobody wants samples for a while: CPU time of that while is not counted. */
static void test_another_window(void **state)
{
	uint64_t without[WORKERS];

	(void)state;
	collect(100 * NS_PER_MS);
	window(0);
	for (int i = 0; i < WORKERS; i++)
		without[i] = cpu_ns(&workers[i]);
	wait_for_work(least_cpu_ns() + 200 * NS_PER_MS);
	window(250);
	for (int i = 0; i < WORKERS; i++)
		without[i] = slot_of(&workers[i])->clock_ns - without[i];
	collect(least_cpu_ns() + 100 * NS_PER_MS);
	finish();
	stop_workers();
	for (int i = 0; i < WORKERS; i++) {
		uint64_t sum = weight_of(workers[i].tid, false);

		assert_true(without[i] >= 100 * NS_PER_MS);
		assert_true(sum + without[i] <= workers[i].after_ns + 2 * PERIOD_NS);
		assert_true(sum >= 150 * NS_PER_MS);
	}
}

/* What timers had no time for goes to `unseen`: all CPU time has an owner. */
static void test_the_rest(void **state)
{
	uint64_t left = 0, counted = 0;
	struct cpu_slot *s;

	(void)state;
	wait_for_work(100 * NS_PER_MS);
	cpu_handler_enable(false);
	for (unsigned i = 0; (s = cpu_threads_slot(i)); i++)
		counted += atomic_load(&s->counted);
	wait_for_work(least_cpu_ns() + 100 * NS_PER_MS);
	cpu_threads_stop(unseen, &left);
	finish();
	assert_true(left >= 100 * NS_PER_MS / PERIOD_NS);
	assert_true(counted + left <=
		    (workers[0].after_ns + workers[1].after_ns) / PERIOD_NS + WORKERS);
	stop_workers();
}

/*
 * On a busy machine hardly a signal comes. Here none does; what the thread's clock said when it was
 * last read is not lost.
 */
static void test_a_thread_that_ended_keeps_what_was_read(void **state)
{
	struct cpu_slot *s = slot_of(&workers[0]);
	uint64_t begun = s->first_ns - PERIOD_NS, read, periods = 0;

	(void)state;
	cpu_handler_enable(false);
	wait_for_work(begun + 50 * PERIOD_NS);
	cpu_threads_scan(clock_monotonic_ns() + NS_PER_S, ignore, NULL);
	read = cpu_slot_due(s, s->clock_ns);
	assert_true(read >= 50);
	periods = read - atomic_load(&s->counted);
	stop_workers();
	rest_of = workers[0].tid;
	rest = 0;
	cpu_threads_scan(clock_monotonic_ns() + 2 * NS_PER_S, unseen_of, NULL);
	assert_int_equal(rest, periods);
	cpu_timer_source.stop(captured->writer);
}

/* A thread that has a timer keeps it where the kernel gives no more. */
static void test_timers_are_set_again_without_new_ones(void **state)
{
	struct rlimit before, none;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_SIGPENDING, &before), 0);
	none = before;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_SIGPENDING, &none), 0);
	cpu_threads_rearm();
	assert_int_equal(cpu_threads_check(), -EAGAIN);
	assert_int_equal(setrlimit(RLIMIT_SIGPENDING, &before), 0);
	assert_int_equal(cpu_threads_check(), 0);
	for (int i = 0; i < WORKERS; i++) {
		struct cpu_slot *s = slot_of(&workers[i]);
		uint64_t samples = atomic_load(&s->samples);

		assert_true(s->armed && !s->refused);
		while (atomic_load(&s->samples) == samples)
			usleep(10000);
	}
	finish();
	stop_workers();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_periods_belong_to_one),
		cmocka_unit_test_setup_teardown(test_weights_are_cpu_time, begin, end),
		cmocka_unit_test_setup_teardown(test_another_rate, begin, end),
		cmocka_unit_test_setup_teardown(test_another_window, begin, end),
		cmocka_unit_test_setup_teardown(test_a_full_ring_keeps_the_weight, begin, end),
		cmocka_unit_test_setup_teardown(test_signals_that_are_nobodys, begin, end),
		cmocka_unit_test_setup_teardown(test_the_rest, begin, end),
		cmocka_unit_test_setup_teardown(test_a_thread_that_ended_keeps_what_was_read, begin,
						end),
		cmocka_unit_test_setup_teardown(test_timers_are_set_again_without_new_ones, begin,
						end),
		cmocka_unit_test_setup_teardown(test_threads_of_the_recorder, begin, end),
		cmocka_unit_test_setup_teardown(test_samples_without_stacks_are_losses, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
