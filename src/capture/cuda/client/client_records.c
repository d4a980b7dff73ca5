#include "capture/cuda/client/client_records.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "capture/cuda/records.h"
#include "capture/cuda/client/client_clock.h"
#include "capture/core/pause.h"

#define CHUNK_BYTES (64u << 10)
#define RECORD_BYTES_MAX 4096u
#define AHEAD_BYTES (1u << 20) /* waiting copies that are delivered without a flush */
#define OTHERS_LIMIT_NS (100 * NS_PER_MS) /* a flush waits so long for other delivering threads */

/* --- kinds --- */

/*
 * Offsets of times and correlation ids in records; 0 means none, because the kind is at offset 0.
 * Sizes are those of CUPTI 13.0; 0: learned from the first record.
 */
/* clang-format off */
#define AT(record, member) offsetof(struct record_##record, member)
#define SPAN(record) { AT(record, start), AT(record, end) }
#define KERNEL { \
	sizeof(struct record_kernel), AT(kernel, correlation), { AT(kernel, start), AT(kernel, end), \
	AT(kernel, completed), AT(kernel, queued), AT(kernel, submitted) }, true }
static const struct layout {
	uint16_t size, correlation, times[6];
	bool is_work; /* on the GPU: the launching call decides whose record it is */
} layouts[COPIES_KINDS] = {
	[RECORD_KERNEL] = KERNEL,
	[RECORD_CONCURRENT_KERNEL] = KERNEL,
	[RECORD_MEMCPY] = { 96, AT(memcpy, correlation), SPAN(memcpy), true },
	[RECORD_MEMSET] = { 88, AT(memset, correlation), SPAN(memset), true },
	[RECORD_MEMCPY_PEER] = { 96, AT(memcpy_peer, correlation), SPAN(memcpy_peer), true },
	[RECORD_GRAPH_LAUNCH] = { 56, AT(graph_launch, correlation), SPAN(graph_launch), true },
	[RECORD_OVERHEAD] = { 56, AT(overhead, correlation), SPAN(overhead), false },
	[RECORD_SYNCHRONIZATION] = { 56, AT(synchronization, correlation), SPAN(synchronization), false },
	[RECORD_CUDA_EVENT] = { 56, AT(cuda_event, correlation), { AT(cuda_event, device_timestamp) }, false },
	[RECORD_EXTERNAL_CORRELATION] = { 24, AT(external_correlation, correlation), { 0 }, false },
	[RECORD_ALLOCATION] = { 128, AT(allocation, correlation), { AT(allocation, timestamp) }, false },
	[RECORD_MEMORY_POOL] = { 72, AT(memory_pool, correlation), { AT(memory_pool, timestamp) }, false },
	[CUPTI_ACTIVITY_KIND_DRIVER] = { 40, 32, { 8, 16 }, false },
	[CUPTI_ACTIVITY_KIND_RUNTIME] = { 40, 32, { 8, 16 }, false },
	[CUPTI_ACTIVITY_KIND_INTERNAL_LAUNCH_API] = { 0, 32, { 8, 16 }, false },
	[CUPTI_ACTIVITY_KIND_MARKER] = { 56, 0, { 8 }, false },
	[CUPTI_ACTIVITY_KIND_ENVIRONMENT] = { 0, 0, { 8 }, false },
	[CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER] = { 0, 0, { 16, 24 }, false },
	[CUPTI_ACTIVITY_KIND_JIT] = { 0, 32, { 16, 24 }, false },
};
/* clang-format on */

/* When each kind was enabled and disabled. */
static struct {
	atomic_uint_fast64_t since_ns, until_ns; /* CUPTI's time */
	/* the first call after it was enabled, and the last before it was disabled */
	atomic_uint since_id, until_id;
	atomic_uint after_id; /* the last call before it was enabled; 0: none */
	atomic_uint size; /* of its records; 0: none seen yet */
} kinds[COPIES_KINDS];

static atomic_uint_fast64_t enabled, ever, /* kinds as bits: now, at any time */
	without_call, with_call; /* no call has begun since the kind was enabled; one has */
static atomic_uint last_id;

/* --- the client --- */

