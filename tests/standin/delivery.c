/* Activity buffers of the tape, copied into the recorder's own ones; and the way through them. */
#include "standin_cupti.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/map.h"

#define NAME_OFFSET 104 /* of kernels */
#define UNKNOWN_KIND 0x7ff0
#define POLL_NS 200000
#define CUPTI_12_8 26

/* Records of one buffer of the tape, as they will be given to the recorder. */
struct stage {
	uint8_t *bytes;
	size_t used;
	VEC(struct piece {
		size_t offset;
		uint32_t size;
		size_t record; /* number in the tape's buffer */
	})
	pieces;
	int end_result;
};

/* Where the records start in a buffer that the recorder has. */
struct reading {
	size_t *starts; /* count of them, then the end */
	size_t count;
	int end_result;
	bool unread;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct map readings; /* address of a buffer -> struct reading */
static unsigned unread;
static struct standin_counts totals;
static atomic_uint_fast64_t buffers_played, timed_records, named_records;

/* A buffer of the tape. What has been given away of it before its place, in the round with these times. */
struct pending {
	size_t index; /* of its record on the tape */
	uint64_t first_end; /* CUPTI's time; UINT64_MAX: nothing in it ends */
	bool *given; /* by record */
	size_t count;
	uint64_t time_shift;
	bool played; /* its place has come */
};

static VEC(struct pending) pending;
static pthread_mutex_t pending_lock = PTHREAD_MUTEX_INITIALIZER; /* never held in the recorder */
static pthread_once_t pending_once = PTHREAD_ONCE_INIT;

/* --- what the fault script does to records --- */

static bool is_kernel(uint32_t kind)
{
	return kind == CUPTI_ACTIVITY_KIND_KERNEL || kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
}

static bool every(uint64_t n, uint64_t count)
{
	return n && count % n == 0;
}

/* A text made once for a key, kept for ever. */
static const char *made_text(uint64_t key, const char *base, size_t length)
{
	static struct map made;
	uint64_t *slot;
	const char *text = NULL;

	pthread_mutex_lock(&lock);
	slot = map_at(&made, key, 0);
	if (slot && !*slot) {
		char *fresh = malloc(length + 1);

		if (fresh) {
			size_t have = strnlen(base, length);

			memcpy(fresh, base, have);
			memset(fresh + have, 'x', length - have);
			fresh[length] = 0;
			*slot = (uintptr_t)fresh;
		}
	}
	if (slot)
		text = (const char *)(uintptr_t)*slot;
	pthread_mutex_unlock(&lock);
	return text;
}

static const char *scripted_name(const char *name, uint64_t count)
{
	static const char hostile[] = "\xff\xfe\"\\\n\t\x1b[31m<script>&'%s%n\x01\xc3";
	const struct faults *f = standin_faults();
	char number[48];

	if (every(f->null_name_every, count))
		return NULL;
	if (every(f->hostile_every, count))
		return hostile;
	if (f->storm) {
		snprintf(number, sizeof(number), "storm_kernel_%06llu",
			 (unsigned long long)(count % f->storm));
		return made_text(hash_u64(count % f->storm), number, strlen(number));
	}
	if (f->huge_names && name)
		return made_text((uintptr_t)name, name, f->huge_names);
	return name;
}

static void zero_time(uint8_t *time, void *user)
{
	(void)user;
	store_u64(time, 0);
}

static void spoil_times(uint8_t *record, size_t size, unsigned start)
{
	const struct faults *f = standin_faults();
	uint64_t count = atomic_fetch_add(&timed_records, 1) + 1;
	uint64_t from = load_u64(record + start), to = load_u64(record + start + 8);

	if (every(f->zero_every, count))
		record_times(record, size, zero_time, NULL);
	else if (every(f->incomplete_every, count))
		store_u64(record + start + 8, 0);
	else if (every(f->reverse_every, count)) {
		store_u64(record + start, to);
		store_u64(record + start + 8, from);
	}
	if (every(f->bad_kind_every, count))
		store_u32(record, UNKNOWN_KIND);
}

/* --- staging --- */

static void shift_time(uint8_t *time, void *user)
{
	const struct place *place = user;
	const struct faults *f = standin_faults();
	uint64_t t = load_u64(time);

	if (!t)
		return;
	if (f->step_at < standin_tape()->records.count &&
	    t >= standin_cupti_time(standin_tape()->records.data[f->step_at].time))
		t += (uint64_t)f->step_ns;
	store_u64(time, t + place->time_shift);
}

static void patch_pointers(uint8_t *record, size_t size, uint32_t kind)
{
	for (size_t i = 0; i < ARRAY_SIZE(tape_pointers); i++) {
		const struct tape_pointer *p = &tape_pointers[i];
		uint64_t pointer;

		if (p->kind != kind || p->offset + sizeof(pointer) > size)
			continue;
		pointer = p->text ? (uintptr_t)standin_text_at(load_u64(record + p->offset)) : 0;
		store_u64(record + p->offset, pointer);
	}
}

static void change_record(uint8_t *record, size_t size, uint32_t kind, struct place *place)
{
	unsigned start = record_start_offset(kind);
	const struct faults *f = standin_faults();

	patch_pointers(record, size, kind);
	if (start && start + 16 <= size && is_kernel(kind) &&
	    f->gpu_fault_at < standin_tape()->records.count &&
	    load_u64(record + start) >=
		    standin_cupti_time(standin_tape()->records.data[f->gpu_fault_at].time))
		record_times(record, size, zero_time, NULL);
	record_times(record, size, shift_time, place);
	record_shift_correlation(record, size, place->id_shift + f->correlation_shift);
	if (is_kernel(kind) && size >= NAME_OFFSET + 8) {
		const char *name = (const char *)(uintptr_t)load_u64(record + NAME_OFFSET);
		uint64_t count = atomic_fetch_add(&named_records, 1) + 1;

		store_u64(record + NAME_OFFSET, (uintptr_t)scripted_name(name, count));
	}
	if (start && start + 16 <= size)
		spoil_times(record, size, start);
}

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
	if (from && from < to)
		__atomic_fetch_add(&totals.duration_ns[kind], to - from, __ATOMIC_RELAXED);
}

