/*
 * run_queues.h: how long the processes of a recording were ready to run and had no processor, from
 * /proc/PID/task/TID/schedstat; how long the CPU quota of their control groups was used up, from
 * cpu.stat (versions 1 and 2); and what the hypervisor took, from /proc/stat. What the kernel does
 * not offer is left out. Readings take at most a two-hundredth of the time.
 */
#ifndef PITOT_RECORD_RUN_QUEUES_H
#define PITOT_RECORD_RUN_QUEUES_H

#include <sys/types.h>

#include "base/map.h"
#include "base/vec.h"
#include "format/writer.h"

struct throttled_group {
	char *path;
	uint64_t throttled_ns, next_ns; /* at the last reading, and at this one */
};

struct run_queues {
	struct map wait_ns; /* thread id -> run-queue time at the last reading */
	VEC(struct throttled_group) groups;
	uint64_t stolen_ns; /* of the machine, at the last reading */
	uint64_t read_ns; /* time of the last reading */
	uint64_t rest_ns; /* pause after it */
};

/*
 * A reading before anything that counts: what happened until now is not written. pids: running
 * processes, NULL for a command that has not begun.
 */
void run_queues_init(struct run_queues *q, const pid_t *pids, size_t count);
void run_queues_release(struct run_queues *q);
bool run_queues_are_due(const struct run_queues *q);
/* Writes what has passed since the previous reading; no row for processes that did not wait. */
void run_queues_read(struct run_queues *q, struct writer *w, const pid_t *pids, size_t count);

#endif
