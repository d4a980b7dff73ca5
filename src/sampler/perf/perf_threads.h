/*
 * perf_threads.h: the threads in perf records: which are alive, and how much of their CPU time no
 * sample stands for.
 *
 * A sample is taken after each whole period of CPU time, so a thread's last, unfinished period has
 * none; neither has time in the operating system's kernel where that may not be sampled. When a
 * thread with inherited events ends, the kernel reports its CPU time (in one record per processor,
 * right after the exit record). The missing time is added (targets_cpu_remainder()), so that the
 * weights sum up to it.
 *
 * Timers inside may sample a process as well; only a reader knows when. Therefore the CPU time of a
 * whole process is recorded too when it ends (targets_cpu_span()).
 */
#ifndef PITOT_SAMPLER_PERF_PERF_THREADS_H
#define PITOT_SAMPLER_PERF_PERF_THREADS_H

#include "base/map.h"
#include "base/vec.h"
#include "sampler/sampled_processes.h"

/* A thread that has ended, but for which more records may arrive. */
struct perf_ending {
	pid_t pid, tid;
	uint64_t time_ns;
	uint64_t counted_ns; /* its CPU time, if `counted` */
	bool counted, is_last; /* it was the last thread of its process */
};

struct perf_threads {
	struct map pid_by_tid; /* 0: the thread has ended */
	struct map alive; /* pid -> number of threads */
	struct map start_ns; /* pid -> when the process was first known */
	struct map counted; /* pid -> the kernel's counts of its ended threads, summed */
	struct map sampled; /* tid -> nanoseconds that samples stand for */
	VEC(struct perf_ending) endings; /* in order of time */
	uint64_t living; /* number of threads */
	uint64_t counted_ns; /* the kernel's counts of all ended threads, summed */
	uint64_t uncounted_sampled_ns; /* summed weight of the samples of threads without a count */
	/* the thread whose events are not inherited, so that it has no count; 0: several */
	pid_t root;
	bool writes_spans; /* timers may sample the processes, too */
	uint64_t end_ns; /* from then on, no samples without a stack are added */
};

void perf_threads_release(struct perf_threads *t);

/* Returns false if the thread is known already. */
bool perf_thread_begins(struct perf_threads *t, pid_t pid, pid_t tid, uint64_t time_ns);
void perf_thread_ends(struct perf_threads *t, pid_t pid, pid_t tid, uint64_t time_ns);
/* Adds the kernel's count of an ended thread's CPU time on one processor. */
void perf_thread_counted(struct perf_threads *t, pid_t pid, pid_t tid, uint64_t cpu_ns);
void perf_thread_sampled(struct perf_threads *t, pid_t tid, uint64_t weight_ns);

/* The process runs a new program: its other threads have ended and get no more records. */
void perf_threads_exec(struct perf_threads *t, struct targets *targets, pid_t pid);

/* Ends the threads whose exit is so old that all their records have arrived. */
void perf_threads_settle(struct perf_threads *t, struct targets *targets, uint64_t now_ns);
/*
 * Ends all threads when the recording ends. cpu_ns: CPU time of all threads together; 0: unknown.
 */
void perf_threads_finish(struct perf_threads *t, struct targets *targets, uint64_t cpu_ns);

#endif
