/*
 * perf_open.h: opens the perf events of a process: one on each processor, inherited by its
 * descendants, with one ring per processor.
 */
#ifndef PITOT_SAMPLER_PERF_PERF_OPEN_H
#define PITOT_SAMPLER_PERF_PERF_OPEN_H

#include "base/map.h"
#include "base/strbuf.h"
#include "base/vec.h"
#include "sampler/cpu_sampler.h"
#include "sampler/perf/perf_ring.h"

struct perf_thread_id {
	pid_t pid, tid;
};

struct perf_events {
	VEC(int) files;
	struct map owners; /* id of an event -> tid that it was opened for */
	/* Threads of running processes with events; `opened` maps tids to 1 (0: not opened). */
	VEC(struct perf_thread_id) found;
	struct map opened;
	struct perf_rings rings;
	size_t stack_bytes; /* bytes of stack in each sample */
	uint64_t period_ns;
	/*
	 * Samples contain the event's count (since Linux 6.12). It is not used, but without it the
	 * operating system's kernel, when it switches between a process and its child, exchanges
	 * their clocks instead of stopping one and starting the other. The parent's unfinished
	 * period would end with the child, and a shell would hardly ever be sampled.
	 */
	bool reads;
	bool counts_lost; /* the kernel counts the records that it drops (since Linux 6.0) */
	bool kernel; /* the operating system's kernel is sampled */
	bool reads_python; /* each sample wakes a reader, and thread switches are recorded */
	bool no_ring; /* a ring could not be mapped */
	/* refused: of running processes, because too many files were open */
	unsigned threads, refused_threads;
	unsigned foreign_threads; /* threads of other users or setuid programs */
};

/*
 * Like cpu_method_ops.open. The events of running processes count from now on, those of a child
 * that waits for its exec from the exec on.
 */
int perf_events_open(struct perf_events *events, const struct cpu_options *options,
		     const struct cpu_roots *roots, enum cpu_python python, struct strbuf *reason,
		     struct error *e);
/*
 * Stops all events. *cpu_ns: total CPU time of the sampled threads; *lost: records dropped, 0 where
 * the kernel does not count them.
 */
void perf_events_stop(struct perf_events *events, uint64_t *cpu_ns, uint64_t *lost);
void perf_events_close(struct perf_events *events);

/* Like cpu_method_ops.check: whether perf events are allowed. */
int perf_events_check(struct error *e);

#endif
