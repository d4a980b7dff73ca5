#include "format/block_queue.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/helper_thread.h"
#include "base/map.h"

#define RETRY_NS NS_PER_S
#define STACK_BYTES (256u << 10)

/* ---- loss ---- */

static enum loss_reason error_reason(const struct block_queue *q, int error)
{
	if (q->full)
		return loss_reason_size_limit;
	return loss_of_error(-error);
}

/*
 * Definitions are not counted. They are repeated in the next epoch, and where an epoch is cut off,
 * the rows that refer to them are lost and counted.
 */
static void lose(struct block_queue *q, const struct table_schema *table, enum loss_reason reason,
		 uint64_t count, uint64_t start_ns, uint64_t end_ns)
{
	bool definition = table->repeated != REPEAT_NEVER;

	if (definition && reason != loss_reason_no_memory)
		return;
	if (start_ns == 0 && end_ns == 0)
		start_ns = end_ns = q->now_ns ? *q->now_ns : clock_monotonic_ns();
	q->stats.lost_rows += definition ? 0 : count;
	loss_add(&q->lost, reason, count, start_ns, end_ns);
	q->unreported = true;
}

void block_queue_lose_row(struct block_queue *q, const struct table_schema *table,
			  enum loss_reason reason, const void *row)
{
	int column = table->time_column;
	uint64_t time = 0;

	if (column >= 0 && !(load_u64(row) >> column & 1))
		time = load_u64((const uint8_t *)row + table->columns[column].row_offset);
	pthread_mutex_lock(&q->lock);
	if (table->id == TABLE_loss) {
		loss_add_row(&q->lost, row);
		q->unreported = true;
	} else {
		lose(q, table, reason, 1, time, time);
	}
	pthread_mutex_unlock(&q->lock);
}

/* Counts the blocks of a batch from number `first` on as lost. */
static void lose_blocks(struct block_queue *q, const struct block_batch *batch, size_t first,
			enum loss_reason reason)
{
	bool losses = false;

	for (size_t i = first; i < batch->count; i++) {
		const struct block_header *h = &batch->blocks[i].header;

		if (h->table == TABLE_loss)
			losses = true;
		else
			lose(q, schema_table(h->table), reason, h->rows, h->start_ns, h->end_ns);
	}
	if (losses) {
		loss_add_tally(&q->lost, &batch->losses);
		q->unreported = true;
	}
}

/* Writes the losses into the segment's reserve, which needs no disk space. */
static void write_reserve(struct block_queue *q)
{
	struct row_loss rows[LOSS_REASONS];
	struct block_rows in = { .table = schema_table(TABLE_loss), .rows = rows };
	struct block_header header;
	struct loss_tally lost, all = q->reserved;
	int rc = 0;

	pthread_mutex_lock(&q->lock);
	lost = q->lost;
	loss_clear(&q->lost);
	q->unreported = false;
	pthread_mutex_unlock(&q->lock);
	loss_add_tally(&all, &lost);
	in.count = loss_rows(&all, rows);
	strbuf_clear(&q->scratch);
	if (lost.any)
		rc = block_build(&q->builder, &in, q->file.block_count, &q->scratch, &header);
	if (lost.any && rc == 0)
		rc = segment_file_write_reserve(&q->file, q->scratch.data, q->scratch.length);
	strbuf_clear(&q->scratch);
	if (rc == 0) {
		q->reserved = all;
		return;
	}
	pthread_mutex_lock(&q->lock);
	loss_add_tally(&q->lost, &lost);
	pthread_mutex_unlock(&q->lock);
}

/* ---- writing ---- */

static void remove_oldest(struct block_queue *q)
{
	segment_file_remove(&q->identity, q->old[0].number);
	q->old_count--;
	memmove(q->old, q->old + 1, q->old_count * sizeof(*q->old));
}

/* The segment in the file has ended. */
static void trim_ring(struct block_queue *q, uint32_t number, uint64_t bytes)
{
	uint64_t sum = bytes;

	if (!q->ring_bytes)
		return;
	if (q->old_count == ARRAY_SIZE(q->old))
		remove_oldest(q);
	q->old[q->old_count++] = (struct old_segment){ number, bytes };
	for (size_t i = 0; i + 1 < q->old_count; i++)
		sum += q->old[i].bytes;
	while (sum > q->ring_bytes && q->old_count) {
		sum -= q->old[0].bytes;
		remove_oldest(q);
	}
}

