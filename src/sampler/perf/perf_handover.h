/*
 * perf_handover.h: the threads that a timer inside their process samples, because it sees Python frames, so that perf events do
 * not count (format/handover_cell.h has the protocol; capture/cpu/cpu_handover.c is the other side).
 *
 * A process is watched from when it maps libpitot.so. For the sampler's thread.
 */
#ifndef PITOT_SAMPLER_PERF_PERF_HANDOVER_H
#define PITOT_SAMPLER_PERF_PERF_HANDOVER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/map.h"
#include "base/vec.h"
#include "format/handover_cell.h"

/* CPU time of a thread that has ended: what the timer has of it is not final yet. */
struct handed_time {
	pid_t pid, tid;
	uint64_t end_ns;
	uint64_t owed_ns; /* CPU time, less what perf samples stand for */
};

/* Takes what has no sample: owed_ns less what the timer has. */
typedef void handed_rest(void *context, const struct handed_time *time, uint64_t rest_ns);

struct handed_process;

struct perf_handover {
	const char *directory; /* of the recording */
	struct map index; /* pid -> item of all; 0: none */
	struct map images; /* pid -> number of the next file */
	VEC(struct handed_process *) all;
	struct map before; /* tid -> nanoseconds that timers had before an exec */
	uint64_t recorded_ns; /* that timers have whose cells are not there any more */
	handed_rest *rest;
	void *context;
};

void perf_handover_init(struct perf_handover *h, const char *directory, handed_rest *rest,
			void *context);
/* Removes the files. */
void perf_handover_release(struct perf_handover *h);

/* The recorder is in this process, or in the one that it was forked from. */
void perf_handover_watch(struct perf_handover *h, pid_t pid);
/* The same of all that have a file: records of who maps what were lost. */
void perf_handover_search(struct perf_handover *h);
bool perf_handover_watches(const struct perf_handover *h, pid_t pid);

/* Reads all cells. After the last of the samples was taken that are asked about until the next call. */
void perf_handover_look(struct perf_handover *h);

/* Whether a thread's time is the timer's. */
bool perf_handover_has(const struct perf_handover *h, pid_t pid, pid_t tid, uint64_t time_ns);

/*
 * A thread has ended. true: a timer had it at some time, and `rest` will be called if anything is left.
 */
bool perf_handover_thread_ends(struct perf_handover *h, const struct handed_time *time);

/* The process has ended, or has become another program (exec). Cells are final: `rest` is called for all. */
void perf_handover_ends(struct perf_handover *h, pid_t pid, uint64_t time_ns, bool exec);

/* What all timers have. */
uint64_t perf_handover_recorded(const struct perf_handover *h);

#endif
