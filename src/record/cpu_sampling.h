/*
 * cpu_sampling.h: the CPU sampling of `pitot record`, by the best permitted method
 * (sampler/cpu_sampler.h).
 */
#ifndef PITOT_RECORD_CPU_SAMPLING_H
#define PITOT_RECORD_CPU_SAMPLING_H

#include "sampler/cpu_sampler.h"
#include "format/writer.h"
#include "record/request.h"
#include "symbol/file_copies.h"

struct cpu_sampling {
	/* Set by the caller. */
	unsigned hz; /* 0: no samples */
	enum cpu_method method;
	bool off_cpu;
	bool allocator; /* record PyTorch's allocator, which needs eBPF */
	uint64_t start_ns, end_ns; /* window, CLOCK_MONOTONIC; 0: none */
	uint64_t max_bytes;
	/* File name of the recorder, if it may sample Python programs from inside; or NULL. */
	const char *recorder;
	bool keep_files; /* copy files, for symbols at the end of the recording */
	/* Set by cpu_sampling_start. */
	struct cpu_sampler *sampler; /* NULL: no samples */
	bool timer; /* its method: recorders inside the processes sample them */
	/* Not 0: the recorder also samples from inside, beside perf events (settings.h). */
	uint64_t perf_namespace;
	uint64_t time_ns; /* when the method was chosen */
	struct error no_allocator; /* why it cannot be recorded, if nothing else needs eBPF */
	struct file_copies kept; /* file_copies_release */
};

/* As cpu_sampler_start(). */
int cpu_sampling_start(struct cpu_sampling *cpu, const char *directory,
		       const struct folder_id *folder, const struct cpu_roots *roots,
		       struct error *e) MUST_USE;

/* Writes what was requested and what is recorded as rows of `capability`. */
void cpu_sampling_write(const struct cpu_sampling *cpu, struct writer *w);

/*
 * Ends sampling and writes the sampler's cost, and whether allocators were recorded. Appends to
 * `no_allocator` why none was, or not all. Returns 0 or the first error of writing samples.
 */
int cpu_sampling_stop(struct cpu_sampling *cpu, struct writer *w, struct strbuf *no_allocator,
		      struct error *e);

#endif