static int begin_segment(struct block_queue *q, struct error *e)
{
	struct segment_file file = { .index = NULL };
	uint64_t before = q->file.end;
	uint32_t ended = q->file_number - 1;
	int rc = segment_file_create(&file, &q->identity, &q->file_number, e);

	if (rc < 0)
		return rc;
	q->identity.number++;
	if (q->file.own.fd)
		segment_file_finish(&q->file, &q->scratch);
	if (q->file.end)
		trim_ring(q, ended, q->file.end);
	before = q->file.end - before;
	file.index = q->file.index;
	q->file = file;
	loss_clear(&q->reserved);
	pthread_mutex_lock(&q->lock);
	q->stats.bytes += before + file.end;
	pthread_mutex_unlock(&q->lock);
	return 0;
}

/* Returns the bytes of the leading blocks that fit in `limit`; *blocks is their number. */
static size_t whole_blocks(const struct block_batch *batch, uint64_t limit, size_t *blocks)
{
	size_t bytes = 0, n = 0;

	while (n < batch->count && bytes + batch->blocks[n].length <= limit)
		bytes += batch->blocks[n++].length;
	*blocks = n;
	return bytes;
}

/* Returns how many bytes of blocks fit, so that index and trailer stay within max_bytes, too. */
static uint64_t room_left(const struct block_queue *q, const struct block_batch *batch)
{
	uint64_t used = q->stats.bytes + segment_file_end_bytes(q->file.block_count + batch->count);

	if (batch->begins_segment)
		used += SEGMENT_START_BYTES + segment_file_end_bytes(0);
	if (!q->max_bytes)
		return UINT64_MAX;
	return q->max_bytes > used ? q->max_bytes - used : 0;
}

/* Writes as many leading blocks as possible. Returns their number. */
static size_t write_blocks(struct block_queue *q, const struct block_batch *batch, int *error)
{
	size_t blocks, wanted = whole_blocks(batch, room_left(q, batch), &blocks), written = 0,
		       good;

	if (wanted && batch->begins_segment)
		*error = -begin_segment(q, NULL);
	if (wanted && !*error)
		written = segment_file_write(&q->file, batch->bytes.data, wanted, error);
	good = whole_blocks(batch, written, &blocks);
	for (size_t i = 0, at = q->file.end; i < blocks; at += batch->blocks[i++].length)
		segment_file_index(&q->file, &batch->blocks[i].header, at);
	segment_file_accept(&q->file, good, written);
	pthread_mutex_lock(&q->lock);
	q->stats.bytes += good;
	q->stats.blocks += blocks;
	q->full |= !*error && blocks < batch->count;
	pthread_mutex_unlock(&q->lock);
	if (q->full)
		*error = EFBIG;
	return blocks;
}

static void write_batch(struct block_queue *q, const struct block_batch *batch)
{
	uint64_t start = clock_monotonic_ns();
	int error = batch->begins_again && !q->full ? 0 : q->error;
	bool tried = !error;
	size_t blocks = 0;

	if (tried)
		blocks = write_blocks(q, batch, &error);
	pthread_mutex_lock(&q->lock);
	q->error = q->stats.error = error;
	if (tried && error)
		q->failed_ns = clock_machine_ns();
	if (tried) {
		q->stats.writes++;
		q->stats.write_ns += clock_monotonic_ns() - start;
	}
	lose_blocks(q, batch, blocks, error_reason(q, error));
	pthread_mutex_unlock(&q->lock);
	if (error)
		write_reserve(q);
	if (q->journal && batch->is_complete) {
		struct journal_commit commit = batch->covered;

		commit.end = q->file.end;
		commit.segment = q->identity.number - 1;
		journal_commit(q->journal, &commit);
	}
}

/* ---- the thread ---- */

static void recycle(struct block_queue *q, struct block_batch *batch)
{
	if (q->spare) {
		block_batch_free(batch);
		return;
	}
	strbuf_clear(&batch->bytes);
	batch->count = 0;
	batch->begins_segment = batch->begins_again = batch->is_complete = false;
	loss_clear(&batch->losses);
	q->spare = batch;
}

