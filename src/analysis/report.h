/*
 * report.h: what a report is made of: loads what the analyses need once, runs them on two threads,
 * and keeps their results. Busy, idle, overlap and the verdict are about whole GPUs: of the filter
 * they use the window, the process and the device only.
 */
#ifndef PITOT_ANALYSIS_REPORT_H
#define PITOT_ANALYSIS_REPORT_H

#include "analysis/analyses.h"
#include "analysis/callers.h"
#include "analysis/calls.h"
#include "analysis/filter.h"
#include "analysis/gpus.h"
#include "analysis/hotspots.h"
#include "analysis/nvtx_ranges.h"
#include "analysis/thread_names.h"

struct report_options {
	struct filter filter;
	enum hotspot_by by;
	uint64_t callers_of; /* so many groups of kernels get their callers */
	enum scope_choice scopes; /* what counts as a scope */
	bool scope_tree; /* scope_times is wanted */
	bool stalls; /* lines and instructions of samples of kernels are wanted */
	bool counters; /* hardware counters are wanted */
	bool captures; /* callers of kernels of graphs are the lines that captured them */
	unsigned threads; /* 0: two */
};

struct report {
	struct trace *trace;
	struct report_options options;
	uint64_t span_start_ns,
		span_end_ns; /* of the recording: trace_span, to the end of the last work */
	uint64_t start_ns, end_ns; /* the window; without one the span */
	struct gpus gpus;
	struct selection selection;
	struct calls calls;
	struct nvtx_ranges ranges; /* only if scopes are asked for */
	struct callers callers;
	struct thread_names thread_names;
#define RESULT(name) struct name *name;
	ANALYSES(RESULT) /* never NULL after report_init */
#undef RESULT
};

/* The trace must outlive the report. 0 or a negative code; then *r needs no release. */
int report_init(struct report *r, struct trace *t, const struct report_options *options,
		struct error *e) MUST_USE;
void report_release(struct report *r);

/* Processes of the recording: a CPU sampler's session about one is none of its own. */
size_t report_process_count(const struct report *r);

#endif
