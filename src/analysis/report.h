/*
 * report.h: the data of a report: loads the columns of all analyses once, runs the analyses on two
 * threads, and holds their results. Busy, idle, overlap and the verdict are about whole GPUs: they
 * apply only the filter's window, process and device.
 */
#ifndef PITOT_ANALYSIS_REPORT_H
#define PITOT_ANALYSIS_REPORT_H

#include "analysis/analyses.h"
#include "analysis/callers.h"
#include "analysis/calls.h"
#include "analysis/filter.h"
#include "analysis/gpus.h"
#include "analysis/measuring.h"
#include "analysis/nvtx_ranges.h"
#include "analysis/thread_names.h"
#include "causes/causes.h"

/* How hotspots.h groups kernels. */
enum hotspot_by {
	HOTSPOT_KERNEL, /* name; key: string id */
	HOTSPOT_CONFIG, /* name, launch configuration and resources; key: row of kernel_config */
	HOTSPOT_STREAM, /* key: stream id in its process */
	HOTSPOT_DEVICE, /* key: item of struct gpus */
	HOTSPOT_THREAD, /* launching thread; key: thread id in its process, or HOTSPOT_NO_KEY */
	/* innermost scope around the launch; key: string id of its name, or HOTSPOT_NO_KEY */
	HOTSPOT_SCOPE,
	HOTSPOT_CALLER, /* launching line; key: caller, or HOTSPOT_NO_KEY */
	HOTSPOT_KINDS,
};

struct report_options {
	struct filter filter;
	enum hotspot_by by;
	uint64_t callers_of; /* find the callers of this many groups of kernels */
	enum scope_choice scopes; /* what counts as a scope */
	bool scope_tree; /* compute scope_times */
	bool stalls; /* compute lines and instructions of kernel samples */
	bool counters; /* compute hardware counters */
	bool collectives; /* show collectives */
	/* load only what ranks are compared by (job_report.h); more can be loaded afterwards */
	bool ranks;
	bool now; /* load and compute only hotspots, launches, busy and last_words */
	bool steady; /* with `ranks`: analyze what each rank is measured by */
	bool critical_path, states, steps; /* compute these */
	bool paces; /* compute rank_times.paces */
	bool memory; /* compute memory_peak and memory_steps, and with them steps */
	uint64_t price_millionths; /* of an hour of a GPU; 0: unknown */
	bool captures; /* callers of graph kernels are the lines that captured them */
	unsigned threads; /* 0: two */
};

struct report {
	struct trace *trace;
	struct report_options options;
	/* of the recording: trace_span, extended to the end of the last work */
	uint64_t span_start_ns, span_end_ns;
	uint64_t recorded_start_ns, recorded_end_ns; /* the span within --delay and --duration */
	uint64_t start_ns, end_ns; /* the filter's window within them */
	struct gpus gpus;
	struct selection selection;
	struct calls calls;
	struct nvtx_ranges ranges; /* only if the options need scopes */
	struct callers callers;
	struct measuring measuring;
	struct thread_names thread_names;
	struct causes causes; /* with options.ranks only if also options.critical_path */
	/* by row of allocation: row of api_call; only with options.memory */
	const uint32_t *allocation_calls;
#define RESULT(name) struct name *name;
	ANALYSES(RESULT) /* not NULL after report_init */
#undef RESULT
};

/* The trace must outlive the report. 0 or a negative code; then *r needs no release. */
int report_init(struct report *r, struct trace *t, const struct report_options *options,
		struct error *e) MUST_USE;
void report_release(struct report *r);

/* Number of recorded processes; a CPU sampler's view of a process does not count. */
size_t report_process_count(const struct report *r);

#endif
