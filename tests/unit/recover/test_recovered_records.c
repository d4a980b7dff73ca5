/*
 * GPU work and launches in the memory that a process has left: what becomes rows, and what is said
 * of the rest.
 */
#include "recover/recover.h"

#include "capture/cuda/activity_rows.h"
#include "capture/nvtx/nvtx_event.h"
#include "capture/nvtx/nvtx_names.h"

#include "support/made_area.h"
#include "unit/format/recording_fixture.h"

#define PID 7
#define ROWS_MAX 16u

static struct fixture fixture;
static int memory;

static int setup(void **state)
{
	(void)state;
	fixture_open(&fixture);
	memory = area_make();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(memory);
	fixture_close(&fixture);
	return 0;
}

static struct recovered recover(void)
{
	struct folder_id folder = { 0 };
	struct recovered out;
	struct error e = { 0 };

	if (recover_area(memory, fixture.directory, &folder, &out, &e) != 1)
		fail_msg("%s", e.text);
	return out;
}

/* --- rows --- */

static size_t read_rows(enum table_id table, struct decoded rows[ROWS_MAX])
{
	struct segment s;
	size_t count = 0;
	char path[128];

	snprintf(path, sizeof(path), "%s/%d.0.pit", fixture.directory, PID);
	assert_int_equal(segment_open(path, &s, NULL), 0);
	for (size_t i = 0; i < s.block_count && count < ROWS_MAX; i++)
		if (s.blocks[i].header.table == table)
			assert_int_equal(decode_block(&s, &s.blocks[i], &rows[count++]), 0);
	segment_release(&s);
	return count;
}

/* The number of rows whose column has the value; UINT64_MAX: it is missing. */
static size_t count_rows(enum table_id table, int column, uint64_t value)
{
	struct decoded rows[ROWS_MAX];
	size_t blocks = read_rows(table, rows), count = 0;

	for (size_t i = 0; i < blocks; i++) {
		for (size_t k = 0; k < rows[i].rows; k++)
			count += (rows[i].valid[column][k] ? rows[i].values[column][k]
							   : UINT64_MAX) == value;
		decoded_free(&rows[i]);
	}
	return count;
}

static size_t count_texts(const char *text)
{
	struct decoded rows[ROWS_MAX];
	size_t blocks = read_rows(TABLE_string, rows), count = 0, length = strlen(text);

	for (size_t i = 0; i < blocks; i++) {
		const struct bytes_column *b = &rows[i].bytes[COLUMN_string_text];

		for (size_t k = 0; k < rows[i].rows; k++)
			count += b->offsets[k + 1] - b->offsets[k] == length &&
				 !memcmp(b->data + b->offsets[k], text, length);
		decoded_free(&rows[i]);
	}
	return count;
}

static size_t unfinished(enum unfinished_kind kind)
{
	return count_rows(TABLE_unfinished, COLUMN_unfinished_kind, kind);
}

/* --- what an area gets --- */

static void put_slot(unsigned number, struct buffer_slot slot)
{
	area_put(memory, AREA_SLOTS, number * sizeof(slot), &slot, sizeof(slot));
}

static void put_record(unsigned buffer, uint64_t offset, const void *record, size_t bytes)
{
	area_put(memory, AREA_BUFFERS, (buffer - 1) * (uint64_t)BUFFER_BYTES + offset, record,
		 bytes);
}

static void put_record_bytes(enum record_kind kind, size_t bytes)
{
	uint16_t size = (uint16_t)bytes;

	area_put(memory, AREA_HEAD, offsetof(struct area_head, record_bytes) + kind * sizeof(size),
		 &size, sizeof(size));
}

static const struct record_kernel kernel = {
	.kind = RECORD_CONCURRENT_KERNEL, .start = 10, .end = 20, .correlation = 3
};

/* --- tests --- */

static void test_a_launch_whose_record_may_be_unread(void **state)
{
	struct recovered found = recover();

	(void)state;
	assert_int_equal(found.records, 1);
	assert_int_equal(found.unknown, 1);
	assert_int_equal(found.first_unknown.kind, 63);
	assert_int_equal(found.first_unknown.left, 9 + offsetof(struct record_kernel, correlation));
	assert_int_equal(found.first_unknown.before, 0);
	assert_int_equal(unfinished(unfinished_kind_unread_launch), 1);
	assert_int_equal(unfinished(unfinished_kind_launch), 0);
	assert_int_equal(count_rows(TABLE_unfinished, COLUMN_unfinished_correlation, 3), 1);
	assert_int_equal(count_rows(TABLE_unfinished, COLUMN_unfinished_name, UINT64_MAX), 0);
	assert_int_equal(count_rows(TABLE_loss, COLUMN_loss_reason, loss_reason_unread_records), 1);
	assert_int_equal(count_rows(TABLE_loss, COLUMN_loss_reason, loss_reason_unknown_record), 0);
}

