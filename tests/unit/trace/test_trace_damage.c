#include "trace/trace.h"

#include "trace_fixture.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/bytes.h"
#include "format/reader.h"

/*
 * Reading a recording takes milliseconds: what fuzz_recording.c does for every byte is done here
 * for each third. Threads do the same for each.
 */
#ifdef __SANITIZE_THREAD__
#define BYTE_STEP 17
#else
#define BYTE_STEP 3
#endif

static void write_file(const char *path, const void *bytes, size_t length)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);

	assert_true(fd >= 0);
	assert_int_equal(io_write_all(fd, bytes, length), 0);
	close(fd);
}

static struct strbuf read_file(const char *path)
{
	struct strbuf bytes = { 0 };

	assert_int_equal(io_read_file(path, 1 << 24, &bytes), 0);
	return bytes;
}

/* Turns a bit of the first (or second …) block of a table. */
static void damage_block(const char *path, enum table_id table, unsigned which, bool header)
{
	struct strbuf bytes = read_file(path);
	struct segment s;
	uint64_t offset = 0;

	assert_int_equal(segment_open_bytes(bytes.data, bytes.length, &s, NULL), 0);
	for (size_t i = 0; i < s.block_count; i++)
		if (s.blocks[i].header.table == table && which-- == 0)
			offset = s.blocks[i].offset +
				 (header ? 20 : sizeof(struct block_header) + 9);
	segment_release(&s);
	assert_int_not_equal(offset, 0);
	bytes.data[offset] ^= 0x10;
	write_file(path, bytes.data, bytes.length);
	strbuf_release(&bytes);
}

/* Three blocks of 100 kernels each, with a launch for each, one segment. */
static void make_three_blocks(const char *folder, uint32_t pid)
{
	struct maker *m = maker_begin(folder, pid, 1000, "./a");
	uint32_t config = maker_config(m, "add", 4, 128);

	for (unsigned i = 0; i < 300; i++) {
		maker_call(m, MAKER_LAUNCH, pid, 10000 + 10 * i, 10005 + 10 * i, 1 + i);
		maker_kernel(m, config, 7, 10000 + 10 * i, 10007 + 10 * i, 1 + i);
		if (i % 100 == 99)
			maker_flush(m);
	}
	maker_close(m, 50000);
}

static void damaged_block_is_left_out(void **state)
{
	struct trace_loss loss = { 0 };
	struct trace *t;

	make_three_blocks(*state, 100);
	damage_block(temp_file(*state, "100.0.pit"), TABLE_kernel, 1, false);
	t = open_recording(*state);
	assert_int_equal(trace_rows(t, TABLE_kernel), 300);
	load(t, TABLE_kernel, COLUMN_BIT(kernel, start_ns));
	load(t, TABLE_kernel, 0);
	assert_int_equal(trace_rows(t, TABLE_kernel), 200);
	assert_int_equal(trace_u64(t, TABLE_kernel, COLUMN_kernel_start_ns)[99], 10990);
	assert_int_equal(trace_u64(t, TABLE_kernel, COLUMN_kernel_start_ns)[100], 12000);
	assert_int_equal(trace_first_row(t, TABLE_kernel, 1), 200);
	assert_string_equal(kernel_name(t, 150), "add");
	assert_int_equal(count_losses(t, loss_reason_damaged_file, &loss), 1);
	assert_int_equal(loss.count, 1);
	assert_int_equal(loss.start_ns, 11000);
	assert_int_equal(loss.end_ns, 11990);
	assert_string_equal(loss.detail, "100.0.pit: 1 damaged block of 100 rows");
	assert_int_equal(trace_verify(t, NULL), 1);
	trace_free(t);
}

