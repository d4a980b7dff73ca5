/* ebpf_state.h: private to the eBPF method: ebpf_source.c, ebpf_process.c, ebpf_samples.c. */
#ifndef PITOT_SAMPLER_EBPF_EBPF_STATE_H
#define PITOT_SAMPLER_EBPF_EBPF_STATE_H

#include <poll.h>

#include "base/error.h"
#include "sampler/cpu_method.h"
#include "sampler/python/sampled_python.h"
#include "sampler/ebpf/ebpf_allocator.h"
#include "sampler/ebpf/ebpf_parts.h"
#include "sampler/ebpf/ebpf_queue.h"
#include "sampler/ebpf/ebpf_tables.h"
#include "sampler/perf/perf_ring.h"

/*
 * When a thread leaves its processor, the BPF program runs inside __schedule(), the function of the
 * operating system's kernel that switches threads. The frames inside of it belong to tracers, and
 * their number depends on how many tracers are attached to the tracepoint: they are removed, so
 * that the thread's stack begins with __schedule().
 */

/* Addresses of __schedule(); both 0: unknown. */
struct switch_function {
	uint64_t start, end;
};

/* Finds the function in a file like /proc/kallsyms. Unknown if kernel.kptr_restrict hides it. */
struct switch_function switch_function_find(const char *path);

/*
 * Returns how many of the innermost frames belong to tracers. If the function is unknown, or in
 * none of the frames, 2 (or count): the number without other tracers.
 */
unsigned switch_tracer_frames(const struct switch_function *f, const uint64_t *frames,
			      unsigned count);

/*
 * Mappings, forks and names of all processes, from dummy perf events (one per processor) that only
 * produce sideband records: PERF_RECORD_MMAP2, COMM, FORK and LOST (perf_record.h).
 */
struct ebpf_sideband {
	int *files; /* one descriptor per ring */
	struct perf_rings rings;
};

/*
 * at_once: a descriptor is readable as soon as there is a record, and not only before its ring is
 * full.
 */
int ebpf_sideband_open(struct ebpf_sideband *s, bool at_once, struct error *e) MUST_USE;
void ebpf_sideband_close(struct ebpf_sideband *s);

/* An image of a followed process: from its fork or last exec. */
struct process {
	pid_t pid;
	uint64_t image; /* image number of its last sample; 0: no sample yet */
	bool changed; /* since its last upload */
	bool python_searched; /* sampled_python_find() was called since its mappings changed */
	struct sampled_python *python; /* NULL: it runs no Python that is supported */
};

/* A complete stack, in the form that targets_cpu_sample() expects. */
struct finished_stack {
	uint64_t kernel[BPF_KERNEL_FRAMES];
	uint64_t native[STACK_NATIVE_MAX]; /* before Python frames are merged into them */
	uint64_t user[STACK_FRAMES_MAX];
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
	uint64_t *frames; /* kernel frames, followed by user frames */
};

struct cpu_sampling_state {
	struct targets *targets;
	struct sampler_programs *programs;
	struct ebpf_sideband sideband;
	struct ebpf_tables tables;
	struct ebpf_allocator allocator;
	struct ebpf_parts parts;
	struct ebpf_queue queue;
	struct pollfd *waits; /* scratch: records, the wish to end, and rings of the sideband */
	struct map index; /* pid -> struct process *; NULL: no longer followed */
	VEC(struct process *) processes;
	struct map off_index; /* tid -> item of off_threads */
	VEC(struct off_thread) off_threads;
	VEC(uint32_t) off_free; /* unused items of off_threads */
	struct switch_function switch_function;
	uint64_t urgent_ns; /* time of the last record with a copied stack */
	uint64_t settled_ns; /* records up to this time have been handled */
	uint64_t collected_ns; /* when they were handled */
	uint64_t end_ns; /* of the window; 0: none */
	uint64_t dropped, not_followed, counted_ns; /* losses already reported, and when */
	uint64_t sites_dropped, sites_unwalked;
	uint64_t sites_lost; /* allocations and releases for which there was no memory */
	bool no_samples; /* samples only find Python and unwind tables, for the allocator */
	uint64_t lost; /* records that were malformed, or for which there was no memory */
	uint64_t unnamed; /* Python frames without a name */
	bool priority_raised; /* raise_priority() was called */
	bool missed; /* sideband records were lost */
	struct error python_error; /* for the first interpreter whose frames cannot be read */
	struct finished_stack stack; /* scratch */
};

/* --- ebpf_process.c --- */

struct process *ebpf_process_find(const struct cpu_sampling_state *s, pid_t pid);
/* Starts following a process. NULL: no memory. */
struct process *ebpf_process_add(struct cpu_sampling_state *s, pid_t pid);
void ebpf_process_remove(struct cpu_sampling_state *s, struct process *p);
void ebpf_processes_release(struct cpu_sampling_state *s);
/* Handles the sideband records up to this time. */
void ebpf_process_events(struct cpu_sampling_state *s, uint64_t until_ns);
/* Sets the image of a sample; handles the exec if its record was lost. */
void ebpf_process_set_image(struct cpu_sampling_state *s, struct process *p, uint64_t image,
			    uint64_t time_ns);
/* Reads the mappings of all processes again, after sideband records were lost. */
void ebpf_processes_reread(struct cpu_sampling_state *s, uint64_t time_ns);
/* Finds the CPython interpreter of the process, once per change of its mappings. */
void ebpf_process_find_python(struct cpu_sampling_state *s, struct process *p,
			      struct target *target);
/* Uploads the images that have changed to the BPF programs. */
void ebpf_processes_upload(struct cpu_sampling_state *s);

/* --- ebpf_samples.c --- */

/*
 * Adds the Python code object of a record BPF_RECORD_CODE, while it can still be read. Returns
 * false if its process is not known yet: then it must be queued before the samples that refer to
 * it.
 */
bool ebpf_sample_code(const struct cpu_sampling_state *s, const void *bytes, size_t size);
/* Handles a record of the BPF programs. */
void ebpf_sample_record(struct cpu_sampling_state *s, const void *bytes, size_t size);
/*
 * Ends the pauses of all threads that are still off the CPU, and adds the CPU time after the last
 * samples of the threads that are still running.
 */
void ebpf_samples_finish(struct cpu_sampling_state *s, uint64_t now_ns);
void ebpf_samples_release(struct cpu_sampling_state *s);

#endif
