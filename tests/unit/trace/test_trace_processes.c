#include "trace/trace.h"

#include "trace_fixture.h"

#include <stdlib.h>

#include "base/clock.h"
#include "trace/columns.h"

static void record_completes_processes(void **state)
{
	struct maker *a = maker_begin(*state, 100, 1000, "");
	struct maker *b = maker_begin(*state, 200, 3000, "./b");
	const struct trace_process *p;
	struct trace *t;

	maker_flush(a);
	maker_crash(a);
	maker_close(b, 9000);
	maker_record(*state, 100, 50, 900, 8000, "./a --from record", 139);
	maker_record(*state, 200, 100, 2900, 9100, "./b --from record", 0);
	maker_record(*state, 300, 100, 4000, 5000, "grep x", 1);
	t = open_recording(*state);
	assert_int_equal(trace_process_count(t), 3);
	p = trace_process(t, 0);
	assert_int_equal(p->pid, 100);
	assert_int_equal(p->exit_status, 139);
	assert_string_equal(p->command, "./a --from record");
	assert_string_equal(p->executable, "/usr/bin/app");
	assert_int_equal(p->start_ns, 1000);
	assert_true(p->inside);
	assert_false(p->closed);
	assert_int_equal(p->segments, 1);
	p = trace_process(t, 1);
	assert_int_equal(p->pid, 200);
	assert_int_equal(p->exit_status, 0);
	assert_string_equal(p->command, "./b");
	assert_int_equal(p->parent_pid, 1);
	assert_true(p->closed);
	p = trace_process(t, 2);
	assert_int_equal(p->pid, 300);
	assert_false(p->inside);
	assert_int_equal(p->parent_pid, 100);
	assert_int_equal(p->start_ns, 4000);
	assert_int_equal(p->end_ns, 5000);
	assert_int_equal(p->exit_status, 1);
	assert_int_equal(p->segments, 0);
	assert_string_equal(p->command, "grep x");
	trace_free(t);
}

/* exec: two images of one process; the process ended once, with the second. */
static void images_of_one_pid(void **state)
{
	const struct trace_process *p;
	struct trace *t;

	maker_close(maker_begin(*state, 100, 1000, "sh -c app"), 2000);
	maker_close(maker_begin(*state, 100, 2100, "app"), 8000);
	maker_record(*state, 100, 50, 900, 8000, "sh -c app", 3);
	t = open_recording(*state);
	assert_int_equal(trace_process_count(t), 2);
	p = trace_process(t, 0);
	assert_string_equal(p->command, "sh -c app");
	assert_int_equal(p->exit_status, -1);
	p = trace_process(t, 1);
	assert_string_equal(p->command, "app");
	assert_int_equal(p->exit_status, 3);
	assert_int_not_equal(trace_process(t, 0)->session, p->session);
	trace_free(t);
}

/* A pid that was given to another process later. */
static void reused_pid(void **state)
{
	struct trace *t;

	maker_close(maker_begin(*state, 100, 1000, ""), 2000);
	maker_close(maker_begin(*state, 100, 50000, ""), 60000);
	maker_record(*state, 100, 50, 49000, 60000, "second", 2);
	maker_record(*state, 100, 50, 900, 2000, "first", 1);
	t = open_recording(*state);
	assert_int_equal(trace_process_count(t), 2);
	assert_string_equal(trace_process(t, 0)->command, "first");
	assert_int_equal(trace_process(t, 0)->exit_status, 1);
	assert_string_equal(trace_process(t, 1)->command, "second");
	assert_int_equal(trace_process(t, 1)->exit_status, 2);
	trace_free(t);
}

/*
 * Rows that `pitot record` wrote belong to the process that it started, whatever their own ids
 * mean.
 */
static void record_rows_have_a_process(void **state)
{
	struct maker *m = maker_begin(*state, 100, 1000, "./a");
	struct trace_loss loss = { 0 };
	struct trace *t;

	maker_loss(m, loss_reason_ring_full, 7, 1500, 1600, "thread 5");
	maker_close(m, 9000);
	maker_record(*state, 100, 50, 900, 8000, "./a", 0);
	t = open_recording(*state);
	assert_int_equal(trace_process_count(t), 1);
	assert_int_equal(trace_rows(t, TABLE_process), 3);
	load(t, TABLE_process, 0);
	assert_int_equal(trace_first_row(t, TABLE_process, 1), 3);
	/* in order of time, over both sessions */
	assert_int_equal(trace_u64(t, TABLE_process, COLUMN_process_start_ns)[0], 900);
	assert_int_equal(trace_u8(t, TABLE_process, COLUMN_process_source)[0],
			 process_source_record);
	assert_int_equal(count_losses(t, loss_reason_ring_full, &loss), 1);
	assert_int_equal(loss.count, 7);
	assert_int_equal(loss.process, 0);
	assert_int_equal(loss.start_ns, 1500);
	assert_int_equal(loss.end_ns, 1600);
	assert_string_equal(loss.detail, "thread 5");
	trace_free(t);
}

