/*
 * delivery.h: what delivery.c and launches.c share: the tape's buffers, and the way into the
 * recorder's.
 */
#ifndef PITOT_TESTS_STANDIN_DELIVERY_H
#define PITOT_TESTS_STANDIN_DELIVERY_H

#include "stage.h"

/*
 * A buffer of the tape. What has been staged of it before its place, in the round with these times.
 */
struct pending {
	size_t index; /* of its record on the tape */
	uint64_t first_end; /* CUPTI's time; UINT64_MAX: nothing in it ends */
	bool *given; /* by record */
	size_t count;
	uint64_t time_shift;
	bool played; /* its place has come */
};

/* All of them, in order of the tape; the number of the first one at or behind a record. */
struct pending *pending_at(size_t i);
size_t pending_count(void);
size_t pending_from(size_t index);

/* Around what follows. Never held while the recorder is called. */
void pending_lock(void);
void pending_unlock(void);
/* Starts anew in another round. */
void pending_begin_round(struct pending *p, uint64_t time_shift);

/* The recorder's; NULL after this time. */
uint8_t *ask_for_buffer(size_t *size, size_t *max_records, uint64_t patience_ns);
/*
 * Copies as many records from `first` on as fit into a buffer, and hands it over. Returns how many;
 * at least 1, which may be dropped.
 */
size_t give_buffer(const struct stage *s, size_t first, uint8_t *buffer, size_t size,
		   size_t max_records);
/* CUPTI's own loss. */
void drop_records(uint64_t count);

/* --- launches.c --- */

/*
 * The calling thread enters a call: as CUPTI does, takes room for its records in the thread's
 * buffer, or in everyone's where buffers are shared. A call that fails has no records.
 */
void launches_reserve(uint32_t correlation, bool fails);
/* Its kernel's record has no times: the range profiler runs it several times. */
void launches_take_times(uint32_t correlation);
/*
 * External correlation ids of the calling thread, one stack for each kind. false: none, too many,
 * or no such kind.
 */
bool launches_push_external(uint32_t kind, uint64_t id);
bool launches_pop_external(uint32_t kind, uint64_t *id);
/* Whether the tape has a call with that id, which reserves its records. */
bool launches_has_call(uint32_t correlation);
/*
 * Hands over the buffers of which every record has finished, full or not; forced: all, of which the
 * records that have finished can be read.
 */
void launches_flush(bool forced);

#endif