static void verify_finds_damage(void **state)
{
	struct trace *t;

	make_three_blocks(*state, 100);
	damage_block(temp_file(*state, "100.0.pit"), TABLE_api_call, 0, false);
	damage_block(temp_file(*state, "100.0.pit"), TABLE_api_call, 2, false);
	t = open_recording(*state);
	assert_int_equal(trace_verify(t, NULL), 2);
	load(t, TABLE_api_call, 0);
	assert_int_equal(trace_rows(t, TABLE_api_call), 100);
	trace_free(t);
}

/* Without its index a segment is walked over; the block whose header is damaged is skipped. */
static void damaged_header_without_index(void **state)
{
	struct trace_loss loss = { 0 };
	struct strbuf bytes;
	struct trace *t;

	make_three_blocks(*state, 100);
	damage_block(temp_file(*state, "100.0.pit"), TABLE_kernel, 1, true);
	bytes = read_file(temp_file(*state, "100.0.pit"));
	write_file(temp_file(*state, "100.0.pit"), bytes.data,
		   bytes.length - sizeof(struct segment_trailer));
	strbuf_release(&bytes);
	t = open_recording(*state);
	load(t, TABLE_kernel, 0);
	assert_int_equal(trace_rows(t, TABLE_kernel), 200);
	assert_false(trace_process(t, 0)->closed);
	assert_int_equal(count_losses(t, loss_reason_damaged_file, &loss), 1);
	assert_non_null(strstr(loss.detail, "100.0.pit"));
	assert_int_equal(count_losses(t, loss_reason_truncated_file, &loss), 1);
	assert_string_equal(loss.detail, "100.0.pit: not closed properly");
	assert_int_equal(trace_verify(t, NULL), 1);
	trace_free(t);
}

/* Strings and configurations that are lost leave "?" and no row; what they belong to stays. */
static void lost_names(void **state)
{
	struct trace *t;

	make_three_blocks(*state, 100);
	damage_block(temp_file(*state, "100.0.pit"), TABLE_string, 0, false);
	t = open_recording(*state);
	load(t, TABLE_kernel, 0);
	assert_int_equal(trace_rows(t, TABLE_kernel), 300);
	assert_string_equal(kernel_name(t, 0), "?");
	assert_string_equal(trace_process(t, 0)->command, "");
	trace_free(t);

	damage_block(temp_file(*state, "100.0.pit"), TABLE_kernel_config, 0, false);
	t = open_recording(*state);
	load(t, TABLE_kernel, 0);
	assert_int_equal(trace_rows(t, TABLE_kernel), 300);
	assert_int_equal(trace_u32(t, TABLE_kernel, COLUMN_kernel_config)[0], TRACE_NO_ROW);
	trace_free(t);
}

static void bad_files_do_not_hide_good_ones(void **state)
{
	const char garbage[200] = "this is not a segment of a recording";
	struct segment_header newer = { .magic = "PITOTSEG",
					.version = 77,
					.header_bytes = sizeof(newer) };
	const struct trace_loss *losses;
	const char *names[] = { "1.0.pit", "2.0.pit", "3.0.pit", "4.0.pit", "5.0.pit" };
	struct trace *t;
	size_t count;

	make_three_blocks(*state, 100);
	memcpy(newer.magic, SEGMENT_MAGIC, sizeof(newer.magic));
	newer.crc = crc32c(0, &newer, offsetof(struct segment_header, crc));
	write_file(temp_file(*state, names[0]), "", 0);
	write_file(temp_file(*state, names[1]), garbage, sizeof(garbage));
	write_file(temp_file(*state, names[2]), &newer, sizeof(newer));
	assert_int_equal(mkdir(temp_file(*state, names[3]), 0777), 0);
	assert_int_equal(symlink("nowhere", temp_file(*state, names[4])), 0);
	write_file(temp_file(*state, "recording.json"), "{}", 2);
	t = open_recording(*state);
	assert_int_equal(trace_segment_count(t), 1);
	load(t, TABLE_kernel, 0);
	assert_int_equal(trace_rows(t, TABLE_kernel), 300);
	assert_int_equal(trace_losses(t, &losses, &count, NULL), 0);
	assert_int_equal(count, 5);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(losses[i].reason, loss_reason_damaged_file);
		assert_int_equal(losses[i].process, trace_process_count(t));
		assert_non_null(strstr(losses[i].detail, names[i]));
		assert_null(strstr(losses[i].detail, *state));
	}
	assert_non_null(strstr(losses[2].detail, "77"));
	trace_free(t);
}

