/* test_critical_path.c: owners of the critical path, and their potentials. */
#include "analysis/critical_path.h"

#include "unit/analysis/report_fixture.h"

#define US UINT64_C(1000)

static const struct path_owner *owner(const struct critical_path *p, enum path_class class)
{
	for (size_t i = 0; i < p->owner_count; i++)
		if (p->owners[i].place.class == class)
			return &p->owners[i];
	fail_msg("no owner of class %u", class);
	return NULL;
}

/*
 * Kernel a of 400 us, and beside it b of 310 us; the host waits for both, and begins 50 us later
 * again with a copy. With `threads` 2 another thread makes a call.
 */
static void record(const char *folder, unsigned threads)
{
	struct maker *m = begin(folder, 100);
	uint32_t a = maker_config(m, "a", 1, 32), b = maker_config(m, "b", 1, 32);

	maker_call(m, MAKER_LAUNCH, 1, 10 * US, 12 * US, 1);
	maker_kernel(m, a, 20, 15 * US, 415 * US, 1);
	maker_call(m, MAKER_LAUNCH, 1, 13 * US, 15 * US, 2);
	maker_kernel(m, b, 21, 18 * US, 328 * US, 2);
	if (threads > 1)
		maker_call(m, MAKER_MALLOC, 2, 100 * US, 110 * US, 3);
	maker_call(m, MAKER_DEVICE_SYNCHRONIZE, 1, 20 * US, 420 * US, 4);
	maker_call(m, MAKER_MEMCPY, 1, 470 * US, 475 * US, 5);
	maker_memcpy(m, copy_kind_HtoD, 4096, 20, 480 * US, 490 * US, 5);
	maker_close(m, 500 * US);
}

static void potentials_are_smaller_than_shares(void **state)
{
	struct report_options options = { .filter = FILTER_ALL, .critical_path = true };
	const struct critical_path *p;
	struct analyzed a;
	uint64_t sum = 0;

	record(*state, 1);
	analyze(&a, *state, options);
	p = a.report.critical_path;
	assert_int_equal(p->start_ns, 10 * US);
	assert_int_equal(p->window_ns, 480 * US);
	for (size_t i = 0; i < p->owner_count; i++)
		sum += p->owners[i].ns;
	assert_int_equal(sum, p->window_ns);
	assert_int_equal(owner(p, PATH_KERNEL)->ns, 400 * US);
	assert_int_equal(owner(p, PATH_KERNEL)->potential_ns, 87 * US); /* then b bounds it */
	assert_int_equal(owner(p, PATH_HOST)->ns, 50 * US);
	assert_int_equal(owner(p, PATH_HOST)->potential_ns, 50 * US);
	assert_int_equal(owner(p, PATH_COPY)->potential_ns, 10 * US);
	assert_int_equal(owner(p, PATH_RETURN)->ns, 5 * US);
	assert_int_equal(p->identity_ns, 0);
	assert_int_equal(p->work_ns, 720 * US);
	assert_int_equal(p->path_work_ns, 410 * US);
	assert_int_equal(p->tight_ns, 310 * US);
	analyzed_release(&a);
}

static void no_potentials_with_several_threads(void **state)
{
	struct report_options options = { .filter = FILTER_ALL, .critical_path = true };
	const struct critical_path *p;
	struct analyzed a;

	record(*state, 2);
	analyze(&a, *state, options);
	p = a.report.critical_path;
	assert_int_equal(p->threads, 2);
	for (size_t i = 0; i < p->owner_count; i++)
		assert_int_equal(p->owners[i].potential_ns, CRITICAL_UNKNOWN);
	analyzed_release(&a);
}

/* Two threads take turns of ten launches. Host time before all calls but the first can be saved. */
static void threads_that_take_turns(void **state)
{
	struct report_options options = { .filter = FILTER_ALL, .critical_path = true };
	struct maker *m = begin(*state, 100);
	uint32_t kernel = maker_config(m, "k", 1, 32);
	const struct critical_path *p;
	struct analyzed a;

	for (uint64_t i = 0; i < 60; i++) {
		uint64_t at = (i + 1) * 100 * US;

		maker_call(m, MAKER_LAUNCH, 1 + (uint32_t)(i / 10 % 2), at, at + 10 * US, i + 1);
		maker_kernel(m, kernel, 7, at + 15 * US, at + 20 * US, i + 1);
	}
	maker_close(m, 7000 * US);
	analyze(&a, *state, options);
	p = a.report.critical_path;
	assert_int_equal(p->threads, 2);
	assert_false(p->beside);
	assert_int_equal(p->identity_ns, 0);
	assert_int_equal(owner(p, PATH_HOST)->potential_ns, 59 * 90 * US);
	analyzed_release(&a);
}

/* The path is in the process with the last work, or in the one that is selected. */
static void one_of_several_processes(void **state)
{
	struct report_options options = { .filter = FILTER_ALL, .critical_path = true };

	for (uint32_t pid = 100; pid <= 300; pid += 100) {
		struct program p = begin_program(*state, pid);

		launch(&p, 1, 100 * US, (pid == 200 ? 900 : pid) * US);
		maker_close(p.m, 5000 * US);
	}
	for (uint32_t pid = 100; pid <= 200; pid += 100) {
		struct analyzed a;

		options.filter.pid = pid == 200 ? -1 : (int64_t)pid;
		analyze(&a, *state, options);
		assert_int_equal(trace_process(a.trace, a.report.critical_path->process)->pid, pid);
		assert_int_equal(owner(a.report.critical_path, PATH_KERNEL)->ns,
				 (pid == 200 ? 900 : pid) * US);
		analyzed_release(&a);
	}
}

/* A recording without calls and work has no window, and is no error. */
static void nothing_is_no_error(void **state)
{
	struct report_options options = { .filter = FILTER_ALL, .critical_path = true };
	struct analyzed a;

	maker_close(begin(*state, 100), 500 * US);
	analyze(&a, *state, options);
	assert_int_equal(a.report.critical_path->window_ns, 0);
	analyzed_release(&a);
}

/* Work that may have waited for an unknown stream's event is late for an unknown reason. */
static void lateness_is_unknown_with_unknown_waits(void **state)
{
	struct report_options options = { .filter = FILTER_ALL, .critical_path = true };
	struct maker *m = begin(*state, 100);
	uint32_t a_kernel = maker_config(m, "a", 1, 32);
	struct analyzed a;

	for (uint64_t i = 0; i < 40; i++) {
		maker_call(m, MAKER_LAUNCH, 1, i * 100 * US, (i * 100 + 2) * US, (uint32_t)i + 1);
		maker_kernel(m, a_kernel, 20, (i * 100 + 5) * US, (i * 100 + 20) * US,
			     (uint32_t)i + 1);
	}
	maker_call(m, MAKER_STREAM_WAIT, 1, 4000 * US, 4001 * US, 98);
	maker_call(m, MAKER_LAUNCH, 1, 4002 * US, 4004 * US, 99);
	maker_kernel(m, a_kernel, 20, 4800 * US, 4900 * US, 99);
	maker_close(m, 5000 * US);
	analyze(&a, *state, options);
	assert_int_equal(a.report.critical_path->class_ns[PATH_LATE], 0);
	assert_true(owner(a.report.critical_path, PATH_UNKNOWN)->ns > 700 * US);
	analyzed_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(potentials_are_smaller_than_shares),
		folder_test(no_potentials_with_several_threads),
		folder_test(threads_that_take_turns),
		folder_test(one_of_several_processes),
		folder_test(nothing_is_no_error),
		folder_test(lateness_is_unknown_with_unknown_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
