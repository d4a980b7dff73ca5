#include "trace/trace.h"

#include "trace_fixture.h"

static uint64_t kernel_ns(struct trace *t)
{
	uint64_t total = 0;

	load(t, TABLE_kernel, COLUMN_BIT(kernel, start_ns) | COLUMN_BIT(kernel, end_ns));
	for (uint64_t row = 0; row < trace_rows(t, TABLE_kernel); row++)
		total += trace_u64(t, TABLE_kernel, COLUMN_kernel_end_ns)[row] -
			 trace_u64(t, TABLE_kernel, COLUMN_kernel_start_ns)[row];
	return total;
}

static void follows_a_growing_recording(void **state)
{
	struct maker *m = maker_begin(*state, 100, 1000, "./a");
	uint64_t written = 0;
	const uint32_t *calls;
	struct maker *other;
	struct trace *t;

	maker_flush(m);
	t = open_recording(*state);
	assert_int_equal(trace_refresh(t, NULL), 0);
	for (unsigned round = 0; round < 10; round++) {
		char name[16];

		snprintf(name, sizeof(name), "kernel%u", round);
		for (unsigned i = 0; i < 100; i++) {
			uint64_t start = 10000 + 100000 * round + 10 * i;

			maker_call(m, MAKER_LAUNCH, 100, start - 5, start - 1, 1 + round * 100 + i);
			maker_kernel(m, maker_config(m, name, 1, 32), 7, start, start + 1 + i % 7,
				     1 + round * 100 + i);
			written += 1 + i % 7;
		}
		maker_flush(m);
		assert_true(trace_refresh(t, NULL) > 0);
		assert_int_equal(trace_refresh(t, NULL), 0);
		assert_int_equal(trace_rows(t, TABLE_kernel), 100 * (round + 1));
		assert_true(kernel_ns(t) == written);
		assert_string_equal(kernel_name(t, 100 * round), name);
		assert_int_equal(trace_launches(t, TABLE_kernel, &calls, NULL), 0);
		assert_int_equal(calls[100 * round + 99], 100 * round + 99);
	}
	assert_false(trace_process(t, 0)->closed);
	assert_int_equal(count_losses(t, loss_reason_truncated_file, NULL), 1);

	other = maker_begin(*state, 50, 500, "./earlier");
	maker_kernel(other, maker_config(other, "add", 1, 32), 7, 600, 700, 1);
	maker_close(other, 900);
	maker_close(m, 2000000);
	assert_true(trace_refresh(t, NULL) > 0);
	assert_int_equal(trace_process_count(t), 2);
	assert_string_equal(trace_process(t, 0)->command, "./earlier");
	assert_true(trace_process(t, 1)->closed);
	assert_int_equal(trace_process(t, 1)->end_ns, 2000000);
	assert_true(kernel_ns(t) == written + 100);
	assert_int_equal(count_losses(t, loss_reason_truncated_file, NULL), 0);
	trace_free(t);
}

/* A file that is not a segment yet is read once it has become one. */
static void reads_files_that_become_segments(void **state)
{
	FILE *f = fopen(temp_file(*state, "200.0.pit"), "w");
	struct trace *t;

	assert_non_null(f);
	fclose(f);
	maker_close(maker_begin(*state, 100, 1000, "./a"), 5000);
	t = open_recording(*state);
	assert_int_equal(count_losses(t, loss_reason_damaged_file, NULL), 1);
	assert_int_equal(remove(temp_file(*state, "200.0.pit")), 0);
	maker_close(maker_begin(*state, 200, 2000, "./b"), 5000);
	assert_true(trace_refresh(t, NULL) > 0);
	assert_int_equal(trace_process_count(t), 2);
	assert_int_equal(count_losses(t, loss_reason_damaged_file, NULL), 0);
	trace_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(follows_a_growing_recording),
		folder_test(reads_files_that_become_segments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