/* However long it took until something of it was written. */
static void begins_with_its_command(void **state)
{
	uint64_t start, end;
	struct trace *t;

	maker_close(maker_begin(*state, 100, 10 * NS_PER_S, "./a"), 11 * NS_PER_S);
	maker_record(*state, 100, 50, 5 * NS_PER_S, 12 * NS_PER_S, "./a", 0);
	t = open_recording(*state);
	trace_span(t, &start, &end);
	assert_int_equal(start, 5 * NS_PER_S);
	assert_int_equal(end, 11 * NS_PER_S);
	trace_free(t);
}

/* `pitot record` sees an exec some time later: the command tells which image it is. */
static void execs_are_seen_late(void **state)
{
	struct maker *m = maker_begin(*state, 100, 1500, "./b");
	struct trace *t;

	maker_close(m, 9000);
	maker_record(*state, 100, 50, 900, 0, "sh", -1);
	maker_record(*state, 100, 50, 1800, 8000, "./b", 3);
	t = open_recording(*state);
	assert_int_equal(trace_process_count(t), 2);
	assert_string_equal(trace_process(t, 0)->command, "sh");
	assert_false(trace_process(t, 0)->inside);
	assert_string_equal(trace_process(t, 1)->command, "./b");
	assert_true(trace_process(t, 1)->inside);
	assert_int_equal(trace_process(t, 1)->exit_status, 3);
	trace_free(t);
}

/* A row about a process that wrote nothing stands under that process. */
static void assert_rows_are_their_process_s(struct trace *t)
{
	const uint32_t *pids;

	load(t, TABLE_process, 0);
	pids = trace_u32(t, TABLE_process, COLUMN_process_pid);
	for (uint64_t row = 0; row < trace_rows(t, TABLE_process); row++)
		assert_int_equal(trace_process(t, trace_row_process(t, TABLE_process, row))->pid,
				 pids[row]);
}

/* A row at the start of a process and one at its end are about one process. */
static void record_writes_twice(void **state)
{
	struct trace *t;

	maker_record(*state, 100, 50, 900, 0, "make", -1);
	maker_record(*state, 101, 100, 950, 0, "cc", -1);
	maker_record(*state, 100, 50, 900, 8000, "make all", 2);
	t = open_recording(*state);
	assert_int_equal(trace_process_count(t), 2);
	assert_string_equal(trace_process(t, 0)->command, "make all");
	assert_int_equal(trace_process(t, 0)->exit_status, 2);
	assert_int_equal(trace_process(t, 0)->end_ns, 8000);
	assert_true(trace_process(t, 0)->closed);
	assert_int_equal(trace_process(t, 1)->exit_status, -1);
	assert_false(trace_process(t, 1)->closed);
	assert_rows_are_their_process_s(t);
	trace_free(t);
}

static void only_record(void **state)
{
	struct trace *t;

	maker_record(*state, 100, 50, 900, 8000, "./a", 137);
	t = open_recording(*state);
	assert_int_equal(trace_process_count(t), 1);
	assert_false(trace_process(t, 0)->inside);
	assert_int_equal(trace_process(t, 0)->exit_status, 137);
	assert_int_equal(count_losses(t, loss_reason_truncated_file, NULL), 0);
	trace_free(t);
}

/* `pitot record` was killed before it could write about a process. */
static void record_without_rows(void **state)
{
	struct writer_options options = { .directory = *state, .prefix = "record" };
	struct row_loss row = { .reason = loss_reason_disk_full, .count = 3, .start_ns = 70 };
	struct trace_loss loss = { 0 };
	struct writer *w;
	struct trace *t;

	ROW_MISSING(&row, loss, detail);
	assert_int_equal(writer_open(&options, &w, NULL), 0);
	writer_append(w, TABLE_loss, &row);
	assert_int_equal(writer_close(&w), 0);
	maker_close(maker_begin(*state, 100, 1000, "./a"), 5000);
	t = open_recording(*state);
	assert_int_equal(trace_process_count(t), 2);
	assert_int_equal(count_losses(t, loss_reason_disk_full, &loss), 1);
	assert_int_equal(loss.count, 3);
	assert_string_equal(loss.detail, "");
	assert_false(trace_process(t, loss.process)->inside);
	assert_true(trace_process(t, 1 - loss.process)->inside);
	trace_free(t);
}

