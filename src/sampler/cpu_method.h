/*
 * cpu_method.h: what a method of sampling (perf/perf_sampler.c, ebpf/ebpf_source.c) provides to
 * cpu_sampler.c.
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
	/* 0, or a negative code with the reason in e. `reason` gets what it cannot do. */
	int (*open)(const struct cpu_options *options, const struct cpu_roots *roots,
		    struct targets *targets, struct strbuf *reason, struct cpu_sampling_state **out,
		    struct error *e);
	/*
	 * Sampler's thread: waits at most timeout_ms, or until wake_fd can be read, hands what came
	 * to targets, in order of time.
	 */
	int (*poll)(struct cpu_sampling_state *s, int timeout_ms, int wake_fd);
	/* Sampler's thread: nothing more is sampled; what is there is handed over. */
	void (*finish)(struct cpu_sampling_state *s);
	void (*free)(struct cpu_sampling_state *s);
	/*
	 * CPU time that it has cost in the kernel, on the processors that were sampled; NULL:
	 * unknown.
	 */
	uint64_t (*kernel_ns)(const struct cpu_sampling_state *s);
	/* NULL: Python frames are sampled, of every process */
	enum cpu_python (*python)(const struct cpu_sampling_state *s);
	int (*check)(struct error *e);
};

extern const struct cpu_method_ops cpu_method_perf, cpu_method_ebpf;

#endif
