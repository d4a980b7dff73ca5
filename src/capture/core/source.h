/*
 * source.h: where rows come from. A source is a table of operations and one line in sources.c; the
 * collector, the session and the exit handlers do not know any source by name.
 *
 * Sources are process-wide: a source is on while any session needs its rows. `wanted` holds the
 * union of the open sessions' settings. Operations run on the collector's thread unless their
 * comment says otherwise; any of them may be NULL.
 */
#ifndef PITOT_CAPTURE_SOURCE_H
#define PITOT_CAPTURE_SOURCE_H

#include "capture/core/ring.h"
#include "format/writer.h"
#include "schema/settings.h"
#include "vendor/vendors.h"

struct source_start {
	const struct settings *wanted;
	/* bits of the vendors whose runtime is or is being initialized: its profiler may be used */
	unsigned vendors;
	/* the program itself opened the session, perhaps long after a runtime was initialized */
	bool late;
	bool armed; /* an existing session armed an engine, which starts afresh */
	bool open; /* the window opens immediately; otherwise `window` is called then */
	uint64_t start_ns; /* when starting began */
};

/*
 * Makes rows of the event at `position`, all of whose slots are readable; returns the number of its
 * slots.
 */
typedef uint64_t ring_handler(struct writer *w, const struct ring *r, uint64_t position);

/* Why the vendor thread calls a source, as bits; 0: the time that the source returned is up. */
enum vendor_reason {
	VENDOR_FLUSH = 1, /* hand over finished work */
	VENDOR_CLOCK = 2, /* read the clocks */
	/* no session needs the source any more: hand over everything and detach from the program */
	VENDOR_CLOSE = 4,
	VENDOR_COUNTERS = 16, /* a window for counter readings has opened or closed */
	VENDOR_EXIT = 8, /* the process exits: hand over everything and change nothing */
};

#define SOURCE_HANDLERS_MAX 3

struct source {
	const char *name;

	/* Called by the library's constructor if LD_PRELOAD loaded it. */
	void (*loaded)(void);

	/* Called on the thread that opens the first session, before the collector's begins. */
	void (*start)(const struct source_start *start);

	/*
	 * Called when a runtime is initialized later, or when a further session may need more: on
	 * the thread that does so, concurrently with the collector's operations. `window` follows.
	 */
	void (*extend)(const struct source_start *start);

	/* Called when the collector's thread begins: writes the rows that every recording has. */
	void (*begin)(struct writer *w, const struct source_start *start);

	/*
	 * Windows of sessions have opened or closed; `settings` is the union of the open ones, NULL
	 * if none is open. The vendor thread is called after that.
	 */
	void (*window)(const struct settings *settings, struct writer *w);

	/*
	 * Called at each tick: makes rows of what has arrived. Returns the number of items; 0 if
	 * nothing happened.
	 */
	uint64_t (*collect)(struct writer *w, uint64_t now_ns);

	/* Called before rows are sealed: writes losses and costs since the last call. */
	void (*periodic)(struct writer *w, uint64_t since_ns, uint64_t now_ns);

	/* How long the collector may sleep without calling this source; UINT64_MAX: forever. */
	uint64_t (*wait_ns)(uint64_t now_ns);

	/*
	 * Whether something is in progress whose rows are not announced by a ring event, such as
	 * work on the GPU.
	 */
	bool (*unfinished)(uint64_t now_ns);

	/*
	 * Called on the vendor thread: makes the calls that may hang with a GPU. It writes no rows,
	 * only events into that thread's ring. Returns in how many nanoseconds it must be called
	 * again; UINT64_MAX: when the collector asks.
	 */
	uint64_t (*vendor)(unsigned reasons, uint64_t now_ns);

	/* Called before and after the vendor thread hands over everything; write the last rows. */
	void (*stop)(struct writer *w);
	void (*stopped)(struct writer *w);

	/*
	 * Called in the child of a fork. The recorder's threads are parked or, if they could not be
	 * in time, in the middle of some operation: the child leaks what they may have been
	 * changing and frees nothing.
	 */
	void (*after_fork)(void);
	/*
	 * Called before after_fork: whether the child is recorded from its start, even though it
	 * may never use CUDA.
	 */
	bool (*should_record_child)(const struct settings *settings);

	/*
	 * Writes a thread's row with the best name that this source knows; false: it knows none.
	 * `last_name` is the name that an ended thread had.
	 */
	bool (*name_thread)(struct writer *w, uint32_t tid, const char *last_name);

	/* The kinds of ring events that this source turns into rows. */
	struct {
		enum ring_kind kind;
		ring_handler *handle;
	} handlers[SOURCE_HANDLERS_MAX];
	unsigned handler_count;
};

/* All sources, in the order in which they are called; NULL at the end. */
extern const struct source *const sources[];

#define FOR_EACH_SOURCE(each) for (const struct source *const *each = sources; *each; each++)

/* Writes the row of a thread, using the first source that knows its name. */
void source_name_thread(struct writer *w, uint32_t tid, const char *last_name);

/* Returns the handler of a kind of event; NULL: there is none. */
ring_handler *source_handler(unsigned kind);

#endif