/* Says what there is, not what happened: once is enough, whatever --repeat says. */
static bool is_description(uint32_t kind)
{
	return kind == CUPTI_ACTIVITY_KIND_DEVICE || kind == CUPTI_ACTIVITY_KIND_DEVICE_ATTRIBUTE ||
	       kind == CUPTI_ACTIVITY_KIND_CONTEXT || kind == CUPTI_ACTIVITY_KIND_STREAM ||
	       kind == CUPTI_ACTIVITY_KIND_NAME || kind == CUPTI_ACTIVITY_KIND_MODULE;
}

/* One record of the tape, number `n` of its buffer, `size` bytes long there. */
static int stage_record(struct stage *s, const uint8_t *record, uint32_t size, size_t n,
			struct place *place)
{
	uint32_t kind = load_u32(record), version = standin_faults()->version;
	size_t wanted = version ? record_size_in(kind, version, size) : size;
	uint8_t *copy = s->bytes + s->used;

	if (kind >= KINDS_MAX || !atomic_load(&cupti_state.kinds[kind])) {
		__atomic_fetch_add(&totals.records_withheld, 1, __ATOMIC_RELAXED);
		return 0;
	}
	if (is_description(kind) && !place->first)
		return 0;
	memset(copy, 0xa5, wanted); /* what a newer CUPTI has at the end */
	memcpy(copy, record, MIN(size, wanted));
	change_record(copy, MIN(size, wanted), kind, place);
	if (vec_push(&s->pieces, ((struct piece){ s->used, (uint32_t)wanted, n })) < 0)
		return -ENOMEM;
	s->used += wanted;
	return 0;
}

/* When a record ends, in CUPTI's time; UINT64_MAX for one that does not. */
static uint64_t end_of(const uint8_t *record, size_t size)
{
	unsigned start = size >= 4 ? record_start_offset(load_u32(record)) : 0;
	uint64_t end = start && start + 16 <= size ? load_u64(record + start + 8) : 0;

	return end ? end : UINT64_MAX;
}

/* The records that have ended by `until` and were not given away before; they are now. pending_lock is held. */
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
			    (until != UINT64_MAX && end_of(record, run.size) > until))
				continue;
			p->given[n] = true;
			if (stage_record(s, record, run.size, n, place) < 0)
				return -ENOMEM;
		}
	return 0;
}

static void shuffle(struct stage *s)
{
	uint64_t random = 88172645463325252ull + s->used;

	for (size_t i = s->pieces.count; i > 1; i--) {
		struct piece *a = &s->pieces.data[i - 1], *b, swap;

		random = hash_u64(random);
		b = &s->pieces.data[random % i];
		swap = *a;
		*a = *b;
		*b = swap;
	}
}

/* --- into the recorder's buffers --- */

static void forget_reading(struct reading *r)
{
	if (r->unread)
		unread--;
	free(r->starts);
	free(r);
}

