/*
 * cpu_timer.h: CPU samples by timers inside the process, for where nothing may be sampled from
 * outside: seccomp forbids perf_event_open (Docker's default), or perf_event_paranoid does.
 *
 * Or in the place of perf events, for what those cannot have: Python frames. Then it begins once there is a Python in the
 * process, which it takes over as a whole at that instant (cpu_handover.h). A thread for which no timer can be had, because it
 * blocks the signal, has samples without stacks, by its CPU clock.
 *
 * Each thread has a timer on its own CPU clock (cpu_threads.h), which sends it a signal; the
 * handler walks the stack (cpu_handler.h) and puts a record into the thread's slot; here the
 * records become rows of cpu_sample. Weights are whole periods, so that they add up to CPU time
 * also where a signal comes late: the kernel looks at these timers at its ticks only, 100 to 1000
 * times a second.
 *
 * All functions but the last are for the collector's thread.
 */
#ifndef PITOT_CAPTURE_CPU_CPU_TIMER_H
#define PITOT_CAPTURE_CPU_CPU_TIMER_H

#include "capture/source.h"

/* In the library's constructor: the CPU time so far is of the program before the exec. */
void cpu_timer_loaded(void);

/* Does nothing unless settings->cpu_hz. Nothing is sampled before the window opens. */
void cpu_timer_start(const struct settings *settings);
void cpu_timer_window(bool open, struct writer *w);

/* Takes what there is, follows threads; returns the number of samples. */
uint64_t cpu_timer_collect(struct writer *w, uint64_t now_ns);

/* Rows of loss and cost since the last call. */
void cpu_timer_periodic(struct writer *w, uint64_t since_ns, uint64_t now_ns);

/* The rows so far are on disk. */
void cpu_timer_stored(void);

/* Names of threads are written again with their next samples. */
void cpu_timer_forget_names(void);

/* How long the collector may sleep because of this source; UINT64_MAX: as long as it likes. */
uint64_t cpu_timer_wait_ns(void);

/* Timers first, then the rest. */
void cpu_timer_stop(struct writer *w);

void cpu_timer_after_fork(void);

#endif
