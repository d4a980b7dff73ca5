/*
 * How rows become segments:
 *
 * - writer_append() copies a row to its table's buffer. A row that refers to a string, a kernel configuration or an
 *   API function that this segment does not have yet first puts that row into its own table's buffer (`serial` says
 *   which segment has it). So ids can be handed out at any time and rows may wait across a change of segments.
 * - Sealing a table turns its buffer into a block at the end of `out`. The three tables that others refer to are
 *   always sealed first, so a block comes after what it refers to.
 * - write_out() appends `out` to the file with one pwrite(2). Of a write that was cut short the whole blocks are kept.
 *   The first failure stops writing for good; from then on rows are only counted, and the counts are kept up to date
 *   in the segment's reserve.
 * - A new segment is begun only when all buffers are empty, after a flush.
 */
#include "format/writer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/vec.h"
#include "format/block_build.h"
#include "format/id_space.h"
#include "format/loss_tally.h"
#include "format/segment_write.h"

#define ROWS_MAX 32768u			/* of a block */
#define BYTES_MAX (1u << 20)		/* of a block's BYTES column */
#define OUT_MAX (1u << 20)		/* sealed blocks are written when they have more bytes */
#define PENDING_MAX 128u		/* sealed blocks in `out` */
#define FUNCTIONS_MAX 4096u
#define CONFIGS_MAX 32768u		/* of a generation */
#define STRING_NONE 0u			/* id of "" */
#define STRING_UNKNOWN 1u		/* id of "?" */
#define STRING_FIRST 2u

_Static_assert(ROWS_MAX <= BLOCK_ROWS_MAX, "readers refuse more");

struct table_buffer {
	const struct table_schema *schema;
	uint8_t *rows;
	size_t count, capacity;
	struct strbuf bytes;		/* of BYTES values */
	uint64_t strings;		/* columns of type STRING */
	int config_column, function_column;	/* or -1 */
	uint32_t last_reference, last_serial;	/* what need not be looked up again */
};

struct pending_block {
	struct block_header header;
	size_t length;
};

struct api_function {
	uint32_t id, serial, name_length;
	const char *name;		/* own copy */
	uint8_t kind;
};

struct writer {
	struct table_buffer tables[TABLE_MAX + 1];
	struct block_builder builder;
	struct strbuf out;
	struct pending_block pending[PENDING_MAX];
	size_t pending_count;

	struct id_space strings, configs;
	uint32_t fixed_serials[STRING_FIRST];
	uint8_t config_mask[sizeof(struct row_kernel_config)];	/* bytes that belong to members */
	struct map function_index;
	struct api_function *functions;
	size_t function_count;
	struct arena function_names;

	struct segment_file file;
	char *directory, *prefix;
	uint32_t file_number;		/* to try next */
	struct segment_identity identity;
	uint32_t serial;		/* of the segment that rows go to: 1, 2 … */
	bool rotate;			/* that segment is still to be created */
	uint64_t segment_bytes, max_bytes;
	uint32_t string_length_max;

	struct loss_tally lost;		/* not yet in a row */
	struct loss_tally sealed_losses;	/* in rows of blocks that are not written */
	int stopped;			/* errno, 0 while writing works */
	struct writer_stats stats;
};

/* The tables that rows refer to, in the order in which they refer to each other. */
static const enum table_id referred[] = { TABLE_string, TABLE_kernel_config, TABLE_api_function };

static bool is_referred(enum table_id table)
{
	return table == TABLE_string || table == TABLE_kernel_config || table == TABLE_api_function;
}

/* ---- loss ---- */

static enum loss_reason stop_reason(const struct writer *w)
{
	if (w->stopped == EFBIG && w->max_bytes > 0)
		return loss_reason_size_limit;
	if (w->stopped == ENOSPC || w->stopped == EDQUOT)
		return loss_reason_disk_full;
	return loss_reason_write_error;
}

