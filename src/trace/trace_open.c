#include "trace/trace.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/path.h"
#include "base/search.h"
#include "trace/parallel.h"
#include "trace/trace_state.h"

/*
 * CLOCK_REALTIME - CLOCK_MONOTONIC, from the most precise row of the first block of table clock, or
 * from a segment header.
 */
static int64_t find_realtime_offset(const struct trace *t)
{
	const struct segment_header *header = &t->segments.data[0].file.header;
	int64_t offset = (int64_t)(header->start_realtime_ns - header->start_monotonic_ns);
	const struct table_data *table = &t->tables[TABLE_clock];
	const struct block_item *item = table->items.data;
	const struct segment *file = item ? &t->segments.data[item->segment].file : NULL;
	uint64_t shift_ns = item ? t->segments.data[item->segment].shift_ns : 0;
	uint64_t *monotonic =
		item ? calloc(item->rows, 2 * sizeof(uint64_t) + sizeof(uint32_t)) : NULL;
	struct decoder *decoder = decoder_new();
	uint64_t *realtime = monotonic ? monotonic + item->rows : NULL;
	uint32_t *width = monotonic ? (uint32_t *)(realtime + item->rows) : NULL,
		 least = UINT32_MAX;
	struct column_target targets[] = {
		{ .column = COLUMN_clock_monotonic_ns, .values = monotonic },
		{ .column = COLUMN_clock_realtime_ns, .values = realtime },
		{ .column = COLUMN_clock_width_ns, .values = width },
	};

	if (monotonic && decoder &&
	    block_decode(decoder, file, &file->blocks[item->block], targets, ARRAY_SIZE(targets)) ==
		    0)
		for (uint32_t i = 0; i < item->rows; i++)
			if (width[i] < least && realtime[i]) {
				least = width[i];
				offset = (int64_t)(realtime[i] - monotonic[i] - shift_ns);
			}
	decoder_free(decoder);
	free(monotonic);
	return offset;
}

static int no_rank_error(const struct trace *t, struct error *e)
{
	_cleanup_strbuf_ struct strbuf known = STRBUF_INIT;
	uint32_t last = TRACE_NO_RANK;

	for (size_t i = 0; i < t->processes.count; i++) {
		uint32_t rank = t->processes.data[i].rank;

		if (rank != last)
			strbuf_addf(&known, "%s%u", known.length ? ", " : "", rank);
		last = rank;
	}
	return error_set(e, E_USAGE, "no rank %u in this recording; its ranks: %s", t->options.rank,
			 strbuf_text(&known));
}

static int build_processes(struct trace *t, struct error *e)
{
	if (catalog_sessions(t) < 0)
		return error_errno(e, ENOMEM, "cannot read recording '%s'", t->path);
	return processes_build(t, e);
}

/*
 * Forgets the segments of all processes but those of the requested rank; of a recording without
 * ranks, none.
 */
static int keep_rank(struct trace *t, struct error *e)
{
	size_t kept = 0, found = 0, ranks = 0;

	for (size_t i = 0; i < t->processes.count; i++) {
		ranks += t->processes.data[i].rank != TRACE_NO_RANK;
		found += t->processes.data[i].rank == t->options.rank;
	}
	t->options.only_rank = ranks > 0;
	if (!ranks)
		return 0;
	if (!found)
		return no_rank_error(t, e);

	for (size_t i = 0; i < t->segments.count; i++) {
		struct trace_segment *segment = &t->segments.data[i];
		const struct session *s = &t->sessions.data[segment->session];
		size_t subject = t->processes.data[s->process].subject;

		if (s->by_record || t->processes.data[subject].rank == t->options.rank)
			t->segments.data[kept++] = *segment;
		else
			segment_release(&segment->file);
	}
	t->segments.count = kept;
	return build_processes(t, e);
}

bool trace_only_rank(const struct trace *t, uint32_t *rank)
{
	if (rank)
		*rank = t->options.rank;
	return t->options.only_rank;
}

static int list_contents(struct trace *t, struct error *e)
{
	int result = build_processes(t, e);

	if (result == 0)
		result = host_time_align(t, e);
	if (result > 0)
		result = build_processes(t, e);
	if (result == 0 && t->options.only_rank)
		result = keep_rank(t, e);
	if (result == 0)
		t->realtime_offset_ns = find_realtime_offset(t);
	return result;
}

