/*
 * recording_sink.c: a sink that writes rows as blocks.
 *
 * - append copies a row to its table's buffer. A full table is sealed into a block at the end of
 *   the current batch; a seal seals all tables. Tables that others refer to are sealed first, so
 *   that a block follows the blocks that it refers to.
 * - A batch goes to the queue (block_queue.h) when it is large, and at a seal.
 * - When the queue cannot write or is full, the rest of the epoch is lost: rows of all tables,
 *   because what they refer to may be lost as well. The sink requests a new epoch as soon as it
 *   makes sense to try again.
 * - A segment begins with an epoch of the writer, so that it can be read alone, and may contain
 *   several. A large enough segment makes the sink request an epoch, too, and ends with the
 *   current one.
 * - After a disk error the sink tries again once a second, in the current segment. Only max_bytes
 *   ends a recording.
 */
#include "format/writer.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/vec.h"
#include "format/block_queue.h"

/*
 * Rows of a block. An eager training has 9,200 kernels between two seals: as a block of 8,192 plus
 * a small one they take 5 % more bytes and 15 % more CPU time. 16,384 would take 1 MiB more memory.
 */
#define ROWS_MAX 12288u
#define BYTES_MAX (1u << 20) /* of a block's BYTES column */
#define SEGMENT_BYTES (64u << 20)
#define SYNC_NS (10 * NS_PER_MS) /* how long a seal waits for the disk */

_Static_assert(ROWS_MAX <= BLOCK_ROWS_MAX, "readers refuse more");

struct table_buffer {
	const struct table_schema *schema;
	uint8_t *rows;
	size_t count, capacity;
	struct strbuf bytes; /* contents of BYTES values */
};

struct recording_sink {
	struct sink sink;
	struct table_buffer tables[TABLE_MAX + 1];
	struct block_builder builder;
	struct block_queue queue;
	struct block_batch *batch; /* current batch, or NULL */
	uint64_t segment_bytes; /* size at which a segment is full */
	uint64_t next_block, bytes; /* in the segment that blocks are sealed for */
	bool full; /* that segment is full */
	bool begins_segment, begins_again; /* flags of the next batch */
	bool dropping; /* drops all rows until the next epoch */
};

static struct recording_sink *of(struct sink *s)
{
	return (struct recording_sink *)s;
}

/* ---- loss ---- */

static void lose_table(struct recording_sink *s, struct table_buffer *t, enum loss_reason reason)
{
	for (size_t i = 0; i < t->count; i++)
		block_queue_lose_row(&s->queue, t->schema, reason,
				     t->rows + i * t->schema->row_size);
	s->sink.wants_epoch |= t->count && t->schema->repeated;
	t->count = 0;
	strbuf_clear(&t->bytes);
}

/* Drops the rest of the epoch. */
static void drop_epoch(struct recording_sink *s)
{
	enum loss_reason reason = block_queue_reason(&s->queue);

	s->dropping = true;
	for (unsigned id = 1; id <= TABLE_MAX; id++)
		lose_table(s, &s->tables[id], reason);
	s->sink.wants_epoch = false;
}

/* ---- blocks ---- */

/* Submits the current batch to the queue. */
static void put_batch(struct recording_sink *s)
{
	struct block_batch *batch = s->batch;
	uint64_t blocks, bytes;

	if (!batch || batch->count == 0)
		return;
	batch->begins_segment = s->begins_segment;
	batch->begins_again = s->begins_again;
	blocks = batch->count;
	bytes = batch->bytes.length;
	s->batch = NULL;
	if (block_queue_put(&s->queue, batch) == 0) {
		s->begins_segment = s->begins_again = false;
		return;
	}
	s->next_block -= blocks;
	s->bytes -= bytes;
	drop_epoch(s);
}