/* `count` rows of a table are lost; those of the tables that others refer to are not the caller's. */
static void lose_rows(struct writer *w, enum table_id table, enum loss_reason reason, uint64_t count,
		      uint64_t start_ns, uint64_t end_ns)
{
	if (is_referred(table) || count == 0)
		return;
	if (start_ns == 0 && end_ns == 0)
		start_ns = end_ns = clock_monotonic_ns();
	w->stats.lost_rows += count;
	loss_add(&w->lost, reason, count, start_ns, end_ns);
}

static void lose_row(struct writer *w, enum table_id table, enum loss_reason reason, const void *row)
{
	const struct table_schema *schema = w->tables[table].schema;
	int column = schema->time_column;
	uint64_t time = 0;

	if (table == TABLE_loss) {
		loss_add_row(&w->lost, row);
		w->stats.lost_rows++;
		return;
	}
	if (column >= 0 && !(load_u64(row) >> column & 1))
		time = load_u64((const uint8_t *)row + schema->columns[column].row_offset);
	lose_rows(w, table, reason, 1, time, time);
}

/* Writes the reserve of the segment anew, so that it has all that was lost since writing stopped. */
static void write_reserve(struct writer *w)
{
	struct row_loss rows[LOSS_REASONS];
	struct block_rows in = { .table = schema_table(TABLE_loss), .rows = rows };
	struct block_header header;

	in.count = loss_rows(&w->lost, rows);
	strbuf_clear(&w->out);
	if (in.count > 0 && w->file.fd >= 0 &&
	    block_build(&w->builder, &in, w->file.block_count, &w->out, &header) == 0)
		segment_file_reserve(&w->file, w->out.data, w->out.length);
	strbuf_clear(&w->out);
}

/* Writing does not work any more: everything that waits is lost. */
static void stop(struct writer *w, int error)
{
	w->stopped = w->stats.error = error;
	for (size_t i = 0; i < w->pending_count; i++) {
		const struct block_header *h = &w->pending[i].header;

		if (h->table != TABLE_loss)
			lose_rows(w, h->table, stop_reason(w), h->rows, h->start_ns, h->end_ns);
		else
			w->stats.lost_rows += h->rows;
	}
	loss_add_tally(&w->lost, &w->sealed_losses);
	w->pending_count = 0;
	for (unsigned t = 1; t <= TABLE_MAX; t++) {
		struct table_buffer *table = &w->tables[t];

		for (size_t i = 0; i < table->count; i++)
			lose_row(w, t, stop_reason(w), table->rows + i * table->schema->row_size);
		table->count = 0;
		strbuf_clear(&table->bytes);
	}
	write_reserve(w);
}

/* ---- segments ---- */

/* Begins the segment that rows go to, and closes the one before. */
static int next_segment(struct writer *w, struct error *e)
{
	struct segment_file file = { .index = NULL, .fd = -1 };
	struct segment_identity identity = w->identity;
	int r;

	identity.number = w->serial - 1;
	r = segment_file_create(&file, &identity, &w->file_number, e);
	if (r < 0)
		return r;
	if (w->file.fd >= 0) {
		struct strbuf buffer = STRBUF_INIT;
		uint64_t before = w->file.end;

		segment_file_finish(&w->file, &buffer);
		w->stats.bytes += w->file.end - before;
		strbuf_release(&buffer);
	}
	file.index = w->file.index;
	w->file = file;
	w->stats.bytes += file.end;
	w->rotate = false;
	return 0;
}

/* How many bytes of the first whole blocks in `out` are within `limit`; *blocks: how many blocks that are. */
static size_t whole_blocks(const struct writer *w, uint64_t limit, size_t *blocks)
{
	size_t bytes = 0, n = 0;

	while (n < w->pending_count && bytes + w->pending[n].length <= limit)
		bytes += w->pending[n++].length;
	*blocks = n;
	return bytes;
}

