#include "capture/core/ring.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/reserve.h"
#include "capture/core/shared_area.h"

#define PUSH_SLOTS_MAX 1024u /* more than an event has */

__thread struct ring *ring_of_thread
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

atomic_bool ring_notes_launches;

static struct ring own_rings[RINGS_MAX];
static struct ring *rings = own_rings; /* or the area's; does not change once one is claimed */
static atomic_uint rings_used;
static atomic_uint_fast64_t refused, refused_threads; /* events and threads, not yet reported */
static atomic_uint recordings; /* rings_discard() was called so often */
static pthread_key_t thread_end_key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static bool key_made;

static void on_thread_end(void *value)
{
	struct ring *r = value;

	ring_of_thread = NULL;
	prctl(PR_GET_NAME, r->name);
	atomic_store_explicit(&r->state, RING_DEAD, memory_order_release);
}

static void make_key(void)
{
	key_made = pthread_key_create(&thread_end_key, on_thread_end) == 0;
}

/* A ring keeps its address space forever; it is passed from thread to thread. */
static bool ensure_memory(struct ring *r)
{
	enum {
		BYTES = RING_SLOTS * sizeof(*r->events) + RING_COUNTERS * sizeof(*r->additions) +
			RING_LAUNCHED * sizeof(*r->launched)
	};
	_Static_assert(BYTES <= AREA_RING_BYTES, "the area has room for a ring");
	uint8_t *area = rings == own_rings ? NULL : shared_area_part(AREA_RING_MEMORY);

	if (!r->events && area)
		r->events = (void *)(area + (size_t)(r - rings) * AREA_RING_BYTES);
	if (!r->events)
		r->events = reserve_memory(BYTES);
	if (r->events && !r->launched)
		r->launched =
			(void *)((struct ring_addition *)(r->events + RING_SLOTS) + RING_COUNTERS);
	if (r->events && !r->additions)
		__atomic_store_n(&r->additions, (void *)(r->events + RING_SLOTS), __ATOMIC_RELEASE);
	return r->events != NULL;
}

static struct ring *claim_free(void)
{
	unsigned used = atomic_load(&rings_used);
	struct ring *shared = used ? NULL : shared_area_part(AREA_RINGS);

	_Static_assert(sizeof(own_rings) <= AREA_RINGS_MAX * 4096 && RINGS_MAX == AREA_RINGS_MAX,
		       "the area has room for all");
	if (shared) {
		rings = shared;
		shared_area_head->ring_bytes = sizeof(*rings);
	}
	for (unsigned i = 0; i < used; i++) {
		unsigned expected = RING_FREE;

		if (atomic_compare_exchange_strong(&rings[i].state, &expected, RING_LIVE))
			return &rings[i];
	}
	while (used < RINGS_MAX) {
		unsigned expected = RING_FREE;

		if (!atomic_compare_exchange_strong(&rings[used].state, &expected, RING_LIVE)) {
			used++;
			continue;
		}
		unsigned seen = atomic_load(&rings_used);
		while (seen <= used && !atomic_compare_exchange_weak(&rings_used, &seen, used + 1))
			;
		return &rings[used];
	}
	return NULL;
}

bool ring_make_room(struct ring *r, uint64_t head, uint32_t slots)
{
	uint64_t used;

	r->tail_seen = atomic_load_explicit(&r->tail, memory_order_acquire);
	used = head + slots - r->tail_seen;
	if (used <= RING_SLOTS / 2) {
		r->half_full = false;
		return true;
	}
	if (!r->half_full)
		collector_wake();
	r->half_full = true;
	if (used <= RING_SLOTS)
		return true;
	counter_add(&r->lost, 1);
	return false;
}

void ring_measure_call(struct ring *r, uint64_t start_ns)
{
	counter_add(&r->sampled_calls, 1);
	counter_add(&r->sampled_ns, clock_monotonic_ns() - start_ns);
}

/*
 * A thread beyond the limit searches for a free ring only at every 256th event, because each search
 * reads the state of all rings.
 */
#define REFUSED_RETRY_EVERY 256u

struct ring *ring_try_claim(void)
{
	static __thread unsigned tries __attribute__((tls_model("initial-exec")));
	struct ring *r, *none = NULL;
	int saved = errno;