static void missing_segments(void **state)
{
	struct maker *m = maker_begin_with((struct writer_options){ .segment_bytes = 4096 }, *state,
					   100, 1000, "./a");
	uint32_t config = maker_config(m, "add", 4, 128);
	uint64_t state_random = 1;
	struct trace_loss loss = { 0 };
	struct trace *t;
	uint64_t rows;
	size_t segments;

	for (unsigned i = 0; i < 5000; i++) {
		state_random = state_random * UINT64_C(6364136223846793005) + 1;
		maker_kernel(m, config, 7, 10000 + 1000 * i,
			     10001 + 1000 * i + (state_random >> 54), state_random >> 20);
		if (i % 100 == 99) {
			maker_flush(m);
			config = maker_config(m, "add", 4, 128);
		}
	}
	maker_close(m, 9000000);
	t = open_recording(*state);
	segments = trace_segment_count(t);
	assert_true(segments > 6);
	assert_int_equal(trace_process(t, 0)->missing_segments, 0);
	assert_int_equal(count_losses(t, loss_reason_missing_segment, NULL), 0);
	rows = trace_rows(t, TABLE_kernel);
	assert_int_equal(rows, 5000);
	trace_free(t);

	unlink(temp_file(*state, "100.0.pit"));
	unlink(temp_file(*state, "100.3.pit"));
	unlink(temp_file(*state, "100.4.pit"));
	t = open_recording(*state);
	load(t, TABLE_kernel, 0);
	assert_int_equal(trace_segment_count(t), segments - 3);
	assert_int_equal(trace_process(t, 0)->missing_segments, 3);
	assert_int_equal(trace_process(t, 0)->segments, segments - 3);
	assert_int_equal(trace_process(t, 0)->pid, 100);
	assert_int_equal(count_losses(t, loss_reason_missing_segment, &loss), 2);
	assert_int_equal(loss.count, 2);
	assert_non_null(strstr(loss.detail, "segment 3 and following"));
	assert_in_range(trace_rows(t, TABLE_kernel), 1000, rows - 3);
	for (uint64_t row = 0; row < trace_rows(t, TABLE_kernel); row++)
		assert_string_equal(kernel_name(t, row), "add");
	trace_free(t);

	/* A ring has dropped the first one; the hole is one all the same. */
	m = maker_begin(*state, 1, 1000, "pitot");
	maker_capability(m, feature_ring, capability_state_on, "");
	maker_close(m, 9000000);
	t = open_recording(*state);
	load(t, TABLE_kernel, 0);
	assert_int_equal(count_losses(t, loss_reason_overwritten, &loss), 1);
	assert_int_equal(loss.count, 1);
	assert_int_equal(count_losses(t, loss_reason_missing_segment, &loss), 1);
	assert_int_equal(loss.count, 2);
	segments = 0;
	for (size_t i = 0; i < trace_process_count(t); i++)
		segments += trace_process(t, i)->missing_segments;
	assert_int_equal(segments, 2);
	trace_free(t);
}

static void copy_of_a_segment_counts_once(void **state)
{
	struct trace_loss loss = { 0 };
	struct strbuf bytes;
	struct trace *t;

	make_three_blocks(*state, 100);
	bytes = read_file(temp_file(*state, "100.0.pit"));
	write_file(temp_file(*state, "100.0 (copy).pit"), bytes.data, bytes.length - 30);
	strbuf_release(&bytes);
	t = open_recording(*state);
	load(t, TABLE_kernel, 0);
	assert_int_equal(trace_rows(t, TABLE_kernel), 300);
	assert_int_equal(trace_process(t, 0)->segments, 1);
	assert_int_equal(count_losses(t, loss_reason_damaged_file, &loss), 1);
	assert_string_equal(
		loss.detail,
		"100.0 (copy).pit: ignored, because another file has the same number 0");
	trace_free(t);
}

