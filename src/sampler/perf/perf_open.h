/*
 * perf_open.h: opens the perf events of a process: on each processor, inherited by what it starts,
 * one ring a processor.
 */
#ifndef PITOT_SAMPLER_PERF_PERF_OPEN_H
#define PITOT_SAMPLER_PERF_PERF_OPEN_H

#include "base/map.h"
#include "base/strbuf.h"
#include "base/vec.h"
#include "sampler/cpu_sampler.h"
#include "sampler/perf/perf_ring.h"

struct perf_found {
	pid_t pid, tid;
};

struct perf_events {
	VEC(int) files;
	struct map owners; /* id of an event -> thread that it was opened for */
	/*
	 * Threads of running processes that have events of their own; `opened` has them by tid: 1,
	 * or 0.
	 */
	VEC(struct perf_found) found;
	struct map opened;
	struct perf_rings rings;
	size_t stack_bytes; /* copied with each sample */
	uint64_t period_ns;
	/*
	 * Samples have the event's count: from 6.12 on. It is not looked at; but without it the
	 * kernel, when it switches between a process and its child, exchanges their clocks rather
	 * than stop one and start the other, and the parent's unfinished period ends with the
	 * child: a shell would hardly ever be sampled.
	 */
	bool reads;
	bool counts_lost; /* the kernel says how many records it dropped: from 6.0 on */
	bool kernel; /* time and frames of the operating system's kernel */
	bool reads_python; /* each sample wakes a reader, and switches of threads are recorded */
	bool no_ring; /* mapping a ring failed */
	/* refused: of running processes, for want of open files */
	unsigned threads, refused_threads;
	unsigned foreign_threads; /* of other users, or setuid programs */
};

/*
 * As cpu_method_ops.open. The events of a process that runs count from now on, those of a child
 * that waits for its exec from then on.
 */
int perf_events_open(struct perf_events *events, const struct cpu_options *options,
		     const struct cpu_roots *roots, enum cpu_python python, struct strbuf *reason,
		     struct error *e);
/*
 * Stops all events. *cpu_ns: CPU time of all that was sampled; *lost: records dropped, 0 where the
 * kernel does not say.
 */
void perf_events_stop(struct perf_events *events, uint64_t *cpu_ns, uint64_t *lost);
void perf_events_close(struct perf_events *events);

/* Whether perf events are allowed: as cpu_method_ops.check. */
int perf_events_check(struct error *e);

#endif