/* The number is there, but is the id of no record. */
static void test_a_launch_whose_id_is_not_in_the_rest(void **state)
{
	struct record_kernel other = {
		.kind = RECORD_CONCURRENT_KERNEL, .device = 3, .block_x = 3, .correlation = 4
	};

	(void)state;
	put_record(2, 8, &other, sizeof(other));
	recover();
	assert_int_equal(unfinished(unfinished_kind_unread_launch), 0);
	assert_int_equal(unfinished(unfinished_kind_launch), 1);
}

/* The end of the buffer counts, and what is in front of the unknown record does not. */
static void test_the_edges_of_the_rest(void **state)
{
	struct record_graph_launch graph = { .kind = RECORD_GRAPH_LAUNCH, .correlation = 3 };
	struct record_kernel before = kernel, none = { .kind = 0 };
	uint32_t unknown = 63, other = 5;

	(void)state;
	before.end = 0;
	put_record(2, 0, &before, sizeof(before));
	put_record(2, sizeof(before), &none, sizeof(none));
	put_record(2, sizeof(before), &unknown, sizeof(unknown));
	recover();
	assert_int_equal(unfinished(unfinished_kind_launch), 1);
	assert_int_equal(unfinished(unfinished_kind_kernel), 1);
	fixture_close(&fixture);
	fixture_open(&fixture);
	put_record(2, sizeof(before) + 4, &other, sizeof(other));
	put_record(2, 4096 - 8, &graph, 8);
	assert_int_equal(recover().first_unknown.before, 1);
	assert_int_equal(unfinished(unfinished_kind_unread_launch), 1);
}

/* The kind of a kernel with its highest bit is a record that CUPTI had begun, and nothing more. */
static void test_kernel_records_that_were_begun(void **state)
{
	static const struct {
		struct buffer_slot slot;
		uint32_t kind;
		uint64_t left_out, begun, unknown;
	} rows[] = {
		{ { .is_out = 1, .size = 4096 }, 0x8000000a, 0, 1, 2 },
		{ { .is_out = 1, .size = 4096 }, 0x80000003, 0, 0, 2 }, /* none are recorded */
		{ { .is_out = 1, .size = 4096 }, 0x80000001, 0, 0, 2 },
		{ { .is_out = 1, .size = 4096 }, 0x80000000, 0, 0, 2 },
		{ { .is_out = 1, .size = 4096 }, 0xc000000a, 0, 0, 2 },
		{ { .is_out = 1, .size = 4096 }, 0x8000004a, 0, 0, 2 },
		{ { .is_out = 1, .size = 4096 }, 0x8000000a, 1 << 10, 0, 2 },
		{ { .is_full = 1, .size = 4096 }, 0x8000000a, 0, 0, 2 },
		{ { .is_out = 1, .size = 4096 }, 0, 0, 0, 1 },
	};

	(void)state;
	put_record_bytes(RECORD_MEMCPY, 96);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct record_kernel begun = { .kind = rows[i].kind,
					       .start = 10,
					       .correlation = 3 };
		struct recovered found;

		area_put(memory, AREA_HEAD, offsetof(struct area_head, left_out), &rows[i].left_out,
			 sizeof(rows[i].left_out));
		put_slot(3, rows[i].slot);
		put_record(3, 0, &begun, sizeof(begun));
		found = recover();
		if (found.begun != rows[i].begun || found.unknown != rows[i].unknown ||
		    found.incomplete ||
		    count_rows(TABLE_loss, COLUMN_loss_reason, loss_reason_incomplete_record) !=
			    rows[i].begun)
			fail_msg("%zu: %llu begun, %llu unknown", i,
				 (unsigned long long)found.begun,
				 (unsigned long long)found.unknown);
		fixture_close(&fixture);
		fixture_open(&fixture);
	}
}

