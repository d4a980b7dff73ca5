/*
 * source.h: what makes rows. A source is a table of operations and one line in sources.c; the
 * collector, the session and the exit handlers know no source by name.
 *
 * Sources are process-wide: one is on while any session wants what it has. `wanted` says what the
 * open sessions want together. Operations run on the collector's thread unless they say otherwise;
 * any of them may be NULL.
 */
#ifndef PITOT_CAPTURE_SOURCE_H
#define PITOT_CAPTURE_SOURCE_H

#include "capture/ring.h"
#include "format/writer.h"
#include "schema/settings.h"

struct source_start {
	const struct settings *wanted;
	bool with_cuda;	   /* CUDA is being initialized or is: CUPTI may be used */
	/* the program asked for the session by itself, perhaps long after CUDA was initialized */
	bool late;
	bool armed;	   /* an engine is, by a session that is there: it begins anew */
	bool open;	   /* the window is open at once; else `window` says when */
	uint64_t start_ns; /* when starting began */
};

/*
 * Makes rows of the event at `position`, whose slots are all there; returns the number of its
 * slots.
 */
typedef uint64_t ring_handler(struct writer *w, const struct ring *r, uint64_t position);

/* Why the vendor thread calls, as bits; 0: the time that the source itself had named has come. */
enum vendor_reason {
	VENDOR_FLUSH = 1, /* hand over what is finished */
	VENDOR_CLOCK = 2, /* read the clocks */
	/* nothing is wanted any more: hand over everything, and leave the program */
	VENDOR_CLOSE = 4,
	VENDOR_COUNTERS = 16, /* a window of readings has opened or closed */
	VENDOR_EXIT = 8,  /* the process ends: hand over everything, and change nothing */
};

#define SOURCE_HANDLERS_MAX 2

struct source {
	const char *name;

	/* In the library's constructor, where LD_PRELOAD made it start. */
	void (*loaded)(void);

	/* Before the collector's thread begins, on the thread that opens the first session. */
	void (*start)(const struct source_start *start);

	/*
	 * CUDA has come, or another session, which may want more: on the thread that brings it, at
	 * the same time as the collector's operations. `window` follows.
	 */
	void (*extend)(const struct source_start *start);

	/* The collector's thread begins: rows that every recording has. */
	void (*begin)(struct writer *w, const struct source_start *start);

	/*
	 * Windows of sessions have opened or closed: what the open ones want together.
	 * NULL: nothing any more. The vendor thread is asked after that.
	 */
	void (*window)(const struct settings *wanted, struct writer *w);

	/*
	 * At each tick: makes rows of what there is. Returns how much that was; 0 when nothing
	 * happened.
	 */
	uint64_t (*collect)(struct writer *w, uint64_t now_ns);

	/* Before rows are sealed: losses and costs since the last time. */
	void (*periodic)(struct writer *w, uint64_t since_ns, uint64_t now_ns);

	/* The rows so far are on disk. */
	void (*stored)(void);

	/*
	 * How long the collector may sleep because of this source; UINT64_MAX: as long as it likes.
	 */
	uint64_t (*wait_ns)(uint64_t now_ns);

	/*
	 * Whether something is under way of which there will be rows without an event in a ring
	 * before: the GPU works.
	 */
	bool (*unfinished)(uint64_t now_ns);

	/*
	 * On the vendor thread: calls that may hang with a GPU. Makes no rows, but events in that
	 * thread's ring. Returns how soon it wants to be called again, in nanoseconds; UINT64_MAX:
	 * when the collector asks.
	 */
	uint64_t (*vendor)(unsigned reasons, uint64_t now_ns);

	/* The end, before and after the vendor thread has handed over everything. The last rows. */
	void (*stop)(struct writer *w);
	void (*stopped)(struct writer *w);

	/*
	 * Around a fork, in the thread that forks. The recorder's threads are parked or, where they
	 * could not be in time, in the middle of something: the child leaks what they may have been
	 * changing and frees nothing.
	 */
	void (*after_fork)(void);
	/*
	 * Before that: whether the child is to be recorded from the start, though it may never use
	 * CUDA.
	 */
	bool (*wanted_in_child)(const struct settings *wanted);

	/*
	 * Writes a thread's row with the best name that this source knows. false: it knows none.
	 * `last_name` of an ended thread.
	 */
	bool (*name_thread)(struct writer *w, uint32_t tid, const char *last_name);

	/* Events in the threads' rings that are this source's. */
	struct {
		enum ring_kind kind;
		ring_handler *handle;
	} handlers[SOURCE_HANDLERS_MAX];
	unsigned handler_count;
};

/* All sources, in the order in which they are called; NULL at the end. */
extern const struct source *const sources[];

#define FOR_EACH_SOURCE(each) for (const struct source *const *each = sources; *each; each++)

/* Writes the row of a thread, by the first source that knows its name. */
void source_name_thread(struct writer *w, uint32_t tid, const char *last_name);

/* The handler of a kind of event; NULL: there is none. */
ring_handler *source_handler(unsigned kind);

#endif
