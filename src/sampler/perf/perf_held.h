/*
 * perf_held.h: samples that wait until it is certain whether what was read of their threads is what
 * these had at the sample.
 *
 * It is if the thread was displaced from its processor right after the sample, was read after that
 * and before it came back to one, and had the same stack then. (A thread that waits has gone on to
 * where it does.) A thread has one sample at most that waits: until
 * it runs again.
 */
#ifndef PITOT_SAMPLER_PERF_PERF_HELD_H
#define PITOT_SAMPLER_PERF_PERF_HELD_H

#include "base/map.h"
#include "sampler/perf/perf_reader.h"

/*
 * From a sample to the switch, if the thread has not gone on meanwhile: the kernel copies its stack
 * and wakes the reader. Threads that go on do so until the scheduler's next tick, milliseconds.
 */
#define PERF_HELD_SWITCH_NS (100 * NS_PER_US)

struct perf_held {
	pid_t pid, tid;
	uint64_t time_ns;
	uint32_t cpu;
	uint64_t out_ns; /* when the thread left its processor; 0: it has not */
	bool is_preempted; /* then */
	uint64_t losses; /* of records, until the sample */
	uint64_t kernel[PERF_KERNEL_FRAMES_MAX];
	uint64_t user[TARGET_FRAMES_MAX];
	unsigned kernel_count, user_count;
	enum stack_end end;
};

/* A sample waits no more; reading: what its thread had at it, or NULL: that is not known. */
typedef void perf_held_emit(void *context, const struct perf_held *held,
			    const struct perf_reading *reading);

/* All zeros at first, but for emit and context. */
struct perf_held_list {
	perf_held_emit *emit;
	void *context;
	struct map index; /* tid -> 1 + item of all; 0: none */
	VEC(struct perf_held *) all; /* NULL: free */
	VEC(struct perf_held *) spare;
	struct perf_readings readings; /* that no sample has asked for yet */
	uint64_t losses;
};

/* Emits what waits. */
void perf_held_release(struct perf_held_list *list);
/*
 * A sample that waits from now on, for its owner to fill in the frames; that of the same thread
 * before it is emitted. NULL: no memory.
 */
struct perf_held *perf_held_add(struct perf_held_list *list, const struct perf_sample *sample);
/* A thread left its processor, or came to one. */
void perf_held_switch(struct perf_held_list *list, const struct perf_notice *n);
/* The thread has ended. */
void perf_held_end(struct perf_held_list *list, pid_t tid);
/* The process, or (0) all of them. */
void perf_held_end_process(struct perf_held_list *list, pid_t pid);
/* Records are missing: of what waits now, nothing is certain. */
void perf_held_lose(struct perf_held_list *list);
/* Frees readings of samples before this time: no sample asks for them any more. */
void perf_held_forget(struct perf_held_list *list, uint64_t time_ns);

#endif
