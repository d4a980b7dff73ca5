/*
 * cpu_sampling.h: chooses the CPU sampling of `pitot record`: from outside, by the best permitted
 * method (sampler/cpu_sampler.h), else by a timer of the recorder inside the command.
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
	enum record_method method;
	bool off_cpu;
	uint64_t start_ns, end_ns; /* window, CLOCK_MONOTONIC; 0: none */
	uint64_t max_bytes;
	/* File name of the recorder, if it may sample Python programs from inside; or NULL. */
	const char *recorder;
	bool keep_files; /* copy files, for symbols at the end of the recording */
	/* Set by cpu_sampling_start. */
	struct cpu_sampler *sampler; /* outside; NULL: none */
	bool timer; /* the recorder samples from inside */
	/* Not 0: the recorder also samples from inside, beside perf events (settings.h). */
	uint64_t perf_namespace;
	struct error unavailable; /* why there is no sampling from outside */
	uint64_t time_ns; /* when the method was chosen */
	struct file_copies kept; /* file_copies_release */
};

/*
 * Starts to sample the roots, or chooses the recorder's timer. Returns 0, or a negative code if the
 * requested method is not permitted, or no method is permitted for running processes.
 */
int cpu_sampling_start(struct cpu_sampling *cpu, const char *directory,
		       const struct folder_id *folder, const struct cpu_roots *roots,
		       struct error *e) MUST_USE;

/* Writes what was requested and what is recorded as rows of `capability`. */
void cpu_sampling_write(const struct cpu_sampling *cpu, struct writer *w);

/* Ends sampling and writes the sampler's cost. Returns 0 or the first error of writing samples. */
int cpu_sampling_stop(struct cpu_sampling *cpu, struct writer *w, struct error *e);

#endif
