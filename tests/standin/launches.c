/*
 * Records reserve room in the recorder's buffers when work is launched, and a buffer is delivered
 * only when all of its records have finished: a kernel that is still queued delays records that
 * ended before it. CUPTI does the same.
 *
 * Work is found by the correlation id of its call: the records with that id that the tape delivers
 * after the call. Nothing is reserved with --parallel, where calls and deliveries are not ordered,
 * and where the script drops buffers of the tape: records are then delivered as on the tape.
 */
#include "delivery.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "standin_cupti.h"

#define GRAPH_NODE_OFFSET 144 /* of kernels */
#define EXTERNAL_DEPTH 16
#define CUPTI_13_0 130000u /* since this version each thread has its own buffers */

/* Place of a call's record on the tape. */
struct launched {
	uint32_t correlation, size;
	size_t pending, record;
	const uint8_t *bytes;
};

/* When a record has finished: at this CUPTI time of the tape, or when the tape delivers it. */
struct ending {
	uint64_t end, time_shift;
	size_t pending;
};

/* A buffer of the recorder with reserved room. */
struct reserved {
	uint8_t *buffer;
	size_t size, max_records;
	unsigned thread;
	bool full;
	struct stage stage;
	VEC(struct ending) endings; /* by piece */
};

static VEC(struct launched) launched;
static struct map calls; /* correlation ids of calls on the tape */
static bool has_graph_launches; /* the tape has records of whole graph launches */
static pthread_once_t launched_once = PTHREAD_ONCE_INIT;
static VEC(struct reserved) reserved; /* oldest first; guarded by pending_lock() */

static int by_correlation(const void *a, const void *b)
{
	const struct launched *x = a, *y = b;

	if (x->correlation != y->correlation)
		return x->correlation < y->correlation ? -1 : 1;
	if (x->pending != y->pending)
		return x->pending < y->pending ? -1 : 1;
	return (x->record > y->record) - (x->record < y->record);
}

static void find_launched_of(size_t i)
{
	struct tape_delivery d;
	struct tape_run run;
	const uint8_t *record;
	size_t n = 0;

	if (!tape_get_delivery(&standin_tape()->records.data[pending_at(i)->index], &d))
		return;
	record = d.buffer.bytes;
	while (tape_next_run(&d, &run))
		for (uint32_t k = 0; k < run.count; k++, n++, record += run.size) {
			struct launched l = { record_correlation(record, run.size), run.size, i, n,
					      record };

			if (l.correlation && vec_push(&launched, l) < 0)
				abort();
			has_graph_launches |= load_u32(record) == CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
		}
}

static void find_calls(void)
{
	const struct tape *t = standin_tape();
	struct tape_event e;

	for (size_t i = 0; i < t->records.count; i++)
		if (t->records.data[i].type == TAPE_CALLBACK &&
		    tape_get_event(&t->records.data[i], &e) && e.correlation &&
		    map_put(&calls, e.correlation, 1) < 0)
			abort();
}

static void find_launched(void)
{
	find_calls();
	for (size_t i = 0; i < pending_count(); i++)
		find_launched_of(i);
	if (launched.count)
		qsort(launched.data, launched.count, sizeof(*launched.data), by_correlation);
}