static struct copies_cupti cupti;
static _Atomic(CUpti_BuffersCallbackRequestFunc) request;
static _Atomic(CUpti_BuffersCallbackCompleteFunc) complete;
static _Atomic(CUpti_TimestampCallbackFunc) client_time;
static __thread unsigned inside __attribute__((tls_model("initial-exec")));
static atomic_uint delivering;
static atomic_uint_fast64_t dropped, dropped_ever, records_copied, kernels_copied;

/* One of the client's buffers. */
struct buffer {
	uint8_t *bytes;
	size_t size, used, most, records; /* most: limit of records; 0: as many as fit */
};

struct chunk {
	struct chunk *next;
	unsigned used, records;
	uint8_t bytes[CHUNK_BYTES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held for moves in memory only */
static struct {
	struct chunk *first, *last; /* oldest first */
	size_t bytes;
	struct buffer open; /* holds records, or is ready for the next ones */
	struct client_clock clock;
} self;
static atomic_size_t waiting; /* bytes of copies */
/* A buffer is open, or the client has refused one since the last delivery. */
static atomic_bool has_buffer;

void copies_start(const struct copies_cupti *real)
{
	cupti = *real;
}

bool copies_registered(void)
{
	return atomic_load(&request) != NULL;
}

CUpti_BuffersCallbackRequestFunc copies_request(void)
{
	return atomic_load(&request);
}

CUpti_BuffersCallbackCompleteFunc copies_complete(void)
{
	return atomic_load(&complete);
}

CUpti_TimestampCallbackFunc copies_clock(void)
{
	return atomic_load(&client_time);
}

bool copies_is_inside(void)
{
	return inside > 0;
}

/* --- times --- */

/* Reads a pair of the two clocks, the narrowest of three attempts. */
static void read_clocks(void)
{
	CUpti_TimestampCallbackFunc read = atomic_load(&client_time);
	uint64_t narrowest = UINT64_MAX, at = 0, client = 0;

	if (!read)
		return;
	inside++;
	for (int i = 0; i < 3; i++) {
		uint64_t now = 0, before = read(), after;

		if (cupti.timestamp(&now) != CUPTI_SUCCESS)
			continue;
		after = read();
		if (after - before >= narrowest)
			continue;
		narrowest = after - before;
		at = now;
		client = before + narrowest / 2;
	}
	inside--;
	pthread_mutex_lock(&lock);
	client_clock_add(&self.clock, at, client);
	pthread_mutex_unlock(&lock);
}

void copies_register_clock(CUpti_TimestampCallbackFunc read)
{
	pthread_mutex_lock(&lock);
	self.clock = (struct client_clock){ .count = 0 };
	pthread_mutex_unlock(&lock);
	atomic_store(&client_time, read);
	read_clocks();
}

static void convert(uint8_t *record, uint32_t kind, unsigned size, const struct client_clock *c)
{
	const uint16_t *times = layouts[kind].times;
	uint64_t first = 0;

	for (size_t i = 0; times[i]; i++) {
		uint64_t t = times[i] + 8u <= size ? load_u64(record + times[i]) : 0;

		if (!t)
			continue;
		if (!first)
			first = t;
		store_u64(record + times[i], client_clock_convert(c, first, t));
	}
}

/* --- which records are the client's --- */

static uint64_t now_of_cupti(void)
{
	uint64_t now = 0;

	cupti.timestamp(&now);
	return now;
}

void copies_enable(uint32_t kind, bool are_watched)
{
	uint64_t bit = UINT64_C(1) << kind;

	if (atomic_load(&enabled) & bit)
		return;
	atomic_store(&kinds[kind].since_ns, now_of_cupti());
	atomic_store(&kinds[kind].until_ns, UINT64_MAX);
	atomic_store(&kinds[kind].after_id, atomic_load(&last_id));
	atomic_fetch_and(&with_call, ~bit);
	if (are_watched)
		atomic_fetch_or(&without_call, bit);
	atomic_fetch_or(&ever, bit);
	atomic_fetch_or(&enabled, bit);
}

void copies_disable(uint32_t kind)
{
	uint64_t bit = UINT64_C(1) << kind;

	if (!(atomic_load(&enabled) & bit))
		return;
	atomic_store(&kinds[kind].until_ns, now_of_cupti());
	atomic_store(&kinds[kind].until_id, atomic_load(&last_id));
	atomic_fetch_and(&without_call, ~bit);
	atomic_fetch_and(&enabled, ~bit);
}

static void note_call(uint32_t id)
{
	uint64_t fresh = atomic_load(&without_call);

	if (unlikely(fresh)) {
		fresh = atomic_exchange(&without_call, 0);
		for (unsigned kind = 0; kind < COPIES_KINDS; kind++)
			if (fresh >> kind & 1)
				atomic_store(&kinds[kind].since_id, id);
		atomic_fetch_or(&with_call, fresh);
	}
	/* Threads may report their calls late. */
	if ((int32_t)(id - atomic_load_explicit(&last_id, memory_order_relaxed)) > 0)
		atomic_store_explicit(&last_id, id, memory_order_relaxed);
}

static bool is_before_end(uint32_t kind, uint32_t id)
{
	return atomic_load(&enabled) >> kind & 1 ||
	       (int32_t)(id - atomic_load(&kinds[kind].until_id)) <= 0;
}

/* Calls that begin without a callback have ids between those of others. */
static bool is_after_begin(uint32_t kind, uint32_t id)
{
	uint32_t after = atomic_load(&kinds[kind].after_id);

	return !after || (int32_t)(id - after) > 0;
}

static bool is_clients(uint32_t kind, const uint8_t *record, size_t size)
{
	const struct layout *l = &layouts[kind];
	uint32_t id = l->correlation && l->correlation + 4u <= size
			      ? load_u32(record + l->correlation)
			      : 0;
	uint64_t t = l->times[0] && l->times[0] + 8u <= size ? load_u64(record + l->times[0]) : 0;

	if (!(atomic_load(&ever) >> kind & 1))
		return false;
	if (l->is_work && id && atomic_load(&with_call) >> kind & 1)
		return (int32_t)(id - atomic_load(&kinds[kind].since_id)) >= 0 &&
		       is_before_end(kind, id);
	if (t)
		return t >= atomic_load(&kinds[kind].since_ns) &&
		       t <= atomic_load(&kinds[kind].until_ns);
	return id ? is_after_begin(kind, id) && is_before_end(kind, id)
		  : atomic_load(&enabled) >> kind & 1;
}

/* --- the store --- */

/*
 * Returns the distance to the next record. It is the same for a kind in all of the client's
 * buffers, for copies_next_record().
 */
static unsigned size_of(uint32_t kind, size_t seen)
{
	bool is_known =
		cupti.version >= CUPTI_13_0 && cupti.version < CUPTI_13_1 && layouts[kind].size;
	unsigned none = 0, size = is_known ? layouts[kind].size : (unsigned)seen;

	return atomic_compare_exchange_strong(&kinds[kind].size, &none, size) ? size : none;
}

/* Records that the client does not get for lack of room: for CUPTI's count, and for the end. */
static void drop_copies(size_t records)
{
	copies_add_dropped(records);
	atomic_fetch_add(&dropped_ever, records);
}

static struct chunk *chunk_for(unsigned size)
{
	struct chunk *c = self.last, *oldest = self.first;

	if (c && c->used + size <= CHUNK_BYTES)
		return c;
	if (self.bytes >= COPIES_BYTES_MAX) {
		drop_copies(oldest->records);
		self.first = oldest->next;
		self.bytes -= sizeof(*oldest);
		atomic_fetch_sub(&waiting, oldest->used);
		c = oldest;
	} else {
		c = malloc(sizeof(*c));
	}
	if (!c)
		return NULL;
	c->next = NULL;
	c->used = c->records = 0;
	self.bytes += sizeof(*c);
	*(self.first ? &self.last->next : &self.first) = c;
	self.last = c;
	return c;
}

static void add_record(const uint8_t *record, size_t seen)
{
	uint32_t kind = load_u32(record);
	struct chunk *c;
	unsigned size;

	if (kind >= COPIES_KINDS || seen < sizeof(kind) || seen > RECORD_BYTES_MAX)
		return;
	if (kind == RECORD_KERNEL && !is_clients(kind, record, seen))
		kind = RECORD_CONCURRENT_KERNEL;
	if (!is_clients(kind, record, seen))
		return;
	size = size_of(kind, seen);
	pthread_mutex_lock(&lock);
	c = chunk_for(size);
	if (c) {
		memcpy(c->bytes + c->used, record, MIN(size, seen));
		store_u32(c->bytes + c->used, kind);
		memset(c->bytes + c->used + MIN(size, seen), 0, size - MIN(size, seen));
		c->used += size;
		c->records++;
		atomic_fetch_add(&waiting, size);
	}
	pthread_mutex_unlock(&lock);
	if (!c)
		drop_copies(1);
}

void copies_add(uint8_t *bytes, size_t valid)
{
	CUpti_Activity *record = NULL;
	uint8_t *at = NULL, *next;

	if (!atomic_load(&ever) || !copies_registered())
		return;
	while (cupti.next_record(bytes, valid, &record) == CUPTI_SUCCESS) {
		next = (uint8_t *)record;
		if (next < bytes || next >= bytes + valid || next <= at)
			break;
		if (at)
			add_record(at, (size_t)(next - at));
		at = next;
	}
	if (at)
		add_record(at, (size_t)(bytes + valid - at));
}

/* --- delivery --- */

static struct buffer request_buffer(void)
{
	CUpti_BuffersCallbackRequestFunc ask = atomic_load(&request);
	struct buffer b = { .bytes = NULL };

	if (!ask)
		return b;
	inside++;
	ask(&b.bytes, &b.size, &b.most);
	inside--;
	return b.bytes && b.size ? b : (struct buffer){ .bytes = NULL };
}

static void complete_buffer(struct buffer *b)
{
	CUpti_BuffersCallbackCompleteFunc done = atomic_load(&complete);

	inside++;
	if (b->bytes && done)
		done(NULL, 0, b->bytes, b->size, b->used);
	inside--;
	*b = (struct buffer){ .bytes = NULL };
}

static struct buffer take_open(void)
{
	struct buffer b;

	pthread_mutex_lock(&lock);
	b = self.open;
	self.open = (struct buffer){ .bytes = NULL };
	pthread_mutex_unlock(&lock);
	return b;
}

/* An open buffer is returned to the callbacks that it came from. */
void copies_register(CUpti_BuffersCallbackRequestFunc on_request,
		     CUpti_BuffersCallbackCompleteFunc on_complete)
{
	CUpti_BuffersCallbackCompleteFunc before = atomic_load(&complete);
	struct buffer b = { .bytes = NULL };

	if (before && on_complete != before) {
		b = take_open();
		atomic_store(&has_buffer, false);
	}
	complete_buffer(&b);
	atomic_store(&complete, on_complete);
	atomic_store(&request, on_request);
}

static bool has_room(const struct buffer *b, unsigned size)
{
	return b->bytes && b->used + size <= b->size && (!b->most || b->records < b->most);
}

/* Returns false if the client gives no buffer, or one that is too small. */
static bool hand_over_record(const uint8_t *record, uint32_t kind, unsigned size, struct buffer *b,
			     const struct client_clock *c)
{
	if (!has_room(b, size)) {
		complete_buffer(b);
		*b = request_buffer();
	}
	if (!has_room(b, size))
		return false;
	memcpy(b->bytes + b->used, record, size);
	if (c->count)
		convert(b->bytes + b->used, kind, size, c);
	b->used += size;
	b->records++;
	atomic_fetch_add(&records_copied, 1);
	if (kind == RECORD_KERNEL || kind == RECORD_CONCURRENT_KERNEL)
		atomic_fetch_add(&kernels_copied, 1);
	return true;
}

/* Delivers and frees a chunk. Records without room are lost to the client, as with CUPTI. */
static void hand_over(struct chunk *chunk, struct buffer *b, const struct client_clock *c)
{
	bool refused = false;

	for (unsigned at = 0, n = 0; n < chunk->records; n++) {
		uint32_t kind = load_u32(chunk->bytes + at);
		unsigned size = atomic_load(&kinds[kind].size);

		refused = refused || !hand_over_record(chunk->bytes + at, kind, size, b, c);
		if (refused)
			drop_copies(1);
		at += size;
	}
	free(chunk);
}

static struct chunk *take_all(struct client_clock *c)
{
	struct chunk *first;

	pthread_mutex_lock(&lock);
	first = self.first;
	self.first = self.last = NULL;
	self.bytes = 0;
	atomic_store(&waiting, 0);
	*c = self.clock;
	pthread_mutex_unlock(&lock);
	return first;
}

/* Leaves the buffer for the next delivery. */
static void put_back(struct buffer *b)
{
	pthread_mutex_lock(&lock);
	if (!self.open.bytes) {
		self.open = *b;
		*b = (struct buffer){ .bytes = NULL };
	}
	atomic_store(&has_buffer, self.open.bytes != NULL);
	pthread_mutex_unlock(&lock);
}

/* Waits only briefly: a thread in the client's code may itself be waiting for this one. */
static void wait_for_others(void)
{
	uint64_t begun = clock_machine_ns();

	while (atomic_load(&delivering) && clock_machine_ns() - begun < OTHERS_LIMIT_NS)
		pause_ns(100 * NS_PER_US);
}

void copies_deliver(enum copies_delivery what)
{
	struct client_clock c;
	struct buffer b;

	if (inside || !copies_registered())
		return;
	atomic_fetch_add(&delivering, 1);
	read_clocks();
	b = take_open();
	for (struct chunk *chunk = take_all(&c), *next; chunk; chunk = next) {
		next = chunk->next;
		hand_over(chunk, &b, &c);
	}
	if (what == COPIES_LAST || (what == COPIES_FLUSH && b.records))
		complete_buffer(&b);
	put_back(&b);
	complete_buffer(&b);
	if (what != COPIES_FULL && !atomic_load(&enabled))
		atomic_store(&ever, 0); /* all records of its kinds have been delivered */
	atomic_fetch_sub(&delivering, 1);
	if (what != COPIES_FULL)
		wait_for_others();
}

/*
 * Requests a buffer before the first record, in the call that makes it, as CUPTI does. Kineto only
 * flushes once it has provided a buffer.
 */
static void open_first(void)
{
	struct buffer b;

	if (atomic_exchange(&has_buffer, true))
		return;
	b = request_buffer();
	if (!b.bytes)
		return;
	put_back(&b);
	complete_buffer(&b);
}

void copies_begin_call(uint32_t correlation)
{
	note_call(correlation);
	if (inside || !atomic_load_explicit(&enabled, memory_order_relaxed) || !copies_registered())
		return;
	if (!atomic_load_explicit(&has_buffer, memory_order_relaxed))
		open_first();
	if (atomic_load_explicit(&waiting, memory_order_relaxed) >= AHEAD_BYTES)
		copies_deliver(COPIES_FULL);
}

CUptiResult copies_next_record(uint8_t *buffer, size_t valid, CUpti_Activity **record)
{
	size_t at = 0;
	uint32_t kind;

	if (!buffer || !record)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (*record) {
		kind = load_u32((uint8_t *)*record);
		at = (size_t)((uint8_t *)*record - buffer);
		at += kind < COPIES_KINDS ? atomic_load(&kinds[kind].size) : 0;
	}
	if (at >= valid || valid - at < sizeof(kind))
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	kind = load_u32(buffer + at);
	if (kind >= COPIES_KINDS || !atomic_load(&kinds[kind].size) ||
	    atomic_load(&kinds[kind].size) > valid - at ||
	    (*record && buffer + at == (uint8_t *)*record))
		return CUPTI_ERROR_INVALID_KIND;
	*record = (CUpti_Activity *)(void *)(buffer + at);
	return CUPTI_SUCCESS;
}

/* --- counts, the end --- */

size_t copies_dropped(void)
{
	return (size_t)atomic_exchange(&dropped, 0);
}

void copies_add_dropped(size_t records)
{
	atomic_fetch_add(&dropped, records);
}

struct copies_counts copies_take_counts(void)
{
	return (struct copies_counts){ .kernels = atomic_exchange(&kernels_copied, 0),
				       .records = atomic_exchange(&records_copied, 0),
				       .dropped = atomic_exchange(&dropped_ever, 0) };
}

static void free_all(struct chunk *chunk)
{
	for (struct chunk *next; chunk; chunk = next) {
		next = chunk->next;
		free(chunk);
	}
}

void copies_reset(void)
{
	struct client_clock c;

	copies_register(NULL, NULL);
	atomic_store(&client_time, NULL);
	atomic_store(&enabled, 0);
	atomic_store(&ever, 0);
	atomic_store(&without_call, 0);
	atomic_store(&dropped, 0);
	free_all(take_all(&c));
	atomic_store(&has_buffer, false);
}

/* A record that the parent's collector was adding is leaked. */
void copies_after_fork(void)
{
	pthread_mutex_init(&lock, NULL);
	atomic_store(&delivering, inside > 0);
	memset(&self, 0, sizeof(self));
	copies_reset();
}
