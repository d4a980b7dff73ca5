/*
 * block_queue.h: sealed blocks on their way into the segments of a recording.
 *
 * Blocks come in batches. A batch is written at once, or (background) queued for a thread, so that
 * a write(2) that stalls holds up nobody but that thread; there is room for so many bytes, then a
 * batch is refused. Of a write that was cut short the whole blocks are kept. What is lost is added
 * up, and put into the segment's reserve as long as nothing can be appended.
 *
 * All functions are the writer's thread's. `lock` guards what the two threads share; a segment's
 * file is the writing thread's while it is busy.
 */
#ifndef PITOT_FORMAT_BLOCK_QUEUE_H
#define PITOT_FORMAT_BLOCK_QUEUE_H

#include <pthread.h>

#include "format/block_build.h"
#include "format/loss_tally.h"
#include "format/segment_write.h"
#include "format/writer.h"

#define BATCH_BLOCKS_MAX 128u
#define BATCH_BYTES (1u << 20) /* enough to be written */
#define QUEUE_BYTES_MAX (32u << 20)

struct block_batch {
	struct block_batch *next;
	struct strbuf bytes;
	struct sealed_block {
		struct block_header header;
		size_t length;
	} blocks[BATCH_BLOCKS_MAX];
	size_t count;
	struct loss_tally losses; /* in rows of its blocks */
	bool begins_segment;
	bool begins_again; /* after an error: others are lost */
};

struct block_queue {
	struct segment_file file;
	struct segment_identity identity; /* of the next segment */
	char *directory, *prefix;
	uint32_t file_number; /* to try next */
	uint64_t max_bytes;
	struct block_builder builder; /* of losses in the reserve */
	struct strbuf scratch;
	struct loss_tally reserved; /* in the reserve of this segment */
	bool background, started; /* the thread */

	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct block_batch *first, **last; /* queued */
	struct block_batch *spare; /* written; its memory is used again */
	size_t bytes; /* of batches that are queued or being written */
	bool busy, ending, ended;
	bool tell, untold; /* losses since then are to be in the reserve */
	int error; /* errno for which nothing is written now */
	bool full; /* max_bytes is reached: for good */
	uint64_t failed_ns; /* clock_machine_ns() of the last error */
	struct loss_tally lost; /* neither in a row nor in the reserve */
	struct writer_stats stats;
};

/* Creates the first segment. 0 or a negative errno; then there is nothing to release. */
int block_queue_init(struct block_queue *q, const struct writer_options *options,
		     struct error *e) MUST_USE;

/* An empty batch; NULL: no memory. */
struct block_batch *block_queue_batch(struct block_queue *q);
void block_batch_free(struct block_batch *batch);
/* Takes a batch. 0; -EAGAIN: there is no room, and its rows are lost. */
int block_queue_put(struct block_queue *q, struct block_batch *batch) MUST_USE;
/*
 * Sees to it that what was put is written, and (tell) what was lost is in the reserve. 0: it is on
 * disk; 1: it is not, after limit_ns; or a negative errno: nothing can be written now.
 */
int block_queue_sync(struct block_queue *q, bool tell, uint64_t limit_ns);
/* Why nothing is written now: the error, or disk_slow. */
enum loss_reason block_queue_reason(struct block_queue *q);
/*
 * Whether it makes sense to try again: after an error a second later, else when half of the room is
 * free.
 */
bool block_queue_recovered(struct block_queue *q);
/* Whether there was an error, after which only a batch that begins again is written. */
bool block_queue_failed(struct block_queue *q);

/*
 * Counts a row that does not get into the recording; a row of `loss` is not lost, it is added up.
 */
void block_queue_lose_row(struct block_queue *q, const struct table_schema *table,
			  enum loss_reason reason, const void *row);

/*
 * Fills rows, at most LOSS_REASONS, with losses that no row and no reserve has yet; the caller
 * writes them.
 */
size_t block_queue_losses(struct block_queue *q, struct row_loss *rows);
void block_queue_stats(struct block_queue *q, struct writer_stats *stats);

/* Waits for the thread, writes index and trailer, releases. 0 or a negative errno. */
int block_queue_close(struct block_queue *q);
/*
 * Releases and waits for nobody. False in the child of a fork, where other threads stand still in
 * the middle of what they did, and where the thread has begun: then only the descriptor is closed,
 * and the memory must stay.
 */
bool block_queue_abandon(struct block_queue *q);

#endif