/* Seals a table's rows into a block of the current batch. */
static void seal_table(struct recording_sink *s, struct table_buffer *t)
{
	struct block_rows in = { .table = t->schema,
				 .rows = t->rows,
				 .count = t->count,
				 .bytes = (const uint8_t *)t->bytes.data };
	struct sealed_block *block;
	struct block_batch *b;
	size_t start;

	if (t->count == 0)
		return;
	if (!s->batch)
		s->batch = block_queue_batch(&s->queue);
	b = s->batch;
	if (!b || b->count == BATCH_BLOCKS_MAX) {
		lose_table(s, t, loss_reason_no_memory);
		return;
	}
	start = b->bytes.length;
	block = &b->blocks[b->count];
	if (block_build(&s->builder, &in, s->next_block, &b->bytes, &block->header) < 0) {
		lose_table(s, t, loss_reason_no_memory);
		return;
	}
	block->length = b->bytes.length - start;
	b->count++;
	s->next_block++;
	s->bytes += block->length;
	for (size_t i = 0; t->schema->id == TABLE_loss && i < t->count; i++)
		loss_add_row(&b->losses, (struct row_loss *)(void *)t->rows + i);
	t->count = 0;
	strbuf_clear(&t->bytes);
}

/* Seals the tables of interned definitions, in the order in which they refer to each other. */
static void seal_interned(struct recording_sink *s)
{
	for (unsigned id = 1; id <= TABLE_MAX; id++)
		if (s->tables[id].schema->repeated == REPEAT_INTERNED)
			seal_table(s, &s->tables[id]);
}

/* Seals a full table after the tables that it refers to. */
static NOINLINE void seal_full(struct recording_sink *s, struct table_buffer *t)
{
	if (t->schema->repeated == REPEAT_INTERNED) {
		for (unsigned id = 1; id < t->schema->id; id++)
			if (s->tables[id].schema->repeated == REPEAT_INTERNED)
				seal_table(s, &s->tables[id]);
	} else {
		seal_interned(s);
		for (int c = 0; c < t->schema->column_count; c++)
			if (t->schema->columns[c].type == COLUMN_TYPE_REF)
				seal_table(s, &s->tables[t->schema->columns[c].ref]);
	}
	seal_table(s, t);
	if (s->batch &&
	    (s->batch->bytes.length >= BATCH_BYTES || s->batch->count >= BATCH_BLOCKS_MAX / 2))
		put_batch(s);
}

static void seal_all(struct recording_sink *s)
{
	seal_interned(s);
	for (unsigned id = 1; id <= TABLE_MAX; id++)
		seal_table(s, &s->tables[id]);
	if (s->batch && s->queue.journal) {
		s->batch->is_complete = true;
		s->batch->covered =
			(struct journal_commit){ .position = journal_head(s->queue.journal),
						 .skipped = s->queue.journal->skipped };
	}
	put_batch(s);
}

static bool is_full(const struct table_buffer *t)
{
	return t->count >= ROWS_MAX || t->bytes.length >= BYTES_MAX;
}

