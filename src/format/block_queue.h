/*
 * block_queue.h: writes sealed blocks into the segments of a recording.
 *
 * Blocks come in batches. A batch is written immediately or (background) queued for a thread, so
 * that a stalled write(2) blocks only that thread. The queue has a byte limit, above which batches
 * are refused. Of a truncated write the complete blocks are preserved. Losses are tallied, and
 * written into the segment's reserve while nothing can be appended.
 *
 * The thread has a descriptor table of its own where the operating system allows it. A program that
 * closes or duplicates descriptors that it did not open then neither takes the segment away nor
 * gets written to: without, dup2() can come between the check whose a descriptor is and the write.
 *
 * All functions must be called on the writer's thread. `lock` guards what the two threads share;
 * while `busy` is set, the segment file belongs to the writing thread.
 */
#ifndef PITOT_FORMAT_BLOCK_QUEUE_H
#define PITOT_FORMAT_BLOCK_QUEUE_H

#include <pthread.h>

#include "format/block_build.h"
#include "format/journal.h"
#include "format/loss_tally.h"
#include "format/segment_write.h"
#include "format/writer.h"

#define BATCH_BLOCKS_MAX 128u
#define BATCH_BYTES (1u << 20) /* a batch of this size is submitted */
#define QUEUE_BYTES_MAX (32u << 20)

struct block_batch {
	struct block_batch *next;
	struct strbuf bytes;
	struct sealed_block {
		struct block_header header;
		size_t length;
	} blocks[BATCH_BLOCKS_MAX];
	size_t count;
	struct loss_tally losses; /* losses in its rows of table loss */
	bool begins_segment;
	bool begins_again; /* the first batch after an error; other batches are dropped */
	bool is_complete; /* no row before `covered` is left to be put into blocks */
	struct journal_commit covered; /* its end and segment are not known yet */
};

struct block_queue {
	struct segment_file file;
	struct journal *journal; /* in which complete batches are committed; NULL: none */
	struct segment_identity identity; /* of the next segment */
	char *directory, *prefix, *launcher;
	uint32_t file_number; /* next number to try */
	uint64_t max_bytes;
	/* the ring (ring_bytes of writer_options): its ended segments, oldest first */
	uint64_t ring_bytes;
	struct old_segment {
		uint32_t number; /* of the file */
		uint64_t bytes;
	} old[2 * RING_PARTS];
	size_t old_count;
	struct block_builder builder; /* builds the loss block of the reserve */
	struct strbuf scratch;
	struct loss_tally reserved; /* losses in this segment's reserve */
	const uint64_t *now_ns; /* as in writer_options */
	bool background, started; /* whether to use a thread; whether it runs */
	struct own_fd shared; /* the first segment in the program's descriptor table */
	int finished; /* what finishing the last segment returned */

	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct block_batch *first, **last; /* queued batches */
	struct block_batch *spare; /* a written batch, for reuse of its memory */
	size_t bytes; /* bytes of batches queued or being written */
	bool busy, ending, ended;
	bool apart; /* the thread has its own descriptors: `shared` can be closed */
	bool report_losses; /* unreported losses are to be written into the reserve */
	bool unreported; /* there are losses in no row and no reserve */
	int error; /* errno that prevents writing now, or 0 */
	bool full; /* max_bytes was reached: permanent */
	uint64_t failed_ns; /* clock_machine_ns() of the last error */
	struct loss_tally lost; /* in no row and in no reserve yet */
	struct writer_stats stats;
};

/* Creates the first segment. Returns 0 or a negative errno; then nothing must be released. */
int block_queue_init(struct block_queue *q, const struct writer_options *options,
		     struct error *e) MUST_USE;

/* Returns an empty batch, or NULL when there is no memory. */
struct block_batch *block_queue_batch(struct block_queue *q);
void block_batch_free(struct block_batch *batch);
/* Takes ownership of a batch. Returns 0, or -EAGAIN when the queue is full: its rows are lost. */
int block_queue_put(struct block_queue *q, struct block_batch *batch) MUST_USE;
/*
 * Waits until all batches are written and, with report_losses, losses are in the reserve. Returns
 * 0; 1 when limit_ns passes before that; or a negative errno when nothing can be written now.
 */
int block_queue_sync(struct block_queue *q, bool report_losses, uint64_t limit_ns);
/* Returns why nothing is written now: the error's reason, or disk_slow. */
enum loss_reason block_queue_reason(struct block_queue *q);
/* Whether to try again: a second after an error, else when the queue is at most half full. */
bool block_queue_recovered(struct block_queue *q);
/* Whether an error has occurred; then only a batch with begins_again is written. */
bool block_queue_failed(struct block_queue *q);

/*
 * Counts a row that will not be written. Rows of table `loss` are not lost but added to the tally.
 */
void block_queue_lose_row(struct block_queue *q, const struct table_schema *table,
			  enum loss_reason reason, const void *row);

/*
 * Moves the losses that are in no row and no reserve yet into rows, at most LOSS_REASONS; the
 * caller writes them.
 */
size_t block_queue_losses(struct block_queue *q, struct row_loss *rows);
void block_queue_stats(struct block_queue *q, struct writer_stats *stats);

/* Waits for the thread, writes index and trailer, and releases. Returns 0 or a negative errno. */
int block_queue_close(struct block_queue *q);
/*
 * Releases without waiting. In the child of a fork, and once the thread has started, other threads
 * may be stopped in the middle of an operation: only the descriptor is closed, the memory must
 * stay, and false is returned.
 */
bool block_queue_abandon(struct block_queue *q);

#endif
