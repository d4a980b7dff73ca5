/*
 * launch_queue.h: the queue of measurements from the threads that made them to the collector.
 * Thread-safe.
 */
#ifndef PITOT_CAPTURE_ENGINES_LAUNCH_QUEUE_H
#define PITOT_CAPTURE_ENGINES_LAUNCH_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Head of the heap block with which an engine sends a measurement to the collector. */
struct measured {
	struct measured *next;
	uint32_t correlation; /* 0: a range of the program */
	uint64_t end_ns; /* end of the call or range, and of all runs of the kernel */
	size_t bytes;
};

/* Appends a measurement, and then owns it. Returns false, and frees it, if the queue is full. */
bool launch_queue_push(struct measured *m, size_t bytes);
/* Returns the oldest measurement, which the caller frees, or NULL. */
struct measured *launch_queue_take(void);
void launch_queue_clear(void);
/* Leaks what was queued. */
void launch_queue_after_fork(void);

#endif