static void write_next(struct block_queue *q)
{
	struct block_batch *batch = q->first;

	q->busy = true;
	if (batch) {
		q->first = batch->next;
		q->last = q->first ? q->last : &q->first;
	}
	pthread_mutex_unlock(&q->lock);
	if (batch)
		write_batch(q, batch);
	else
		write_reserve(q);
	pthread_mutex_lock(&q->lock);
	q->busy = false;
	if (batch) {
		q->bytes -= batch->bytes.length;
		recycle(q, batch);
	}
	pthread_cond_broadcast(&q->changed);
}

static bool has_work(const struct block_queue *q)
{
	return q->first || (q->report_losses && q->unreported);
}

static void finish(struct block_queue *q)
{
	if (q->lost.any)
		write_reserve(q);
	q->finished = segment_file_finish(&q->file, &q->scratch);
}

static void *write_queued(void *queue)
{
	struct block_queue *q = queue;
	bool apart = segment_file_own_table(&q->file);

	pthread_setname_np(pthread_self(), "pitot");
	pthread_mutex_lock(&q->lock);
	q->apart = apart;
	while (has_work(q) || !q->ending)
		if (has_work(q))
			write_next(q);
		else
			pthread_cond_wait(&q->changed, &q->lock);
	pthread_mutex_unlock(&q->lock);
	finish(q);
	pthread_mutex_lock(&q->lock);
	q->ended = true;
	pthread_cond_broadcast(&q->changed);
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

/* ---- the interface ---- */

struct block_batch *block_queue_batch(struct block_queue *q)
{
	struct block_batch *batch;

	pthread_mutex_lock(&q->lock);
	batch = q->spare;
	q->spare = NULL;
	pthread_mutex_unlock(&q->lock);
	return batch ? batch : calloc(1, sizeof(*batch));
}

void block_batch_free(struct block_batch *batch)
{
	if (!batch)
		return;
	strbuf_release(&batch->bytes);
	free(batch);
}

int block_queue_put(struct block_queue *q, struct block_batch *batch)
{
	int rc = 0;

	if (q->background && !q->started) {
		q->shared = q->file.own;
		q->started = helper_thread_start(write_queued, q, STACK_BYTES) == 0;
		q->background = q->started;
	}
	pthread_mutex_lock(&q->lock);
	if (q->apart)
		own_fd_close(&q->shared);
	if (q->bytes && q->bytes + batch->bytes.length > QUEUE_BYTES_MAX) {
		lose_blocks(q, batch, 0, loss_reason_disk_slow);
		recycle(q, batch);
		rc = -EAGAIN;
	} else {
		batch->next = NULL;
		*q->last = batch;
		q->last = &batch->next;
		q->bytes += batch->bytes.length;
		pthread_cond_broadcast(&q->changed);
		if (!q->started)
			write_next(q);
	}
	pthread_mutex_unlock(&q->lock);
	return rc;
}

int block_queue_sync(struct block_queue *q, bool report_losses, uint64_t limit_ns)
{
	uint64_t end = clock_machine_ns() + limit_ns;
	struct timespec until = { (time_t)(end / NS_PER_S), (long)(end % NS_PER_S) };
	int rc;

	pthread_mutex_lock(&q->lock);
	q->report_losses = report_losses;
	if (q->started)
		pthread_cond_broadcast(&q->changed);
	else if (has_work(q))
		write_next(q);
	while ((q->busy || has_work(q)) &&
	       pthread_cond_clockwait(&q->changed, &q->lock, CLOCK_MONOTONIC, &until) == 0)
		;
	rc = q->error ? -q->error : q->busy || has_work(q);
	pthread_mutex_unlock(&q->lock);
	return rc;
}

enum loss_reason block_queue_reason(struct block_queue *q)
{
	enum loss_reason reason;

	pthread_mutex_lock(&q->lock);
	reason = q->error ? error_reason(q, q->error) : loss_reason_disk_slow;
	pthread_mutex_unlock(&q->lock);
	return reason;
}

bool block_queue_failed(struct block_queue *q)
{
	bool failed;

	pthread_mutex_lock(&q->lock);
	failed = q->error != 0;
	pthread_mutex_unlock(&q->lock);
	return failed;
}

size_t block_queue_losses(struct block_queue *q, struct row_loss *rows)
{
	size_t count;

	pthread_mutex_lock(&q->lock);
	count = loss_rows(&q->lost, rows);
	loss_clear(&q->lost);
	q->unreported = false;
	pthread_mutex_unlock(&q->lock);
	return count;
}

void block_queue_stats(struct block_queue *q, struct writer_stats *stats)
{
	pthread_mutex_lock(&q->lock);
	stats->bytes += q->stats.bytes;
	stats->blocks += q->stats.blocks;
	stats->lost_rows += q->stats.lost_rows;
	stats->error = stats->error ? stats->error : q->stats.error;
	stats->writes += q->stats.writes;
	stats->write_ns += q->stats.write_ns;
	pthread_mutex_unlock(&q->lock);
}

bool block_queue_recovered(struct block_queue *q)
{
	bool recovered;

	pthread_mutex_lock(&q->lock);
	if (q->error)
		recovered = !q->full && !q->first && !q->busy &&
			    clock_machine_ns() - q->failed_ns >= RETRY_NS;
	else
		recovered = q->bytes <= QUEUE_BYTES_MAX / 2;
	pthread_mutex_unlock(&q->lock);
	return recovered;
}

static void release(struct block_queue *q)
{
	while (q->first) {
		struct block_batch *next = q->first->next;

		block_batch_free(q->first);
		q->first = next;
	}
	block_batch_free(q->spare);
	block_builder_release(&q->builder);
	strbuf_release(&q->scratch);
	free(q->file.index);
	free(q->directory);
	free(q->prefix);
	free(q->launcher);
	pthread_cond_destroy(&q->changed);
	pthread_mutex_destroy(&q->lock);
}

static int set_identity(struct block_queue *q, const struct writer_options *o)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	q->directory = realpath(o->directory, NULL);
	q->launcher = o->launcher && *o->launcher ? strdup(o->launcher) : NULL;
	if (!q->directory && q->launcher) /* another user's, perhaps */
		q->directory = strdup(o->directory);
	if (!q->directory)
		return -errno;
	q->prefix = strdup(o->prefix ? o->prefix : pid);
	q->file.index = malloc(INDEX_BLOCKS_MAX * sizeof(*q->file.index));
	if (!q->prefix || !q->file.index)
		return -ENOMEM;
	q->identity.directory = q->directory;
	q->identity.prefix = q->prefix;
	q->identity.folder = o->folder;
	q->identity.launcher = q->launcher;
	q->identity.pid = o->pid ? o->pid : (uint32_t)getpid();
	q->identity.number = q->file_number = o->number;
	q->identity.session = o->session;
	if (!o->session && getrandom(&q->identity.session, sizeof(q->identity.session), 0) !=
				   sizeof(q->identity.session))
		q->identity.session = hash_u64(clock_monotonic_ns() ^ (uint64_t)getpid() << 40);
	return 0;
}

