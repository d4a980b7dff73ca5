/*
 * How rows become segments:
 *
 * - writer_append() copies a row to its table's buffer. A row that refers to a string, a kernel
 *   configuration or an API function that this segment does not have yet first puts that row into
 *   its own table's buffer (`serial` says which segment has it). So ids can be handed out at any
 *   time and rows may wait across a change of segments.
 * - Sealing a table turns its buffer into a block at the end of `out`. The tables that others refer
 *   to are always sealed first, so a block comes after what it refers to.
 * - write_out() appends `out` to the file with one pwrite(2). Of a write that was cut short the
 *   whole blocks are kept. The first failure stops writing for good; from then on rows are only
 *   counted, and the counts are kept up to date in the segment's reserve.
 * - A new segment is begun only when all buffers are empty, after a flush.
 * - Stacks are kept by somebody else, who is asked for those that this segment does not have yet.
 */
#include "format/writer_state.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/vec.h"

/* The tables that rows refer to, in the order in which they refer to each other. */
static const enum table_id referred_tables[] = { TABLE_string,       TABLE_kernel_config,
						 TABLE_api_function, TABLE_stack_node,
						 TABLE_stack,        0 };
#define FOR_EACH_REFERRED(table) for (const enum table_id *table = referred_tables; *table; table++)

/* ---- loss ---- */

static enum loss_reason stop_reason(const struct writer *w)
{
	if (w->max_bytes_reached)
		return loss_reason_size_limit;
	if (w->stopped == ENOSPC || w->stopped == EDQUOT)
		return loss_reason_disk_full;
	return loss_reason_write_error;
}

/*
 * `count` rows of a table are lost; those of the tables that others refer to are not the caller's.
 */
static void lose_rows(struct writer *w, enum table_id table, enum loss_reason reason,
		      uint64_t count, uint64_t start_ns, uint64_t end_ns)
{
	FOR_EACH_REFERRED(referred)
	if (table == *referred)
		return;
	if (start_ns == 0 && end_ns == 0)
		start_ns = end_ns = clock_monotonic_ns();
	w->stats.lost_rows += count;
	loss_add(&w->lost, reason, count, start_ns, end_ns);
}

/* A row of `loss` is not lost: it is added up and gets into the reserve. */
static void lose_row(struct writer *w, enum table_id table, enum loss_reason reason,
		     const void *row)
{
	const struct table_schema *schema = w->tables[table].schema;
	int column = schema->time_column;
	uint64_t time = 0;

	if (table == TABLE_loss) {
		loss_add_row(&w->lost, row);
		return;
	}
	if (column >= 0 && !(load_u64(row) >> column & 1))
		time = load_u64((const uint8_t *)row + schema->columns[column].row_offset);
	lose_rows(w, table, reason, 1, time, time);
}

static void lose_table(struct writer *w, enum table_id table, enum loss_reason reason)
{
	struct table_buffer *t = &w->tables[table];

	for (size_t i = 0; i < t->count; i++)
		lose_row(w, table, reason, t->rows + i * t->schema->row_size);
	t->count = 0;
	strbuf_clear(&t->bytes);
}

void writer_lose_now(struct writer *w, enum loss_reason reason)
{
	uint64_t now = clock_monotonic_ns();

	loss_add(&w->lost, reason, 1, now, now);
}

/*
 * Writes the reserve of the segment anew, so that it has all that was lost since writing stopped.
 */
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

void writer_keep_losses(struct writer *w)
{
	if (!w->stopped && w->lost.any)
		write_reserve(w);
}

/* Writing does not work any more: everything that waits is lost. */
static void stop(struct writer *w, int error)
{
	enum loss_reason reason;

	w->stopped = w->stats.error = error;
	reason = stop_reason(w);
	for (size_t i = 0; i < w->pending_count; i++) {
		const struct block_header *h = &w->pending[i].header;

		if (h->table != TABLE_loss) {
			lose_rows(w, h->table, reason, h->rows, h->start_ns, h->end_ns);
			continue;
		}
		loss_add_tally(&w->lost, &w->sealed_losses);
		loss_clear(&w->sealed_losses);
	}
	w->pending_count = 0;
	for (unsigned t = 1; t <= TABLE_MAX; t++)
		lose_table(w, t, reason);
	write_reserve(w);
}

/* ---- segments ---- */

int writer_next_segment(struct writer *w, struct error *e)
{
	struct segment_file file = { .index = NULL, .fd = -1 };
	struct segment_identity identity = w->identity;
	int r;

	identity.number = w->serial - 1;
	r = segment_file_create(&file, &identity, &w->file_number, e);
	if (r < 0)
		return r;
	if (w->file.fd >= 0) {
		uint64_t before = w->file.end;

		segment_file_finish(&w->file, &w->scratch);
		w->stats.bytes += w->file.end - before;
	}
	file.index = w->file.index;
	w->file = file;
	w->stats.bytes += file.end;
	w->rotate = false;
	return 0;
}

/*
 * How many bytes of the first whole blocks in `out` are within `limit`; *blocks: how many blocks
 * that are.
 */
static size_t whole_blocks(const struct writer *w, uint64_t limit, size_t *blocks)
{
	size_t bytes = 0, n = 0;

	while (n < w->pending_count && bytes + w->pending[n].length <= limit)
		bytes += w->pending[n++].length;
	*blocks = n;
	return bytes;
}

