/*
 * perf_reader.h: reads the Python frames of sampled threads while these stand still, without
 * stopping anything.
 *
 * A sample wakes a thread of ours that may run on the sampled processor alone, where it takes the
 * place of the sampled thread before that has run another instruction. What it then reads is as it
 * was at the sample. Nothing relies on that having worked: the kernel also writes when the thread
 * left its processor and when it came back, so whoever has all records in order of time
 * (perf_held.h) can tell whether it stood still from the sample until it was read, and its stack is
 * compared with the one in the sample.
 *
 * The functions are for the sampler's thread.
 */
#ifndef PITOT_SAMPLER_PERF_PERF_READER_H
#define PITOT_SAMPLER_PERF_PERF_READER_H

#include "base/vec.h"
#include "sampler/perf/perf_open.h"
#include "sampler/perf/perf_record.h"
#include "sampler/python/sampled_python_read.h"

/* What was read of a thread. */
struct perf_reading {
	pid_t pid, tid;
	uint64_t sample_ns, begin_ns, end_ns; /* time of the sample; between them it was read */
	uint64_t thread_base; /* fs; 0: not found */
	bool is_same_stack; /* its stack was as in the sample, after everything else was read */
	bool has_frames; /* it is known where they are */
	bool is_complete; /* all of them were read */
	unsigned count; /* of frames, two words each */
	uint64_t words[];
};
struct perf_readers;

/*
 * One thread for each ring, that waits for samples of the processes in perf_readers_add(). 0 or a
 * negative errno.
 */
int perf_readers_start(const struct perf_events *events, const struct perf_sample_layout *layout,
		       struct perf_readers **out) MUST_USE;
/* Ends the threads. Returns the CPU time that they took. Then nothing more is read. */
uint64_t perf_readers_stop(struct perf_readers *r);
void perf_readers_free(struct perf_readers *r);

/* The process is a Python; a place that changes is given again. 0 or -ENOMEM. */
int perf_readers_add(struct perf_readers *r, pid_t pid, const struct python_place *place);
/* It is none any more. */
void perf_readers_remove(struct perf_readers *r, pid_t pid);

/* A thread begins; there may have been another with its id. */
void perf_readers_begin_thread(struct perf_readers *r, pid_t tid);

struct perf_readings {
	VEC(struct perf_reading *) all;
};
/* Moves all that was read since to *out, whose owner frees each. */
void perf_readers_take(struct perf_readers *r, struct perf_readings *out);

#endif
