/*
 * perf_reader.h: reads the Python frames of sampled threads while these do not run, without
 * stopping them.
 *
 * A sample wakes a reader thread that may only run on the sampled processor. There it preempts the
 * sampled thread before that executes another instruction, and so reads the state at the sample.
 * Nothing depends on this having worked: the operating system's kernel records when the thread left
 * its processor and when it ran again, so perf_held.h, which receives all records in order of time,
 * can tell whether the thread stood still from the sample until it was read; its stack is compared
 * with that of the sample as well.
 *
 * The functions must be called on the sampler's thread.
 */
#ifndef PITOT_SAMPLER_PERF_PERF_READER_H
#define PITOT_SAMPLER_PERF_PERF_READER_H

#include "base/vec.h"
#include "sampler/perf/perf_open.h"
#include "sampler/perf/perf_record.h"
#include "sampler/python/sampled_python_read.h"

/* The Python frames of a thread. */
struct perf_reading {
	pid_t pid, tid;
	uint64_t sample_ns, begin_ns, end_ns; /* time of the sample; start and end of reading */
	uint64_t thread_base; /* fs; 0: not found */
	bool is_same_stack; /* after reading, its stack was the same as in the sample */
	bool has_frames; /* the location of its frames is known */
	bool is_complete; /* all frames were read */
	unsigned count; /* number of frames, two words each */
	unsigned code_count;
	struct bpf_code_record *codes; /* code objects that are new, after the words */
	uint64_t words[];
};
struct perf_readers;

/*
 * Starts one reader thread per ring, which waits for samples of the processes in
 * perf_readers_add(). Returns 0 or a negative errno.
 */
int perf_readers_start(const struct perf_events *events, const struct perf_sample_layout *layout,
		       struct perf_readers **out) MUST_USE;
/* Ends the reader threads. Returns the CPU time that they used. */
uint64_t perf_readers_stop(struct perf_readers *r);
void perf_readers_free(struct perf_readers *r);

/* Adds a Python process, or updates its location. Returns 0 or -ENOMEM. */
int perf_readers_add(struct perf_readers *r, pid_t pid, const struct python_location *location);
/* The process no longer runs Python. */
void perf_readers_remove(struct perf_readers *r, pid_t pid);

/* A thread begins; an earlier thread may have had its id. */
void perf_readers_begin_thread(struct perf_readers *r, pid_t tid);

struct perf_readings {
	VEC(struct perf_reading *) all;
};
/* Moves all new readings to *out; the caller frees them. */
void perf_readers_take(struct perf_readers *r, struct perf_readings *out);

#endif
