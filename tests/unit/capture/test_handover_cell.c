/*
 * What the recorder writes into cpu.handover: a cell of its own, behind others', and nothing when
 * it has none.
 */
#include "capture/cpu/cpu_handover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "format/handover_cell.h"
#include "support/cmocka_tests.h"

#define CELLS 3u
#define MINE 1u /* behind one of another process */

static char path[4096];

static void write_cells(size_t count)
{
	const struct cpu_handover_cell other = { .magic = CPU_HANDOVER_MAGIC, .pid = 1 };
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(fwrite(&other, sizeof(other), 1, f), 1);
	assert_int_equal(fclose(f), 0);
}

/* Returns the count; those of others are as they were. */
static size_t read_cells(struct cpu_handover_cell *mine)
{
	struct cpu_handover_cell cells[CELLS];
	FILE *f = fopen(path, "re");
	size_t count;

	assert_non_null(f);
	count = fread(cells, sizeof(*cells), CELLS, f);
	fclose(f);
	assert_true(count >= 1 && cells[0].pid == 1 && !cells[0].until_ns && !cells[0].recorded_ns);
	if (count > MINE)
		*mine = cells[MINE];
	return count;
}

static int begin_with_another(void **state)
{
	folder_setup(state);
	snprintf(path, sizeof(path), "%s/" CPU_HANDOVER_FILE, (const char *)*state);
	write_cells(1);
	return 0;
}

static int end(void **state)
{
	cpu_handover_after_fork();
	return folder_teardown(state);
}

static void test_a_cell_of_its_own(void **state)
{
	struct cpu_handover_cell cell;
	uint64_t before_ns = clock_machine_ns();

	assert_int_equal(cpu_handover_begin(*state, &(struct folder_id){ 0 }), 0);
	assert_int_equal(read_cells(&cell), 2);
	assert_int_equal(cell.magic, CPU_HANDOVER_MAGIC);
	assert_int_equal(cell.pid, getpid());
	assert_true(cell.since_ns >= before_ns && cell.since_ns <= clock_machine_ns());
	assert_int_equal(cell.until_ns, 0);
	assert_int_equal(cell.recorded_ns, 0);
}

/* Over several periods: the sum, once its rows are stored. */
static void seal_and_store(void)
{
	cpu_handover_sealed();
	cpu_handover_stored();
}

static void test_what_is_recorded_adds_up(void **state)
{
	struct cpu_handover_cell cell;

	assert_int_equal(cpu_handover_begin(*state, &(struct folder_id){ 0 }), 0);
	for (uint64_t i = 1; i <= 3; i++) {
		cpu_handover_recorded(1000);
		cpu_handover_recorded(i);
		assert_int_equal(read_cells(&cell), 2);
		assert_int_equal(cell.recorded_ns, (i - 1) * 1000 + i * (i - 1) / 2);
		seal_and_store();
		assert_int_equal(read_cells(&cell), 2);
		assert_int_equal(cell.recorded_ns, i * 1000 + i * (i + 1) / 2);
	}
	assert_int_equal(cell.until_ns, 0);
}

/* Rows that were appended after a seal are not on disk when its rows are. */
static void test_rows_of_a_slow_disk(void **state)
{
	struct cpu_handover_cell cell;

	assert_int_equal(cpu_handover_begin(*state, &(struct folder_id){ 0 }), 0);
	cpu_handover_recorded(7);
	cpu_handover_sealed();
	cpu_handover_recorded(9);
	cpu_handover_stored();
	assert_int_equal(read_cells(&cell), 2);
	assert_int_equal(cell.recorded_ns, 7);
	seal_and_store();
	assert_int_equal(read_cells(&cell), 2);
	assert_int_equal(cell.recorded_ns, 16);
}

static void test_the_first_end_counts(void **state)
{
	struct cpu_handover_cell first, second;

	assert_int_equal(cpu_handover_begin(*state, &(struct folder_id){ 0 }), 0);
	cpu_handover_end();
	assert_int_equal(read_cells(&first), 2);
	assert_true(first.until_ns >= first.since_ns);
	usleep(1);
	cpu_handover_end();
	cpu_handover_recorded(7); /* of rows that were on their way */
	seal_and_store();
	assert_int_equal(read_cells(&second), 2);
	assert_int_equal(second.until_ns, first.until_ns);
	assert_int_equal(second.recorded_ns, 7);
}

/* The next window of the same process: another cell, and sums from 0 on. */
static void test_another_begin(void **state)
{
	struct cpu_handover_cell first;

	assert_int_equal(cpu_handover_begin(*state, &(struct folder_id){ 0 }), 0);
	cpu_handover_recorded(7);
	seal_and_store();
	cpu_handover_end();
	assert_int_equal(cpu_handover_begin(*state, &(struct folder_id){ 0 }), 0);
	cpu_handover_recorded(1);
	seal_and_store();
	assert_int_equal(read_cells(&first), 3);
	assert_int_equal(first.recorded_ns, 7);
	assert_true(first.until_ns > 0);
}

static void assert_nothing_is_written(size_t cells)
{
	struct cpu_handover_cell cell = { 0 };

	cpu_handover_recorded(9);
	seal_and_store();
	cpu_handover_end();
	assert_int_equal(read_cells(&cell), cells);
	assert_int_equal(cell.recorded_ns, 0);
	assert_int_equal(cell.until_ns, 0);
}

static void test_a_child_has_no_cell(void **state)
{
	assert_int_equal(cpu_handover_begin(*state, &(struct folder_id){ 0 }), 0);
	cpu_handover_after_fork();
	assert_nothing_is_written(2);
}

static void test_nobody_samples(void **state)
{
	assert_int_equal(unlink(path), 0);
	assert_int_equal(cpu_handover_begin(*state, &(struct folder_id){ 0 }), -ENOENT);
	write_cells(1); /* of a recording that has begun since */
	assert_nothing_is_written(1);
}

/* A file that is not whole cells, and one that is full: the process stays with perf events. */
static void test_files_without_a_place(void **state)
{
	assert_int_equal(truncate(path, 5), 0);
	assert_int_equal(cpu_handover_begin(*state, &(struct folder_id){ 0 }), -EIO);
	write_cells(1);
	assert_nothing_is_written(1);
	assert_int_equal(truncate(path, CPU_HANDOVER_CELLS * sizeof(struct cpu_handover_cell)), 0);
	assert_int_equal(cpu_handover_begin(*state, &(struct folder_id){ 0 }), -ENOSPC);
	write_cells(1);
	assert_nothing_is_written(1);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin_with_another, end)
	const struct CMUnitTest tests[] = {
		CASE(test_a_cell_of_its_own),   CASE(test_what_is_recorded_adds_up),
		CASE(test_rows_of_a_slow_disk), CASE(test_the_first_end_counts),
		CASE(test_another_begin),       CASE(test_a_child_has_no_cell),
		CASE(test_nobody_samples),      CASE(test_files_without_a_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