/* Appends what is in `out` to the segment. */
static void write_out(struct writer *w)
{
	uint64_t room = UINT64_MAX, start = clock_monotonic_ns();
	size_t good = 0, blocks = 0;
	int error = w->rotate ? -next_segment(w, NULL) : 0;

	if (w->max_bytes)
		room = w->max_bytes > w->stats.bytes ? w->max_bytes - w->stats.bytes : 0;
	if (!error) {
		size_t wanted = whole_blocks(w, room, &blocks);

		error = wanted < w->out.length ? EFBIG : 0;
		good = whole_blocks(w, segment_file_write(&w->file, w->out.data, wanted, &error), &blocks);
	}
	for (size_t i = 0, at = w->file.end; i < blocks; at += w->pending[i++].length)
		segment_file_index(&w->file, &w->pending[i].header, at);
	segment_file_accept(&w->file, good);
	w->stats.bytes += good;
	w->stats.blocks += blocks;
	w->stats.write_ns += clock_monotonic_ns() - start;
	w->pending_count -= blocks;
	memmove(w->pending, w->pending + blocks, w->pending_count * sizeof(*w->pending));
	strbuf_clear(&w->out);
	if (error)
		stop(w, error);
	w->pending_count = 0;
	loss_clear(&w->sealed_losses);
}

/* ---- tables ---- */

static void seal(struct writer *w, enum table_id table)
{
	struct table_buffer *t = &w->tables[table];
	struct block_rows in = { .table = t->schema, .rows = t->rows, .count = t->count,
				 .bytes = (const uint8_t *)t->bytes.data };
	struct pending_block *p = &w->pending[w->pending_count];
	size_t start = w->out.length;

	if (t->count == 0 || w->pending_count == PENDING_MAX)
		return;
	if (block_build(&w->builder, &in, w->file.block_count + w->pending_count, &w->out, &p->header) == 0) {
		p->length = w->out.length - start;
		w->pending_count++;
		if (table == TABLE_loss)
			for (size_t i = 0; i < t->count; i++)
				loss_add_row(&w->sealed_losses, (struct row_loss *)(void *)t->rows + i);
	} else {
		for (size_t i = 0; i < t->count; i++)
			lose_row(w, table, loss_reason_no_memory, t->rows + i * t->schema->row_size);
	}
	t->count = 0;
	strbuf_clear(&t->bytes);
}

/* Seals a table after those that it refers to. */
static void seal_in_order(struct writer *w, enum table_id table)
{
	for (size_t i = 0; i < ARRAY_SIZE(referred) && table != referred[i]; i++)
		seal(w, referred[i]);
	seal(w, table);
}

/* Copies a row to its table's buffer, which has room for it. False: no memory. */
static bool push_row(struct writer *w, enum table_id table, const void *row)
{
	struct table_buffer *t = &w->tables[table];
	struct row_string *string;

	if (t->count >= t->capacity &&
	    vec_grow((void **)&t->rows, &t->capacity, t->count + 1, t->schema->row_size) < 0)
		return false;
	memcpy(t->rows + t->count * t->schema->row_size, row, t->schema->row_size);
	if (table == TABLE_string) {
		string = (struct row_string *)(void *)t->rows + t->count;
		if (!strbuf_reserve(&t->bytes, string->text.length)) {
			t->bytes.failed = false;
			return false;
		}
		strbuf_add(&t->bytes, string->text.data, string->text.length);
		string->text.data = (const void *)(t->bytes.length - string->text.length);
	}
	t->count++;
	return true;
}

/* push_row for the tables that others refer to: these may be sealed at any moment. */
static bool push_referred(struct writer *w, enum table_id table, const void *row)
{
	struct table_buffer *t = &w->tables[table];

	if (t->count >= ROWS_MAX || t->bytes.length >= BYTES_MAX)
		seal_in_order(w, table);
	if (push_row(w, table, row))
		return true;
	loss_add(&w->lost, loss_reason_no_memory, 1, clock_monotonic_ns(), clock_monotonic_ns());
	return false;
}

