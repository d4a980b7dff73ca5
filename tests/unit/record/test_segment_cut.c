#include "record/segment_cut.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/folder.h"
#include "base/io.h"
#include "support/cmocka_tests.h"
#include "support/make_recording.h"
#include "support/temp_folder.h"
#include "trace/columns.h"

#define MS NS_PER_MS
#define FROM (100 * MS)
#define HOST_UNTIL (200 * MS)
#define UNTIL (250 * MS)

static const struct cut_window window = { FROM, UNTIL, HOST_UNTIL, 0 };

static void allocate(struct maker *m, uint64_t time_ns, uint64_t address, uint64_t bytes,
		     uint64_t correlation, enum memory_operation operation)
{
	struct row_allocation row = { .missing = schema_missing(TABLE_allocation),
				      .time_ns = time_ns,
				      .operation = (uint8_t)operation,
				      .kind = memory_kind_device,
				      .address = address,
				      .bytes = bytes,
				      .correlation = correlation };

	ROW_PRESENT(&row, allocation, time_ns);
	ROW_PRESENT(&row, allocation, bytes);
	writer_append(m->writer, TABLE_allocation, &row);
}

/* Launches at 10, 20, … ms of kernels that run 30 ms later for 5 ms; blocks of 50 ms. */
static void make(const char *folder)
{
	struct maker *m = maker_begin(folder, 100, 1 * MS, "./app");
	uint32_t config = maker_config(m, "kernel", 1, 32);

	maker_device(m, 0, 2 * MS);
	maker_call(m, MAKER_MALLOC, 101, 3 * MS, 4 * MS, 1001);
	allocate(m, 3 * MS + 1, 0x1000, 64, 1001, memory_operation_allocation);
	maker_call(m, MAKER_MALLOC, 101, 4 * MS, 5 * MS, 1002);
	allocate(m, 4 * MS + 1, 0x2000, 128, 1002, memory_operation_allocation);
	maker_call(m, MAKER_FREE, 101, 6 * MS, 7 * MS, 1003);
	allocate(m, 6 * MS + 1, 0x2000, 128, 1003, memory_operation_release);
	for (uint64_t i = 1; i <= 40; i++) {
		maker_call(m, MAKER_LAUNCH, 101, i * 10 * MS, i * 10 * MS + 1000, i);
		maker_kernel(m, config, 7, (i * 10 + 30) * MS, (i * 10 + 35) * MS, i);
		if (i % 5 == 0)
			maker_flush(m);
	}
	maker_close(m, 500 * MS);
}

static struct trace *open_trace(const char *folder)
{
	const struct trace_options none = { 0 };
	struct trace *t;
	struct error e = { 0 };

	if (trace_open(folder, &none, &t, &e) < 0)
		fail_msg("%s", e.text);
	if (trace_load(t, TABLE_kernel, COLUMN_BITS(kernel, start_ns, correlation), &e) < 0 ||
	    trace_load(t, TABLE_api_call, COLUMN_BITS(api_call, start_ns, correlation), &e) < 0 ||
	    trace_load(t, TABLE_allocation, COLUMN_BITS(allocation, time_ns, address), &e) < 0)
		fail_msg("%s", e.text);
	return t;
}

/* Cuts folder/100.0.pit into a new folder; the result of writing. */
static int cut(const struct segment *s, const char *to, bool always, struct cut_counts *counts)
{
	struct segment_cut *c = segment_cut_new(&window);
	int folder = folder_open(to, FOLDER_OWN), rc;

	assert_non_null(c);
	rc = segment_cut_find(c, s);
	if (rc >= 0)
		rc = segment_cut_write(c, s, folder, "100.0.pit", 0, always);
	*counts = segment_cut_counts(c);
	segment_cut_free(c);
	close(folder);
	return rc;
}

static void test_exact(void **state)
{
	char *from = temp_folder_make(), *to = temp_folder_make();
	const struct allocation_columns *a;
	const struct kernel_columns *k;
	const struct api_call_columns *call;
	struct cut_counts counts;
	struct segment s;
	struct trace *t;

	(void)state;
	make(from);
	assert_int_equal(segment_open(temp_file(from, "100.0.pit"), &s, NULL), 0);
	assert_int_equal(cut(&s, to, false, &counts), 1);
	segment_release(&s);
	t = open_trace(to);
	/* Kernels run from 40 to 45, 50 to 55, … ms: from 100 ms on it is the 7th. */
	assert_int_equal(counts.work, 16);
	assert_int_equal(counts.running, 0);
	assert_int_equal(counts.damaged, 0);
	assert_int_equal(trace_rows(t, TABLE_kernel), 16);
	k = kernel_columns(t);
	for (uint64_t i = 0; i < 16; i++) {
		assert_int_equal(k->correlation[i], 7 + i);
		assert_int_equal(k->start_ns[i], (100 + 10 * i) * MS);
	}
	/* Launches of 7 to 22: those before the window, too; and the call of what is live. */
	assert_int_equal(trace_rows(t, TABLE_api_call), 17);
	call = api_call_columns(t);
	assert_int_equal(call->correlation[0], 1001);
	assert_int_equal(call->correlation[1], 7);
	assert_int_equal(call->correlation[16], 22);
	assert_int_equal(counts.live, 1);
	assert_int_equal(counts.live_bytes, 64);
	assert_int_equal(trace_rows(t, TABLE_allocation), 1);
	a = allocation_columns(t);
	assert_int_equal(a->address[0], 0x1000);
	assert_false(column_has(a->valid.time_ns, 0));
	trace_free(t);
	temp_folder_remove(from);
	temp_folder_remove(to);
}

