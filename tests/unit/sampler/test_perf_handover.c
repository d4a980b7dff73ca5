/*
 * Which time of a process perf events leave to the timers inside it: cells are written here as
 * recorders would.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "sampler/perf/perf_handover.h"

#define PID 4000000 /* beyond what the kernel gives */
#define OTHER 4000001

struct world {
	char directory[64], path[96];
	struct perf_handover handover;
	unsigned cells;
};

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	snprintf(w->directory, sizeof(w->directory), "/tmp/pitot-handover-XXXXXX");
	assert_non_null(mkdtemp(w->directory));
	snprintf(w->path, sizeof(w->path), "%s/" CPU_HANDOVER_FILE, w->directory);
	assert_int_equal(perf_handover_open(&w->handover, w->directory, &(struct folder_id){ 0 }),
			 0);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	perf_handover_close(&w->handover);
	perf_handover_close(&w->handover);
	/* Nothing is left in the folder. */
	assert_int_equal(rmdir(w->directory), 0);
	free(w);
	return 0;
}

static void put_bytes(const struct world *w, const void *bytes, size_t size, off_t place)
{
	int fd = open(w->path, O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, size, place), size);
	close(fd);
}

static void put(const struct world *w, unsigned index, struct cpu_handover_cell cell)
{
	cell.magic = CPU_HANDOVER_MAGIC;
	cell.pid = cell.pid ? cell.pid : PID;
	put_bytes(w, &cell, sizeof(cell), (off_t)(index * sizeof(cell)));
}

static bool has(const struct world *w, uint64_t time_ns)
{
	return perf_handover_has(&w->handover, PID, time_ns);
}

static void test_whose_time_it_is(void **state)
{
	struct world *w = *state;

	perf_handover_read(&w->handover);
	assert_false(has(w, 200));
	put(w, 0, (struct cpu_handover_cell){ .since_ns = 100 });
	assert_false(has(w, 200)); /* not read yet */
	perf_handover_read(&w->handover);
	assert_false(has(w, 99));
	assert_true(has(w, 100));
	assert_true(has(w, UINT64_MAX));
	assert_false(perf_handover_has(&w->handover, OTHER, 200));
	put(w, 0, (struct cpu_handover_cell){ .since_ns = 100, .until_ns = 150 });
	perf_handover_read(&w->handover);
	assert_true(has(w, 149));
	assert_false(has(w, 150));
}

/* The timers begin and end and begin again. */
static void test_two_windows_of_a_process(void **state)
{
	struct world *w = *state;

	put(w, 0,
	    (struct cpu_handover_cell){ .since_ns = 100, .until_ns = 150, .recorded_ns = 20 });
	put(w, 1, (struct cpu_handover_cell){ .pid = OTHER, .since_ns = 160, .recorded_ns = 7 });
	put(w, 2, (struct cpu_handover_cell){ .since_ns = 200, .recorded_ns = 30 });
	perf_handover_read(&w->handover);
	assert_true(has(w, 149));
	assert_false(has(w, 199));
	assert_true(has(w, 200));
	assert_int_equal(perf_handover_recorded(&w->handover), 57);
	assert_true(perf_handover_owe(&w->handover, PID, 60));
	assert_int_equal(perf_handover_exit(&w->handover, PID, 300), 10);
	assert_int_equal(perf_handover_recorded(&w->handover), 57);
}

static void test_the_rest_of_a_process(void **state)
{
	struct world *w = *state;

	/* Of a process that no timers have, others tell. */
	assert_false(perf_handover_owe(&w->handover, PID, 1000));
	assert_int_equal(perf_handover_exit(&w->handover, PID, 50), 0);
	put(w, 0, (struct cpu_handover_cell){ .since_ns = 100, .recorded_ns = 600 });
	perf_handover_read(&w->handover);
	/* Three threads end; what the timers have is only final at the end of the process. */
	assert_true(perf_handover_owe(&w->handover, PID, 1000));
	assert_true(perf_handover_owe(&w->handover, PID, 0));
	assert_true(perf_handover_owe(&w->handover, PID, 50));
	put(w, 0, (struct cpu_handover_cell){ .since_ns = 100, .recorded_ns = 900 });
	assert_int_equal(perf_handover_exit(&w->handover, PID, 300), 150);
	/* The next process with this pid. */
	assert_false(has(w, 301));
	assert_false(perf_handover_owe(&w->handover, PID, 1000));
	put(w, 1, (struct cpu_handover_cell){ .since_ns = 400, .recorded_ns = 2 });
	perf_handover_read(&w->handover);
	assert_true(has(w, 400));
	assert_true(perf_handover_owe(&w->handover, PID, 5));
	assert_int_equal(perf_handover_exit(&w->handover, PID, 500), 3);
	assert_int_equal(perf_handover_recorded(&w->handover), 902);
}