/* ---- what rows refer to ---- */

static void need_string(struct writer *w, uint32_t id)
{
	static const struct interned fixed[STRING_FIRST] = { { "", 0 }, { "?", 1 } };
	const struct interned *text;
	struct row_string row = { .id = id };
	uint32_t *serial;

	if (id < STRING_FIRST) {
		text = &fixed[id];
		serial = &w->fixed_serials[id];
	} else {
		text = id_space_find(&w->strings, id, &serial);
	}
	if (!text || *serial == w->serial)
		return;
	row.text = (struct bytes_value){ text->text, text->length };
	if (push_referred(w, TABLE_string, &row))
		*serial = w->serial;
}

static void need_config(struct writer *w, uint32_t id)
{
	const struct interned *item;
	struct row_kernel_config row;
	uint32_t *serial;

	item = id_space_find(&w->configs, id, &serial);
	if (!item || *serial == w->serial)
		return;
	memcpy(&row, item->text, sizeof(row));
	row.id = id;
	need_string(w, row.name);
	if (push_referred(w, TABLE_kernel_config, &row))
		*serial = w->serial;
}

static void need_function(struct writer *w, uint32_t id)
{
	struct row_api_function row = { .id = id };
	struct api_function *f;
	uint64_t index;

	if (!map_get(&w->function_index, id, &index))
		return;
	f = &w->functions[index];
	if (f->serial == w->serial)
		return;
	row.name = writer_string(w, f->name, f->name_length);
	row.kind = f->kind;
	need_string(w, row.name);
	if (push_referred(w, TABLE_api_function, &row))
		f->serial = w->serial;
}

static void need_references(struct writer *w, struct table_buffer *t, const uint8_t *row)
{
	uint64_t missing = load_u64(row);
	int column = t->config_column >= 0 ? t->config_column : t->function_column;

	for (uint64_t left = t->strings & ~missing; left; left &= left - 1) {
		const struct column_schema *c = &t->schema->columns[__builtin_ctzll(left)];

		need_string(w, load_u32(row + c->row_offset));
	}
	if (column >= 0 && !(missing >> column & 1)) {
		uint32_t id = load_u32(row + t->schema->columns[column].row_offset);

		if (t->last_reference == id && t->last_serial == w->serial)
			return;
		t->last_reference = id;
		t->last_serial = w->serial;
		if (t->config_column >= 0)
			need_config(w, id);
		else
			need_function(w, id);
	}
}

uint32_t writer_string(struct writer *w, const char *text, size_t length)
{
	uint64_t now;
	int64_t id;

	if (!text || length == 0)
		return STRING_NONE;
	if (length > w->string_length_max) {
		now = clock_monotonic_ns();
		loss_add(&w->lost, loss_reason_string_limit, 1, now, now);
		length = w->string_length_max;
	}
	id = id_space_add(&w->strings, text, length);
	if (id >= 0)
		return (uint32_t)id;
	now = clock_monotonic_ns();
	loss_add(&w->lost, loss_reason_no_memory, 1, now, now);
	return STRING_UNKNOWN;
}

uint32_t writer_kernel_config(struct writer *w, const struct row_kernel_config *row)
{
	const struct table_schema *schema = w->tables[TABLE_kernel_config].schema;
	struct row_kernel_config key;
	const uint8_t *from = (const uint8_t *)row;
	uint8_t *to = (uint8_t *)&key;
	uint64_t now;
	int64_t id;

	for (size_t i = 0; i < sizeof(key); i++)
		to[i] = from[i] & w->config_mask[i];
	for (uint64_t left = row->missing; left; left &= left - 1) {
		int column = __builtin_ctzll(left);

		if (column < COLUMNS_kernel_config)
			memset(to + schema->columns[column].row_offset, 0, schema->columns[column].width);
	}
	id = id_space_add(&w->configs, &key, sizeof(key));
	if (id >= 0)
		return (uint32_t)id;
	now = clock_monotonic_ns();
	loss_add(&w->lost, loss_reason_no_memory, 1, now, now);
	return UINT32_MAX;
}

