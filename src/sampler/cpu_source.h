/* cpu_source.h: what a way of sampling (perf_sampler.c, ebpf_sampler.c) provides to cpu_sampler.c. */
#ifndef PITOT_SAMPLER_CPU_SOURCE_H
#define PITOT_SAMPLER_CPU_SOURCE_H

#include "base/strbuf.h"
#include "sampler/cpu_sampler.h"
#include "sampler/sampled_processes.h"

struct cpu_source;

struct cpu_source_type {
	const char *name; /* "eBPF" */
	enum cpu_way way;
	/* 0, or a negative code with the reason in e. `reason` gets what it cannot do. */
	int (*open)(const struct cpu_options *options, const struct cpu_roots *roots,
		    struct targets *targets, struct strbuf *reason, struct cpu_source **out,
		    struct error *e);
	/*
	 * Sampler's thread: waits at most timeout_ms, or until wake_fd can be read, hands what came to targets, in order of
	 * time.
	 */
	int (*poll)(struct cpu_source *s, int timeout_ms, int wake_fd);
	/* Sampler's thread: nothing more is sampled; what is there is handed over. */
	void (*finish)(struct cpu_source *s);
	void (*free)(struct cpu_source *s);
	/* CPU time that it has cost in the kernel, on the processors that were sampled; NULL: unknown. */
	uint64_t (*kernel_ns)(const struct cpu_source *s);
	int (*check)(struct error *e);
};

extern const struct cpu_source_type cpu_source_perf, cpu_source_ebpf;

#endif
