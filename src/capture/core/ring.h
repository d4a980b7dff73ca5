/*
 * ring.h: carries events from the program's threads to the collector, in one single-producer
 * single-consumer ring per thread.
 *
 * A thread claims a ring at its first event and returns it when it ends. Pushing is two loads,
 * the copy of the event, and a store with release order: no system call, no lock, no allocation
 * (except for the claim). If the ring is full the event is dropped and counted. The collector
 * consumes events in order and recycles a dead thread's ring once it is empty.
 */
#ifndef PITOT_CAPTURE_RING_H
#define PITOT_CAPTURE_RING_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/counter.h"
#include "base/quick_clock.h"

/* The kind decides which source's handler (source.h) turns the event into rows. */
enum ring_kind {
	/* a start, b end, c correlation, d function id, e stack; slot 2: call_handles.h */
	RING_API_CALL,
	/* a time, b range or payload, c domain, d category, e color, plus text slots */
	RING_NVTX,
	RING_STACK,	/* c stack id, d frames, e how it ends; then the frames, four to a slot */
	RING_GRAPH_NODE,/* two slots: graph_nodes.c */
	RING_NVTX_NAME,	/* empty: wakes the collector, which reads new names from the registry */
	RING_COUNTER,	/* a time, b value, c counter, d device */
	/* a id, c kind, flags 1: it is the innermost of its kind; 0: the kind has no open id */
	RING_EXTERNAL,
	RING_GAUGE,	/* a time, b bits of a double, c the program's counter */
	RING_ADDITIONS,	/* app_additions.h */
	/* a the GPU's timestamp, b value, c metric, d device; flags: slots, one for each value */
	RING_SAMPLE,
	RING_COLLECTIVE, /* three slots: nccl_source.c */
	RING_HIP_CALL,	/* two slots: amd_calls.h */
	RING_HIP_WORK,	/* RING_HIP_WORK_SLOTS: amd_work.c */
	RING_HIP_VALUE,	/* a correlation, b bits of a double, c metric */
	RING_KINDS
};

/*
 * One slot. An event is one or more consecutive slots; the first one's `kind` implies how many.
 */
struct ring_event {
	uint64_t a, b;
	uint32_t c, d, e;
	uint8_t kind;
	uint8_t flags;		/* by kind */
	uint16_t length;	/* bytes of text in the slots after the fixed ones */
};
_Static_assert(sizeof(struct ring_event) == 32, "two to a cache line");

/* What the callbacks of a launch know; 0 and NULL: there was none. */
struct ring_launch {
	uint32_t correlation;
	uint32_t count; /* launches since it was all 0; the other members are those of the last */
	const char *kernel; /* mangled name; valid while its module is loaded */
	uint64_t node; /* of the graph into which it was captured */
};
/* Set once events are joined with the launches of their thread. */
extern atomic_bool ring_notes_launches;

/* A launch and the number of its kernel's name (launch_names.h); 0: it is unknown. */
struct ring_launched {
	uint32_t correlation;
	uint16_t kernel, unused;
};
_Static_assert(sizeof(struct ring_launched) == sizeof(uint64_t), "written at once");
/* As many launches as a stream accepts before it blocks. */
#define RING_LAUNCHED 1024u

#define RING_NCCL_PENDING 16u /* NCCL's calls in a group that wait for its launch */

#define RING_POLLED 4u /* handles that a thread polls at a time */

#define RING_SLOTS 32768u	/* 1 MiB a ring */
#define RING_HIP_WORK_SLOTS 5u
#define RINGS_MAX 1024u
#define RING_TEXT_MAX 4096u	/* longer texts are truncated */
#define RING_SCOPES 31u		/* open scopes whose names are kept */
#define RING_EXTERNALS 8u	/* the program's own ids that can be open for its CUDA calls */
#define RING_EXTERNAL_KINDS 8u
#define RING_COUNTERS 1024u	/* the program's counters */
#define RING_LEVEL_DOMAINS 16u	/* NVTX domains whose levels of nesting are counted */

/* app_additions.h's: what the ring's threads have added to a counter, ever */
struct ring_addition {
	/* written by the thread */
	atomic_uint_fast64_t sum, count;
	atomic_bool mixed;
	/* written by the collector: how much of it has become rows */
	uint64_t seen_sum, seen_count;
};