void writer_api_function(struct writer *w, uint32_t id, const struct row_api_function *row)
{
	struct api_function *f = &w->functions[w->function_count];
	const struct interned *name = NULL;
	uint32_t *serial;
	uint64_t index;

	if (!row || w->function_count == FUNCTIONS_MAX || map_get(&w->function_index, id, &index))
		return;
	name = id_space_find(&w->strings, row->name, &serial);
	*f = (struct api_function){ .id = id, .kind = row->kind, .name = "" };
	if (name) {
		f->name = arena_strndup(&w->function_names, name->text, name->length);
		f->name_length = name->length;
	}
	if (f->name && map_put(&w->function_index, id, w->function_count) == 0)
		w->function_count++;
}

/* ---- the rest of the interface ---- */

void writer_append(struct writer *w, enum table_id table, const void *row)
{
	struct table_buffer *t = &w->tables[table];

	w->stats.rows++;
	if (w->stopped) {
		lose_row(w, table, stop_reason(w), row);
		return;
	}
	if (t->count >= ROWS_MAX || t->bytes.length >= BYTES_MAX) {
		seal_in_order(w, table);
		if (w->out.length >= OUT_MAX || w->pending_count >= PENDING_MAX / 2)
			writer_flush(w);
		if (w->stopped) {
			lose_row(w, table, stop_reason(w), row);
			return;
		}
	}
	need_references(w, t, row);
	if (!push_row(w, table, row))
		lose_row(w, table, loss_reason_no_memory, row);
}

/* Losses so far become rows, where there is memory for them. */
static void append_losses(struct writer *w)
{
	struct table_buffer *t = &w->tables[TABLE_loss];
	struct row_loss rows[LOSS_REASONS];
	size_t count;

	if (!w->lost.any || t->count + LOSS_REASONS > ROWS_MAX ||
	    (t->count + LOSS_REASONS > t->capacity &&
	     vec_grow((void **)&t->rows, &t->capacity, t->count + LOSS_REASONS, sizeof(*rows)) < 0))
		return;
	count = loss_rows(&w->lost, rows);
	loss_clear(&w->lost);
	for (size_t i = 0; i < count; i++)
		if (!push_row(w, TABLE_loss, &rows[i]))
			loss_add_row(&w->lost, &rows[i]);
}

int writer_flush(struct writer *w)
{
	if (w->stopped) {
		write_reserve(w);
		return -w->stopped;
	}
	append_losses(w);
	for (size_t i = 0; i < ARRAY_SIZE(referred); i++)
		seal(w, referred[i]);
	for (unsigned t = 1; t <= TABLE_MAX; t++)
		seal(w, t);
	if (w->pending_count > 0)
		write_out(w);
	if (!w->stopped && !w->rotate &&
	    (w->file.end >= w->segment_bytes || w->file.block_count > INDEX_BLOCKS_MAX - PENDING_MAX)) {
		w->rotate = true;
		w->serial++;
	}
	return -w->stopped;
}

void writer_stats(const struct writer *w, struct writer_stats *stats)
{
	*stats = w->stats;
}

/* ---- opening and closing ---- */