static void test_nothing(void **state)
{
	char *from = temp_folder_make(), *to = temp_folder_make();
	struct maker *m = maker_begin(from, 100, 1 * MS, "./app");
	struct cut_counts counts;
	struct segment s;

	(void)state;
	maker_call(m, MAKER_LAUNCH, 101, 10 * MS, 11 * MS, 1);
	maker_close(m, 20 * MS);
	assert_int_equal(segment_open(temp_file(from, "100.0.pit"), &s, NULL), 0);
	assert_int_equal(cut(&s, to, false, &counts), 0);
	assert_int_equal(access(temp_file(to, "100.0.pit"), F_OK), -1);
	assert_int_equal(cut(&s, to, true, &counts), 1);
	segment_release(&s);
	assert_int_equal(segment_open(temp_file(to, "100.0.pit"), &s, NULL), 0);
	assert_true(s.closed);
	segment_release(&s);
	temp_folder_remove(from);
	temp_folder_remove(to);
}

static uint32_t gap(uint32_t before, uint64_t before_ns, uint32_t number, uint64_t start_ns)
{
	const struct segment first = { .header = { .number = before,
						   .start_monotonic_ns = before_ns } },
			     second = { .header = { .number = number,
						    .start_monotonic_ns = start_ns } };

	return segment_cut_gap(&first, &second, &window);
}

/* Only those count that may have had rows of the window. */
static void test_gaps(void **state)
{
	const struct segment first = { .header = { .number = 3, .start_monotonic_ns = FROM + 1 } },
			     early = { .header = { .number = 3, .start_monotonic_ns = FROM } };

	(void)state;
	assert_int_equal(gap(4, FROM, 5, HOST_UNTIL), 0);
	assert_int_equal(gap(4, FROM, 7, HOST_UNTIL), 2);
	assert_int_equal(gap(4, 1 * MS, 7, FROM), 0);
	assert_int_equal(gap(4, 1 * MS, 7, FROM + 1), 2);
	assert_int_equal(gap(4, FROM, 7, UNTIL + 5 * NS_PER_S), 2);
	assert_int_equal(gap(4, UNTIL + NS_PER_S, 7, UNTIL + 5 * NS_PER_S), 2);
	assert_int_equal(gap(4, UNTIL + NS_PER_S + 1, 7, UNTIL + 5 * NS_PER_S), 0);
	assert_int_equal(segment_cut_gap(NULL, &first, &window), 3);
	assert_int_equal(segment_cut_gap(NULL, &early, &window), 0);
}

/* Any bytes: what can be read of them is cut, and the result can be read. */
static void test_hostile(void **state)
{
	char *from = temp_folder_make();
	_cleanup_strbuf_ struct strbuf bytes = STRBUF_INIT;

	(void)state;
	make(from);
	assert_int_equal(io_read_file(temp_file(from, "100.0.pit"), 1 << 20, &bytes), 0);
	srandom(1);
	for (unsigned round = 0; round < 300; round++) {
		char *to = temp_folder_make();
		uint8_t *copy = malloc(bytes.length);
		struct cut_counts counts;
		struct segment s, written;
		struct error e;

		memcpy(copy, bytes.data, bytes.length);
		for (unsigned i = 0; i < 1 + round % 20; i++)
			copy[64 + (size_t)random() % (bytes.length - 64)] = (uint8_t)random();
		assert_int_equal(
			segment_open_bytes(copy, bytes.length - (size_t)random() % 200, &s, &e), 0);
		if (cut(&s, to, false, &counts) == 1) {
			assert_int_equal(segment_open(temp_file(to, "100.0.pit"), &written, &e), 0);
			assert_true(written.closed);
			assert_int_equal(written.damaged_blocks, 0);
			for (size_t i = 0; i < written.block_count; i++)
				assert_true(block_verify(&written, &written.blocks[i]));
			segment_release(&written);
		}
		segment_release(&s);
		free(copy);
		temp_folder_remove(to);
	}
	temp_folder_remove(from);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exact),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_gaps),
		cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
