/* test_host_time.c: recordings of hosts whose CLOCK_MONOTONIC are days apart. */
#include "trace/trace.h"

#include "trace_fixture.h"

#include "base/bytes.h"
#include "format/rows.h"
#include "format/segment.h"
#include "support/temp_folder.h"
#include "trace/columns.h"

#define START_NS UINT64_C(5000000000)
#define AHEAD_NS (3 * MAKER_DAY_NS)

/* Of the first host, whose times become those of the second, which has been up for longer. */
static struct maker *begin_first(const char *folder)
{
	return maker_begin(folder, 100, START_NS, "./train");
}

static void write_second(const char *folder)
{
	struct maker_host host = maker_host;
	struct maker *m;

	maker_host = (struct maker_host){ "second", "another boot", .days = 3 };
	m = maker_begin(folder, 200, AHEAD_NS + START_NS, "./train");
	maker_call(m, MAKER_MALLOC, 1, AHEAD_NS + START_NS + 10, AHEAD_NS + START_NS + 30, 1);
	maker_close(m, AHEAD_NS + START_NS + 1000);
	maker_host = host;
}

/* Makes a segment a later one of its session. */
static void set_number(const char *path, uint32_t number)
{
	struct segment_header h;
	FILE *file = fopen(path, "r+");

	assert_non_null(file);
	assert_int_equal(fread(&h, sizeof(h), 1, file), 1);
	h.number = number;
	h.crc = crc32c(0, &h, offsetof(struct segment_header, crc));
	rewind(file);
	assert_int_equal(fwrite(&h, sizeof(h), 1, file), 1);
	assert_int_equal(fclose(file), 0);
}

static void all_columns_of_times_move(void **state)
{
	struct maker *m = begin_first(*state);
	struct trace *t;
	uint64_t start_ns, end_ns;

	maker_call(m, MAKER_MALLOC, 1, START_NS + 10, START_NS + 30, 1);
	maker_close(m, START_NS + 1000);
	write_second(*state);
	t = open_recording(*state);
	load(t, TABLE_api_call, COLUMN_BITS(api_call, start_ns));
	load(t, TABLE_api_call, COLUMN_BITS(api_call, end_ns)); /* stored as the difference to it */
	assert_int_equal(trace_rows(t, TABLE_api_call), 2);
	for (uint64_t row = 0; row < 2; row++) {
		assert_int_equal(api_call_columns(t)->start_ns[row], AHEAD_NS + START_NS + 10);
		assert_int_equal(api_call_columns(t)->end_ns[row], AHEAD_NS + START_NS + 30);
		assert_int_equal(trace_process(t, row)->start_ns, AHEAD_NS + START_NS);
		assert_int_equal(trace_process(t, row)->end_ns, AHEAD_NS + START_NS + 1000);
	}
	trace_span(t, &start_ns, &end_ns);
	assert_int_equal(start_ns, AHEAD_NS + START_NS);
	assert_int_equal(end_ns, AHEAD_NS + START_NS + 1000);
	load(t, TABLE_clock, 0);
	for (uint64_t row = 0; row < trace_rows(t, TABLE_clock); row++)
		assert_int_equal(trace_unix_ns(t, clock_columns(t)->monotonic_ns[row]),
				 clock_columns(t)->realtime_ns[row]);
	assert_int_equal(trace_verify(t, NULL), 0);
	trace_free(t);
}

/* Work that never ran, or of which a time is unknown, gets no time by being moved. */
static void what_has_no_time_gets_none(void **state)
{
	struct maker *m = begin_first(*state);
	uint32_t gemm = maker_config(m, "gemm", 1, 32);
	const struct kernel_columns *c;
	struct trace *t;

	maker_kernel(m, gemm, 7, 0, 0, 1);
	maker_kernel(m, gemm, 7, START_NS + 10, START_NS + 20, 2);
	maker_kernel(m, gemm, 7, UINT64_MAX - 5, UINT64_MAX - 1, 3);
	maker_close(m, START_NS + 1000);
	write_second(*state);
	t = open_recording(*state);
	load(t, TABLE_kernel, 0);
	c = kernel_columns(t);
	assert_int_equal(trace_rows(t, TABLE_kernel), 3);
	assert_int_equal(c->start_ns[0], 0);
	assert_int_equal(c->end_ns[0], 0);
	assert_int_equal(c->start_ns[1], AHEAD_NS + START_NS + 10);
	assert_int_equal(c->end_ns[1], AHEAD_NS + START_NS + 20);
	assert_int_equal(c->start_ns[2], UINT64_MAX);
	assert_int_equal(c->end_ns[2], UINT64_MAX);
	assert_false(column_has(c->valid.queued_ns, 1) && c->queued_ns[1]);
	trace_free(t);
}

/* The process has rows of its own, but its host's CLOCK_REALTIME is unknown. */
static void hosts_with_an_unknown_clock_stay(void **state)
{
	struct row_process row = { .pid = 300,
				   .start_ns = 7000,
				   .missing = schema_missing(TABLE_process) };
	struct writer_options options = { .directory = *state, .prefix = "300" };
	struct writer *w;
	struct trace *t;

	write_second(*state);
	assert_int_equal(writer_open(&options, &w, NULL), 0);
	row.boot_id = writer_string(w, "a third boot", strlen("a third boot"));
	ROW_PRESENT(&row, process, boot_id);
	writer_append(w, TABLE_process, &row);
	assert_int_equal(writer_close(&w), 0);
	t = open_recording(*state);
	assert_int_equal(trace_process_count(t), 2);
	assert_int_equal(trace_process(t, 0)->start_ns, 7000);
	assert_int_equal(trace_process(t, 1)->start_ns, AHEAD_NS + START_NS);
	assert_true(trace_is_unaligned(t, 0));
	assert_false(trace_is_unaligned(t, 1));
	trace_free(t);
}