static void twenty_processes(void **state)
{
	struct trace *t;

	for (uint32_t i = 0; i < 20; i++) {
		struct maker *m = maker_begin(*state, 1000 + i, 5000 - i, "./a");
		uint32_t config = maker_config(m, "add", 1, 32);

		for (uint32_t k = 0; k < i; k++)
			maker_kernel(m, config, 7, 10000 + k, 10001 + k, k);
		maker_close(m, 90000);
	}
	t = open_recording(*state);
	load(t, TABLE_kernel, 0);
	assert_int_equal(trace_process_count(t), 20);
	for (uint32_t p = 0; p < 20; p++) {
		assert_int_equal(trace_process(t, p)->pid, 1019 - p);
		assert_int_equal(trace_first_row(t, TABLE_kernel, p + 1) -
					 trace_first_row(t, TABLE_kernel, p),
				 19 - p);
		for (uint64_t row = trace_first_row(t, TABLE_kernel, p);
		     row < trace_first_row(t, TABLE_kernel, p + 1); row++)
			assert_int_equal(trace_row_process(t, TABLE_kernel, row), p);
	}
	trace_free(t);
}

static void add_rank(const char *folder, uint32_t pid, enum job_launcher launcher, uint32_t rank)
{
	struct maker *m = maker_begin(folder, pid, 10000 - pid, "./a");
	uint32_t config = maker_config(m, "add", 1, 32);

	m->process.rank = rank;
	m->process.launcher = (uint8_t)launcher;
	m->process.world_size = 2;
	ROW_PRESENT(&m->process, process, rank);
	ROW_PRESENT(&m->process, process, launcher);
	ROW_PRESENT(&m->process, process, world_size);
	maker_kernel(m, config, 7, 10000 + pid, 10001 + pid, pid);
	maker_close(m, 90000);
}

/* srun torchrun: two of torchrun's ranks below one of Slurm's; the later process has rank 0. */
static void make_job(const char *folder)
{
	add_rank(folder, 100, job_launcher_slurm, 1);
	add_rank(folder, 200, job_launcher_torchrun, 1);
	add_rank(folder, 150, job_launcher_torchrun, 0);
	maker_close(maker_begin(folder, 300, 20000, "sh"), 30000);
}

static void ranks_are_those_of_the_best_launcher(void **state)
{
	static const struct {
		uint32_t pid, rank;
	} expected[] = { { 100, TRACE_NO_RANK }, { 300, TRACE_NO_RANK }, { 150, 0 }, { 200, 1 } };
	struct trace *t;

	make_job(*state);
	t = open_recording(*state);
	assert_int_equal(trace_process_count(t), ARRAY_SIZE(expected));
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
		const struct trace_process *p = trace_process(t, i);

		assert_int_equal(p->pid, expected[i].pid);
		assert_int_equal(p->rank, expected[i].rank);
		assert_int_equal(p->world_size, p->pid == 300 ? TRACE_NO_RANK : 2);
		assert_int_equal(p->local_rank, TRACE_NO_RANK);
	}
	assert_false(trace_only_rank(t, NULL));
	trace_free(t);
}

static void one_rank_is_loaded(void **state)
{
	struct trace_options options = { .only_rank = true, .rank = 1 };
	struct error e = { 0 };
	struct trace *t;
	uint32_t rank;

	make_job(*state);
	maker_record(*state, 150, 1, 9850, 80000, "./a", 3);
	maker_record(*state, 200, 1, 9800, 80000, "./a", 4);
	assert_int_equal(trace_open(*state, &options, &t, &e), 0);
	assert_true(trace_only_rank(t, &rank));
	assert_int_equal(rank, 1);
	load(t, TABLE_kernel, 0);
	assert_int_equal(trace_rows(t, TABLE_kernel), 1);
	assert_int_equal(kernel_columns(t)->correlation[0], 200);
	assert_int_equal(trace_process(t, trace_row_process(t, TABLE_kernel, 0))->exit_status, 4);
	trace_free(t);
	options.rank = 2;
	assert_int_equal(trace_open(*state, &options, &t, &e), E_USAGE);
	assert_string_equal(e.text, "no rank 2 in this recording; its ranks: 0, 1");
}

static void recordings_without_ranks_are_loaded_as_a_whole(void **state)
{
	struct trace_options options = { .only_rank = true, .rank = 1 };
	struct trace *t;

	maker_close(maker_begin(*state, 100, 1000, "./a"), 2000);
	assert_int_equal(trace_open(*state, &options, &t, NULL), 0);
	assert_false(trace_only_rank(t, NULL));
	assert_int_equal(trace_process_count(t), 1);
	trace_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(record_completes_processes),
		folder_test(images_of_one_pid),
		folder_test(reused_pid),
		folder_test(record_rows_have_a_process),
		folder_test(only_record),
		folder_test(begins_with_its_command),
		folder_test(ranks_are_those_of_the_best_launcher),
		folder_test(one_rank_is_loaded),
		folder_test(recordings_without_ranks_are_loaded_as_a_whole),
		folder_test(execs_are_seen_late),
		folder_test(record_writes_twice),
		folder_test(record_without_rows),
		folder_test(twenty_processes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
