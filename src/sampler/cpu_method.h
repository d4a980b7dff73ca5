/*
 * cpu_method.h: the interface between cpu_sampler.c and the sampling methods
 * (perf/perf_sampler.c, ebpf/ebpf_source.c; the timer has only a name, since recorders sample by
 * themselves). Except `open` and `check`, the operations run on the sampler's thread.
 */
#ifndef PITOT_SAMPLER_CPU_METHOD_H
#define PITOT_SAMPLER_CPU_METHOD_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/folder.h"
#include "base/strbuf.h"
#include "sampler/sampled_processes.h"

struct cpu_sampling_state;
struct file_copies;

/* A method is 1 + enum sampling_method; auto: the best that is allowed. */
enum cpu_method { CPU_METHOD_AUTO, CPU_METHOD_EBPF, CPU_METHOD_PERF, CPU_METHOD_TIMER };
/* Their names as values of an option; NULL at the end. */
extern const char *const cpu_method_options[];

/* Whether the Python frames of processes that were already running are sampled. */
enum cpu_python {
	CPU_PYTHON_NONE, /* no, or none of the processes runs Python */
	CPU_PYTHON_FORBIDDEN, /* their memory may not be read */
	CPU_PYTHON_READ,
};

struct cpu_options {
	const char *directory; /* of the recording; not copied */
	struct folder_id folder; /* which one that is */
	unsigned hz; /* samples per second of CPU time of each thread, … 10000; 0: none */
	bool allocator; /* also record what PyTorch's allocator hands out (eBPF only) */
	bool off_cpu; /* also record time off the CPU (eBPF only) */
	bool kernel; /* also sample the operating system's kernel, where that is allowed */
	uint64_t start_ns, end_ns; /* window, CLOCK_MONOTONIC; end 0: none */
	uint64_t max_bytes; /* limit for all segments together; 0: none */
	/*
	 * Recorders inside the processes may take over from perf events, which have no Python
	 * frames (settings.h, perf_namespace).
	 */
	bool timers_inside;
	enum cpu_method method;
	/*
	 * Receives copies of files that may soon be deleted. Used by the sampler until it is
	 * stopped; NULL: no copies are made.
	 */
	struct file_copies *file_copies;
};

/* The processes to sample. If they are not `running`, there is one: a child that waits for exec. */
struct cpu_roots {
	const pid_t *pids;
	size_t count;
	bool running;
};

struct cpu_method_ops {
	const char *name; /* "eBPF" */
	enum cpu_method method;
	/* Returns 0, or a negative code with the reason in e. Appends limitations to `reason`. */
	int (*open)(const struct cpu_options *options, const struct cpu_roots *roots,
		    struct targets *targets, struct strbuf *reason, struct cpu_sampling_state **out,
		    struct error *e);
	/*
	 * Waits until there are records, wake_fd becomes readable or timeout_ms has passed, then
	 * adds what was recorded to `targets`, in order of time.
	 */
	int (*poll)(struct cpu_sampling_state *s, int timeout_ms, int wake_fd);
	/* Stops sampling and adds all remaining records to `targets`. */
	void (*finish)(struct cpu_sampling_state *s);
	void (*free)(struct cpu_sampling_state *s);
	/*
	 * CPU time that the method used outside of the sampler's thread (in the operating system's
	 * kernel, or on threads of its own). NULL: unknown.
	 */
	uint64_t (*kernel_ns)(const struct cpu_sampling_state *s);
	/* NULL: Python frames of all processes are sampled */
	enum cpu_python (*python)(const struct cpu_sampling_state *s);
	/* Whether an allocator was recorded. Appends why not, or not all. NULL: none can be. */
	bool (*allocator)(const struct cpu_sampling_state *s, struct strbuf *reason);
	int (*check)(struct error *e);
};

extern const struct cpu_method_ops cpu_method_perf, cpu_method_ebpf;

#endif
