/* test_export_view.c: which process the sessions of a recording are shown as. */
#include "export/export_view.h"

#include <string.h>

#include "support/cmocka_tests.h"
#include "support/make_recording.h"

#define START UINT64_C(1000000000)

static void session(const char *path, bool sampler, uint32_t pid, uint64_t start_ns,
		    uint64_t end_ns, const char *command)
{
	struct maker *m = sampler ? maker_begin_sampler(path, pid, START + start_ns, command)
				  : maker_begin(path, pid, START + start_ns, command);

	maker_close(m, START + end_ns);
}

/* The pid and the command that each session is shown with, in the order in which they began. */
static void assert_shown(const char *path, size_t count, const uint32_t *pids,
			 const char *const *commands)
{
	struct export_options options = EXPORT_ALL;
	struct export_result result = { 0 };
	struct export_view v;
	struct trace *t;

	assert_int_equal(trace_open(path, &(struct trace_options){ .threads = 1 }, &t, NULL), 0);
	assert_int_equal(export_view_init(&v, t, &options, &result, false, NULL), 0);
	assert_int_equal(v.process_count, count);
	for (size_t i = 0; i < count; i++) {
		const struct export_process *p = &v.processes[i];

		assert_int_equal(p->pid, pids[i]);
		assert_string_equal(trace_process(t, p->owner)->command, commands[i]);
		assert_int_equal(v.processes[p->owner].owner, p->owner);
	}
	export_view_release(&v);
	trace_free(t);
}

static void test_a_samplers_session_is_shown_as_its_process(void **state)
{
	const char *path = temp_file(*state, "r.pitot");

	session(path, true, 100, 0, 900, "sampled");
	session(path, false, 100, 10, 1000, "inside");
	session(path, true, 101, 20, 900, "worker");
	assert_shown(path, 3, (const uint32_t[]){ 100, 100, 101 },
		     (const char *const[]){ "inside", "inside", "worker" });
}

static void test_images_of_a_process_are_one(void **state)
{
	const char *path = temp_file(*state, "r.pitot");

	session(path, true, 100, 0, 500, "bash");
	session(path, true, 100, 400, 900, "env");
	session(path, true, 100, 800, 2000, "python");
	assert_shown(path, 3, (const uint32_t[]){ 100, 100, 100 },
		     (const char *const[]){ "python", "python", "python" });
}

static void test_processes_of_one_pid_are_told_apart(void **state)
{
	const char *path = temp_file(*state, "r.pitot");

	session(path, false, 100, 0, 500, "one");
	session(path, false, 100, 400, 900, "two");
	session(path, false, 100, 1000, 1500, "later");
	assert_shown(path, 3, (const uint32_t[]){ 20000100, 10000100, 100 },
		     (const char *const[]){ "one", "two", "later" });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(test_a_samplers_session_is_shown_as_its_process),
		folder_test(test_images_of_a_process_are_one),
		folder_test(test_processes_of_one_pid_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
