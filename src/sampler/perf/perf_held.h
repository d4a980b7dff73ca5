/*
 * perf_held.h: holds samples until it is certain whether the Python frames read of their threads
 * are those that the threads had at the sample.
 *
 * They are if the thread was preempted right after the sample, was read after that and before it
 * ran again, and still had the same stack. (A thread that left its processor to wait has run on to
 * the place where it waits.) A thread has at most one held sample, until it runs again.
 */
#ifndef PITOT_SAMPLER_PERF_PERF_HELD_H
#define PITOT_SAMPLER_PERF_PERF_HELD_H

#include "base/map.h"
#include "sampler/perf/perf_reader.h"

/*
 * Maximum time from a sample to the switch if the thread has not run on: the operating system's
 * kernel copies its stack and wakes the reader. Otherwise it runs until the next tick of the
 * scheduler, for milliseconds.
 */
#define PERF_HELD_SWITCH_NS (100 * NS_PER_US)

struct perf_held {
	pid_t pid, tid;
	uint64_t time_ns;
	uint32_t cpu;
	uint64_t out_ns; /* when the thread left its processor; 0: not yet */
	bool is_preempted; /* at out_ns */
	uint64_t losses; /* perf_held_list.losses at the sample */
	uint64_t kernel[PERF_KERNEL_FRAMES_MAX];
	uint64_t user[PERF_USER_FRAMES_MAX];
	unsigned kernel_count, user_count;
	enum stack_end end;
};

/* Receives a sample that is no longer held; reading: its Python frames, NULL if uncertain. */
typedef void perf_held_emit(void *context, const struct perf_held *held,
			    const struct perf_reading *reading);

/* Initialize with zeros, except for emit and context. */
struct perf_held_list {
	perf_held_emit *emit;
	void *context;
	struct map index; /* tid -> 1 + item of all; 0: none */
	VEC(struct perf_held *) all; /* in no particular order */
	VEC(struct perf_held *) spare;
	struct perf_readings readings; /* readings that have not been matched with a sample */
	uint64_t losses;
};

/* Emits all held samples. */
void perf_held_release(struct perf_held_list *list);
/* Holds a sample whose frames the caller sets; emits the thread's previous one. NULL: no memory. */
struct perf_held *perf_held_add(struct perf_held_list *list, const struct perf_sample *sample);
/* A thread left its processor, or got one. */
void perf_held_switch(struct perf_held_list *list, const struct perf_sideband *n);
/* The thread has ended. */
void perf_held_end(struct perf_held_list *list, pid_t tid);
/* Emits the samples of a process, or (0) of all processes. */
void perf_held_end_process(struct perf_held_list *list, pid_t pid);
/* Records were lost: nothing is certain about the samples held now. */
void perf_held_on_loss(struct perf_held_list *list);
/* Frees readings of samples before this time, which have no sample. */
void perf_held_forget(struct perf_held_list *list, uint64_t time_ns);

#endif