/* Copies a row to its table's buffer, which has room for it. Returns false without memory. */
static bool push_row(struct table_buffer *t, const void *row)
{
	struct row_string *string;

	if (t->count >= t->capacity &&
	    vec_grow((void **)&t->rows, &t->capacity, t->count + 1, t->schema->row_size) < 0)
		return false;
	memcpy(t->rows + t->count * t->schema->row_size, row, t->schema->row_size);
	if (t->schema->id == TABLE_string) {
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

/* ---- the operations ---- */

static void append(struct sink *sink, enum table_id table, const void *row)
{
	struct recording_sink *s = of(sink);
	struct table_buffer *t = &s->tables[table];

	if (!s->dropping && is_full(t))
		seal_full(s, t);
	if (s->dropping) {
		block_queue_lose_row(&s->queue, t->schema, block_queue_reason(&s->queue), row);
	} else if (!push_row(t, row)) {
		block_queue_lose_row(&s->queue, t->schema, loss_reason_no_memory, row);
		sink->wants_epoch |= t->schema->repeated;
	} else if (s->queue.journal) {
		journal_append(s->queue.journal, t->schema, row);
	}
}

static void append_losses(struct recording_sink *s)
{
	struct row_loss rows[LOSS_REASONS];
	size_t count = block_queue_losses(&s->queue, rows);

	for (size_t i = 0; i < count; i++)
		append(&s->sink, TABLE_loss, &rows[i]);
}

static int seal(struct sink *sink)
{
	struct recording_sink *s = of(sink);
	int rc;

	if (!s->dropping)
		append_losses(s);
	if (!s->dropping)
		seal_all(s);
	rc = block_queue_sync(&s->queue, s->dropping, SYNC_NS);
	if (rc < 0 && !s->dropping)
		drop_epoch(s);
	if (s->dropping) {
		sink->wants_epoch = block_queue_recovered(&s->queue);
		return rc ? rc : -EAGAIN;
	}
	s->full = s->next_block &&
		  (s->bytes >= s->segment_bytes || s->next_block > INDEX_BLOCKS_MAX / 2);
	sink->wants_epoch |= s->full;
	return rc;
}

static void begin_epoch(struct sink *sink)
{
	struct recording_sink *s = of(sink);

	if (s->dropping && !block_queue_recovered(&s->queue))
		return;
	if (s->dropping && block_queue_failed(&s->queue)) {
		/* The queue is empty, so the file ends where the next block belongs. */
		s->begins_again = true;
		s->next_block = s->queue.file.block_count;
		s->bytes = s->queue.file.end;
		s->full = s->begins_segment || s->bytes >= s->segment_bytes;
	}
	s->dropping = false;
	if (s->full) {
		seal_all(s);
		s->begins_segment = true;
		s->next_block = 0;
		s->bytes = SEGMENT_START_BYTES;
		s->full = false;
	}
}

static void free_sink(struct recording_sink *s)
{
	for (unsigned id = 1; id <= TABLE_MAX; id++) {
		free(s->tables[id].rows);
		strbuf_release(&s->tables[id].bytes);
	}
	block_builder_release(&s->builder);
	free(s);
}

static int close_sink(struct sink *sink)
{
	struct recording_sink *s = of(sink);
	struct journal *journal = s->queue.journal;
	int rc;

	block_batch_free(s->batch);
	rc = block_queue_close(&s->queue);
	if (journal)
		journal_end(journal);
	free_sink(s);
	return rc;
}

static void abandon(struct sink *sink)
{
	struct recording_sink *s = of(sink);

	if (!block_queue_abandon(&s->queue))
		return;
	block_batch_free(s->batch);
	free_sink(s);
}

static void add_stats(struct sink *sink, struct writer_stats *stats)
{
	block_queue_stats(&of(sink)->queue, stats);
}

static const struct sink_ops recording_ops = {
	.name = "recording",
	.epoch = begin_epoch,
	.append = append,
	.seal = seal,
	.close = close_sink,
	.abandon = abandon,
	.stats = add_stats,
};

int recording_sink_new(const struct writer_options *o, struct sink **out, struct error *e)
{
	struct recording_sink *s = calloc(1, sizeof(*s));
	int rc;

	if (!s || block_builder_init(&s->builder, ROWS_MAX,
				     o->compression_level ? o->compression_level : 1) < 0) {
		free(s);
		return error_errno(e, ENOMEM, "cannot write to '%s'", o->directory);
	}
	s->sink.ops = &recording_ops;
	s->segment_bytes = o->segment_bytes ? o->segment_bytes
			   : o->ring_bytes  ? o->ring_bytes / RING_PARTS
					    : SEGMENT_BYTES;
	s->bytes = SEGMENT_START_BYTES;
	for (unsigned id = 1; id <= TABLE_MAX; id++)
		s->tables[id].schema = schema_table(id);
	rc = block_queue_init(&s->queue, o, e);
	if (rc < 0) {
		free_sink(s);
		return rc;
	}
	if (o->journal)
		journal_begin(o->journal, o->journal_bytes, s->queue.identity.session);
	s->queue.journal = o->journal;
	*out = &s->sink;
	return 0;
}