/* A launch is not the one whose record was begun, unless a record behind that has its id. */
static void test_launches_of_records_that_were_begun(void **state)
{
	struct record_kernel begun = kernel;
	struct recovered found;

	(void)state;
	begun.kind |= 0x80000000;
	put_record(2, 0, &begun, sizeof(begun));
	put_record(2, sizeof(begun), &begun, sizeof(begun));
	found = recover();
	assert_int_equal(found.begun, 1);
	assert_int_equal(found.records, 1);
	assert_true(found.first_unknown.is_begun_kernel);
	assert_int_equal(
		count_texts("buffers of the last moments, from the first record that cannot "
			    "be read on: kind 2147483658 of unknown size (a kernel record "
			    "that CUPTI had begun) at 0, behind 0 records of a buffer "
			    "that CUPTI was filling, which has 309 bytes from there on"),
		1);
	assert_int_equal(unfinished(unfinished_kind_launch), 1);
	assert_int_equal(unfinished(unfinished_kind_unread_launch), 0);
	assert_int_equal(unfinished(unfinished_kind_kernel), 0);
	fixture_close(&fixture);
	fixture_open(&fixture);
	put_record(2, sizeof(begun), &kernel, sizeof(kernel));
	assert_int_equal(recover().begun, 1);
	assert_int_equal(unfinished(unfinished_kind_unread_launch), 1);
	assert_int_equal(count_rows(TABLE_loss, COLUMN_loss_reason, loss_reason_unread_records), 1);
}

static void test_names_of_kernels(void **state)
{
	struct record_kernel named_by_launch = kernel, unknown = kernel;

	(void)state;
	named_by_launch.name = (const char *)0x1000;
	unknown.name = (const char *)0x1000;
	unknown.correlation = 4;
	area_put(memory, AREA_LAUNCH_NAMES, offsetof(struct area_launch_names, text), "launch", 6);
	put_record(1, sizeof(kernel), &named_by_launch, sizeof(kernel));
	put_record(1, 2 * sizeof(kernel), &unknown, sizeof(kernel));
	assert_int_equal(recover().records, 3);
	assert_int_equal(count_rows(TABLE_kernel, COLUMN_kernel_correlation, 3), 2);
	assert_int_equal(count_texts("kernel"), 2); /* and the journal's */
	assert_int_equal(count_texts("launch"), 1);
	assert_int_equal(count_texts("?"), 1);
}

static void test_times_and_other_kinds(void **state)
{
	struct record_memcpy copy = { .kind = RECORD_MEMCPY, .start = 1, .correlation = 8 };
	struct record_memset set = {
		.kind = RECORD_MEMSET, .start = 1, .end = 9, .correlation = 9
	};
	uint32_t marker[14] = { RECORD_MARKER };
	int64_t offset = 100;

	(void)state;
	put_record_bytes(RECORD_MEMCPY, 96);
	put_record_bytes(RECORD_MEMSET, 88);
	put_record_bytes(RECORD_MARKER, sizeof(marker));
	area_put(memory, AREA_HEAD, offsetof(struct area_head, clock_offset_ns), &offset,
		 sizeof(offset));
	put_record(1, 0, &copy, 96);
	put_record(1, 96, &marker, sizeof(marker));
	put_record(1, 96 + sizeof(marker), &set, 88);
	put_record(1, 96 + sizeof(marker) + 88, &kernel, sizeof(kernel));

	struct recovered found = recover();

	assert_int_equal(found.records, 2);
	assert_int_equal(found.incomplete, 1);
	assert_int_equal(found.others, 1);
	assert_int_equal(unfinished(unfinished_kind_memcpy), 1);
	assert_int_equal(count_rows(TABLE_unfinished, COLUMN_unfinished_start_ns, 101), 1);
	assert_int_equal(count_rows(TABLE_memset, COLUMN_memset_end_ns, 109), 1);
	assert_int_equal(count_rows(TABLE_kernel, COLUMN_kernel_start_ns, 110), 1);
}

static void test_which_buffers_are_read(void **state)
{
	static const struct {
		struct buffer_slot slot;
		uint64_t records, unknown;
	} rows[] = {
		{ { .is_out = 1, .size = 4096 }, 3, 1 },
		{ { .is_full = 1, .size = 4096 }, 3, 1 },
		{ { .is_full = 1, .size = 4096, .valid = sizeof(kernel) }, 2, 1 },
		{ { .is_full = 1, .size = 4096, .valid = sizeof(kernel) + 8 }, 2, 2 },
		{ { .is_out = 1, .size = 4096, .is_unread = 1 }, 1, 1 },
		{ { .size = 4096 }, 1, 1 },
		{ { .is_out = 1, .size = UINT64_MAX }, 3, 1 },
	};

	(void)state;
	put_record(3, 0, &kernel, sizeof(kernel));
	put_record(3, sizeof(kernel), &kernel, sizeof(kernel));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct recovered found;

		put_slot(3, rows[i].slot);
		found = recover();
		if (found.records != rows[i].records || found.unknown != rows[i].unknown)
			fail_msg("%zu: %llu records", i, (unsigned long long)found.records);
		fixture_close(&fixture);
		fixture_open(&fixture);
	}
}