struct ring {
	/* written by the thread */
	_Alignas(64) atomic_uint_fast64_t head;
	uint64_t tail_seen;
	struct quick_clock clock;		/* for scopes, NVTX and gauges */
	atomic_uint_fast64_t lost;
	atomic_uint_fast64_t calls;		/* callbacks, for the cost table */
	atomic_uint_fast64_t sampled_calls, sampled_ns;
	uint32_t claims;			/* number of threads that have owned the ring */
	/* a signal handler that interrupts a push must not push */
	bool pushing;
	struct stack_maker *stacks;		/* stack_capture.c's; it stays with the ring */
	char name[16];				/* the thread's, first and at its end */
	/* the nodes that the thread clones belong to an executable graph */
	bool instantiating;
	bool half_full;				/* the collector was woken for that */
	uint64_t executable;			/* id of that graph; 0: CUPTI did not say */
	/* the runtime call in progress, whose driver calls count as the same call */
	uint32_t outer_correlation;
	struct ring_launch launch;		/* the thread's last one, if ring_notes_launches */
	atomic_uint launched_count;		/* of `launched`, ever */
	/* api_calls.c's: the call in progress that waits for the GPU; start_ns 0: none */
	struct ring_wait {
		atomic_uint_fast64_t start_ns;
		uint32_t function, correlation, stack;
	} wait;
	struct ring_poll {
		uint64_t since_ns, end_ns;	/* of its first (0: none) and last query */
		uint64_t calls;			/* then; others count, too */
		uint64_t handles[RING_POLLED];	/* 1 + those whose work was unfinished */
		unsigned next;			/* to be replaced */
	} poll;					/* call_polls.c's */
	struct {
		uint32_t group, calls;
		struct ring_launch launch;
		uint32_t depth, pending;	/* nccl_nvtx.c's: of groups; in pending_events */
		bool ends_group;
	} nccl;					/* nccl_plugin.c's: the group launched last */
	uint64_t scopes[RING_SCOPES];		/* open scopes by level: app_scopes.c's */
	struct ring_external {
		uint32_t kind;
		uint64_t id;
	} external[RING_EXTERNALS];		/* app_external.c's */
	uint32_t external_count;
	/* nvtx_choice.c's: bits by level, whether the open range matches; and for which choice */
	struct ring_choice {
		uint32_t included[RING_LEVEL_DOMAINS], excluded[RING_LEVEL_DOMAINS];
		unsigned number;
	} choice;
	/* app_additions.h's: bits of counters, bits of words of these, and a position in here */
	atomic_uint_fast64_t added[RING_COUNTERS / 64];
	atomic_uint_fast64_t added_words, added_head;
	atomic_uint_fast64_t range_ns;		/* time of the last push or pop of a range */
	/* written by the collector */
	_Alignas(64) atomic_uint_fast64_t tail;
	/* nccl_nvtx.c's: written by the thread, like all above `tail` */
	struct ring_event nccl_pending[RING_NCCL_PENDING][3];
	uint64_t lost_reported, calls_reported, sampled_calls_reported, sampled_ns_reported;
	uint64_t added_ns;			/* app_additions.h's */
	uint32_t tid;
	bool named;				/* the thread's row has been written */
	struct ring_externals {
		uint64_t ids[RING_EXTERNAL_KINDS], lost;
		uint32_t kinds;			/* bits: kinds that have an open id */
	} externals_open;			/* app_external.c's */
	atomic_uint state;			/* RING_FREE, RING_LIVE, RING_DEAD */
	struct ring_event *events;		/* RING_SLOTS */
	struct ring_addition *additions;	/* RING_COUNTERS */
	atomic_uint_fast64_t *launched;		/* RING_LAUNCHED: struct ring_launched */
};

enum { RING_FREE, RING_LIVE, RING_DEAD };

extern __thread struct ring *ring_of_thread
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Claims a ring for this thread. NULL: none is left, which is counted. Preserves errno. */
struct ring *ring_claim(void);
/* The same, without counting; for what can do without a ring. */
struct ring *ring_try_claim(void);

static inline struct ring *ring_get(void)
{
	struct ring *r = ring_of_thread;

	return likely(r != NULL) ? r : ring_claim();
}

/* Set while the collector sleeps until an event arrives. */
extern atomic_bool collector_idle;
/* Wakes the collector (collector.c). Async-signal-safe. */
void collector_wake(void);
/* Counts progress for threads that wait for the end. May be called on any thread. */
void collector_count_progress(void);

/*
 * Called when the ring is more than half full: wakes the collector once, and returns whether there
 * is room for `slots`. Counts a loss if not.
 */
bool ring_make_room(struct ring *r, uint64_t head, uint32_t slots);

/*
 * Appends `slots` slots. Returns false if the ring is full, or if a signal handler has interrupted
 * a push of its own thread; the loss is counted.
 *
 * The load of collector_idle may execute before other threads see the store of `head`. The
 * collector sets collector_idle before it reads the rings for the last time, and makes all threads
 * pass a barrier in between (collector.c).
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

#define RING_COST_EVERY 64u	/* the cost of one in so many calls is measured */

/* Not inlined: its callers then need no stack frame. */
void ring_measure_call(struct ring *r, uint64_t start_ns);
/* Counts a call of the recorder that began at start_ns and ends now. */
static inline void ring_count_call(struct ring *r, uint64_t start_ns)
{
	uint64_t calls = atomic_load_explicit(&r->calls, memory_order_relaxed) + 1;

	atomic_store_explicit(&r->calls, calls, memory_order_relaxed);
	if (unlikely(calls % RING_COST_EVERY == 0))
		ring_measure_call(r, start_ns);
}

/* --- the collector's side --- */

/* Returns ring number i, or NULL past the last one ever used. */
struct ring *ring_at(unsigned i);
/* Number of slots that can be read now. */
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
 * Frees the ring of an ended thread for the next one, and gives its memory back. The ring must be
 * RING_DEAD and empty, and its counts reported.
 */
void ring_recycle(struct ring *r);
/*
 * Called before a collector begins: drops events that arrived after the last one ended. Thread
 * names will be written again.
 */
void rings_discard(void);
/*
 * Number of events since the last call whose threads got no ring. *threads: number of these threads
 * whose first event since rings_discard() is among them.
 */
uint64_t rings_refused(uint64_t *threads);

/*
 * Called when the last recording has ended: gives back the memory of the rings' events, except for
 * the events that threads may just be pushing. What is in the rings is dropped.
 */
void rings_give_back(void);

/*
 * Called in the child of a fork: the rings belong to the parent's collector. Forgets all rings, and
 * keeps their memory, which the collector may have been using.
 */
void rings_after_fork(void);

#endif
