/*
 * delivery.h: shared by delivery.c and launches.c: the tape's buffers, and the delivery into the
 * recorder's buffers.
 */
#ifndef PITOT_TESTS_STANDIN_DELIVERY_H
#define PITOT_TESTS_STANDIN_DELIVERY_H

#include "stage.h"

/*
 * A buffer of the tape. `given`: the records staged before its place, in the round with this shift.
 */
struct pending {
	size_t index; /* index of its record on the tape */
	uint64_t first_end; /* CUPTI's time; UINT64_MAX: no record in it ends */
	bool *given; /* by record */
	size_t count;
	uint64_t time_shift;
	bool played; /* its place has been played */
};

/* The buffers in order of the tape, and the number of the first one at or after a record. */
struct pending *pending_at(size_t i);
size_t pending_count(void);
size_t pending_from(size_t index);

/* Must be held around the following functions, and never while the recorder is called. */
void pending_lock(void);
void pending_unlock(void);
/* Resets the buffer for another round. */
void pending_begin_round(struct pending *p, uint64_t time_shift);

/* Requests a buffer from the recorder, for this time at most; NULL: none. */
uint8_t *ask_for_buffer(size_t *size, size_t *max_records, uint64_t patience_ns);
/*
 * Copies as many records from `first` on as fit into a buffer, and delivers it. Returns their
 * number, at least 1: a record that never fits is dropped.
 */
size_t give_buffer(const struct stage *s, size_t first, uint8_t *buffer, size_t size,
		   size_t max_records);
/* Counts records as dropped by CUPTI. */
void drop_records(uint64_t count);

/* --- launches.c --- */

/*
 * The calling thread enters a call: reserves room for its records as CUPTI does, in the thread's
 * buffer, or in a common one where buffers are shared. A failing call has no records.
 */
void launches_reserve(uint32_t correlation, bool fails);
/* Removes the times of the kernel's record, because the range profiler replays it. */
void launches_take_times(uint32_t correlation);
/*
 * External correlation ids of the calling thread, one stack for each kind. Return false when the
 * stack is empty or full, or the kind is unknown.
 */
bool launches_push_external(uint32_t kind, uint64_t id);
bool launches_pop_external(uint32_t kind, uint64_t *id);
/* Whether the tape has a call with that id, which reserves its records. */
bool launches_has_call(uint32_t correlation);
/*
 * Delivers the buffers in which all records have finished, full or not. forced: all buffers, with
 * the records that have finished.
 */
void launches_flush(bool forced);

#endif
