/*
 * cpu_sampling.h: CPU sampling as `pitot record` does it: from outside by the best way that is allowed (sampler/cpu_sampler.h),
 * else by a timer that the recorder inside the command has.
 */
#ifndef PITOT_RECORD_CPU_SAMPLING_H
#define PITOT_RECORD_CPU_SAMPLING_H

#include "sampler/cpu_sampler.h"
#include "format/writer.h"
#include "record/request.h"
#include "symbol/file_copies.h"

struct cpu_sampling {
	/* Set by the caller. */
	unsigned hz; /* 0: nothing is sampled */
	enum record_via via;
	bool off_cpu;
	uint64_t start_ns, end_ns; /* window, CLOCK_MONOTONIC; 0: none */
	uint64_t max_bytes;
	const char *recorder; /* name of the file of the recorder inside, if it may sample what has Python frames; or NULL */
	bool keep_files; /* for naming stacks when the recording ends */
	/* Set by cpu_sampling_start. */
	struct cpu_sampler *sampler; /* NULL: none from outside */
	bool timer; /* the recorder inside has to sample */
	uint64_t perf_namespace; /* 0, or it has to sample beside perf events (settings.h) */
	struct error why_not; /* from outside */
	uint64_t time_ns; /* when that was decided */
	struct kept_files kept; /* kept_files_release */
};

/*
 * Starts to sample `pid`, or finds that the recorder inside has to. 0; or a negative code when the way that was asked
 * for, or any for a process that runs already, is not allowed.
 */
int cpu_sampling_start(struct cpu_sampling *cpu, const char *directory, pid_t pid, bool running,
		     struct error *e) MUST_USE;

/*
 * Ends sampling, and writes what was asked for and what was got as a row of `capability`, and the sampler's cost. An
 * error of writing samples is told through e; nothing else fails.
 */
int cpu_sampling_stop(struct cpu_sampling *cpu, struct writer *w, struct error *e);

#endif
