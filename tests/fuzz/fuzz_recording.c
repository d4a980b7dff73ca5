/* layer: export */
/*
 * Any rows as a recording: everything that reads one must bear every value in every column, also
 * those that no recorder writes. An input is a list of blocks: a byte for the table, one for the
 * number of rows, and one for each value of each row (value_of); a value of BYTES is its length and
 * that many bytes. The corpus is made by tests/fuzz/seeds_recording.
 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analysis/report.h"
#include "base/bytes.h"
#include "export/exporter.h"
#include "export/flame_formats.h"
#include "format/block_build.h"

#define ROWS_MAX 16
#define MISSING 0xff

/* Small numbers, powers of two, and the largest ones. */
static uint64_t value_of(uint8_t byte)
{
	if (byte < 0x80)
		return byte;
	return byte < 0xc0 ? UINT64_C(1) << (byte - 0x80) : UINT64_MAX - (byte - 0xc0);
}

static void read_row(struct cursor *c, const struct table_schema *table, const uint8_t *start,
		     uint8_t *row)
{
	uint64_t missing = 0;

	for (int i = 0; i < table->column_count; i++) {
		const struct column_schema *column = &table->columns[i];
		uint8_t byte = cursor_u8(c);
		uint64_t value = value_of(byte);
		struct bytes_value bytes = { NULL, byte };

		missing |= (uint64_t)(byte == MISSING) << i;
		if (column->type != COLUMN_TYPE_BYTES) {
			memcpy(row + column->row_offset, &value, column->width);
			continue;
		}
		bytes.length = (uint32_t)MIN(byte, cursor_left(c));
		bytes.data = (const void *)(cursor_bytes(c, bytes.length) - start);
		memcpy(row + column->row_offset, &bytes, sizeof(bytes));
	}
	memcpy(row, &missing, sizeof(missing));
}

static void append_block(struct block_builder *builder, struct cursor *c, const uint8_t *start,
			 uint64_t number, struct strbuf *out)
{
	const struct table_schema *table = schema_table(1 + cursor_u8(c) % TABLE_MAX);
	size_t count = 1 + cursor_u8(c) % ROWS_MAX;
	struct block_header header;
	struct block_rows rows = { .table = table, .count = count, .bytes = start };
	uint8_t *memory = calloc(count, table->row_size);

	if (!memory)
		abort();
	for (size_t i = 0; i < count; i++)
		read_row(c, table, start, memory + i * table->row_size);
	rows.rows = memory;
	if (block_build(builder, &rows, number, out, &header) < 0)
		abort();
	free(memory);
}

/* A file with a segment of these rows; its descriptor. */
static int make_segment(const uint8_t *bytes, size_t size)
{
	struct segment_header header = { .magic = SEGMENT_MAGIC,
					 .version = SEGMENT_VERSION,
					 .header_bytes = sizeof(header),
					 .session = 1,
					 .pid = 1 };
	struct cursor c = cursor_of(bytes, size);
	struct strbuf out = STRBUF_INIT;
	struct block_builder builder;
	int fd = memfd_create("recording", MFD_CLOEXEC);

	header.crc = crc32c(0, &header, offsetof(struct segment_header, crc));
	strbuf_add(&out, &header, sizeof(header));
	if (fd < 0 || block_builder_init(&builder, ROWS_MAX, 1) < 0)
		abort();
	for (uint64_t number = 0; cursor_left(&c) >= 3; number++)
		append_block(&builder, &c, bytes, number, &out);
	if (out.failed || write(fd, out.data, out.length) != (ssize_t)out.length)
		abort();
	block_builder_release(&builder);
	strbuf_release(&out);
	return fd;
}

static void load_all(struct trace *t)
{
	const struct trace_loss *losses;
	const uint32_t *calls;
	size_t count;

	for (unsigned id = 1; id <= TABLE_MAX; id++)
		if (trace_load(t, id, 0, NULL) < 0)
			abort();
	for (unsigned id = 1; id <= TABLE_MAX; id++)
		if (schema_column_by_name(schema_table(id), "correlation") >= 0 &&
		    trace_launches(t, id, &calls, NULL) == 0)
			for (uint64_t row = 0; row < trace_rows(t, id); row++)
				if (calls[row] != TRACE_NO_ROW &&
				    calls[row] >= trace_rows(t, TABLE_api_call))
					abort();
	if (trace_losses(t, &losses, &count, NULL) < 0 || trace_verify(t, NULL) != 0)
		abort();
}

static void report(struct trace *t, uint8_t how)
{
	struct report_options options = { .filter = FILTER_ALL,
					  .by = how % HOTSPOT_KINDS,
					  .callers_of = 3,
					  .threads = 1 };
	struct report r;

	if (report_init(&r, t, &options, NULL) == 0)
		report_release(&r);
}

static void draw(struct trace *t, uint8_t how)
{
	const struct flame_format *format = &flame_formats[how % 6];
	struct flame_options options = { .kinds = (1 << FLAME_KINDS) - 1,
					 .levels = how % (1 << FLAME_LEVELS),
					 .detail = format->by_address ? STACK_ADDRESSES
								      : STACK_FUNCTIONS,
					 .until_ns = UINT64_MAX };
	struct flame_write w = { .title = "", .recording = "", .notes = "" };
	uint64_t bytes;
	struct flame f;

	if (flame_init(&f, t, &options, NULL) < 0)
		return;
	if (flame_finish(&f, how & 1) == 0 &&
	    flame_write(&f, format, &w, "/dev/null", true, &bytes, NULL) < 0)
		abort();
	flame_release(&f);
}

static void export_all(struct trace *t)
{
	struct export_options options = EXPORT_ALL;

	for (const struct exporter *e = exporters; e->name; e++) {
		struct export_result result;
		struct error why = { 0 };

		if (e->write(t, &options, "/dev/null", &result, &why) < 0 && why.code == -ENOMEM)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct trace_options options = { .threads = 1 };
	struct trace *t = NULL;
	char path[32];
	int fd;

	if (size < 2)
		return 0;
	fd = make_segment(bytes + 1, size - 1);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (trace_open(path, &options, &t, NULL) == 0) {
		load_all(t);
		report(t, bytes[0]);
		draw(t, bytes[0]);
		export_all(t);
		trace_free(t);
	}
	close(fd);
	return 0;
}
