/*
 * ring.h: how events get from the target's threads to the collector: one single-producer
 * single-consumer ring a thread.
 *
 * A thread claims a ring at its first event and gives it back when it ends. Pushing is two loads,
 * the copy of the event, and a store with release order: no system call, no lock, no allocation
 * (but for the claim). When the ring is full the event is dropped and counted. The collector takes
 * events in order and hands a dead thread's ring on once it is empty.
 */
#ifndef PITOT_CAPTURE_RING_H
#define PITOT_CAPTURE_RING_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/counter.h"
#include "base/quick_clock.h"

/* Which source an event belongs to; that source's handler (source.h) makes rows of it. */
enum ring_kind {
	/* a start, b end, c correlation, d function id, e stack; slot 2: a result */
	RING_API_CALL,
	/* a time, b range or payload, c domain, d category, e color, plus text slots */
	RING_NVTX,
	RING_STACK,	/* c stack id, d frames, e how it ends; the frames follow, four to a slot */
	RING_GRAPH_NODE,/* two slots: graph_nodes.c */
	RING_NVTX_NAME,	/* empty: wakes the collector, which reads new names from the registry */
	RING_COUNTER,	/* a time, b value, c counter, d device */
	/* a id, c kind, flags 1: it is the innermost of its kind; 0: there is none */
	RING_EXTERNAL,
	RING_GAUGE,	/* a time, b bits of a double, c the program's counter */
	RING_SAMPLE,	/* a CUPTI's time, b value, c metric, d device */
	RING_KINDS
};

/*
 * One slot. An event is one or more consecutive slots; `slots` and `kind` of the first describe it.
 */
struct ring_event {
	uint64_t a, b;
	uint32_t c, d, e;
	uint8_t kind;
	uint8_t flags;		/* by kind */
	uint16_t length;	/* bytes of text in the slots after the fixed ones */
};
_Static_assert(sizeof(struct ring_event) == 32, "two to a cache line");

#define RING_SLOTS 32768u	/* 1 MiB a ring */
#define RINGS_MAX 1024u
#define RING_TEXT_MAX 4096u	/* longer texts are cut */
#define RING_SCOPES 31u		/* open scopes whose names are kept */
#define RING_EXTERNALS 8u	/* open ids of the program's own for its CUDA calls */
#define RING_EXTERNAL_KINDS 8u

struct ring {
	/* the thread's side */
	_Alignas(64) atomic_uint_fast64_t head;
	uint64_t tail_seen;
	struct quick_clock clock;		/* of scopes, NVTX and gauges */
	atomic_uint_fast64_t lost;
	atomic_uint_fast64_t calls;		/* callbacks, for the cost table */
	atomic_uint_fast64_t sampled_calls, sampled_ns;
	uint32_t claims;			/* threads that have had the ring */
	/* a signal handler that interrupts a push must not push */
	bool pushing;
	struct stack_maker *stacks;		/* stack_capture.c's; it stays with the ring */
	char name[16];				/* the thread's, when it came and when it ended */
	/* nodes that it clones are those of an executable graph */
	bool instantiating;
	bool half_full;				/* the collector was woken for that */
	uint64_t executable;			/* that graph; 0: CUPTI did not say */
	/* runtime call under way whose driver calls are the same call */
	uint32_t outer_correlation;
	uint64_t scopes[RING_SCOPES];		/* open ones, by level: app_scopes.c's */
	struct ring_external {
		uint32_t kind;
		uint64_t id;
	} external[RING_EXTERNALS];		/* app_external.c's */
	uint32_t external_count;
	/* the collector's side */
	_Alignas(64) atomic_uint_fast64_t tail;
	uint64_t lost_reported, calls_reported, sampled_calls_reported, sampled_ns_reported;
	uint32_t tid;
	bool named;				/* its thread row has been written */
	struct ring_externals {
		uint64_t ids[RING_EXTERNAL_KINDS], lost;
		uint32_t kinds;			/* bits: those that have an id */
	} externals_open;			/* app_external.c's */
	atomic_uint state;			/* RING_FREE, RING_LIVE, RING_DEAD */
	struct ring_event *events;		/* RING_SLOTS */
};

