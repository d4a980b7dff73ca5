/*
 * perfetto_sink.h: a sink (format/sink.h) that makes Perfetto's packets of rows as they come, for a
 * live trace. `pitot export` makes the same of a whole recording, and knows what this cannot: names
 * of native functions, and what a call waited for.
 *
 * Several sinks of one process may be on at once, one for each data source and session of the
 * service; with equal seeds they agree on the ids of tracks and of work, so that arrows lead from
 * the calls of one to the work of another.
 */
#ifndef PITOT_PERFETTO_PERFETTO_SINK_H
#define PITOT_PERFETTO_PERFETTO_SINK_H

#include <stdatomic.h>

#include "base/strbuf.h"
#include "format/sink.h"

enum perfetto_rows {
	PERFETTO_WORK = 1, /* of GPUs: render stages */
	PERFETTO_CALLS = 2, /* calls of CUDA functions, with arrows to the work */
	PERFETTO_RANGES = 4, /* scopes, NVTX */
	PERFETTO_COUNTERS = 8, /* of GPUs and of the host */
	PERFETTO_METRICS =
		16, /* hardware counters of kernels; of work they are arguments as well */
	PERFETTO_SAMPLES = 32, /* what threads did on the CPU */
	PERFETTO_ARGUMENTS = 64, /* hardware counters as arguments of work alone */
};

struct perfetto_sink_options {
	const atomic_uint
		*rows; /* enum perfetto_rows, as bits, which may change; losses are in all */
	uint64_t seed; /* of the process: random */
	/* Begin incremental state anew before the next row; set by anybody. NULL: never. */
	atomic_bool *restart;

	void *user; /* of the functions */
	/*
	 * Takes a packet without its sequence. is_end: of a slice whose beginning was taken, which
	 * would never end without it. false: the packet is lost, and its sequence begins anew.
	 */
	bool (*write)(void *user, uint32_t sequence, const void *packet, size_t length,
		      bool is_end);
	/*
	 * Number of a GPU on the machine, by its PCI address, so that processes that see different
	 * GPUs agree on it; negative: unknown, then it is CUDA's ordinal. May be NULL.
	 */
	int (*gpu_number)(void *user, const char *pci);
	/* The sink is gone, and calls none of these again. May be NULL. */
	void (*released)(void *user);
	/*
	 * Appends a kernel's name as a person wrote it, and returns true; else false. May be NULL.
	 */
	bool (*demangle)(void *user, const char *name, struct strbuf *out);
};

/* NULL: no memory. */
struct sink *perfetto_sink_new(const struct perfetto_sink_options *options) MUST_USE;

#endif