/* How many bytes of blocks may be written, so that index and trailer are still within max_bytes. */
static uint64_t room_left(const struct writer *w)
{
	uint64_t used =
		w->stats.bytes + segment_file_end_bytes(w->file.block_count + w->pending_count);

	if (w->rotate)
		used += SEGMENT_START_BYTES + segment_file_end_bytes(0);
	if (!w->max_bytes)
		return UINT64_MAX;
	return w->max_bytes > used ? w->max_bytes - used : 0;
}

/* The first blocks are on disk. */
static void accept_blocks(struct writer *w, size_t blocks, size_t good, size_t written)
{
	for (size_t i = 0, at = w->file.end; i < blocks; at += w->pending[i++].length)
		segment_file_index(&w->file, &w->pending[i].header, at);
	segment_file_accept(&w->file, good, written);
	w->stats.bytes += good;
	w->stats.blocks += blocks;
	w->pending_count -= blocks;
	memmove(w->pending, w->pending + blocks, w->pending_count * sizeof(*w->pending));
}

/* Appends what is in `out` to the segment. */
static void write_out(struct writer *w)
{
	uint64_t start = clock_monotonic_ns();
	size_t blocks, wanted = whole_blocks(w, room_left(w), &blocks), written = 0, good;
	int error = 0;

	if (wanted && w->rotate)
		error = -writer_next_segment(w, NULL);
	if (wanted && !error)
		written = segment_file_write(&w->file, w->out.data, wanted, &error);
	good = whole_blocks(w, written, &blocks);
	accept_blocks(w, blocks, good, written);
	w->stats.writes++;
	w->stats.write_ns += clock_monotonic_ns() - start;
	strbuf_clear(&w->out);
	if (!error && w->pending_count > 0) {
		error = EFBIG;
		w->max_bytes_reached = true;
	}
	if (error)
		stop(w, error);
	w->pending_count = 0;
	loss_clear(&w->sealed_losses);
}

/* ---- tables ---- */

/* Turns a table's rows into a block. */
static void seal(struct writer *w, enum table_id table)
{
	struct table_buffer *t = &w->tables[table];
	struct block_rows in = { .table = t->schema,
				 .rows = t->rows,
				 .count = t->count,
				 .bytes = (const uint8_t *)t->bytes.data };
	struct pending_block *p = &w->pending[w->pending_count];
	uint64_t number = (w->rotate ? 0 : w->file.block_count) + w->pending_count;
	size_t start = w->out.length;

	if (t->count == 0)
		return;
	if (w->pending_count == WRITER_PENDING_MAX ||
	    block_build(&w->builder, &in, number, &w->out, &p->header) < 0) {
		lose_table(w, table, loss_reason_no_memory);
		return;
	}
	p->length = w->out.length - start;
	w->pending_count++;
	if (table == TABLE_loss)
		for (size_t i = 0; i < t->count; i++)
			loss_add_row(&w->sealed_losses, (struct row_loss *)(void *)t->rows + i);
	t->count = 0;
	strbuf_clear(&t->bytes);
}

/* Seals a table after those that it refers to. */
static void seal_in_order(struct writer *w, enum table_id table)
{
	FOR_EACH_REFERRED(referred)
	{
		if (*referred == table)
			break;
		seal(w, *referred);
	}
	seal(w, table);
}

static bool is_full(const struct table_buffer *t)
{
	return t->count >= WRITER_ROWS_MAX || t->bytes.length >= WRITER_BYTES_MAX;
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

bool writer_push_referred(struct writer *w, enum table_id table, const void *row)
{
	if (is_full(&w->tables[table]))
		seal_in_order(w, table);
	if (push_row(w, table, row))
		return true;
	writer_lose_now(w, loss_reason_no_memory);
	return false;
}

/* ---- the interface ---- */

void writer_append(struct writer *w, enum table_id table, const void *row)
{
	struct table_buffer *t = &w->tables[table];

	w->stats.rows++;
	if (!w->stopped && is_full(t)) {
		seal_in_order(w, table);
		if (w->out.length >= WRITER_BYTES_MAX || w->pending_count >= WRITER_PENDING_MAX / 2)
			writer_flush(w);
	}
	if (w->stopped) {
		lose_row(w, table, stop_reason(w), row);
		return;
	}
	if (w->repeated_serial != w->serial)
		writer_repeat(w);
	writer_need_references(w, t, row);
	if (!push_row(w, table, row))
		lose_row(w, table, loss_reason_no_memory, row);
	if (t->schema->repeated)
		writer_remember(w, table, row);
}

/* Losses so far become rows, unless there is no memory for them. */
static void append_losses(struct writer *w)
{
	struct row_loss rows[LOSS_REASONS];
	size_t count = loss_rows(&w->lost, rows);

	if (is_full(&w->tables[TABLE_loss]))
		return;
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
	FOR_EACH_REFERRED(referred)
	seal(w, *referred);
	for (unsigned t = 1; t <= TABLE_MAX; t++)
		seal(w, t);
	if (w->pending_count > 0)
		write_out(w);
	if (w->hold)
		w->hold--;
	if (!w->stopped && !w->rotate &&
	    ((w->file.end >= w->segment_bytes && !w->hold) ||
	     w->file.block_count > INDEX_BLOCKS_MAX - WRITER_PENDING_MAX)) {
		w->rotate = true;
		w->serial++;
	}
	return -w->stopped;
}

void writer_stats(const struct writer *w, struct writer_stats *stats)
{
	*stats = w->stats;
}
