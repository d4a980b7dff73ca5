#include "trace/trace.h"

#include "trace_fixture.h"

#include <errno.h>

#include "support/big_recording.h"

#define KERNELS 20000

/* Kernels of a stream do not overlap, start after their launch has begun, and all are there. */
static void check_kernels(struct trace *t, bool every_launch_has_one)
{
	const uint32_t *calls, *streams;
	const uint64_t *starts, *ends;
	uint64_t free_ns[64] = { 0 };
	uint32_t last_call = TRACE_NO_ROW;
	size_t process = 0;

	load(t, TABLE_kernel, 0);
	load(t, TABLE_api_call, 0);
	assert_int_equal(trace_launches(t, TABLE_kernel, &calls, NULL), 0);
	assert_int_equal(trace_rows(t, TABLE_kernel), KERNELS);
	starts = trace_u64(t, TABLE_kernel, COLUMN_kernel_start_ns);
	ends = trace_u64(t, TABLE_kernel, COLUMN_kernel_end_ns);
	streams = trace_u32(t, TABLE_kernel, COLUMN_kernel_stream);
	for (uint64_t row = 0; row < KERNELS; row++) {
		if (trace_row_process(t, TABLE_kernel, row) != process) {
			memset(free_ns, 0, sizeof(free_ns));
			process++;
		}
		assert_int_not_equal(calls[row], TRACE_NO_ROW);
		assert_true(starts[row] >
			    trace_u64(t, TABLE_api_call, COLUMN_api_call_end_ns)[calls[row]]);
		assert_true(starts[row] >= free_ns[streams[row]]);
		assert_true(ends[row] > starts[row]);
		free_ns[streams[row]] = ends[row];
		if (every_launch_has_one)
			assert_int_not_equal(calls[row], last_call);
		last_call = calls[row];
	}
}

static void patterns(void **state)
{
	const enum big_pattern all[] = { BIG_TRAIN, BIG_GRAPH, BIG_STREAMS, BIG_COPIES };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		const char *folder = temp_file(
			*state, (const char *[]){ "train", "graph", "streams", "copies" }[i]);
		const uint32_t *calls;
		struct trace *t;

		assert_int_equal(big_recording_make(folder, KERNELS, 2, all[i], 7), 0);
		t = open_recording(folder);
		assert_int_equal(trace_process_count(t), 2);
		assert_string_equal(trace_process(t, 1)->command, "make-recording (synthetic)");
		assert_int_equal(trace_process(t, 1)->pid, 1100);
		check_kernels(t, all[i] != BIG_GRAPH);
		assert_int_equal(trace_launches(t, TABLE_synchronization, &calls, NULL), 0);
		assert_true(trace_rows(t, TABLE_synchronization) >= 2);
		for (uint64_t row = 0; row < trace_rows(t, TABLE_synchronization); row++)
			assert_int_not_equal(calls[row], TRACE_NO_ROW);
		assert_int_equal(trace_launches(t, TABLE_memcpy, &calls, NULL), 0);
		for (uint64_t row = 0; row < trace_rows(t, TABLE_memcpy); row++)
			assert_int_not_equal(calls[row], TRACE_NO_ROW);
		assert_int_equal(count_losses(t, loss_reason_damaged_file, NULL), 0);
		trace_free(t);
		assert_int_equal(big_recording_make(folder, 1, 1, all[i], 7), -EEXIST);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { folder_test(patterns) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