	pthread_once(&key_once, make_key);
	r = tries++ % REFUSED_RETRY_EVERY == 0 ? claim_free() : NULL;
	if (!r || !ensure_memory(r)) {
		if (r)
			atomic_store(&r->state, RING_FREE);
		errno = saved;
		return ring_of_thread;
	}
	tries = 0;
	r->tid = (uint32_t)syscall(SYS_gettid);
	r->launch = r->nccl.launch = (struct ring_launch){ 0 };
	r->nccl.group = r->nccl.depth = r->nccl.pending = 0;
	r->nccl.ends_group = false;
	prctl(PR_GET_NAME, r->name);
	r->claims++;
	r->outer_correlation = 0;
	atomic_store(&r->wait.start_ns, 0);
	r->instantiating = r->half_full = r->pushing = false;
	memset(r->scopes, 0, sizeof(r->scopes));
	r->external_count = 0;
	memset(&r->choice, 0, sizeof(r->choice));
	atomic_store(&r->range_ns, clock_monotonic_ns());
	r->tail_seen = atomic_load(&r->tail);
	/* Until here a signal handler may have claimed another one. */
	if (!__atomic_compare_exchange_n(&ring_of_thread, &none, r, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED)) {
		atomic_store(&r->state, RING_FREE);
		errno = saved;
		return ring_of_thread;
	}
	if (key_made)
		pthread_setspecific(thread_end_key, r);
	errno = saved;
	return r;
}

static void refuse(void)
{
	static __thread unsigned recording __attribute__((tls_model("initial-exec")));
	unsigned now = atomic_load(&recordings) + 1;

	if (recording != now)
		atomic_fetch_add(&refused_threads, 1);
	recording = now;
	atomic_fetch_add(&refused, 1);
}

struct ring *ring_claim(void)
{
	struct ring *r = ring_try_claim();

	if (!r)
		refuse();
	return r;
}

struct ring *ring_at(unsigned i)
{
	return i < atomic_load_explicit(&rings_used, memory_order_acquire) ? &rings[i] : NULL;
}

/* Gives back the pages of `count` slots from `first` on, which may wrap around. */
static void give_back(struct ring *r, uint64_t first, uint64_t count)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	while (r->events && count) {
		uint64_t at = first % RING_SLOTS, slots = MIN(count, RING_SLOTS - at);
		uintptr_t begin = ((uintptr_t)&r->events[at] + page - 1) & ~(page - 1),
			  end = (uintptr_t)&r->events[at + slots] & ~(page - 1);

		if (begin < end)
			shared_area_release((void *)begin, end - begin);
		first += slots;
		count -= slots;
	}
}

void rings_give_back(void)
{
	struct ring *r;

	for (unsigned i = 0; (r = ring_at(i)); i++)
		if (atomic_load_explicit(&r->state, memory_order_acquire) != RING_FREE)
			give_back(r, atomic_load(&r->head) + PUSH_SLOTS_MAX,
				  RING_SLOTS - PUSH_SLOTS_MAX);
}

void ring_recycle(struct ring *r)
{
	give_back(r, 0, RING_SLOTS);
	r->named = false;
	r->externals_open.kinds = 0;
	atomic_store_explicit(&r->state, RING_FREE, memory_order_release);
}

/* The sums stay: they are what the thread has added, ever. */
static void forget_additions(struct ring *r)
{
	atomic_store(&r->added_words, 0);
	for (unsigned i = 0; i < ARRAY_SIZE(r->added); i++)
		atomic_store(&r->added[i], 0);
}

void rings_discard(void)
{
	uint64_t threads;
	struct ring *r;

	for (unsigned i = 0; (r = ring_at(i)); i++) {
		bool dead = atomic_load_explicit(&r->state, memory_order_acquire) == RING_DEAD;

		ring_consume(r, ring_available(r));
		if (dead)
			forget_additions(r);
		r->named = false;
		r->externals_open.kinds = 0;
		r->lost_reported = atomic_load(&r->lost);
		if (dead)
			ring_recycle(r);
	}
	atomic_fetch_add(&recordings, 1);
	rings_refused(&threads);
}

uint64_t rings_refused(uint64_t *threads)
{
	*threads = atomic_exchange(&refused_threads, 0);
	return atomic_exchange(&refused, 0);
}

void rings_after_fork(void)
{
	unsigned used = atomic_load(&rings_used);

	ring_of_thread = NULL;
	if (key_made)
		pthread_setspecific(thread_end_key, NULL);
	if (rings != own_rings) { /* they are the parent's */
		rings = own_rings;
		atomic_store(&rings_used, 0);
		used = 0;
	}
	for (unsigned i = 0; i < used; i++) {
		atomic_store(&rings[i].head, 0);
		atomic_store(&rings[i].tail, 0);
		atomic_store(&rings[i].added_head, 0);
		forget_additions(&rings[i]);
		rings[i].tail_seen = 0;
		rings[i].named = false;
		rings[i].externals_open.kinds = 0;
		rings[i].stacks = NULL;
		rings[i].lost_reported = atomic_load(&rings[i].lost);
		rings[i].calls_reported = atomic_load(&rings[i].calls);
		rings[i].sampled_calls_reported = atomic_load(&rings[i].sampled_calls);
		rings[i].sampled_ns_reported = atomic_load(&rings[i].sampled_ns);
		atomic_store(&rings[i].state, RING_FREE);
	}
}
