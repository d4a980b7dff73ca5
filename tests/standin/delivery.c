/* Delivers the tape's activity buffers through copies in the recorder's own buffers. */
#include "delivery.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/map.h"
#include "standin_cupti.h"

#define POLL_NS 200000
#define CUPTI_12_8 26
#define READINGS_MAX 64

/* Offsets of the records in a buffer that the recorder has. */
struct reading {
	size_t *starts; /* `count` offsets, then the end */
	size_t count;
	int end_result;
	bool unread;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct map readings; /* address of a buffer -> struct reading */
static unsigned unread;
static struct standin_counts totals;
static atomic_uint_fast64_t buffers_played;

static VEC(struct pending) pending;
static pthread_mutex_t pending_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t pending_once = PTHREAD_ONCE_INIT;

static void count_record(const uint8_t *record, size_t size)
{
	uint32_t kind = load_u32(record);
	unsigned start = record_start_offset(kind);
	uint64_t from, to;

	if (kind >= KINDS_MAX)
		return;
	__atomic_fetch_add(&totals.records[kind], 1, __ATOMIC_RELAXED);
	if (!start || start + 16 > size)
		return;
	from = load_u64(record + start);
	to = load_u64(record + start + 8);
	if (from && from < to && kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
		atomic_fetch_add(&standin_witness()->kernels, 1);
	if (from && from < to)
		__atomic_fetch_add(&totals.duration_ns[kind], to - from, __ATOMIC_RELAXED);
}

/* --- into the recorder's buffers --- */

static void forget_reading(struct reading *r)
{
	if (r->unread)
		unread--;
	free(r->starts);
	free(r);
}

/*
 * Recordings of a process that goes on come with new buffers: forgets the oldest one for a new one,
 * unless it has not been read yet.
 */
static void limit_readings(const uint8_t *buffer)
{
	static uintptr_t known[READINGS_MAX];
	static unsigned oldest;
	uintptr_t *place = &known[oldest];
	uint64_t found;

	if (map_get(&readings, (uintptr_t)buffer, &found))
		return;
	oldest = (oldest + 1) % READINGS_MAX;
	if (*place && map_get(&readings, *place, &found) &&
	    !((struct reading *)(uintptr_t)found)->unread && map_remove(&readings, *place, &found))
		forget_reading((struct reading *)(uintptr_t)found);
	*place = (uintptr_t)buffer;
}

/* From now on the recorder reads this buffer as `r`. */
static void start_reading(const uint8_t *buffer, struct reading *r)
{
	uint64_t *slot;

	pthread_mutex_lock(&lock);
	limit_readings(buffer);
	slot = map_at(&readings, (uintptr_t)buffer, 0);
	if (!slot) {
		free(r->starts);
		free(r);
	} else {
		if (*slot)
			forget_reading((struct reading *)(uintptr_t)*slot);
		*slot = (uintptr_t)r;
		r->unread = r->count > 0;
		unread += r->unread;
	}
	pthread_mutex_unlock(&lock);
}

CUptiResult delivery_next(uint8_t *buffer, size_t valid, CUpti_Activity **record)
{
	CUptiResult result = CUPTI_ERROR_MAX_LIMIT_REACHED;
	size_t at = *record ? (size_t)((uint8_t *)*record - buffer) : 0;
	struct reading *r = NULL;
	uint64_t found;

	pthread_mutex_lock(&lock);
	if (map_get(&readings, (uintptr_t)buffer, &found))
		r = (struct reading *)(uintptr_t)found;
	if (r && r->count && r->starts[r->count] <= valid) {
		size_t low = 0,
		       high = r->count; /* the first start after `at`, or the first of all */

		while (*record && low < high) {
			size_t middle = low + (high - low) / 2;

			if (r->starts[middle] <= at)
				low = middle + 1;
			else
				high = middle;
		}
		if (low < r->count) {
			*record = (CUpti_Activity *)(void *)(buffer + r->starts[low]);
			result = CUPTI_SUCCESS;
		} else {
			result = (CUptiResult)r->end_result;
			unread -= r->unread;
			r->unread = false;
		}
	}
	pthread_mutex_unlock(&lock);
	return result;
}

unsigned delivery_unread(void)
{
	unsigned n;

	pthread_mutex_lock(&lock);
	n = unread;
	pthread_mutex_unlock(&lock);
	return n;
}

/* CUPTI up to 12.8 does not check the buffer that it gets. */
static void check_answer(const uint8_t *buffer)
{
	uint32_t version = standin_faults()->version;

	if (!buffer && version && version <= CUPTI_12_8)
		raise(SIGSEGV);
}

uint8_t *ask_for_buffer(size_t *size, size_t *max_records, uint64_t patience_ns)
{
	const struct timespec pause = { 0, POLL_NS };
	uint64_t waited = 0;
	uint8_t *buffer = NULL;

	for (;;) {
		*size = *max_records = 0;
		atomic_load (&cupti_state.request)(&buffer, size, max_records);
		check_answer(buffer);
		if ((buffer && *size) || waited >= patience_ns)
			return *size ? buffer : NULL;
		nanosleep(&pause, NULL);
		waited += POLL_NS;
	}
}

void drop_records(uint64_t count)
{
	atomic_fetch_add(&cupti_state.dropped, count);
	__atomic_fetch_add(&totals.records_dropped, count, __ATOMIC_RELAXED);
}

/* Copies as many records from `first` on as fit. Returns their number. */
static size_t fill(const struct stage *s, size_t first, uint8_t *buffer, size_t size,
		   size_t max_records, struct reading *r)
{
	size_t used = 0, n = 0;

	while (first + n < s->pieces.count && (!max_records || n < max_records)) {
		const struct piece *p = &s->pieces.data[first + n];

		if (used + p->size > size)
			break;
		memcpy(buffer + used, s->bytes + p->offset, p->size);
		count_record(buffer + used, p->size);
		r->starts[n++] = used;
		used += p->size;
	}
	r->starts[n] = used;
	r->count = n;
	return n;
}

static struct reading *new_reading(const struct stage *s)
{
	struct reading *r = calloc(1, sizeof(*r));

	if (r)
		r->starts = malloc((s->pieces.count + 1) * sizeof(*r->starts));
	if (r && !r->starts) {
		free(r);
		return NULL;
	}
	if (r)
		r->end_result = s->end_result;
	return r;
}

size_t give_buffer(const struct stage *s, size_t first, uint8_t *buffer, size_t size,
		   size_t max_records)
{
	struct reading *r = new_reading(s);
	size_t n, valid;

	if (!r)
		abort();
	n = fill(s, first, buffer, size, max_records, r);
	valid = r->starts[n];
	if (!n && first < s->pieces.count) { /* a record longer than the recorder's buffers */
		drop_records(1);
		n = 1;
	}
	start_reading(buffer, r);
	__atomic_fetch_add(&totals.buffers, 1, __ATOMIC_RELAXED);
	atomic_load (&cupti_state.complete)(NULL, 0, buffer, size, valid);
	return n;
}

/* Delivers pieces, waiting up to patience_ns for each buffer. Returns how many are handled. */
static size_t hand_over(const struct stage *s, uint64_t patience_ns)
{
	size_t i = 0;

	while (i < s->pieces.count) {
		size_t size, max_records;
		uint8_t *buffer = ask_for_buffer(&size, &max_records, patience_ns);

		if (!buffer)
			break;
		i += give_buffer(s, i, buffer, size, max_records);
	}
	return i;
}

static bool is_dropped(uint64_t number)
{
	const struct faults *f = standin_faults();

	for (size_t i = 0; i < f->dropped_buffers.count; i++)
		if (f->dropped_buffers.data[i] == number)
			return true;
	return false;
}

/* --- when --- */

void pending_lock(void)
{
	pthread_mutex_lock(&pending_mutex);
}

void pending_unlock(void)
{
	pthread_mutex_unlock(&pending_mutex);
}

/*
 * A description is delivered with the first record of its buffer that has ended; records reserved
 * by a call are delivered with the call.
 */
static bool has_ended(const uint8_t *record, size_t size, uint64_t until)
{
	return record_is_description(load_u32(record)) ||
	       (record_end(record, size) <= until &&
		!launches_has_call(record_correlation(record, size)));
}

/*
 * Stages the records that have ended by `until` and were not given, and marks them as given. Called
 * with the lock.
 */
static int stage_until(struct stage *s, struct tape_delivery *d, struct place *place,
		       struct pending *p, uint64_t until)
{
	const uint8_t *record = d->buffer.bytes;
	size_t room = 0, records = 0, n = 0;
	struct tape_delivery sizes = *d;
	struct tape_run run;

	while (tape_next_run(&sizes, &run)) {
		records += run.count;
		room += (size_t)run.count * (run.size + RECORD_GROWTH_MAX);
	}
	s->end_result = d->buffer.end_result ? d->buffer.end_result : CUPTI_ERROR_MAX_LIMIT_REACHED;
	s->bytes = malloc(room + 1);
	if (!s->bytes || vec_reserve(&s->pieces, records + 1) < 0)
		return -ENOMEM;
	while (tape_next_run(d, &run))
		for (uint32_t i = 0; i < run.count; i++, n++, record += run.size) {
			if (p->given[n] ||
			    (until != UINT64_MAX && !has_ended(record, run.size, until)))
				continue;
			p->given[n] = true;
			if (stage_record(s, record, run.size, n, place) < 0)
				return -ENOMEM;
		}
	return 0;
}

static bool describe_pending(size_t index, struct tape_delivery *d)
{
	struct pending p = { .index = index, .first_end = UINT64_MAX };
	const uint8_t *record = d->buffer.bytes;
	struct tape_run run;

	while (tape_next_run(d, &run)) {
		for (uint32_t i = 0; i < run.count; i++, record += run.size)
			p.first_end = MIN(p.first_end, record_end(record, run.size));
		p.count += run.count;
	}
	p.given = calloc(p.count + 1, sizeof(*p.given));
	return p.given && vec_push(&pending, p) == 0;
}

static void find_pending(void)
{
	const struct tape *t = standin_tape();
	struct tape_delivery d;

	for (size_t i = 0; i < t->records.count; i++)
		if (t->records.data[i].type == TAPE_BUFFER_COMPLETE &&
		    tape_get_delivery(&t->records.data[i], &d) && !describe_pending(i, &d))
			abort();
}

struct pending *pending_at(size_t i)
{
	return &pending.data[i];
}

size_t pending_count(void)
{
	pthread_once(&pending_once, find_pending);
	return pending.count;
}

size_t pending_from(size_t index)
{
	size_t low = 0, high;

	pthread_once(&pending_once, find_pending);
	for (high = pending.count; low < high;) {
		size_t middle = low + (high - low) / 2;

		if (pending.data[middle].index < index)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void pending_begin_round(struct pending *p, uint64_t time_shift)
{
	if (p->time_shift == time_shift)
		return;
	memset(p->given, 0, p->count * sizeof(*p->given));
	p->time_shift = time_shift;
	p->played = false;
}

void deliver(struct tape_delivery *d)
{
	struct stage s = { .pieces = VEC_INIT };
	struct place place = standin_place();
	size_t at = pending_from(place.index);
	struct pending *p = &pending.data[at];
	uint64_t number = atomic_fetch_add(&buffers_played, 1) + 1;
	size_t done;
	int r;

	if (atomic_load(&cupti_state.gone) || !atomic_load(&cupti_state.request))
		return;
	pending_lock();
	pending_begin_round(p, place.time_shift);
	p->played = true;
	r = stage_until(&s, d, &place, p, UINT64_MAX);
	pending_unlock();
	if (r < 0 || is_dropped(number)) {
		drop_records(s.pieces.count);
	} else {
		if (standin_faults()->shuffle)
			stage_shuffle(&s);
		done = hand_over(&s, atomic_load(&cupti_state.patience_ns));
		if (done < s.pieces.count)
			drop_records(s.pieces.count - done);
	}
	stage_release(&s);
	launches_flush(false);
}

/* Returns records without a buffer to their place; drops them if it was played meanwhile. */
static void take_back(struct pending *p, uint64_t time_shift, const struct stage *s, size_t from)
{
	bool is_past;

	pending_lock();
	is_past = p->played || p->time_shift != time_shift;
	for (size_t i = from; !is_past && i < s->pieces.count; i++)
		p->given[s->pieces.data[i].record] = false;
	if (is_past)
		drop_records(s->pieces.count - from);
	pending_unlock();
}

static void deliver_early(struct pending *p, struct place *place, uint64_t until)
{
	struct stage s = { .pieces = VEC_INIT };
	struct tape_delivery d;
	int r = -ENOMEM;

	if (!tape_get_delivery(&standin_tape()->records.data[p->index], &d))
		return;
	pending_lock();
	if (standin_place().time_shift == place->time_shift) { /* no other round has begun */
		pending_begin_round(p, place->time_shift);
		if (!p->played)
			r = stage_until(&s, &d, place, p, until);
	}
	pending_unlock();
	if (r == 0)
		take_back(p, place->time_shift, &s, hand_over(&s, 0));
	stage_release(&s);
}

void deliver_finished(bool forced)
{
	struct place place;
	uint64_t now;

	if (!standin_has_begun() || !atomic_load(&cupti_state.request) ||
	    !atomic_load(&cupti_state.patience_ns) || standin_faults()->dropped_buffers.count)
		return;
	place = standin_place();
	now = standin_cupti_time(clock_monotonic_ns() - place.time_shift);
	for (size_t i = pending_from(place.index); i < pending.count; i++)
		if (pending.data[i].first_end <= now)
			deliver_early(&pending.data[i], &place, now);
	launches_flush(forced);
}

/* Stages the descriptions of a buffer of the tape, as in the first round. */
static int stage_described(struct stage *s, struct tape_delivery *d, uint32_t kind)
{
	struct place place = { .first = true };
	const uint8_t *record = d->buffer.bytes;
	struct tape_delivery sizes = *d;
	size_t room = 1, records = 0;
	struct tape_run run;

	while (tape_next_run(&sizes, &run)) {
		records += run.count;
		room += (size_t)run.count * (run.size + RECORD_GROWTH_MAX);
	}
	s->end_result = CUPTI_ERROR_MAX_LIMIT_REACHED;
	s->bytes = malloc(room);
	if (!s->bytes || vec_reserve(&s->pieces, records + 1) < 0)
		return -ENOMEM;
	while (tape_next_run(d, &run))
		for (uint32_t i = 0; i < run.count; i++, record += run.size)
			if (load_u32(record) == kind &&
			    stage_record(s, record, run.size, 0, &place) < 0)
				return -ENOMEM;
	return 0;
}

void deliver_past(uint32_t kind)
{
	struct place now = standin_place();
	struct tape_delivery d;

	if (!standin_has_begun() || !cupti_state.request || !record_is_description(kind))
		return;
	for (size_t i = 0; i < pending_count(); i++) {
		struct stage s = { .pieces = VEC_INIT };
		bool has_been = !now.first || pending.data[i].index < now.index;

		if (has_been &&
		    tape_get_delivery(&standin_tape()->records.data[pending.data[i].index], &d) &&
		    stage_described(&s, &d, kind) == 0)
			hand_over(&s, 0);
		stage_release(&s);
	}
}

/* --- buffers that CUPTI keeps for itself --- */

static VEC(struct held {
	uint8_t *bytes;
	size_t size;
}) held;

static void hold_one(void)
{
	struct held h = { NULL, 0 };
	size_t max_records;

	atomic_load (&cupti_state.request)(&h.bytes, &h.size, &max_records);
	check_answer(h.bytes);
	pthread_mutex_lock(&lock);
	if (h.bytes && vec_push(&held, h) < 0)
		abort();
	pthread_mutex_unlock(&lock);
}

void hold_buffers(void)
{
	static __thread bool has_one;
	static atomic_bool hold_all;
	const struct faults *f = standin_faults();

	if (!atomic_load(&cupti_state.request))
		return;
	if (f->thread_buffers && !has_one && !atomic_load(&cupti_state.shares_buffers))
		hold_one();
	has_one = true;
	if (f->held_buffers && !atomic_exchange(&hold_all, true))
		for (uint64_t i = 0; i < f->held_buffers; i++)
			hold_one();
}

void return_held_buffers(void)
{
	struct held h;

	for (;;) {
		pthread_mutex_lock(&lock);
		h = held.count ? held.data[--held.count] : (struct held){ NULL, 0 };
		pthread_mutex_unlock(&lock);
		if (!h.bytes)
			return;
		atomic_load (&cupti_state.complete)(NULL, 0, h.bytes, h.size, 0);
	}
}

void delivery_counts(struct standin_counts *counts)
{
	struct standin_counts t = totals;

	t.callbacks = counts->callbacks;
	t.callbacks_withheld = counts->callbacks_withheld;
	t.records_withheld = stage_withheld();
	*counts = t;
}