/*
 * Changes headers of a table's blocks, with right checksums, and takes the index away that has
 * them too.
 */
static void rewrite_headers(const char *path, enum table_id table, uint16_t new_table,
			    uint32_t new_rows)
{
	struct strbuf bytes = read_file(path);
	struct segment s;

	assert_int_equal(segment_open_bytes(bytes.data, bytes.length, &s, NULL), 0);
	for (size_t i = 0; i < s.block_count; i++) {
		struct block_header header = s.blocks[i].header;

		if (header.table != table)
			continue;
		header.table = new_table;
		header.rows = new_rows;
		header.header_crc = 0;
		header.header_crc = crc32c(0, &header, sizeof(header));
		memcpy(bytes.data + s.blocks[i].offset, &header, sizeof(header));
	}
	segment_release(&s);
	write_file(path, bytes.data, bytes.length - sizeof(struct segment_trailer));
	strbuf_release(&bytes);
}

static void unknown_tables_are_skipped(void **state)
{
	struct trace *t;

	make_three_blocks(*state, 100);
	rewrite_headers(temp_file(*state, "100.0.pit"), TABLE_api_call, 999, 100);
	t = open_recording(*state);
	load(t, TABLE_api_call, 0);
	load(t, TABLE_kernel, 0);
	assert_int_equal(trace_rows(t, TABLE_api_call), 0);
	assert_int_equal(trace_rows(t, TABLE_kernel), 300);
	assert_int_equal(count_losses(t, loss_reason_damaged_file, NULL), 0);
	assert_int_equal(trace_verify(t, NULL), 0);
	trace_free(t);
}

/* Checksums are right, and yet the headers lie about the number of rows. */
static void lying_headers(void **state)
{
	struct trace_loss loss = { 0 };
	struct trace *t;

	make_three_blocks(*state, 100);
	rewrite_headers(temp_file(*state, "100.0.pit"), TABLE_kernel, TABLE_kernel, BLOCK_ROWS_MAX);
	t = open_recording(*state);
	assert_int_equal(trace_rows(t, TABLE_kernel), 3 * BLOCK_ROWS_MAX);
	load(t, TABLE_kernel, 0);
	assert_int_equal(trace_rows(t, TABLE_kernel), 0);
	assert_int_equal(count_losses(t, loss_reason_damaged_file, &loss), 1);
	assert_int_equal(loss.count, 3);
	trace_free(t);
}

/* Millions of rows in a few bytes: 48 of them can say that 65,536 rows have no value at all. */
static void too_many_rows(void **state)
{
	char *path = strdup(temp_file(*state, "100.0.pit"));
	struct block_header header = {
		.magic = BLOCK_MAGIC,
		.table = TABLE_kernel,
		.rows = BLOCK_ROWS_MAX,
	};
	struct error e = { 0 };
	struct strbuf bytes;
	struct maker *m;
	struct trace *t;

	header.header_crc = crc32c(0, &header, sizeof(header));
	m = maker_begin(*state, 100, 1000, "./a");
	maker_flush(m);
	maker_crash(m);
	bytes = read_file(path);
	for (unsigned i = 0; i < 65536; i++)
		strbuf_add(&bytes, &header, sizeof(header));
	write_file(path, bytes.data, bytes.length);
	t = open_recording(*state);
	assert_true(trace_rows(t, TABLE_kernel) == UINT64_C(1) << 32);
	assert_int_equal(trace_load(t, TABLE_kernel, 0, &e), E_LIMIT);
	assert_non_null(strstr(e.text, "4294967296 rows"));
	trace_free(t);

	write_file(path, bytes.data, bytes.length - sizeof(header));
	t = open_recording(*state);
	assert_int_equal(trace_load(t, TABLE_kernel, 0, &e), E_LIMIT);
	assert_non_null(strstr(e.text, "table 'kernel' needs"));
	load(t, TABLE_process, 0);
	assert_int_equal(trace_rows(t, TABLE_process), 1);
	trace_free(t);
	strbuf_release(&bytes);
	free(path);
}

