/* perf_record.h: decodes records of perf events, whose fields follow from perf_open.c. */
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
#define PERF_KERNEL_FRAMES_MAX 128u
#define PERF_USER_FRAMES_MAX 2048u /* native; few copies of the stack's top have more */

extern const struct perf_times perf_record_times;

struct perf_sample {
	uint64_t id; /* of the event, which the sampled thread may have inherited */
	pid_t pid, tid;
	uint64_t time_ns;
	uint32_t cpu;
	uint64_t kernel[PERF_KERNEL_FRAMES_MAX];
	unsigned kernel_count;
	bool has_user; /* `stack` is set: the thread runs 64-bit user code */
	struct stack_snapshot stack;
};

/* Any other record. Members that its type does not have are 0. */
struct perf_sideband {
	pid_t pid, tid;
	uint64_t time_ns;
	pid_t parent_pid; /* fork */
	bool is_exec; /* comm */
	const char *text; /* comm: name; mmap2: path */
	struct target_mapping mapping; /* mmap2 */
	bool is_executable;
	uint64_t lost; /* lost, lost samples */
	/* switch: the thread leaves its processor; it was preempted */
	bool is_out, is_preempted;
	uint64_t cpu_ns; /* read: CPU time of an ended thread on one processor */
};

/* Fields of samples besides PERF_SAMPLE_FIELDS. */
struct perf_sample_layout {
	unsigned read_words; /* words of the event's counts */
	bool callchain; /* frames of the operating system's kernel */
	size_t stack_bytes; /* requested */
};

/* Decodes a sample. Returns false if it is malformed. */
bool perf_record_sample(const struct perf_event_header *h, const struct perf_sample_layout *layout,
			struct perf_sample *out);
/* Decodes any other record. Returns false if it is malformed. Texts point into the record. */
bool perf_record_sideband(const struct perf_event_header *h, struct perf_sideband *out);

#endif