int block_queue_init(struct block_queue *q, const struct writer_options *o, struct error *e)
{
	int level = o->compression_level ? o->compression_level : 1, rc;

	*q = (struct block_queue){ .max_bytes = o->max_bytes,
				   .ring_bytes = o->ring_bytes,
				   .background = o->background,
				   .now_ns = o->now_ns };
	q->last = &q->first;
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->changed, NULL);
	rc = set_identity(q, o);
	if (rc == 0)
		rc = block_builder_init(&q->builder, LOSS_REASONS, level);
	/* Memory for losses and a short index is allocated in advance. */
	q->spare = calloc(1, sizeof(*q->spare));
	if (rc == 0 && (!q->spare || !strbuf_reserve(&q->spare->bytes, 2 * RESERVE_BYTES) ||
			!strbuf_reserve(&q->scratch, 2 * RESERVE_BYTES)))
		rc = -ENOMEM;
	if (rc < 0)
		error_errno(e, -rc, "cannot write to '%s'", o->directory);
	else
		rc = begin_segment(q, e);
	if (rc < 0)
		release(q);
	return rc;
}

int block_queue_close(struct block_queue *q)
{
	int error;

	pthread_mutex_lock(&q->lock);
	q->ending = true;
	pthread_cond_broadcast(&q->changed);
	while (q->started && !q->ended)
		pthread_cond_wait(&q->changed, &q->lock);
	error = q->error;
	pthread_mutex_unlock(&q->lock);
	if (!q->started)
		finish(q);
	else if (q->apart)
		own_fd_close(&q->shared);
	release(q);
	return error ? -error : q->finished;
}

bool block_queue_abandon(struct block_queue *q)
{
	own_fd_close(&q->file.own);
	own_fd_close(&q->shared);
	if (q->started || q->identity.pid != (uint32_t)getpid())
		return false;
	segment_file_release(&q->file);
	release(q);
	return true;
}