/* Everything a program could ask for. */
static void read_all(const char *folder, uint64_t rows_max)
{
	const enum table_id joined[] = { TABLE_kernel, TABLE_memcpy, TABLE_synchronization };
	const struct trace_loss *losses;
	const uint32_t *calls;
	struct trace_options options = { .threads = 2 };
	struct error e = { 0 };
	struct trace *t;
	size_t count;

	if (trace_open(folder, &options, &t, &e) < 0) {
		assert_int_not_equal(e.code, 0);
		return;
	}
	for (uint32_t table = 1; table <= TABLE_MAX; table++) {
		uint64_t rows;

		assert_int_equal(trace_load(t, table, 1, &e), 0);
		rows = trace_rows(t, table);
		assert_int_equal(trace_load(t, table, 0, &e), 0);
		assert_int_equal(trace_rows(t, table), rows);
	}
	for (size_t i = 0; i < ARRAY_SIZE(joined); i++)
		assert_int_equal(trace_launches(t, joined[i], &calls, &e), 0);
	assert_true(trace_rows(t, TABLE_kernel) <= rows_max);
	assert_int_equal(trace_losses(t, &losses, &count, &e), 0);
	assert_true(trace_verify(t, &e) >= 0);
	trace_free(t);
}

static void make_little(const char *folder)
{
	struct maker *m = maker_begin(folder, 100, 1000, "./a");
	uint32_t config = maker_config(m, "add", 4, 128);

	maker_device(m, 0, 1100);
	for (unsigned i = 0; i < 6; i++) {
		maker_call(m, MAKER_LAUNCH, 100, 10000 + 10 * i, 10005 + 10 * i, 1 + i);
		maker_kernel(m, config, 7, 10000 + 10 * i, 10007 + 10 * i, 1 + i);
		if (i == 2)
			maker_flush(m);
	}
	maker_loss(m, loss_reason_ring_full, 1, 10, 20, "ring");
	maker_close(m, 50000);
}

static void cut_at_every_byte(void **state)
{
	const char *path = temp_file(*state, "100.0.pit");
	char *copy = strdup(path);
	struct strbuf bytes;

	make_little(*state);
	bytes = read_file(copy);
	for (size_t cut = 1; cut <= bytes.length; cut += BYTE_STEP) {
		assert_int_equal(truncate(copy, (off_t)(bytes.length - cut)), 0);
		read_all(*state, 6);
	}
	strbuf_release(&bytes);
	free(copy);
}

/* Damage that trace_verify finds; a recording that cannot be opened at all is damaged, too. */
static int64_t verify(const char *folder)
{
	struct trace_options options = { .threads = 1 };
	struct error e = { 0 };
	struct trace *t;
	int64_t damaged;

	if (trace_open(folder, &options, &t, &e) < 0)
		return 1;
	damaged = trace_verify(t, &e);
	assert_true(damaged >= 0);
	assert_int_equal(count_losses(t, loss_reason_damaged_file, NULL) > 0, damaged > 0);
	trace_free(t);
	return damaged;
}

