/* layer: record */
/*
 * Any rows as a recording: everything that reads one must bear every value in every column, also
 * those that no recorder writes. An input is a byte for how it is looked at, and a list of blocks:
 * a byte for the table (the highest bit: of a second session), one for the number of rows, and one
 * for each value of each row (value_of); a value of BYTES is its length and that many bytes. The
 * corpus is made by tests/fuzz/seeds_recording.
 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "analysis/report.h"
#include "base/bytes.h"
#include "export/exporter.h"
#include "export/flame/flame_formats.h"
#include "format/block_build.h"
#include "format/segment.h"
#include "rules/rule_feed.h"
#include "rules/rule_list.h"

#define ROWS_MAX 16
#define MISSING 0xff
#define PATH_BYTES 64

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

/* Two sessions, each a segment of a recording. */
struct sessions {
	struct block_builder builder;
	struct strbuf segments[2];
	uint64_t blocks[2];
};

static void append_block(struct sessions *s, struct cursor *c, const uint8_t *start)
{
	uint8_t first = cursor_u8(c);
	const struct table_schema *table = schema_table(1 + (first & 0x7f) % TABLE_MAX);
	size_t count = 1 + cursor_u8(c) % ROWS_MAX;
	struct block_rows rows = { .table = table, .count = count, .bytes = start };
	uint8_t *memory = calloc(count, table->row_size);
	struct block_header header;
	unsigned session = first >> 7;

	if (!memory)
		abort();
	for (size_t i = 0; i < count; i++)
		read_row(c, table, start, memory + i * table->row_size);
	rows.rows = memory;
	if (block_build(&s->builder, &rows, s->blocks[session]++, &s->segments[session], &header) <
	    0)
		abort();
	free(memory);
}

static void begin_segment(struct strbuf *out, uint64_t session)
{
	struct segment_header header = { .magic = SEGMENT_MAGIC,
					 .version = SEGMENT_VERSION,
					 .header_bytes = sizeof(header),
					 .session = session,
					 .pid = (uint32_t)session };

	header.crc = crc32c(0, &header, offsetof(struct segment_header, crc));
	strbuf_add(out, &header, sizeof(header));
}

static void write_file(const char *path, const struct strbuf *bytes)
{
	FILE *f = fopen(path, "w");

	if (bytes->failed || !f || fwrite(bytes->data, 1, bytes->length, f) != bytes->length ||
	    fclose(f) != 0)
		abort();
}

/* A recording of these rows; paths[1] is "" without a second session. */
static void make_recording(const uint8_t *bytes, size_t size, char paths[2][PATH_BYTES])
{
	struct sessions s = { .segments = { STRBUF_INIT, STRBUF_INIT } };
	struct cursor c = cursor_of(bytes, size);

	if (block_builder_init(&s.builder, ROWS_MAX, 1) < 0)
		abort();
	begin_segment(&s.segments[0], 1);
	begin_segment(&s.segments[1], 2);
	while (cursor_left(&c) >= 3)
		append_block(&s, &c, bytes);
	write_file(paths[0], &s.segments[0]);
	if (s.blocks[1])
		write_file(paths[1], &s.segments[1]);
	else
		*paths[1] = 0;
	block_builder_release(&s.builder);
	strbuf_release(&s.segments[0]);
	strbuf_release(&s.segments[1]);
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
	struct report_options options = {
		.filter = FILTER_ALL, .by = how % HOTSPOT_KINDS, .callers_of = 3, .threads = 1
	};
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

	for (const struct exporter *e = exporters; e->file.name; e++) {
		struct export_result result;
		struct error why = { 0 };

		if (e->write(t, &options, "/dev/null", &result, &why) < 0 && why.code == -ENOMEM)
			abort();
	}
}

static void count_firing(void *user, const struct rule_firing *firing)
{
	*(uint64_t *)user += strlen(firing->evidence);
}

/* All metrics. */
static void evaluate_rules(const char *path)
{
	static struct rule_list list;
	uint64_t count = 0;

	for (unsigned i = list.count; i < RULE_METRIC_COUNT; i++)
		if (rule_list_add(&list, rule_metrics[i].example, NULL) < 0)
			abort();
	if (rule_feed_recording(path, list.rules, list.count, count_firing, &count, NULL) < 0)
		abort();
}

static void look_at(const char *path, uint8_t how)
{
	struct trace_options options = { .threads = 1 };
	struct trace *t = NULL;

	if (trace_open(path, &options, &t, NULL) < 0)
		return;
	load_all(t);
	evaluate_rules(path);
	report(t, how);
	draw(t, how);
	export_all(t);
	trace_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static const char *const seconds[] = { "2.0", "record.0", "symbols.0", "cpu-1.0" };
	char folder[] = "/tmp/fuzz-recording-XXXXXX", paths[2][PATH_BYTES];

	if (size < 2)
		return 0;
	if (!mkdtemp(folder))
		abort();
	snprintf(paths[0], PATH_BYTES, "%s/1.0.pit", folder);
	snprintf(paths[1], PATH_BYTES, "%s/%s.pit", folder, seconds[bytes[0] >> 6]);
	make_recording(bytes + 1, size - 1, paths);
	look_at(folder, bytes[0]);
	unlink(paths[0]);
	if (*paths[1])
		unlink(paths[1]);
	rmdir(folder);
	return 0;
}
