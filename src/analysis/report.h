/*
 * report.h: all analyses of `pitot report` together: loads what they need once, runs them on two
 * threads, and keeps the results. Busy, idle, overlap and the verdict speak of whole GPUs: of the
 * filter they take the window, the process and the device only.
 */
#ifndef PITOT_ANALYSIS_REPORT_H
#define PITOT_ANALYSIS_REPORT_H

#include "analysis/waits.h"
#include "analysis/busy.h"
#include "analysis/copies.h"
#include "analysis/cost.h"
#include "analysis/cpu_use.h"
#include "analysis/graphs.h"
#include "analysis/hotspots.h"
#include "analysis/idle.h"
#include "analysis/idle_lines.h"
#include "analysis/launches.h"
#include "analysis/memory_use.h"
#include "analysis/nvtx_ranges.h"
#include "analysis/sync_calls.h"
#include "analysis/verdict.h"

struct report_options {
	struct filter filter;
	enum hotspot_by by;
	uint64_t callers_of; /* so many groups of kernels get their callers */
	bool captures; /* callers of kernels of graphs are the lines that captured them */
	unsigned threads; /* 0: two */
};

struct report {
	struct trace *trace;
	struct report_options options;
	uint64_t span_start_ns, span_end_ns; /* from the first event to the end of the last, or of the last process */
	uint64_t start_ns, end_ns; /* the window; without one the span */
	struct gpus gpus;
	struct selection selection;
	struct calls calls;
	struct nvtx_ranges ranges; /* only if NVTX is asked for */
	struct callers callers;
	struct busy busy;
	struct idle idle;
	struct hotspots hotspots;
	struct copies copies;
	struct syncs syncs;
	struct blocked blocked;
	struct launches launches;
	struct graphs graphs;
	struct memory_use memory;
	struct cpu_use cpu;
	struct cost cost;
	struct verdict verdict;
	struct verdict later; /* after verdict.start_up; without one all zero */
	struct strbuf no_gpu; /* why nothing that ran on a GPU is in the recording; empty: something is */
	struct idle_lines idle_lines; /* of the verdict's GPU */
};

/* The trace must outlive the report. 0 or a negative code; then *r needs no release. */
int report_init(struct report *r, struct trace *t, const struct report_options *options,
		struct error *e) MUST_USE;
void report_release(struct report *r);

/* Processes of the recording: a CPU sampler's session about one is none of its own. */
size_t report_process_count(const struct report *r);
/* Name of a thread, or "". */
const char *report_thread_name(const struct report *r, size_t process, uint32_t thread);

#endif
