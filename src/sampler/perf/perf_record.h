/*
 * perf_record.h: reads records of the kernel's perf events. Which fields it has follows from the
 * attributes that perf_open.c asks for.
 */
#ifndef PITOT_SAMPLER_PERF_PERF_RECORD_H
#define PITOT_SAMPLER_PERF_PERF_RECORD_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <sys/types.h>

#include "sampler/perf/stack_snapshot.h"
#include "sampler/perf/perf_ring.h"

#define PERF_SAMPLE_FIELDS                                                                         \
	(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU |           \
	 PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER)
/* ax bx cx dx si di bp sp ip, r8 to r15, by the kernel's numbers */
#define PERF_REGISTERS UINT64_C(0xff01ff)
#define PERF_KERNEL_FRAMES_MAX 128u

extern const struct perf_times perf_record_times;

struct perf_sample {
	uint64_t id; /* of the event that the sampled thread inherited */
	pid_t pid, tid;
	uint64_t time_ns;
	uint32_t cpu;
	uint64_t kernel[PERF_KERNEL_FRAMES_MAX];
	unsigned kernel_count;
	bool has_user; /* stack is set: the thread has 64-bit registers of user code */
	struct stack_snapshot stack;
};

/* Any other record; members that its type does not have are 0. */
struct perf_notice {
	pid_t pid, tid;
	uint64_t time_ns;
	pid_t parent_pid; /* fork */
	bool is_exec; /* comm */
	const char *text; /* comm: name; mmap2: path */
	struct target_mapping mapping; /* mmap2 */
	bool is_executable;
	uint64_t lost; /* lost, lost samples */
	/* switch: the thread leaves its processor; because another takes it: it did not wait */
	bool is_out, is_preempted;
	uint64_t cpu_ns; /* read: of the thread on a processor, now that it has ended */
};

/* What samples have, beside PERF_SAMPLE_FIELDS. */
struct perf_sample_layout {
	unsigned read_words; /* of the event's counts */
	bool callchain; /* the kernel's frames */
	size_t stack_bytes; /* requested */
};

/* Returns false for a record that is malformed. */
bool perf_record_sample(const struct perf_event_header *h, const struct perf_sample_layout *layout,
			struct perf_sample *out);
/* Returns false for a record that is malformed. Texts lie in the record. */
bool perf_record_notice(const struct perf_event_header *h, struct perf_notice *out);

#endif
