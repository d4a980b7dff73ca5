/*
 * summary.h: the figures of a recording that `pitot record` prints at the end.
 */
#ifndef PITOT_RECORD_SUMMARY_H
#define PITOT_RECORD_SUMMARY_H

#include <stdbool.h>

#include "analysis/cost.h"
#include "base/error.h"
#include "trace/trace.h"

#define ENGINE_LIMITS 4 /* one each for the engine, its metrics, graphs, and its interval */

struct record_summary {
	uint64_t elapsed_ns; /* wall time of the command */
	uint64_t duration_ns; /* of the recording, on the clock of its rows: a tape has its own */
	uint64_t bytes;
	uint64_t kernels, copies, sets, graph_launches, launches;
	uint64_t cpu_samples, cpu_ns; /* samples, and the CPU time that they stand for */
	char no_samples[256]; /* --cpu-only: why there are no samples; "": there are, or unknown */
	char no_off_cpu[128]; /* why time off the CPU is missing; "": recorded, or not requested */
	char own_profiler[240]; /* --own-profiler: what happened; "": there was none */
	char engine[ENGINE_LIMITS][512]; /* what --engine could not do; "": nothing */
	char sink[512]; /* a sink that could not be opened, such as gpufl's logs; "": none */
	/* All processes, and those with the recorder inside. */
	size_t processes, inside;
	bool of_steps; /* set by the caller: only steps of the run were recorded */
	/*
	 * Number of GPUs that worked; union of the work, and time from first to last work, both
	 * summed over GPUs.
	 */
	size_t gpus;
	uint64_t busy_ns, gpu_span_ns;
	/* Sum of all losses, an unknown count as 1; the worst loss, and its text with the count. */
	uint64_t lost, lost_most;
	char lost_text[160];
	enum loss_effect loss_effect;
	struct cost_sum costs[COST_KINDS]; /* by enum cost_kind; unknown without `any` */
	/*
	 * Estimated cost of recording graph nodes, and the time with graphs, if --graphs launch
	 * would pay off; else 0.
	 */
	uint64_t node_cost_ns, node_span_ns;
	bool cpu_only; /* --cpu-only */
	/* Why there is no GPU work; "": there is some. */
	char no_gpu[512];
	/* If there is some: processes in which CUPTI never worked, and why in the first of them. */
	size_t refused;
	char refused_why[512];
};

/* Reads the recording. Returns 0 or a negative code. */
int record_summary_read(const char *directory, struct record_summary *end,
			struct error *e) MUST_USE;

#endif