static size_t first_with(uint32_t correlation)
{
	size_t low = 0, high = launched.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (launched.data[middle].correlation < correlation)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool launches_has_call(uint32_t correlation)
{
	uint64_t found;

	pthread_once(&launched_once, find_launched);
	return map_get(&calls, correlation, &found);
}

/* --- taking room --- */

static unsigned this_thread(void)
{
	static __thread unsigned number;
	static atomic_uint threads;
	uint32_t version = standin_faults()->version;

	if (atomic_load(&cupti_state.shares_buffers) || (version && version < CUPTI_13_0))
		return 0;
	if (!number)
		number = atomic_fetch_add(&threads, 1) + 1;
	return number;
}

/* Returns the buffer for a thread's records. */
static struct reserved *open_of(unsigned thread)
{
	for (size_t i = reserved.count; i-- > 0;)
		if (reserved.data[i].thread == thread && !reserved.data[i].full)
			return &reserved.data[i];
	return NULL;
}

/* What the recorder's buffer has of work that is under way: all but its times. */
static void write_launched(uint8_t *to, const uint8_t *record, size_t size)
{
	unsigned start = record_start_offset(load_u32(record));

	memcpy(to, record, size);
	if (start && start + 16 <= size)
		memset(to + start, 0, 16);
}

static bool append(struct reserved *r, const struct stage *one, struct ending ending)
{
	const struct piece *p = &one->pieces.data[0];

	if (r->stage.used + p->size > r->size ||
	    (r->max_records && r->stage.pieces.count >= r->max_records))
		return false;
	if (vec_push(&r->stage.pieces, ((struct piece){ r->stage.used, p->size, p->record })) < 0 ||
	    vec_push(&r->endings, ending) < 0)
		abort();
	memcpy(r->stage.bytes + r->stage.used, one->bytes, p->size);
	write_launched(r->buffer + r->stage.used, one->bytes, p->size);
	r->stage.used += p->size;
	return true;
}

/* Requests another buffer of the recorder for a thread. */
static bool open_another(unsigned thread)
{
	struct reserved r = { .thread = thread, .stage.end_result = CUPTI_ERROR_MAX_LIMIT_REACHED };

	r.buffer = ask_for_buffer(&r.size, &r.max_records, atomic_load(&cupti_state.patience_ns));
	if (!r.buffer)
		return false;
	r.stage.bytes = malloc(r.size);
	if (!r.stage.bytes)
		abort();
	pending_lock();
	if (vec_push(&reserved, r) < 0)
		abort();
	pending_unlock();
	return true;
}

/* Reserves a record. A flush may deliver a new buffer immediately; then another is requested. */
static void put(const struct stage *one, struct ending ending)
{
	unsigned thread = this_thread();

	for (;;) {
		struct reserved *r;
		bool fits, is_too_long;

		pending_lock();
		r = open_of(thread);
		fits = r && append(r, one, ending);
		is_too_long = r && !fits && r->stage.pieces.count == 0;
		if (r && !fits)
			r->full = true;
		pending_unlock();
		if (fits)
			return;
		if (is_too_long || !open_another(thread)) {
			drop_records(1);
			return;
		}
	}
}

static bool is_kernel(const struct launched *l, bool of_graph)
{
	return load_u32(l->bytes) == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL &&
	       l->size >= GRAPH_NODE_OFFSET + 8 &&
	       (load_u64(l->bytes + GRAPH_NODE_OFFSET) != 0) == of_graph;
}

/* On a tape with records of nodes and of whole graph launches, a launch has only one of both. */
static bool is_excluded(const struct launched *l, bool whole)
{
	if (load_u32(l->bytes) == CUPTI_ACTIVITY_KIND_GRAPH_TRACE)
		return !whole;
	return has_graph_launches && whole && is_kernel(l, true);
}

/* Returns true if the record was not given before. */
static bool reserve_one(const struct launched *l, struct place *place, bool is_left_out)
{
	struct pending *p = pending_at(l->pending);
	struct stage one = { .bytes = malloc(l->size + RECORD_GROWTH_MAX) };
	uint64_t end = record_start_offset(load_u32(l->bytes)) ? record_end(l->bytes, l->size) : 0;
	bool is_new;

	if (!one.bytes)
		abort();
	pending_lock();
	pending_begin_round(p, place->time_shift);
	is_new = p->index >= place->index && !p->played && !p->given[l->record];
	if (is_new) {
		p->given[l->record] = true;
		if (!is_left_out && stage_record(&one, l->bytes, l->size, l->record, place) < 0)
			abort();
	}
	pending_unlock();
	if (one.pieces.count)
		put(&one, (struct ending){ end, place->time_shift, l->pending });
	stage_release(&one);
	return is_new;
}

static __thread struct {
	unsigned count;
	uint64_t ids[EXTERNAL_DEPTH];
} externals[CUPTI_EXTERNAL_CORRELATION_KIND_SIZE];

bool launches_push_external(uint32_t kind, uint64_t id)
{
	if (kind >= ARRAY_SIZE(externals) || externals[kind].count == EXTERNAL_DEPTH)
		return false;
	externals[kind].ids[externals[kind].count++] = id;
	return true;
}

bool launches_pop_external(uint32_t kind, uint64_t *id)
{
	if (kind >= ARRAY_SIZE(externals) || !externals[kind].count)
		return false;
	*id = externals[kind].ids[--externals[kind].count];
	return true;
}

/* Reserves a record for each kind of external id that the thread has, in the current call. */
static void reserve_externals(uint32_t correlation, struct place *place)
{
	for (uint32_t kind = 0; kind < ARRAY_SIZE(externals); kind++) {
		CUpti_ActivityExternalCorrelation record = {
			.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
			.externalKind = (CUpti_ExternalCorrelationKind)kind,
			.correlationId = correlation,
		};
		uint8_t bytes[sizeof(record) + RECORD_GROWTH_MAX];
		struct stage one = { .bytes = bytes };

		if (!externals[kind].count)
			continue;
		record.externalId = externals[kind].ids[externals[kind].count - 1];
		if (stage_record(&one, (const uint8_t *)&record, sizeof(record), 0, place) < 0)
			abort();
		if (one.pieces.count)
			put(&one, (struct ending){ 0, place->time_shift, 0 });
		vec_release(&one.pieces);
	}
}

void launches_reserve(uint32_t correlation, bool fails)
{
	struct place place = standin_place();
	bool is_new = false;
	bool whole = atomic_load(&cupti_state.kinds[CUPTI_ACTIVITY_KIND_GRAPH_TRACE]);

	if (!correlation || atomic_load(&cupti_state.gone) ||
	    !atomic_load(&cupti_state.patience_ns) || standin_faults()->dropped_buffers.count)
		return;
	pthread_once(&launched_once, find_launched);
	for (size_t i = first_with(correlation);
	     i < launched.count && launched.data[i].correlation == correlation; i++) {
		const struct launched *l = &launched.data[i];

		/*
		 * A kernel outside of graphs is the only record of its call; further ones with its
		 * id come after the ids have wrapped.
		 */
		if (!reserve_one(l, &place,
				 fails || !atomic_load(&cupti_state.request) ||
					 is_excluded(l, whole)))
			continue;
		is_new = true;
		if (is_kernel(l, false))
			break;
	}
	if (is_new)
		reserve_externals(correlation, &place);
}

void launches_take_times(uint32_t correlation)
{
	pending_lock();
	for (size_t i = reserved.count; i-- > 0;) {
		struct stage *s = &reserved.data[i].stage;

		for (size_t k = 0; k < s->pieces.count; k++) {
			uint8_t *record = s->bytes + s->pieces.data[k].offset;
			uint32_t size = (uint32_t)s->pieces.data[k].size;

			if (load_u32(record) == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL &&
			    record_correlation(record, size) == correlation)
				memset(record + record_start_offset(load_u32(record)), 0, 16);
		}
	}
	pending_unlock();
}

/* --- handing over --- */

static bool has_finished(const struct ending *e)
{
	const struct pending *p = pending_at(e->pending);
	uint64_t on_tape = clock_monotonic_ns() - e->time_shift;

	/*
	 * On a machine with a short uptime the tape's times are later, and the shift is negative.
	 */
	return ((int64_t)on_tape > 0 && e->end <= standin_cupti_time(on_tape)) || p->played ||
	       p->time_shift != e->time_shift;
}

/* Drops the records that have not finished. Returns true if there were none. */
static bool finish(struct reserved *r, bool forced)
{
	size_t n = 0;

	for (size_t i = 0; i < r->endings.count; i++) {
		if (!has_finished(&r->endings.data[i])) {
			if (!forced)
				return false;
			continue;
		}
		if (forced)
			r->stage.pieces.data[n] = r->stage.pieces.data[i];
		n++;
	}
	if (forced)
		r->stage.pieces.count = n;
	return true;
}

/* Removes the oldest buffer that can be delivered. */
static bool take_finished(bool forced, struct reserved *taken)
{
	bool found = false;

	pending_lock();
	for (size_t i = 0; i < reserved.count && !found; i++) {
		found = finish(&reserved.data[i], forced);
		if (!found)
			continue;
		*taken = reserved.data[i];
		reserved.count--;
		memmove(&reserved.data[i], &reserved.data[i + 1],
			(reserved.count - i) * sizeof(*reserved.data));
	}
	pending_unlock();
	return found;
}

void launches_flush(bool forced)
{
	struct reserved r;

	while (take_finished(forced, &r)) {
		if (standin_faults()->shuffle)
			stage_shuffle(&r.stage);
		give_buffer(&r.stage, 0, r.buffer, r.size, r.max_records);
		stage_release(&r.stage);
		vec_release(&r.endings);
	}
}