enum { RING_FREE, RING_LIVE, RING_DEAD };

extern __thread struct ring *ring_of_thread
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Claims a ring for this thread. NULL when there is none left (counted). errno stays as it was. */
struct ring *ring_claim(void);

static inline struct ring *ring_get(void)
{
	struct ring *r = ring_of_thread;

	return likely(r != NULL) ? r : ring_claim();
}

/* Set while the collector sleeps until something happens. */
extern atomic_bool collector_idle;
/* Wakes it up: collector.c. Async-signal-safe. */
void collector_wake(void);

/*
 * The ring is more than half full: wakes the collector once, and tells whether there is room for
 * `slots`. Counts a loss.
 */
bool ring_make_room(struct ring *r, uint64_t head, uint32_t slots);

/*
 * Appends `slots` slots. false when the ring is full, or when a signal handler has interrupted a
 * push of its thread; the loss is counted.
 *
 * The load of collector_idle may be done before the store of the head is seen by others. The
 * collector, which sets it before it reads the rings for the last time, makes all threads pass a
 * barrier in between (collector.c).
 */
static inline bool ring_push(struct ring *r, const struct ring_event *event, uint32_t slots)
{
	uint64_t head;

	if (unlikely(r->pushing)) {
		counter_add(&r->lost, 1);
		return false;
	}
	r->pushing = true;
	atomic_signal_fence(memory_order_seq_cst);
	head = atomic_load_explicit(&r->head, memory_order_relaxed);
	if (unlikely(head + slots - r->tail_seen > RING_SLOTS / 2) &&
	    !ring_make_room(r, head, slots)) {
		r->pushing = false;
		return false;
	}
	for (uint32_t i = 0; i < slots; i++)
		r->events[(head + i) % RING_SLOTS] = event[i];
	atomic_store_explicit(&r->head, head + slots, memory_order_release);
	atomic_signal_fence(memory_order_seq_cst);
	r->pushing = false;
	if (unlikely(atomic_load_explicit(&collector_idle, memory_order_relaxed)))
		collector_wake();
	return true;
}

#define RING_COST_EVERY 64u	/* calls of which the cost of one is measured */

/* Counts a call of the recorder that began at start_ns and ends here. */
static inline void ring_count_call(struct ring *r, uint64_t start_ns)
{
	uint64_t calls = atomic_load_explicit(&r->calls, memory_order_relaxed) + 1;

	atomic_store_explicit(&r->calls, calls, memory_order_relaxed);
	if (likely(calls % RING_COST_EVERY))
		return;
	counter_add(&r->sampled_calls, 1);
	counter_add(&r->sampled_ns, clock_monotonic_ns() - start_ns);
}

/* --- the collector's side --- */

/* Ring number i, or NULL past the last that was ever used. */
struct ring *ring_at(unsigned i);
/* Slots that can be read now. */
static inline uint64_t ring_available(const struct ring *r)
{
	return atomic_load_explicit(&r->head, memory_order_acquire) -
	       atomic_load_explicit(&r->tail, memory_order_relaxed);
}
static inline const struct ring_event *ring_slot(const struct ring *r, uint64_t position)
{
	return &r->events[position % RING_SLOTS];
}
static inline void ring_consume(struct ring *r, uint64_t slots)
{
	atomic_store_explicit(&r->tail,
			      atomic_load_explicit(&r->tail, memory_order_relaxed) + slots,
			      memory_order_release);
}
/*
 * Hands the ring of an ended thread on. Call when it is RING_DEAD and empty and its counts have
 * been reported.
 */
void ring_recycle(struct ring *r);
/*
 * Before a collector begins: drops what came after the last one had ended. Its threads are to be
 * named again.
 */
void rings_discard(void);
/* Events since the last call whose threads got no ring. */
uint64_t rings_refused(void);

/*
 * In the child of a fork: the thread's ring belongs to the parent's collector. Forgets all rings
 * (keeps the memory, which the collector may have been in the middle of).
 */
void rings_after_fork(void);

#endif