/* Whole periods may be more than there was. */
static void test_nothing_below_zero(void **state)
{
	struct world *w = *state;

	put(w, 0, (struct cpu_handover_cell){ .since_ns = 100, .recorded_ns = 2000 });
	perf_handover_read(&w->handover);
	assert_true(perf_handover_owe(&w->handover, PID, 1999));
	assert_int_equal(perf_handover_exit(&w->handover, PID, 300), 0);
}

/*
 * The kernel goes on counting, so what the timers of all its programs have is taken off when the
 * process ends.
 */
static void test_exec(void **state)
{
	struct world *w = *state;

	put(w, 0, (struct cpu_handover_cell){ .since_ns = 100, .recorded_ns = 600 });
	perf_handover_exec(&w->handover, PID, 300);
	assert_true(has(w, 299));
	assert_false(has(w, 300));
	/* What is written to a cell whose program has ended is not believed. */
	put(w, 0, (struct cpu_handover_cell){ .since_ns = 100, .recorded_ns = 5000 });
	put(w, 1, (struct cpu_handover_cell){ .since_ns = 410, .recorded_ns = 100 });
	perf_handover_exec(&w->handover, PID,
			   405); /* read late: the cell is of the program after it */
	assert_false(has(w, 409));
	assert_true(has(w, 410));
	assert_true(perf_handover_owe(&w->handover, PID, 1000));
	assert_int_equal(perf_handover_exit(&w->handover, PID, 500), 300);
}

/* The sampler is late: what it finds at the end of a process is of the next one with its pid. */
static void test_a_pid_that_is_used_again(void **state)
{
	struct world *w = *state;

	put(w, 0, (struct cpu_handover_cell){ .since_ns = 100, .recorded_ns = 10 });
	put(w, 1, (struct cpu_handover_cell){ .since_ns = 400, .recorded_ns = 40 });
	perf_handover_read(&w->handover);
	assert_true(perf_handover_owe(&w->handover, PID, 30));
	assert_int_equal(perf_handover_exit(&w->handover, PID, 300), 20);
	assert_false(has(w, 250));
	assert_true(has(w, 400));
	assert_true(perf_handover_owe(&w->handover, PID, 41));
	assert_int_equal(perf_handover_exit(&w->handover, PID, 500), 1);
}

static void test_many_processes(void **state)
{
	struct world *w = *state;

	for (unsigned i = 0; i < 1000; i++)
		put(w, i,
		    (struct cpu_handover_cell){
			    .pid = PID + i, .since_ns = 100 + i, .recorded_ns = 1 });
	perf_handover_read(&w->handover);
	for (unsigned i = 0; i < 1000; i++) {
		assert_false(perf_handover_has(&w->handover, (pid_t)(PID + i), 99 + i));
		assert_true(perf_handover_has(&w->handover, (pid_t)(PID + i), 100 + i));
	}
	assert_int_equal(perf_handover_recorded(&w->handover), 1000);
}

static void test_nonsense(void **state)
{
	struct world *w = *state;
	struct cpu_handover_cell cell = { .pid = PID, .since_ns = 50 };

	put_bytes(w, &cell, sizeof(cell), 0); /* no magic */
	cell.pid = 0;
	cell.magic = CPU_HANDOVER_MAGIC;
	put_bytes(w, &cell, sizeof(cell), sizeof(cell)); /* nobody's */
	perf_handover_read(&w->handover);
	assert_false(has(w, 100));
	assert_false(perf_handover_has(&w->handover, 0, 100));
	put(w, 0,
	    (struct cpu_handover_cell){
		    .since_ns = 50 }); /* it was not there when it should have been */
	put(w, 2,
	    (struct cpu_handover_cell){
		    .since_ns = UINT64_MAX, .until_ns = 1, .recorded_ns = UINT64_MAX });
	perf_handover_read(&w->handover);
	assert_false(has(w, 100));
	for (off_t size = 3 * (off_t)sizeof(cell); size >= 0; size--) { /* cut while it is read */
		assert_int_equal(truncate(w->path, size), 0);
		perf_handover_read(&w->handover);
	}
	/* More cells than are read. */
	assert_int_equal(truncate(w->path, (off_t)(CPU_HANDOVER_CELLS + 1) * (off_t)sizeof(cell)),
			 0);
	put(w, CPU_HANDOVER_CELLS, (struct cpu_handover_cell){ .since_ns = 50 });
	perf_handover_read(&w->handover);
	assert_false(has(w, 100));
	assert_int_equal(w->handover.cells.count, CPU_HANDOVER_CELLS);
	assert_int_equal(perf_handover_exit(&w->handover, PID, 1), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_whose_time_it_is),
		TEST(test_two_windows_of_a_process),
		TEST(test_the_rest_of_a_process),
		TEST(test_nothing_below_zero),
		TEST(test_exec),
		TEST(test_a_pid_that_is_used_again),
		TEST(test_many_processes),
		TEST(test_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
