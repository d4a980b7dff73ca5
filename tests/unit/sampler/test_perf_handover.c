/* What perf events leave to timers: the recorder's file is written here by hand. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/compiler.h"
#include "sampler/perf/perf_handover.h"

#define PID 4000000 /* beyond what the kernel gives */
#define THREAD 4000001
#define FORGOTTEN (UINT64_MAX)

struct world {
	char directory[64];
	struct perf_handover handover;
	struct handed_time last;
	uint64_t rest_ns;
	unsigned rests;
};

static void on_rest(void *context, const struct handed_time *time, uint64_t rest_ns)
{
	struct world *w = context;

	w->last = *time;
	w->rest_ns = rest_ns;
	w->rests++;
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	snprintf(w->directory, sizeof(w->directory), "/tmp/pitot-handover-XXXXXX");
	assert_non_null(mkdtemp(w->directory));
	perf_handover_init(&w->handover, w->directory, on_rest, w);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	perf_handover_release(&w->handover);
	/* Nothing is left in the folder. */
	assert_int_equal(rmdir(w->directory), 0);
	free(w);
	return 0;
}

static void write_cells(const struct world *w, unsigned image,
			const struct cpu_handover_cell *cells, size_t count)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%d.%u.handover", w->directory, PID, image);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, cells, count * sizeof(*cells)), count * sizeof(*cells));
	close(fd);
}

static struct cpu_handover_cell file_of(int pid, uint64_t since_ns)
{
	return (struct cpu_handover_cell){ .state = CPU_HANDOVER_FILE,
					   .tid = (uint32_t)pid,
					   .since_ns = since_ns };
}

/* One thread, in the first image of the process. */
static void put(const struct world *w, struct cpu_handover_cell cell)
{
	struct cpu_handover_cell cells[] = { file_of(PID, 50), cell };

	cells[1].tid = THREAD;
	write_cells(w, 0, cells, ARRAY_SIZE(cells));
}

static bool has(const struct world *w, uint64_t time_ns)
{
	return perf_handover_has(&w->handover, PID, THREAD, time_ns);
}

static bool ends(struct world *w, pid_t tid, uint64_t end_ns, uint64_t owed_ns)
{
	struct handed_time time = { .pid = PID, .tid = tid, .end_ns = end_ns, .owed_ns = owed_ns };

	return perf_handover_thread_ends(&w->handover, &time);
}

static void test_whose_time_it_is(void **state)
{
	struct world *w = *state;

	assert_false(has(w, 200));
	perf_handover_watch(&w->handover, PID);
	assert_false(has(w, 200));
	put(w, (struct cpu_handover_cell){ .state = CPU_HANDOVER_HELD, .since_ns = 100 });
	assert_false(has(w, 200)); /* not looked at */
	perf_handover_look(&w->handover);
	assert_false(has(w, 99));
	assert_true(has(w, 100));
	assert_true(has(w, UINT64_MAX));
	assert_false(perf_handover_has(&w->handover, PID, PID, 200));
	assert_false(perf_handover_has(&w->handover, PID + 1, THREAD, 200));
	put(w, (struct cpu_handover_cell){
		       .state = CPU_HANDOVER_RETURNED, .since_ns = 100, .until_ns = 150 });
	perf_handover_look(&w->handover);
	assert_true(has(w, 149));
	assert_false(has(w, 150));
}

/* The recorder may have begun before its library's mapping was heard of. */
static void test_a_process_is_looked_at_when_it_is_met(void **state)
{
	struct world *w = *state;

	put(w, (struct cpu_handover_cell){ .state = CPU_HANDOVER_HELD, .since_ns = 100 });
	perf_handover_watch(&w->handover, PID);
	assert_true(has(w, 100));
}

static void test_a_process_that_was_never_met(void **state)
{
	struct world *w = *state;

	put(w, (struct cpu_handover_cell){ .state = CPU_HANDOVER_HELD, .since_ns = 100 });
	perf_handover_search(&w->handover);
	assert_true(has(w, 100));
}

static void test_the_rest_of_a_thread(void **state)
{
	struct world *w = *state;
	struct cpu_handover_cell cell = { .state = CPU_HANDOVER_HELD,
					  .since_ns = 100,
					  .recorded_ns = 600 };

	put(w, cell);
	perf_handover_watch(&w->handover, PID);
	assert_true(ends(w, THREAD, 300, 1000));
	perf_handover_look(&w->handover);
	assert_int_equal(w->rests, 0); /* more may come */
	assert_false(has(w, 301)); /* another thread with its number */
	cell.state = CPU_HANDOVER_SETTLED;
	cell.until_ns = 300;
	cell.recorded_ns = 900;
	put(w, cell);
	perf_handover_look(&w->handover);
	assert_int_equal(w->rests, 1);
	assert_int_equal(w->rest_ns, 100);
	assert_int_equal(w->last.tid, THREAD);
	assert_int_equal(w->last.end_ns, 300);
	perf_handover_ends(&w->handover, PID, 400, false);
	assert_int_equal(w->rests, 1);
	assert_int_equal(perf_handover_recorded(&w->handover), 900);
	/* Of a thread that no timer had, others tell. */
	assert_false(ends(w, THREAD, 500, 1000));
}

