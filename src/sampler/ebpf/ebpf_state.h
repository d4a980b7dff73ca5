/*
 * ebpf_state.h: what the parts of the eBPF method share: ebpf_source.c, ebpf_process.c,
 * ebpf_samples.c.
 */
#ifndef PITOT_SAMPLER_EBPF_EBPF_STATE_H
#define PITOT_SAMPLER_EBPF_EBPF_STATE_H

#include "base/error.h"
#include "sampler/cpu_method.h"
#include "sampler/python/sampled_python.h"
#include "sampler/ebpf/ebpf_queue.h"
#include "sampler/ebpf/ebpf_tables.h"
#include "sampler/perf/perf_ring.h"

/*
 * The kernel frames of a thread that leaves its processor, without those of
 * tracers. The BPF program runs inside the kernel's function that switches threads, and between
 * them stand a number of frames that depends on how many tracers have that tracepoint: the stack of
 * the thread begins with the function itself.
 */

/* Where the kernel's function is; both 0: unknown. */
struct switch_function {
	uint64_t start, end;
};

/*
 * Finds the function in a file like /proc/kallsyms; unknown where kernel.kptr_restrict hides its
 * addresses.
 */
struct switch_function switch_function_find(const char *path);

/*
 * How many of the innermost frames are of tracers. Where the function is unknown, or in none of the
 * frames, it is the two that there are when nobody else traces.
 */
unsigned switch_frames_of_tracers(const struct switch_function *f, const uint64_t *frames,
				  unsigned count);

/*
 * What processes map, start and call themselves, from perf events that count
 * nothing: one for each processor, for all processes. Records are PERF_RECORD_MMAP2, COMM, FORK and
 * LOST (perf_record.h).
 */
struct ebpf_sideband {
	int *files; /* one for each ring */
	struct perf_rings rings;
};

int ebpf_sideband_open(struct ebpf_sideband *s, struct error *e) MUST_USE;
void ebpf_sideband_close(struct ebpf_sideband *s);

/* A followed process, from its fork, or the last exec. */
struct process {
	pid_t pid;
	uint64_t image; /* of its last sample; 0: there was none */
	bool changed; /* since the last upload */
	bool python_known; /* looked for since its mappings changed */
	struct sampled_python *python; /* NULL: it has none */
};

/* A stack as a recording takes it. */
struct finished_stack {
	uint64_t kernel[BPF_KERNEL_FRAMES];
	uint64_t user[TARGET_FRAMES_MAX +
		      1]; /* one more than is kept, to tell that there are more */
	unsigned kernel_count, user_count;
	enum stack_end end;
};

/* A thread that is off the CPU. */
struct off_thread {
	bool off;
	pid_t pid, tid;
	uint64_t image, start_ns;
	uint8_t state; /* enum off_cpu_state */
	uint16_t kernel_count, user_count;
	enum stack_end end;
	size_t frames_room;
	uint64_t *frames; /* kernel frames, then user frames */
};

struct cpu_sampling_state {
	struct targets *targets;
	struct sampler_programs *programs;
	struct ebpf_sideband sideband;
	struct ebpf_tables tables;
	struct ebpf_queue queue;
	struct map index; /* pid -> struct process *, NULL: not followed any more */
	VEC(struct process *) processes;
	struct map off_index; /* tid -> item of off_threads */
	VEC(struct off_thread) off_threads;
	VEC(uint32_t) off_free; /* items of off_threads that are no thread's */
	struct switch_function switch_function;
	uint64_t urgent_ns; /* time of the last record with a copy of a stack */
	uint64_t settled_ns; /* records up to then have been handed over */
	uint64_t collected_ns; /* when that was */
	uint64_t end_ns; /* of the window; 0: none */
	uint64_t dropped, not_followed, counted_ns; /* what is in rows of loss, until then */
	uint64_t lost; /* records that made no sense, or for which there was no memory */
	uint64_t nameless; /* Python frames without a name */
	bool priority_raised; /* the thread has its priority */
	bool missed; /* records of mappings, forks or names were lost */
	struct error python_why_not; /* the first interpreter whose frames cannot be read */
	struct finished_stack stack; /* scratch */
};

/* --- ebpf_process.c --- */

struct process *ebpf_process_find(const struct cpu_sampling_state *s, pid_t pid);
/* A process that is followed from now on; NULL: no memory. */
struct process *ebpf_process_add(struct cpu_sampling_state *s, pid_t pid);
void ebpf_process_remove(struct cpu_sampling_state *s, struct process *p);
void ebpf_processes_release(struct cpu_sampling_state *s);
/* Handles the records of mappings, forks and names up to then. */
void ebpf_process_events(struct cpu_sampling_state *s, uint64_t until_ns);
/* Samples are of this image; an exec whose record was lost is made up for. */
void ebpf_process_image(struct cpu_sampling_state *s, struct process *p, uint64_t image,
			uint64_t time_ns);
/* Reads the mappings of all processes again. */
void ebpf_processes_reread(struct cpu_sampling_state *s, uint64_t time_ns);
/* Finds out whether the process runs CPython, once. */
void ebpf_process_python(struct cpu_sampling_state *s, struct process *p, struct target *target);
/* Uploads what has changed to the programs. */
void ebpf_processes_upload(struct cpu_sampling_state *s);

/* --- ebpf_samples.c --- */

/* Reads the Python code objects of a record at once, while they exist. */
void ebpf_sample_look(const struct cpu_sampling_state *s, const void *bytes, size_t size);
/* Handles a record of the programs. */
void ebpf_sample_record(struct cpu_sampling_state *s, const void *bytes, size_t size);
/* Threads that are still off the CPU are so until now. */
void ebpf_samples_finish(struct cpu_sampling_state *s, uint64_t now_ns);
void ebpf_samples_release(struct cpu_sampling_state *s);

#endif
