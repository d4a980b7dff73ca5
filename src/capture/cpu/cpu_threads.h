/*
 * cpu_threads.h: the threads of the process, each with a slot and a timer on its CPU clock. All
 * functions run on the collector's thread.
 *
 * Threads are found in /proc/self/task, so that pthread_create need not be intercepted. A thread
 * that blocks the timers' signal gets no timer, because a pending signal could reach a sigwait that
 * is meant for other signals. Its mask is read again later.
 */
#ifndef PITOT_CAPTURE_CPU_CPU_THREADS_H
#define PITOT_CAPTURE_CPU_CPU_THREADS_H

#include "capture/cpu/cpu_slot.h"

struct cpu_threads_counts {
	uint32_t threads; /* that have or had a slot */
	uint32_t blocked; /* that blocked the signal while they used CPU time */
	uint32_t refused; /* most threads without slot, memory or timer at any one time */
};

/*
 * Called for CPU time without a stack: of threads before they were found, and of threads that block
 * the signal.
 */
typedef void cpu_unseen(void *context, struct cpu_slot *slot, uint64_t periods);

/*
 * Starts sampling. Of existing threads only CPU time from now on counts (before_ns UINT64_MAX), or
 * all except before_ns of the main thread's. Returns 0 or -ENOMEM.
 */
int cpu_threads_start(uint64_t period_ns, uint64_t before_ns, cpu_unseen *unseen, void *context);

/* Whether timers can be created at all: returns 0, or the negative errno of timer_create. */
int cpu_threads_check(void);

/* Finds new threads and ended threads, if a scan is due. */
void cpu_threads_scan(uint64_t now_ns, cpu_unseen *unseen, void *context);

/* Returns the time until the next scan. */
uint64_t cpu_threads_wait_ns(void);

/* Changes the period, for each thread from the next scan on. */
void cpu_threads_set_period(uint64_t period_ns);

/* Restarts the timers of all threads, because they may have stopped. */
void cpu_threads_rearm(void);

/* Deletes all timers, and reports the rest of the threads' CPU time to `unseen`. */
void cpu_threads_stop(cpu_unseen *unseen, void *context);

/* Returns slot number i, used or free; NULL past the last. */
struct cpu_slot *cpu_threads_slot(unsigned i);

void cpu_threads_counts(struct cpu_threads_counts *counts);

/* Called in the child of a fork, which inherits no timers: as if never started. */
void cpu_threads_after_fork(void);

#endif
