/*
 * perfetto_sink.h: a sink (format/sink.h) that converts rows to Perfetto's packets as they arrive,
 * for a live trace. `pitot export` converts a whole recording and knows more: names of native
 * functions, and what a call waited for.
 *
 * A process may have several sinks at once, one per data source and session of the service. Sinks
 * with equal seeds agree on the ids of tracks and of work, so that arrows lead from the calls of
 * one sink to the work of another.
 */
#ifndef PITOT_PERFETTO_PERFETTO_SINK_H
#define PITOT_PERFETTO_PERFETTO_SINK_H

#include <stdatomic.h>

#include "base/strbuf.h"
#include "format/sink.h"

enum perfetto_rows {
	PERFETTO_WORK = 1, /* GPU work: render stages */
	PERFETTO_CALLS = 2, /* calls of CUDA functions, with arrows to their work */
	PERFETTO_RANGES = 4, /* scopes, NVTX */
	PERFETTO_COUNTERS = 8, /* of GPUs and of the host */
	PERFETTO_METRICS = 16, /* hardware metrics of kernels, as counters and as arguments */
	PERFETTO_SAMPLES = 32, /* CPU samples */
	PERFETTO_ARGUMENTS = 64, /* hardware metrics as arguments of work only */
	PERFETTO_RANGE_METRICS = 128, /* hardware metrics of ranges and graph launches */
};

struct perfetto_sink_options {
	/* bits of enum perfetto_rows, which may change; losses are always included */
	const atomic_uint *rows;
	uint64_t seed; /* random, per process */
	/* Set by any thread: restart incremental state before the next row. NULL: never. */
	atomic_bool *restart;

	void *user; /* passed to the functions below */
	/*
	 * Accepts a packet without its sequence. is_end: the packet ends a slice whose beginning
	 * was accepted, and which would never end without it. Returns false if the packet is lost:
	 * the sequence restarts.
	 */
	bool (*write)(void *user, uint32_t sequence, const void *packet, size_t length,
		      bool is_end);
	/*
	 * Returns the machine's number of the GPU with a PCI address, so that processes that see
	 * different GPUs agree on it; negative if unknown: the number is then CUDA's ordinal. May
	 * be NULL.
	 */
	int (*gpu_number)(void *user, const char *pci);
	/* The sink has been freed and calls none of these again. May be NULL. */
	void (*released)(void *user);
};

/* Returns NULL if out of memory. */
struct sink *perfetto_sink_new(const struct perfetto_sink_options *options) MUST_USE;

#endif