static int strings_init(struct trace *t)
{
	interner_init(&t->strings);
	return interner_add(&t->strings, "", 0, NULL) == STRING_EMPTY &&
			       interner_add(&t->strings, "?", 1, NULL) == STRING_LOST
		       ? 0
		       : -ENOMEM;
}

static int open_trace(struct trace *t, const char *path, struct error *e)
{
	struct stat status;
	int result;

	if (stat(path, &status) < 0)
		return error_errno(e, errno, "cannot open recording '%s'", path);
	t->is_file = !S_ISDIR(status.st_mode);
	t->path = strdup(path);
	if (!t->path || strings_init(t) < 0)
		return error_errno(e, ENOMEM, "cannot open recording '%s'", path);
	result = catalog_open(t, e);
	return result < 0 ? result : list_contents(t, e);
}

int trace_open(const char *path, const struct trace_options *options, struct trace **out,
	       struct error *e)
{
	struct trace *t = calloc(1, sizeof(*t));
	int result;

	if (!t)
		return error_errno(e, ENOMEM, "cannot open recording '%s'", path);
	if (options)
		t->options = *options;
	if (t->options.threads == 0)
		t->options.threads = parallel_processors();
	t->options.threads = MIN(t->options.threads, PARALLEL_MAX);
	result = open_trace(t, path, e);
	if (result < 0) {
		trace_free(t);
		return result;
	}
	*out = t;
	return 0;
}

void trace_free(struct trace *t)
{
	if (!t)
		return;
	trace_launches_done(t);
	catalog_release(t);
	interner_release(&t->strings);
	vec_release(&t->losses);
	vec_release(&t->unaligned);
	free(t->path);
	free(t);
}

/* Whether a path has a component "..". */
static bool leads_up(const char *name)
{
	for (const char *part = name; part; part = strchr(part, '/')) {
		part += *part == '/';
		if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || !part[2]))
			return true;
	}
	return false;
}

bool trace_file_path(const struct trace *t, const char *name, struct strbuf *out)
{
	size_t folder = t->is_file ? (size_t)(base_name(t->path) - t->path) : strlen(t->path);

	if (leads_up(name))
		return false;
	strbuf_add(out, t->path, folder);
	if (folder && t->path[folder - 1] != '/')
		strbuf_addc(out, '/');
	strbuf_adds(out, name);
	return true;
}

size_t trace_process_count(const struct trace *t)
{
	return t->processes.count;
}

const struct trace_process *trace_process(const struct trace *t, size_t index)
{
	return index < t->processes.count ? &t->processes.data[index] : NULL;
}

static const struct table_data *table_of(const struct trace *t, enum table_id table)
{
	assert(schema_table(table));
	return &t->tables[table];
}

uint64_t trace_rows(const struct trace *t, enum table_id id)
{
	const struct table_data *table = table_of(t, id);

	return table->rows_assigned ? table->rows : table->size.rows;
}

uint64_t trace_first_row(const struct trace *t, enum table_id id, size_t process)
{
	const struct table_data *table = table_of(t, id);

	return table->rows_assigned ? table->first_row[MIN(process, t->processes.count)] : 0;
}

size_t trace_row_process(const struct trace *t, enum table_id id, uint64_t row)
{
	/*
	 * the last process whose first row is not after `row`; so processes without rows are
	 * skipped
	 */
	return sorted_prefix(MAX(t->processes.count, 1) - 1, i,
			     trace_first_row(t, id, i + 1) <= row);
}

static const struct column_data *column_of(const struct trace *t, enum table_id table, int column)
{
	assert(column >= 0 && column < schema_table(table)->column_count);
	return &table_of(t, table)->columns[column];
}

const union table_columns *trace_columns(const struct trace *t, enum table_id table)
{
	return &table_of(t, table)->by_name;
}

const void *trace_column(const struct trace *t, enum table_id table, int column)
{
	return column_of(t, table, column)->values;
}

/* Width in memory: texts are loaded as string ids. */
static size_t loaded_width(enum table_id table, int column)
{
	const struct column_schema *schema = &schema_table(table)->columns[column];

	return schema->type == COLUMN_TYPE_BYTES ? sizeof(uint32_t) : schema->width;
}

const uint8_t *trace_u8(const struct trace *t, enum table_id table, int column)
{
	assert(loaded_width(table, column) == 1);
	return trace_column(t, table, column);
}

