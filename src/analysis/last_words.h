/*
 * last_words.h: what processes had launched and what they waited for when they died, or for at
 * least a second when they were dumped: the first piece of work without an end on each stream, the
 * calls that had not returned, and the ranks that had not called an outstanding collective.
 *
 * That CUPTI had not written an end does not mean that the work had not ended. Work is known to
 * have ended if later work of its stream has, or if a call that waits for its context, its stream
 * or an event behind it was made after its launch and has returned; also if such a call's target is
 * unknown. Such work is counted as undelivered.
 *
 * CUPTI may have no record at all of work that had not ended, nor of the last work that had. So
 * launches count as well that have no record and come after all of their thread that have one.
 * Where not all records could be read, it is known of most launches that none of these is theirs;
 * the others are unread. Of these, one has not ended for certain if a call still waits for the GPU
 * that was made after them, when everything else has ended, and streams wait for nothing but work.
 */
#ifndef PITOT_ANALYSIS_LAST_WORDS_H
#define PITOT_ANALYSIS_LAST_WORDS_H

#include "base/vec.h"
#include "trace/trace.h"

#define LAST_WORDS_AGE_NS UINT64_C(1000000000) /* of what counts in a process that lives */

/* A rank of a communicator that had not called the outstanding collective. */
struct late_rank {
	uint32_t rank; /* in the communicator */
	uint32_t process; /* TRACE_NO_ROW: it was not recorded, or not up to its end */
};

/* The first piece of work on a stream that has no end. */
struct last_work {
	uint32_t process, device, context, stream;
	uint8_t kind; /* enum unfinished_kind */
	uint32_t config; /* row of kernel_config, or TRACE_NO_ROW */
	uint32_t caller; /* line of its launch, or CALLER_NONE */
	uint64_t correlation;
	uint64_t launched_ns, seen_ns; /* launched_ns 0: unknown */
	uint64_t behind; /* work on the stream that was launched later, without an end */
	uint32_t collective; /* its row, or TRACE_NO_ROW */
	uint32_t ranks; /* of the communicator; 0: unknown */
	size_t first_late, late_count; /* in last_words.late */
};

struct last_wait {
	uint32_t process, thread;
	uint32_t function; /* row of api_function */
	uint32_t caller;
	uint64_t start_ns, seen_ns;
};

/* Threads of a kernel in a core file of a GPU. */
struct last_core {
	uint32_t row; /* of gpu_core */
	uint32_t process; /* TRACE_NO_ROW: unknown, or it was not recorded */
};

/* A process that died, or that has works or waits. */
struct last_process {
	uint32_t process;
	size_t works, waits;
	uint64_t undelivered; /* pieces of work that had ended, although CUPTI did not say so */
	bool is_complete; /* records of all of its GPU work were read */
	bool has_records; /* of some of its launches, or it launched nothing */
	/* Launches of which there is no record, and no call that waited for the GPU since. */
	uint64_t open;
	uint64_t unread; /* the same, but records that could not be read may be theirs */
	bool is_one_open; /* one of these has not ended: a call waits for it */
	uint64_t uncertain; /* like open, but a call has waited for a stream, perhaps for theirs */
	/* the first one of open, or else of unread, and when the process was read */
	uint64_t open_ns, seen_ns;
	uint32_t open_caller; /* its line, or CALLER_NONE */
	uint32_t open_name; /* string with its kernel's name, or TRACE_NO_ROW */
};

/* Returns the string with the name of a launch's kernel; TRACE_NO_ROW: it is unknown. */
uint32_t last_words_name(const struct trace *t, uint32_t process, uint64_t correlation);

struct last_words {
	VEC(struct last_process) processes;
	VEC(struct last_work) works; /* by process, oldest first */
	VEC(struct last_wait) waits; /* the same */
	VEC(struct late_rank) late;
	VEC(struct last_core) cores; /* by file, as in gpu_core */
};

/* --- last_cores.c --- */

/* Lists the core files, with the processes that they are of. Returns 0 or -ENOMEM. */
int last_cores_find(const struct trace *t, struct last_words *out) MUST_USE;

#endif