static void prepare_tables(struct writer *w)
{
	const struct table_schema *configs = schema_table(TABLE_kernel_config);

	for (unsigned id = 1; id <= TABLE_MAX; id++) {
		struct table_buffer *t = &w->tables[id];

		t->schema = schema_table(id);
		t->config_column = t->function_column = -1;
		for (int c = 0; c < t->schema->column_count; c++) {
			const struct column_schema *column = &t->schema->columns[c];

			if (column->type == COLUMN_TYPE_STRING)
				t->strings |= UINT64_C(1) << c;
			if (column->type == COLUMN_TYPE_REF && column->ref == TABLE_kernel_config)
				t->config_column = c;
			if (column->type == COLUMN_TYPE_REF && column->ref == TABLE_api_function)
				t->function_column = c;
		}
	}
	for (int c = 0; c < configs->column_count; c++)
		if (c != COLUMN_kernel_config_id)
			memset(w->config_mask + configs->columns[c].row_offset, 0xff,
			       configs->columns[c].width);
	memset(w->config_mask, 0xff, sizeof(uint64_t));
}

static void set_options(struct writer *w, const struct writer_options *o)
{
	size_t string_bytes = o->string_bytes_max ? o->string_bytes_max : 8u << 20;

	w->segment_bytes = o->segment_bytes ? o->segment_bytes : 64u << 20;
	w->max_bytes = o->max_bytes;
	w->string_length_max = o->string_length_max ? MIN(o->string_length_max, BYTES_MAX) : 64u << 10;
	id_space_init(&w->strings, STRING_FIRST, string_bytes / 2, SIZE_MAX);
	id_space_init(&w->configs, 0, SIZE_MAX, CONFIGS_MAX);
	interner_init(&w->strings.previous.texts);
}

static int set_identity(struct writer *w, const struct writer_options *o)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	w->directory = realpath(o->directory, NULL);
	if (!w->directory)
		return -errno;
	w->prefix = strdup(o->prefix ? o->prefix : pid);
	w->functions = calloc(FUNCTIONS_MAX, sizeof(*w->functions));
	w->file.index = malloc(INDEX_BLOCKS_MAX * INDEX_ENTRY_BYTES);
	if (!w->prefix || !w->functions || !w->file.index)
		return -ENOMEM;
	w->identity.directory = w->directory;
	w->identity.prefix = w->prefix;
	w->identity.pid = (uint32_t)getpid();
	if (getrandom(&w->identity.session, sizeof(w->identity.session), 0) !=
	    sizeof(w->identity.session))
		w->identity.session = hash_u64(clock_monotonic_ns() ^ (uint64_t)getpid() << 40);
	return 0;
}

static void free_writer(struct writer **w)
{
	struct writer *old = *w;

	*w = NULL;
	segment_file_forget(&old->file);
	for (unsigned t = 1; t <= TABLE_MAX; t++) {
		free(old->tables[t].rows);
		strbuf_release(&old->tables[t].bytes);
	}
	block_builder_release(&old->builder);
	strbuf_release(&old->out);
	id_space_release(&old->strings);
	id_space_release(&old->configs);
	map_release(&old->function_index);
	arena_release(&old->function_names);
	free(old->functions);
	free(old->file.index);
	free(old->directory);
	free(old->prefix);
	free(old);
}

int writer_open(const struct writer_options *options, struct writer **out, struct error *e)
{
	struct writer *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return error_errno(e, ENOMEM, "cannot write to '%s'", options->directory);
	w->file.fd = -1;
	w->serial = 1;
	prepare_tables(w);
	set_options(w, options);
	r = set_identity(w, options);
	if (r == 0)
		r = block_builder_init(&w->builder, ROWS_MAX,
				       options->compression_level ? options->compression_level : 1);
	if (r < 0)
		error_errno(e, -r, "cannot write to '%s'", options->directory);
	else
		r = next_segment(w, e);
	if (r < 0) {
		free_writer(&w);
		return r;
	}
	*out = w;
	return 0;
}

int writer_close(struct writer **w)
{
	int r, finish = 0;

	if (!*w)
		return 0;
	r = writer_flush(*w);
	if ((*w)->file.fd >= 0)
		finish = segment_file_finish(&(*w)->file, &(*w)->out);
	free_writer(w);
	return r < 0 ? r : finish;
}

void writer_abandon(struct writer **w)
{
	if (*w)
		free_writer(w);
}
