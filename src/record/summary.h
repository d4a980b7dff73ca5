/* summary.h: what `pitot record` says at the end: where the recording is, what is in it, and what it cost. */
#ifndef PITOT_RECORD_SUMMARY_H
#define PITOT_RECORD_SUMMARY_H

#include <stdbool.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "trace/trace.h"

struct record_summary {
	/* Wall time of the command, and size of the recording. */
	uint64_t elapsed_ns, bytes;
	uint64_t kernels, copies, sets, graph_launches, launches;
	uint64_t cpu_samples, cpu_ns; /* and the CPU time that they stand for */
	const char *no_off_cpu; /* why time off the CPU is missing; NULL: it is not, or not wanted */
	/* All processes, and those with the recorder inside. */
	size_t processes, inside;
	/* GPUs that worked; the union of their work, and the time from first to last work; of all added. */
	size_t gpus;
	uint64_t busy_ns, gpu_span_ns;
	/* All losses added, an unknown count as 1; the greatest of a reason, 0: unknown, and what it is. */
	uint64_t lost, lost_most;
	const char *lost_text;
	/* The recorder on the command's threads, CPU of its own threads, at start and at exit. */
	uint64_t callbacks, callback_ns, collector_ns, setup_ns, exit_ns;
	uint64_t sampler_ns; /* CPU of the sampler outside */
	/* What recording nodes of graphs cost, estimated, and the time with graphs, if it is worth --graphs launch; else 0. */
	uint64_t node_cost_ns, node_span_ns;
	/* Why nothing that ran on a GPU is there; "" when something is. */
	char no_gpu[512];
};

/* Reads the recording. 0 or a negative code. */
int record_summary_read(const char *directory, struct record_summary *end, struct error *e) MUST_USE;

#endif
