/*
 * perf_handover.h: the processes that timers inside of them sample from some time on, because these
 * record Python frames (format/handover_cell.h describes the protocol; capture/cpu/cpu_handover.c
 * is the other side). To be called on the sampler's thread.
 *
 * The CPU time that the timers have no samples of is known when the process has ended: it is the
 * CPU time that the process is owed (what the operating system's kernel counted for its threads,
 * minus what perf samples stand for) minus what the timers have recorded.
 */
#ifndef PITOT_SAMPLER_PERF_PERF_HANDOVER_H
#define PITOT_SAMPLER_PERF_PERF_HANDOVER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/folder.h"
#include "base/map.h"
#include "base/vec.h"
#include "format/handover_cell.h"

struct handed_cell {
	struct cpu_handover_cell file;
	size_t older; /* 1 + index of the previous cell of the process; 0: none */
	bool is_final; /* its process image has ended: the cell does not change any more */
};

struct perf_handover {
	int folder; /* of the recording */
	int fd; /* of the file; 0: none */
	VEC(struct handed_cell) cells; /* in the order of the file */
	struct map newest; /* pid -> 1 + index of its newest cell; 0: it has none */
	struct map owed; /* pid -> nanoseconds owed for threads that have ended */
};

/*
 * Creates the file in the directory of the recording. Returns 0 or a negative code; after an error,
 * no process is handed over.
 */
int perf_handover_open(struct perf_handover *h, const char *directory, const struct folder_id *id);
/* Removes the file. `h` may be all zeros. */
void perf_handover_close(struct perf_handover *h);

/* Reads the cells. perf_handover_has() is reliable for samples that were read before this call. */
void perf_handover_read(struct perf_handover *h);

/* Whether a timer inside the process sampled it at this time. */
bool perf_handover_has(const struct perf_handover *h, pid_t pid, uint64_t time_ns);

/* Adds CPU time of an ended thread without perf samples. Returns false if no timer sampled it. */
bool perf_handover_owe(struct perf_handover *h, pid_t pid, uint64_t owed_ns);
/* The process runs a new program. */
void perf_handover_exec(struct perf_handover *h, pid_t pid, uint64_t time_ns);
/* The process has ended. Returns the CPU time without perf samples and without timer samples. */
uint64_t perf_handover_exit(struct perf_handover *h, pid_t pid, uint64_t time_ns);

/* The CPU time that the samples of all timers stand for. */
uint64_t perf_handover_recorded(const struct perf_handover *h);

#endif
