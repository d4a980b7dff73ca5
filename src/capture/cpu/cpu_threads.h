/*
 * cpu_threads.h: the threads of the process, each with a slot and a timer on its CPU clock.
 * Collector thread only.
 *
 * Threads are found in /proc/self/task, so that pthread_create need not be watched. A thread that
 * blocks the timers' signal gets no timer: a signal that stays pending could reach a sigwait that
 * is meant for others. It is looked at again later.
 */
#ifndef PITOT_CAPTURE_CPU_CPU_THREADS_H
#define PITOT_CAPTURE_CPU_CPU_THREADS_H

#include "capture/cpu/cpu_slot.h"

struct cpu_threads_counts {
	uint32_t threads; /* that have or had a slot */
	uint32_t blocked; /* that blocked the signal while they used CPU time */
	uint32_t refused; /* most that had no slot, memory or timer at the same time */
};

/*
 * Called for CPU time that gets no stack: of threads before they were found, of threads that block
 * the signal.
 */
typedef void cpu_unseen(void *context, struct cpu_slot *slot, uint64_t periods);

/*
 * Begins. Of threads that are there already only CPU time from now on counts (before_ns
 * UINT64_MAX), or all but for that much of the main thread's. 0 or -ENOMEM.
 */
int cpu_threads_start(uint64_t period_ns, uint64_t before_ns, cpu_unseen *unseen, void *context);

/* Whether timers can be made at all: 0, or the negative errno of timer_create. */
int cpu_threads_check(void);

/* Finds threads that are new and threads that have ended, if a scan is due. */
void cpu_threads_scan(uint64_t now_ns, cpu_unseen *unseen, void *context);

/* How long until the next scan. */
uint64_t cpu_threads_wait_ns(void);

/* Another period, for each thread from the next scan on. */
void cpu_threads_set_period(uint64_t period_ns);

/* New timers for all threads: the old ones may have stopped. */
void cpu_threads_arm_again(void);

/* Deletes all timers. What is left of the threads' CPU time goes to `unseen`. */
void cpu_threads_stop(cpu_unseen *unseen, void *context);

/* Slot number i, with a thread or free; NULL past the last. */
struct cpu_slot *cpu_threads_slot(unsigned i);

void cpu_threads_counts(struct cpu_threads_counts *counts);

/* In the child of a fork: as if never started. Timers are not inherited. */
void cpu_threads_after_fork(void);

#endif
