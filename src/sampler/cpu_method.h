/*
 * cpu_method.h: the interface between cpu_sampler.c and the sampling methods
 * (perf/perf_sampler.c, ebpf/ebpf_source.c; the timer has only a name, since recorders sample by
 * themselves). Except `open` and `check`, the operations run on the sampler's thread.
 */
#ifndef PITOT_SAMPLER_CPU_METHOD_H
#define PITOT_SAMPLER_CPU_METHOD_H

#include "base/strbuf.h"
#include "sampler/cpu_sampler.h"
#include "sampler/sampled_processes.h"

struct cpu_sampling_state;

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
	int (*check)(struct error *e);
};

extern const struct cpu_method_ops cpu_method_perf, cpu_method_ebpf;

#endif