/* A completed buffer has work without an end that will never have one: it is a row. */
static void test_no_end_in_a_completed_buffer(void **state)
{
	struct record_kernel open = kernel;

	(void)state;
	open.end = 0;
	put_record(1, 0, &open, sizeof(open));
	put_slot(1, (struct buffer_slot){ .is_full = 1, .size = 4096 });
	assert_int_equal(recover().records, 1);
	assert_int_equal(unfinished(unfinished_kind_kernel), 0);
	assert_int_equal(count_rows(TABLE_kernel, COLUMN_kernel_end_ns, UINT64_MAX), 1);
}

static void test_kinds_that_are_left_out(void **state)
{
	uint64_t kinds = UINT64_C(1) << RECORD_CONCURRENT_KERNEL;

	(void)state;
	area_put(memory, AREA_HEAD, offsetof(struct area_head, left_out), &kinds, sizeof(kinds));
	assert_int_equal(recover().records, 0);
}

static void test_a_process_that_lives(void **state)
{
	struct record_kernel open = kernel;
	struct folder_id folder = { 0 };

	(void)state;
	open.end = 0;
	put_record(1, sizeof(kernel), &open, sizeof(open));
	assert_int_equal(recover_unfinished(memory, fixture.directory, &folder, NULL), 1);
	assert_int_equal(unfinished(unfinished_kind_kernel), 1);
	assert_int_equal(unfinished(unfinished_kind_unread_launch), 1);
	assert_int_equal(count_rows(TABLE_kernel, COLUMN_kernel_correlation, 3), 0);
	assert_int_equal(count_rows(TABLE_loss, COLUMN_loss_reason, loss_reason_unread_records), 0);
}

/* --- rings --- */

static void put_events(const struct ring_event *events, size_t count)
{
	static struct ring ring; /* is all zeros otherwise */

	ring.head = count;
	ring.tid = 9;
	ring.state = RING_LIVE;
	area_put(memory, AREA_RINGS, 0, &ring, sizeof(ring));
	area_put(memory, AREA_RING_MEMORY, 0, events, count * sizeof(*events));
}

#define CALL(id) .kind = RING_API_CALL, .a = 10, .b = 20, .c = id, .d = 1u << 16 | 307