/* A machine without a battery begins with 1970, whatever the others say. */
static void a_clock_that_was_never_set(void **state)
{
	struct maker_host host = maker_host;
	struct trace *t;

	write_second(*state);
	maker_host.unset = true;
	maker_close(begin_first(*state), START_NS + 1000);
	maker_host = host;
	t = open_recording(*state);
	load(t, TABLE_clock, 0);
	assert_int_equal(trace_process(t, 0)->start_ns, START_NS);
	assert_true(trace_is_unaligned(t, 0) && !trace_booted_ns(t, 0));
	assert_false(trace_is_unaligned(t, 1));
	assert_int_equal(trace_booted_ns(t, 1),
			 clock_columns(t)->realtime_ns[1] - clock_columns(t)->monotonic_ns[1]);
	trace_free(t);
}

/* Alone, a host needs no CLOCK_REALTIME. */
static void one_host_is_on_its_clock(void **state)
{
	struct maker_host host = maker_host;
	struct trace *t;

	maker_host.unset = true;
	maker_close(begin_first(*state), START_NS + 1000);
	maker_host = host;
	t = open_recording(*state);
	assert_false(trace_is_unaligned(t, 0));
	trace_free(t);
}

/* Imports from two hosts, whose times count since the epoch. */
static void times_since_the_epoch_are_on_one_clock(void **state)
{
	uint64_t start_ns = UINT64_C(1700000000000000000);
	struct maker_host host = maker_host;
	struct trace *t;

	for (uint32_t i = 0; i < 2; i++) {
		maker_host = (struct maker_host){ "x", i ? "a" : "b", .unset = true };
		maker_close(maker_begin(*state, 100 + i, start_ns + i, "./train"), start_ns + 9);
	}
	maker_host = host;
	t = open_recording(*state);
	for (size_t i = 0; i < 2; i++) {
		assert_false(trace_is_unaligned(t, i));
		assert_int_equal(trace_process(t, i)->start_ns, start_ns + i);
	}
	trace_free(t);
}

/* What a launcher saw is of its own host, though both have a process 100. */
static void equal_process_ids(void **state)
{
	struct maker_host host = maker_host;
	struct trace *t;

	maker_close(begin_first(*state), START_NS + 1000);
	maker_record(*state, 100, 1, START_NS, START_NS + 1000, "./train", 1);
	maker_host = (struct maker_host){ "second", "another boot", .days = 3 };
	maker_close(maker_begin(*state, 100, AHEAD_NS + START_NS + 1, "./train"),
		    AHEAD_NS + START_NS + 2000);
	maker_record(*state, 100, 1, AHEAD_NS + START_NS + 1, AHEAD_NS + START_NS + 2000, "./train",
		     2);
	maker_host = host;
	t = open_recording(*state);
	assert_int_equal(trace_process_count(t), 2);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(trace_process(t, i)->exit_status, i + 1);
		assert_string_equal(trace_process(t, i)->host, i ? "second" : "testhost");
	}
	trace_free(t);
}

/* That one host keeps a ring does not explain what is missing of another. */
static void a_ring_is_of_one_host(void **state)
{
	struct maker *m = maker_begin(*state, 1, START_NS, "pitot");
	struct maker_host host = maker_host;
	struct trace_loss loss = { 0 };
	struct trace *t;

	maker_capability(m, feature_ring, capability_state_on, "");
	maker_close(m, START_NS + 1000);
	write_second(*state);
	set_number(temp_file(*state, "200.0.pit"), 2);
	t = open_recording(*state);
	assert_int_equal(count_losses(t, loss_reason_overwritten, NULL), 0);
	assert_int_equal(count_losses(t, loss_reason_missing_segment, &loss), 1);
	assert_int_equal(loss.count, 2);
	assert_int_equal(trace_process(t, 1)->missing_segments, 2);
	trace_free(t);

	maker_host = (struct maker_host){ "second", "another boot", .days = 3 };
	m = maker_begin(*state, 2, AHEAD_NS + START_NS, "pitot");
	maker_capability(m, feature_ring, capability_state_on, "");
	maker_close(m, AHEAD_NS + START_NS + 1000);
	maker_host = host;
	t = open_recording(*state);
	assert_int_equal(count_losses(t, loss_reason_overwritten, &loss), 1);
	assert_int_equal(count_losses(t, loss_reason_missing_segment, NULL), 0);
	trace_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(all_columns_of_times_move),
		folder_test(what_has_no_time_gets_none),
		folder_test(hosts_with_an_unknown_clock_stay),
		folder_test(a_clock_that_was_never_set),
		folder_test(one_host_is_on_its_clock),
		folder_test(times_since_the_epoch_are_on_one_clock),
		folder_test(equal_process_ids),
		folder_test(a_ring_is_of_one_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