/* The recorder reads this buffer from now on as `r`. */
static void start_reading(const uint8_t *buffer, struct reading *r)
{
	uint64_t *slot;

	pthread_mutex_lock(&lock);
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
		       high = r->count; /* the first start beyond `at`, or the first of all */

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

/* CUPTI up to 12.8 does not check what it gets. */
static void check_answer(const uint8_t *buffer)
{
	uint32_t version = standin_faults()->version;

	if (!buffer && version && version <= CUPTI_12_8)
		raise(SIGSEGV);
}

static uint8_t *ask_for_buffer(size_t *size, size_t *max_records, uint64_t patience_ns)
{
	const struct timespec pause = { 0, POLL_NS };
	uint64_t waited = 0;
	uint8_t *buffer = NULL;

	for (;;) {
		*size = *max_records = 0;
		cupti_state.request(&buffer, size, max_records);
		check_answer(buffer);
		if ((buffer && *size) || waited >= patience_ns)
			return *size ? buffer : NULL;
		nanosleep(&pause, NULL);
		waited += POLL_NS;
	}
}

static void drop(uint64_t count)
{
	atomic_fetch_add(&cupti_state.dropped, count);
	__atomic_fetch_add(&totals.records_dropped, count, __ATOMIC_RELAXED);
}

/* Copies as many records from `first` on as fit. Returns how many. */
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

/* Waits so long for a buffer; 0: not at all. Returns how many pieces are dealt with. */
static size_t hand_over(const struct stage *s, const struct tape_buffer *b, uint64_t patience_ns)
{
	size_t i = 0;

	for (size_t n; i < s->pieces.count; i += n) {
		struct reading *r = new_reading(s);
		size_t size, max_records, valid;
		uint8_t *buffer = r ? ask_for_buffer(&size, &max_records, patience_ns) : NULL;

		if (!buffer) {
			if (r)
				free(r->starts);
			free(r);
			break;
		}
		n = fill(s, i, buffer, size, max_records, r);
		valid = r->starts[n];
		if (!n) { /* a record that is longer than the recorder's buffers */
			drop(1);
			n = 1;
		}
		start_reading(buffer, r);
		__atomic_fetch_add(&totals.buffers, 1, __ATOMIC_RELAXED);
		cupti_state.complete((CUcontext)(uintptr_t)b->context, b->stream, buffer, size,
				     valid);
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

static bool describe_pending(size_t index, struct tape_delivery *d)
{
	struct pending p = { .index = index, .first_end = UINT64_MAX };
	const uint8_t *record = d->buffer.bytes;
	struct tape_run run;

	while (tape_next_run(d, &run)) {
		for (uint32_t i = 0; i < run.count; i++, record += run.size)
			p.first_end = MIN(p.first_end, end_of(record, run.size));
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

/* Number of the first buffer of the tape at or behind a record. */
static size_t pending_from(size_t index)
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

/* Starts anew in another round. pending_lock is held. */
static void begin_round(struct pending *p, uint64_t time_shift)
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

	if (atomic_load(&cupti_state.gone) || !cupti_state.request)
		return;
	pthread_mutex_lock(&pending_lock);
	begin_round(p, place.time_shift);
	p->played = true;
	r = stage_until(&s, d, &place, p, UINT64_MAX);
	pthread_mutex_unlock(&pending_lock);
	if (r < 0 || is_dropped(number)) {
		drop(s.pieces.count);
	} else {
		if (standin_faults()->shuffle)
			shuffle(&s);
		done = hand_over(&s, &d->buffer, atomic_load(&cupti_state.patience_ns));
		if (done < s.pieces.count)
			drop(s.pieces.count - done);
	}
	free(s.bytes);
	vec_release(&s.pieces);
}

/* What the recorder had no buffer for comes at its place; dropped when that has been meanwhile. */
static void take_back(struct pending *p, const struct stage *s, size_t from)
{
	pthread_mutex_lock(&pending_lock);
	for (size_t i = from; !p->played && i < s->pieces.count; i++)
		p->given[s->pieces.data[i].record] = false;
	if (p->played)
		drop(s->pieces.count - from);
	pthread_mutex_unlock(&pending_lock);
}

static void deliver_early(struct pending *p, struct place *place, uint64_t until)
{
	struct stage s = { .pieces = VEC_INIT };
	struct tape_delivery d;
	int r = -ENOMEM;

	if (!tape_get_delivery(&standin_tape()->records.data[p->index], &d))
		return;
	pthread_mutex_lock(&pending_lock);
	begin_round(p, place->time_shift);
	if (!p->played)
		r = stage_until(&s, &d, place, p, until);
	pthread_mutex_unlock(&pending_lock);
	if (r == 0)
		take_back(p, &s, hand_over(&s, &d.buffer, 0));
	free(s.bytes);
	vec_release(&s.pieces);
}

void deliver_finished(void)
{
	struct place place = standin_place();
	uint64_t now = standin_cupti_time(clock_monotonic_ns() - place.time_shift);

	if (!cupti_state.request || !atomic_load(&cupti_state.patience_ns) ||
	    standin_faults()->dropped_buffers.count)
		return;
	for (size_t i = pending_from(place.index + 1); i < pending.count; i++)
		if (pending.data[i].first_end <= now)
			deliver_early(&pending.data[i], &place, now);
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

	cupti_state.request(&h.bytes, &h.size, &max_records);
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

	if (!cupti_state.request)
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
		cupti_state.complete(NULL, 0, h.bytes, h.size, 0);
	}
}

void delivery_counts(struct standin_counts *counts)
{
	struct standin_counts t = totals;

	t.callbacks = counts->callbacks;
	t.callbacks_withheld = counts->callbacks_withheld;
	*counts = t;
}