/* Of each kind, the slots behind it are its own: in these, everything looks like a call. */
static void test_events_and_their_slots(void **state)
{
	static const struct {
		struct ring_event event;
		unsigned more; /* slots */
		uint64_t others;
	} rows[] = {
		{ { CALL(100) }, 0, 0 },
		{ { CALL(100), .flags = CALL_HAS_RESULT }, 1, 0 },
		{ { .kind = RING_GRAPH_NODE }, 1, 1 },
		{ { .kind = RING_HIP_CALL }, 1, 1 },
		{ { .kind = RING_HIP_WORK }, RING_HIP_WORK_SLOTS - 1, 1 },
		{ { .kind = RING_SAMPLE }, 0, 1 },
		{ { .kind = RING_SAMPLE, .flags = 3 }, 2, 1 },
		{ { .kind = RING_COUNTER }, 0, 1 },
		{ { .kind = RING_NVTX, .length = 33 }, 2, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		bool is_call = rows[i].event.kind == RING_API_CALL;
		struct ring_event events[8] = { rows[i].event };
		struct recovered found;

		for (unsigned k = 1; k < 8; k++)
			events[k] = (struct ring_event){ CALL(k) };
		put_events(events, rows[i].more + 2);
		found = recover();
		if (found.calls != 1u + is_call || found.others != rows[i].others ||
		    count_rows(TABLE_api_call, COLUMN_api_call_correlation, rows[i].more + 1) != 1)
			fail_msg("%zu: %llu calls, %llu others", i, (unsigned long long)found.calls,
				 (unsigned long long)found.others);
		fixture_close(&fixture);
		fixture_open(&fixture);
	}
}

static void test_the_result_of_a_call(void **state)
{
	const struct ring_event events[] = { { CALL(5), .flags = CALL_HAS_RESULT },
					     { .a = 700 },
					     { CALL(6) } };

	(void)state;
	put_events(events, ARRAY_SIZE(events));
	assert_int_equal(recover().calls, 2);
	assert_int_equal(count_rows(TABLE_api_call, COLUMN_api_call_result, 700), 1);
	assert_int_equal(count_rows(TABLE_api_call, COLUMN_api_call_result, UINT64_MAX), 1);
	assert_int_equal(count_rows(TABLE_api_call, COLUMN_api_call_stack, UINT64_MAX), 2);
}

/* Ids of one recorder's stacks are close together. */
static void test_ids_of_stacks(void **state)
{
	static const struct {
		uint32_t second;
		uint64_t others;
	} rows[] = { { 6, 0 }, { 1u << 20, 0 }, { (1u << 20) + 1, 1 }, { 0, 1 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct ring_event events[] = {
			{ .kind = RING_STACK, .c = 5, .d = 1 },
			{ .a = 0x1000 },
			{ .kind = RING_STACK, .c = rows[i].second, .d = 1 },
			{ .a = 0x2000 },
		};

		put_events(events, ARRAY_SIZE(events));
		assert_int_equal(recover().others, rows[i].others);
		fixture_close(&fixture);
		fixture_open(&fixture);
	}
}

/* An event whose slots are not all there was being written. */
static void test_an_event_without_its_end(void **state)
{
	const struct ring_event events[] = { { CALL(5) }, { CALL(6), .flags = CALL_HAS_RESULT } };

	(void)state;
	put_events(events, ARRAY_SIZE(events));
	assert_int_equal(recover().calls, 1);
}

static void test_names_of_ranges(void **state)
{
	const struct area_nvtx_name name = { .length = 4, .what = NVTX_NAMED_STRING };
	const struct ring_event events[] = {
		{ .kind = RING_NVTX, .a = 30, .c = NVTX_EVENT_NAMED, .d = 0 },
		{ .kind = RING_NVTX, .a = 40, .c = NVTX_EVENT_NAMED, .d = 1 },
	};
	uint32_t count = 1;

	(void)state;
	area_put(memory, AREA_HEAD, offsetof(struct area_head, nvtx_names), &count, sizeof(count));
	area_put(memory, AREA_NVTX, 0, &name, sizeof(name));
	area_put(memory, AREA_NVTX, offsetof(struct area_nvtx, text), "step", 4);
	put_events(events, ARRAY_SIZE(events));
	assert_int_equal(recover().ranges, 2);
	assert_int_equal(count_texts("step"), 1);
	assert_int_equal(count_rows(TABLE_nvtx, COLUMN_nvtx_message, UINT64_MAX), 1);
}

static void test_memory_of_another_version(void **state)
{
	static const struct {
		size_t offset;
		uint32_t value;
	} rows[] = {
		{ offsetof(struct area_head, magic), 0 },
		{ offsetof(struct area_head, layout), AREA_LAYOUT - 1 },
		{ offsetof(struct area_head, ring_bytes), sizeof(struct ring) - 8 },
		{ offsetof(struct area_head, slot_bytes), sizeof(struct buffer_slot) + 8 },
	};
	struct folder_id folder = { 0 };
	struct recovered out;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct error e = { 0 };
		int other = area_make();

		area_put(other, AREA_HEAD, rows[i].offset, &rows[i].value, sizeof(uint32_t));
		assert_int_equal(recover_area(other, fixture.directory, &folder, &out, &e),
				 E_VERSION);
		assert_string_equal(e.text, "the memory of a process is not of this version");
		close(other);
	}
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_a_launch_whose_record_may_be_unread),
		T(test_a_launch_whose_id_is_not_in_the_rest),
		T(test_the_edges_of_the_rest),
		T(test_kernel_records_that_were_begun),
		T(test_launches_of_records_that_were_begun),
		T(test_names_of_kernels),
		T(test_times_and_other_kinds),
		T(test_which_buffers_are_read),
		T(test_no_end_in_a_completed_buffer),
		T(test_kinds_that_are_left_out),
		T(test_a_process_that_lives),
		T(test_events_and_their_slots),
		T(test_the_result_of_a_call),
		T(test_ids_of_stacks),
		T(test_an_event_without_its_end),
		T(test_names_of_ranges),
		T(test_memory_of_another_version),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
