/*
 * perf_handover.h: the processes that timers inside sample from some instant on, because these see
 * Python frames (format/handover_cell.h has the protocol; capture/cpu/cpu_handover.c is the other
 * side). For the sampler's thread.
 *
 * What the timers of a process have no sample of is only known when it has ended: then the CPU time
 * that it is owed (what the kernel counted for its threads, less what perf samples stand for) is
 * compared with what the timers have recorded.
 */
#ifndef PITOT_SAMPLER_PERF_PERF_HANDOVER_H
#define PITOT_SAMPLER_PERF_PERF_HANDOVER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/map.h"
#include "base/vec.h"
#include "format/handover_cell.h"

struct handed_cell {
	struct cpu_handover_cell file;
	size_t older; /* 1 + index of the process's cell before this one; 0: none */
	bool is_final; /* its process image has ended */
};

struct perf_handover {
	char *path;
	int fd;
	VEC(struct handed_cell) cells; /* as they lie in the file */
	struct map newest; /* pid -> 1 + index of its newest cell; 0: it has none */
	struct map owed; /* pid -> nanoseconds owed to threads that have ended */
};

/*
 * Makes the file in the directory of the recording. 0 or a negative errno, after which no process
 * is handed over.
 */
int perf_handover_open(struct perf_handover *h, const char *directory);
/* Removes the file. Also of a struct that is all zeros. */
void perf_handover_close(struct perf_handover *h);

/*
 * Reads the cells. To be called after the samples were read for which perf_handover_has() is
 * called.
 */
void perf_handover_read(struct perf_handover *h);

/* Whether timers inside sample the process at this time. */
bool perf_handover_has(const struct perf_handover *h, pid_t pid, uint64_t time_ns);

/*
 * Adds CPU time of a thread that has ended and no perf sample stands for. false: timers never had
 * the process.
 */
bool perf_handover_owe(struct perf_handover *h, pid_t pid, uint64_t owed_ns);
/* The process has become another program. */
void perf_handover_exec(struct perf_handover *h, pid_t pid, uint64_t time_ns);
/*
 * The process has ended. Returns the CPU time that neither perf samples nor its timers stand for.
 */
uint64_t perf_handover_exit(struct perf_handover *h, pid_t pid, uint64_t time_ns);

/* CPU time that the samples of all timers stand for. */
uint64_t perf_handover_recorded(const struct perf_handover *h);

#endif