static void test_the_end_of_the_process_settles(void **state)
{
	struct world *w = *state;
	struct cpu_handover_cell cell = { .state = CPU_HANDOVER_HELD,
					  .since_ns = 100,
					  .recorded_ns = 600 };

	put(w, cell);
	perf_handover_watch(&w->handover, PID);
	assert_true(ends(w, THREAD, 300, 1000));
	cell.recorded_ns = 2000; /* whole periods may be more than there was */
	put(w, cell);
	perf_handover_ends(&w->handover, PID, 300, false);
	assert_int_equal(w->rests, 0);
	assert_false(perf_handover_watches(&w->handover, PID));
}

/* The kernel goes on counting, so what the first program's timer had is taken off at the end of the second. */
static void test_exec(void **state)
{
	struct world *w = *state;
	struct cpu_handover_cell cells[] = {
		file_of(PID, 50),
		{ .state = CPU_HANDOVER_HELD, .tid = PID, .since_ns = 100, .recorded_ns = 600 },
	};

	write_cells(w, 0, cells, ARRAY_SIZE(cells));
	perf_handover_watch(&w->handover, PID);
	perf_handover_ends(&w->handover, PID, 300, true);
	assert_false(perf_handover_has(&w->handover, PID, PID, 400));
	/* The next one's recorder finds the first file there, and takes the next number. */
	cells[0].since_ns = 400;
	cells[1].since_ns = 410;
	cells[1].recorded_ns = 100;
	write_cells(w, 1, cells, ARRAY_SIZE(cells));
	perf_handover_watch(&w->handover, PID);
	assert_false(perf_handover_has(&w->handover, PID, PID, 405));
	assert_true(perf_handover_has(&w->handover, PID, PID, 410));
	assert_true(ends(w, PID, 500, 1000));
	perf_handover_ends(&w->handover, PID, 500, false);
	assert_int_equal(w->rests, 1);
	assert_int_equal(w->rest_ns, 300);
}

static void test_exec_of_a_program_without_the_recorder(void **state)
{
	struct world *w = *state;
	struct cpu_handover_cell cells[] = {
		file_of(PID, 50),
		{ .state = CPU_HANDOVER_HELD, .tid = PID, .since_ns = 100, .recorded_ns = 600 },
	};

	write_cells(w, 0, cells, ARRAY_SIZE(cells));
	perf_handover_watch(&w->handover, PID);
	perf_handover_ends(&w->handover, PID, 300, true);
	assert_true(ends(w, PID, 500, 1000));
	assert_int_equal(w->rest_ns, 400);
	perf_handover_ends(&w->handover, PID, 500, false);
}

/* The sampler is late: what it finds at an exec is the next program's. */
static void test_a_file_of_the_next_program(void **state)
{
	struct world *w = *state;
	struct cpu_handover_cell cells[] = {
		file_of(PID, 350),
		{ .state = CPU_HANDOVER_HELD, .tid = PID, .since_ns = 360 },
	};

	perf_handover_watch(&w->handover, PID);
	write_cells(w, 0, cells, ARRAY_SIZE(cells));
	perf_handover_ends(&w->handover, PID, 300, true);
	perf_handover_watch(&w->handover, PID);
	assert_true(perf_handover_has(&w->handover, PID, PID, 400));
}

static void test_a_cell_that_is_used_again(void **state)
{
	struct world *w = *state;
	struct cpu_handover_cell cell = {
		.state = CPU_HANDOVER_SETTLED, .since_ns = 100, .until_ns = 200, .recorded_ns = 70
	};

	put(w, cell);
	perf_handover_watch(&w->handover, PID);
	assert_true(ends(w, THREAD, 200, 100));
	perf_handover_look(&w->handover);
	assert_int_equal(w->rest_ns, 30);
	cell = (struct cpu_handover_cell){ .state = CPU_HANDOVER_HELD,
					   .since_ns = 300,
					   .recorded_ns = 5 };
	put(w, cell);
	perf_handover_look(&w->handover);
	assert_false(has(w, 250));
	assert_true(has(w, 300));
	assert_int_equal(perf_handover_recorded(&w->handover), 75);
}

static void test_nonsense(void **state)
{
	struct world *w = *state;
	struct cpu_handover_cell cells[] = {
		file_of(PID + 1, 50),
		{ .state = CPU_HANDOVER_HELD, .tid = THREAD, .since_ns = 0 },
	};
	char path[128];

	write_cells(w, 0, cells, ARRAY_SIZE(cells));
	perf_handover_watch(&w->handover, PID);
	assert_false(has(w, 100)); /* another process's */
	cells[0] = file_of(PID, 50);
	cells[1].state = 77;
	write_cells(w, 0, cells, ARRAY_SIZE(cells));
	perf_handover_look(&w->handover);
	assert_false(has(w, 100));
	snprintf(path, sizeof(path), "%s/%d.0.handover", w->directory, PID);
	for (off_t size = (off_t)sizeof(cells); size >= 0; size--) { /* cut while it is read */
		assert_int_equal(truncate(path, size), 0);
		perf_handover_look(&w->handover);
	}
	assert_int_equal(truncate(path, 64 << 20), 0);
	perf_handover_look(&w->handover);
	assert_false(ends(w, THREAD, FORGOTTEN, 1));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_whose_time_it_is),
		TEST(test_a_process_is_looked_at_when_it_is_met),
		TEST(test_a_process_that_was_never_met),
		TEST(test_the_rest_of_a_thread),
		TEST(test_the_end_of_the_process_settles),
		TEST(test_exec),
		TEST(test_exec_of_a_program_without_the_recorder),
		TEST(test_a_file_of_the_next_program),
		TEST(test_a_cell_that_is_used_again),
		TEST(test_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
