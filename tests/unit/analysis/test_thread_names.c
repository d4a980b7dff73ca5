#include <string.h>
#include <sys/stat.h>

#include "report_fixture.h"
#include "support/count_instructions.h"

static void names_are_the_last_ones_of_their_threads(void **state)
{
	struct maker *m = begin(*state, 100), *n = begin(*state, 200);
	struct analyzed a;

	maker_thread(m, 7, "starting", 1000);
	maker_thread(m, 8, "other", 1000);
	maker_thread(m, 7, "loader", 2000);
	maker_thread(n, 7, "in another process", 2000);
	maker_close(m, 9000);
	maker_close(n, 9000);
	/* A sampler saw the thread under another name, and one more. */
	m = maker_begin_sampler(*state, 100, 0, "./app");
	maker_thread(m, 7, "seen", 3000);
	maker_thread(m, 9, "only seen", 3000);
	maker_close(m, 9000);
	analyze(&a, *state, EVERYTHING);
	for (size_t p = 0; p < trace_process_count(a.trace); p++) {
		bool first = trace_process(a.trace, p)->pid == 100;

		assert_string_equal(thread_name(&a.report.thread_names, p, 7),
				    first ? "loader" : "in another process");
		assert_string_equal(thread_name(&a.report.thread_names, p, 8),
				    first ? "other" : "");
		assert_string_equal(thread_name(&a.report.thread_names, p, 9),
				    first ? "only seen" : "");
	}
	analyzed_release(&a);
}

struct lookups {
	struct analyzed a;
	uint32_t threads;
};

static void look_up_all(void *user)
{
	const struct lookups *l = user;

	for (uint32_t thread = 1; thread <= l->threads; thread++)
		if (!*thread_name(&l->a.report.thread_names, 0, thread))
			_exit(1);
}

static uint64_t work_of(const char *folder, uint32_t threads)
{
	struct lookups l = { .threads = threads };
	struct maker *m = begin(folder, threads);
	uint64_t work;

	for (uint32_t thread = 1; thread <= threads; thread++)
		maker_thread(m, thread, "worker", 1000);
	maker_close(m, 9000);
	analyze(&l.a, folder, EVERYTHING);
	work = count_instructions(look_up_all, &l);
	analyzed_release(&l.a);
	return work;
}

/* A report for scripts names each thread in several lists. */
static void a_name_costs_the_same_however_many_threads_there_are(void **state)
{
	char few[512], many[512];
	uint64_t work;

	snprintf(few, sizeof(few), "%s/few", (const char *)*state);
	snprintf(many, sizeof(many), "%s/many", (const char *)*state);
	assert_int_equal(mkdir(few, 0700) | mkdir(many, 0700), 0);
	work = work_of(few, 25);
	if (!work)
		skip();
	assert_in_range(work_of(many, 100), 2 * work, 6 * work);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(names_are_the_last_ones_of_their_threads),
		folder_test(a_name_costs_the_same_however_many_threads_there_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
