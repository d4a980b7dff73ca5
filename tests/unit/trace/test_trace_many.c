/* Recordings of thousands of segments, with few files open at once. */
#include "trace/trace.h"

#include <sys/resource.h>

#include "base/clock.h"
#include "trace_fixture.h"

#define PROCESSES 1500
#define SEGMENTS 3000
#define FILES_MAX 64
#define CPU_SECONDS_MAX 20 /* a sanitizer's build takes one */

static void make_process(const char *folder, uint32_t pid)
{
	struct maker *m = maker_begin(folder, pid, 1000 + pid, "./a");

	maker_kernel(m, maker_config(m, "add", 1, 32), 7, 10000, 10001, 1);
	maker_close(m, 20000);
}

/* One process whose segments are full after each flush. */
static void make_segments(const char *folder, unsigned count)
{
	struct writer_options options = { .segment_bytes = 1 };
	struct maker *m = maker_begin_with(options, folder, 1, 1000, "./b");
	uint32_t config = maker_config(m, "multiply", 1, 32);

	for (unsigned i = 0; i + 1 < count; i++) {
		maker_kernel(m, config, 7, 2000 + 10 * i, 2001 + 10 * i, 1 + i);
		maker_flush(m);
	}
	maker_close(m, 1000000);
}

static void few_files_are_open(void **state)
{
	struct rlimit few = { FILES_MAX, FILES_MAX };
	uint64_t start_ns;
	struct trace *t;

	for (uint32_t pid = 2; pid < 2 + PROCESSES; pid++)
		make_process(*state, pid);
	make_segments(*state, SEGMENTS - PROCESSES);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	start_ns = clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
	t = open_recording(*state);
	assert_true(trace_segment_count(t) >= SEGMENTS);
	assert_int_equal(trace_process_count(t), 1 + PROCESSES);
	load(t, TABLE_kernel, 0);
	assert_int_equal(trace_rows(t, TABLE_kernel), SEGMENTS - 1);
	assert_string_equal(kernel_name(t, SEGMENTS - 2), "add");
	assert_true(clock_read_ns(CLOCK_PROCESS_CPUTIME_ID) - start_ns <
		    CPU_SECONDS_MAX * NS_PER_S);
	trace_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(few_files_are_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