const uint32_t *trace_u32(const struct trace *t, enum table_id table, int column)
{
	assert(loaded_width(table, column) == 4);
	return trace_column(t, table, column);
}

const uint64_t *trace_u64(const struct trace *t, enum table_id table, int column)
{
	assert(loaded_width(table, column) == 8);
	return trace_column(t, table, column);
}

const uint8_t *trace_valid(const struct trace *t, enum table_id table, int column)
{
	return column_of(t, table, column)->valid;
}

bool trace_has_values(const struct trace *t, enum table_id table, int column)
{
	return column_of(t, table, column)->has_values;
}

uint64_t trace_value(const struct trace *t, enum table_id table, int column, uint64_t row,
		     bool *missing)
{
	const struct column_schema *schema = &schema_table(table)->columns[column];
	const struct column_data *data = column_of(t, table, column);
	uint64_t value = 0;
	bool absent =
		!data->values || row >= trace_rows(t, table) || (data->valid && !data->valid[row]);

	if (!absent && loaded_width(table, column) == 1)
		value = ((const uint8_t *)data->values)[row];
	else if (!absent && loaded_width(table, column) == 2)
		value = ((const uint16_t *)data->values)[row];
	else if (!absent && schema->type == COLUMN_TYPE_I32)
		value = (uint64_t)(int64_t)((const int32_t *)data->values)[row];
	else if (!absent && loaded_width(table, column) == 4)
		value = ((const uint32_t *)data->values)[row];
	else if (!absent)
		value = ((const uint64_t *)data->values)[row];
	if (missing)
		*missing = absent || (schema->type == COLUMN_TYPE_REF && value == TRACE_NO_ROW);
	return value;
}

/* BYTES are not read. */
#define READ_COLUMN(table, name, type, presence, extra, unit, doc)                                 \
	if (COLUMN_TYPE_##type == COLUMN_TYPE_BYTES || !c->name ||                                 \
	    !column_has(c->valid.name, row))                                                       \
		r->missing |= UINT64_C(1) << COLUMN_##table##_##name;                              \
	else                                                                                       \
		memcpy(&r->name, &c->name[row], sizeof(c->name[row]));
#define READ_ROW(table, id, doc)                                                                   \
	case TABLE_##table: {                                                                      \
		const struct table##_columns *c = table##_columns(t);                              \
		struct row_##table *r = out;                                                       \
		*r = (struct row_##table){ 0 };                                                    \
		SCHEMA_##table(READ_COLUMN, table) break;                                          \
	}

void trace_row(const struct trace *t, enum table_id table, uint64_t row, void *out)
{
	switch (table) {
		SCHEMA_TABLES(READ_ROW)
	case TABLE_END:
		break;
	}
}

const char *trace_string(const struct trace *t, uint32_t id)
{
	return id < t->strings.count ? t->strings.items[id].text : "?";
}

size_t trace_string_length(const struct trace *t, uint32_t id)
{
	return id < t->strings.count ? t->strings.items[id].length : strlen("?");
}

uint32_t trace_string_count(const struct trace *t)
{
	return (uint32_t)t->strings.count;
}

static void widen(const struct trace *t, enum table_id table, uint64_t *start_ns, uint64_t *end_ns)
{
	const struct table_data *data = table_of(t, table);

	for (size_t i = 0; i < data->items.count; i++) {
		const struct block_item *item = &data->items.data[i];
		const struct block_header *header =
			&t->segments.data[item->segment].file.blocks[item->block].header;

		if (header->end_ns == 0)
			continue;
		*start_ns = MIN(*start_ns, header->start_ns);
		*end_ns = MAX(*end_ns, header->end_ns);
	}
}

/* A program that starts its own recording is at most this much older than the first segment. */
#define BEFORE_SEGMENTS_NS NS_PER_S

/*
 * A recording lasts from the start of its command to the end of the last process. A process that
 * was running before (`pitot record -p`) does not extend it.
 */
static void widen_to_processes(const struct trace *t, uint64_t *start_ns, uint64_t *end_ns)
{
	uint64_t recorded_ns = UINT64_MAX, oldest_ns = UINT64_MAX;

	for (size_t i = 0; i < t->segments.count; i++)
		recorded_ns = MIN(recorded_ns, t->segments.data[i].file.header.start_monotonic_ns);
	for (size_t i = 0; i < trace_process_count(t); i++) {
		oldest_ns = MIN(oldest_ns, trace_process(t, i)->start_ns);
		*end_ns = MAX(*end_ns, trace_process(t, i)->end_ns);
	}
	if (recorded_ns > BEFORE_SEGMENTS_NS && oldest_ns < recorded_ns - BEFORE_SEGMENTS_NS)
		oldest_ns = recorded_ns;
	*start_ns = MIN(*start_ns, MIN(oldest_ns, t->command_ns));
}

