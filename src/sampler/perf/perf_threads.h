/*
 * perf_threads.h: the threads that perf events tell of: which live, and how much of their CPU time
 * no sample stands for.
 *
 * Samples come after whole periods of CPU time, so what a thread does in its last one has none; nor
 * has time in the operating system's kernel where that may not be seen. When an inherited event's
 * thread ends, the kernel says how much CPU time it had (one record for each processor, right after
 * that of its end); what is missing is added (targets_cpu_rest()), so that weights add up.
 */
#ifndef PITOT_SAMPLER_PERF_PERF_THREADS_H
#define PITOT_SAMPLER_PERF_PERF_THREADS_H

#include "base/map.h"
#include "base/vec.h"
#include "sampler/perf/perf_handover.h"
#include "sampler/sampled_processes.h"

/* A thread that has ended, of which more records may come. */
struct perf_ending {
	pid_t pid, tid;
	uint64_t time_ns;
	uint64_t counted_ns; /* CPU time, if `counted` */
	bool counted, is_last; /* of its process */
};

struct perf_threads {
	struct map pid_by_tid; /* 0: the thread has ended */
	struct map alive; /* pid -> threads */
	struct map sampled; /* tid -> nanoseconds that samples stand for */
	VEC(struct perf_ending) endings; /* in order of time */
	uint64_t living; /* threads */
	uint64_t counted_ns; /* the kernel's counts of all threads that have ended */
	uint64_t uncounted_sampled_ns; /* weight of the samples of threads without a count */
	/* thread without a count, because its events are not inherited; 0: there are several */
	pid_t root;
	struct perf_handover *handover; /* processes that timers inside sample */
	uint64_t end_ns; /* no sample without a stack is added from then on */
};

void perf_threads_release(struct perf_threads *t);

/* Returns false if the thread was known. */
bool perf_thread_begins(struct perf_threads *t, pid_t pid, pid_t tid);
void perf_thread_ends(struct perf_threads *t, pid_t pid, pid_t tid, uint64_t time_ns);
/* The kernel's count of the CPU time that a thread, which has ended, had on one processor. */
void perf_thread_counted(struct perf_threads *t, pid_t pid, pid_t tid, uint64_t cpu_ns);
void perf_thread_sampled(struct perf_threads *t, pid_t tid, uint64_t weight_ns);

/*
 * The process becomes another program: its other threads have ended, and no more records of them
 * come.
 */
void perf_threads_exec(struct perf_threads *t, struct targets *targets, pid_t pid,
		       uint64_t time_ns);

/* Ends the threads whose end is older than the time that records need to arrive. */
void perf_threads_settle(struct perf_threads *t, struct targets *targets, uint64_t now_ns);
/*
 * Ends all threads, because the recording ends. cpu_ns: CPU time of all threads together; 0:
 * unknown.
 */
void perf_threads_finish(struct perf_threads *t, struct targets *targets, uint64_t cpu_ns);

#endif