/* Flips a bit of each byte of a file in turn: each flip before `harmless_from` is found. */
static void flip_bytes(const char *folder, const char *name, size_t harmless_from, bool read)
{
	char *path = strdup(temp_file(folder, name));
	struct strbuf bytes = read_file(path);

	for (size_t i = 0; i < bytes.length; i++) {
		bytes.data[i] ^= (char)(1 << i % 8);
		write_file(path, bytes.data, bytes.length);
		if (read && i % BYTE_STEP == 0)
			read_all(folder, 6 + 1);
		if (i < harmless_from && verify(folder) == 0)
			fail_msg("byte %zu of %s", i, name);
		bytes.data[i] ^= (char)(1 << i % 8);
	}
	write_file(path, bytes.data, bytes.length);
	strbuf_release(&bytes);
	free(path);
}

/* A block whose payload is cut off, as a process leaves it that is killed while it writes. */
static size_t append_cut_block(const char *path)
{
	struct strbuf bytes = read_file(path);
	struct block_header header = {
		.magic = BLOCK_MAGIC, .table = TABLE_kernel, .rows = 3, .payload_bytes = 100
	};
	size_t payload = bytes.length + sizeof(header);

	header.header_crc = crc32c(0, &header, sizeof(header));
	strbuf_add(&bytes, &header, sizeof(header));
	strbuf_add(&bytes, "payload", 7);
	write_file(path, bytes.data, bytes.length);
	strbuf_release(&bytes);
	return payload;
}

/*
 * Segments that were closed in order and that were not. The only bytes that no checksum is there
 * for are those of the incomplete block: no reader looks at them.
 */
static void every_flipped_byte_is_found(void **state)
{
	struct maker *m = maker_begin(*state, 101, 1000, "./b");
	size_t harmless;

	maker_kernel(m, maker_config(m, "sub", 1, 32), 7, 20000, 20010, 1);
	maker_flush(m);
	maker_crash(m);
	make_little(*state);
	m = maker_begin(*state, 102, 1000, "./c");
	maker_flush(m);
	maker_crash(m);
	harmless = append_cut_block(temp_file(*state, "102.0.pit"));
	assert_int_equal(verify(*state), 0);
	flip_bytes(*state, "100.0.pit", SIZE_MAX, true);
	flip_bytes(*state, "101.0.pit", SIZE_MAX, false);
	flip_bytes(*state, "102.0.pit", harmless, false);
	assert_int_equal(verify(*state), 0);
}

/* Payloads of a hostile writer: every byte changed, under checksums that are right. */
static void hostile_payloads(void **state)
{
	char *path = strdup(temp_file(*state, "100.0.pit"));
	struct strbuf bytes;
	struct segment s;

	make_little(*state);
	bytes = read_file(path);
	assert_int_equal(segment_open_bytes(bytes.data, bytes.length, &s, NULL), 0);
	for (size_t i = 0; i < s.block_count; i++) {
		struct block_header good = s.blocks[i].header, header = good;
		char *at = bytes.data + s.blocks[i].offset;

		for (uint32_t k = 0; k < good.payload_bytes; k += BYTE_STEP) {
			char *byte = at + sizeof(header) + k, before = *byte;

			*byte ^= (char)(1 << k % 8);
			header.payload_crc = crc32c(0, at + sizeof(header), good.payload_bytes);
			header.header_crc = 0;
			header.header_crc = crc32c(0, &header, sizeof(header));
			memcpy(at, &header, sizeof(header));
			write_file(path, bytes.data, bytes.length - sizeof(struct segment_trailer));
			read_all(*state, 6);
			*byte = before;
		}
		memcpy(at, &good, sizeof(good));
	}
	segment_release(&s);
	strbuf_release(&bytes);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(damaged_block_is_left_out),
		folder_test(verify_finds_damage),
		folder_test(damaged_header_without_index),
		folder_test(lost_names),
		folder_test(bad_files_do_not_hide_good_ones),
		folder_test(missing_segments),
		folder_test(copy_of_a_segment_counts_once),
		folder_test(unknown_tables_are_skipped),
		folder_test(lying_headers),
		folder_test(too_many_rows),
		folder_test(cut_at_every_byte),
		folder_test(every_flipped_byte_is_found),
		folder_test(hostile_payloads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