void trace_span(const struct trace *t, uint64_t *start_ns, uint64_t *end_ns)
{
	uint64_t start = UINT64_MAX, end = 0;

	for (uint32_t id = 1; id <= TABLE_MAX; id++)
		if (schema_table(id)->roles[ROLE_START] >= 0)
			widen(t, id, &start, &end);
	for (uint32_t id = 1; id <= TABLE_MAX && end == 0; id++)
		widen(t, id, &start, &end);
	if (end)
		widen_to_processes(t, &start, &end);
	*start_ns = end ? start : 0;
	*end_ns = end ? MAX(start, end) : 0;
}

int64_t trace_unix_ns(const struct trace *t, uint64_t monotonic_ns)
{
	return (int64_t)(monotonic_ns + (uint64_t)t->realtime_offset_ns);
}

void trace_table_size(const struct trace *t, enum table_id table, struct trace_table_size *size)
{
	*size = table_of(t, table)->size;
}

uint64_t trace_file_bytes(const struct trace *t)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < t->segments.count; i++)
		bytes += t->segments.data[i].file.size;
	return bytes;
}

struct trace_cut trace_cut(const struct trace *t)
{
	struct trace_cut cut = { 0 };

	for (size_t i = 0; i < t->segments.count; i++) {
		const struct segment *file = &t->segments.data[i].file;

		cut.segments += !file->closed;
		cut.partial_bytes += file->truncated ? file->size - file->parsed_bytes : 0;
		cut.missing_bytes += file->missing_bytes;
	}
	return cut;
}

size_t trace_segment_count(const struct trace *t)
{
	return t->segments.count;
}

struct verification {
	struct trace *t;
	struct table_data *table;
};

static int verify_block(void *user, unsigned worker, size_t number)
{
	const struct verification *verification = user;
	struct block_item *item = &verification->table->items.data[number];
	const struct segment *file = &verification->t->segments.data[item->segment].file;

	(void)worker;
	if (item->state == BLOCK_GOOD && !block_verify(file, &file->blocks[item->block]))
		item->state = verification->table->rows_assigned ? BLOCK_INCOMPLETE : BLOCK_DAMAGED;
	return 0;
}

/*
 * Counts the damage of a segment outside of listed blocks: other payloads (padding, index, unknown
 * tables, blocks without rows), and all headers.
 */
static int verify_segment(void *user, unsigned worker, size_t number)
{
	struct trace *t = user;
	struct trace_segment *segment = &t->segments.data[number];
	struct segment all;

	(void)worker;
	if (segment_walk(&segment->file, &all, NULL) < 0)
		return -ENOMEM;
	segment->damage = all.damaged_blocks;
	for (size_t i = 0; i < all.block_count; i++)
		if (!schema_table(all.blocks[i].header.table) || all.blocks[i].header.rows == 0)
			segment->damage += !block_verify(&segment->file, &all.blocks[i]);
	segment_release(&all);
	return 0;
}

static int verify_all(struct trace *t)
{
	int result = parallel_for(t->options.threads, t->segments.count, verify_segment, t);

	for (size_t id = 1; id <= TABLE_MAX && result == 0; id++) {
		struct verification verification = { t, &t->tables[id] };

		result = parallel_for(t->options.threads, t->tables[id].items.count, verify_block,
				      &verification);
	}
	return result;
}

int64_t trace_verify(struct trace *t, struct error *e)
{
	int64_t damaged = (int64_t)t->failed.count;
	int result = verify_all(t);

	if (result < 0)
		return error_set(e, result, "cannot verify '%s'", t->path);
	for (size_t id = 1; id <= TABLE_MAX; id++)
		for (size_t i = 0; i < t->tables[id].items.count; i++)
			damaged += t->tables[id].items.data[i].state != BLOCK_GOOD;
	for (size_t i = 0; i < t->segments.count; i++)
		damaged += (int64_t)t->segments.data[i].damage;
	return damaged;
}
