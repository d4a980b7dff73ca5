/*
 * perfetto_sink.h: a sink (format/sink.h) that converts rows to Perfetto's packets: as they arrive,
 * for a live trace, or rows of a whole recording, for `pitot export`, which knows more about each:
 * names of native functions, ends of ranges, and what a call launched and waited for.
 *
 * A process may have several sinks at once, one per data source and session of the service. Sinks
 * with equal seeds agree on the ids of tracks and of work, so that arrows lead from the calls of
 * one sink to the work of another.
 */
#ifndef PITOT_PERFETTO_PERFETTO_SINK_H
#define PITOT_PERFETTO_PERFETTO_SINK_H

#include <stdatomic.h>

#include "format/sink.h"
#include "perfetto/perfetto_stack_packets.h"
#include "perfetto/perfetto_slice_packets.h"
#include "perfetto/perfetto_work_packets.h"

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

/* Texts that only the exporter knows. */
enum perfetto_text {
	PERFETTO_TEXT_QUEUE, /* title of a stream */
	PERFETTO_TEXT_LABEL, /* of the work being appended */
};

/*
 * What an exporter knows, beyond the rows. Rows are appended in the order of their starts, and none
 * waits for another; metric values precede their kernel. The sinks of a file, one per process,
 * share it.
 */
struct perfetto_export {
	struct strbuf *out; /* packets, with their sequences */
	uint32_t sequences; /* in use */
	struct perfetto_shared shared;
	void *user; /* passed to the functions below */
	void (*text)(void *user, enum perfetto_text which, uint32_t context, uint32_t stream,
		     struct strbuf *text);
	/*
	 * Appends a stack's frames, outermost first, to *frames. of_call: without the frames of
	 * CUDA's libraries below the program's own call. Returns 0 or -ENOMEM.
	 */
	int (*find_stack)(void *user, uint32_t stack, bool of_call, struct perfetto_frames *frames);
	void (*describe_frame)(void *user, uint64_t frame, struct perfetto_frame_text *text);
	/* Reads the device of a GPU with that number; returns false if it is unknown. */
	bool (*device)(void *user, uint32_t gpu, struct row_device *row);
	/* Adds to the open slice of the row being appended; may be NULL. */
	void (*annotate)(void *user, struct open_slice *slice);

	/* About the row being appended. */
	int rc; /* its result: 0, -E2BIG: too many slices overlap, or -ENOMEM */
	uint64_t event_id; /* of GPU work */
	uint64_t waited_for, waited_ns; /* event id of what it waited for in another rank; or 0 */
	uint32_t gpu; /* its number */
	uint64_t start_ns, end_ns; /* of a range */
	struct track_name scope; /* of a call */
	bool is_driver_call;
	uint32_t session; /* that has a sample's stack */
	/* the range as its stream saw it; NULL: as its thread did */
	const struct perfetto_stream *stream;
};

struct perfetto_stream {
	uint32_t context, stream;
};

struct perfetto_sink_options {
	struct perfetto_export *export; /* NULL: a live trace */
	/* export: of the process; contexts are numbered from context_base + 1 on */
	const char *name, *title;
	uint32_t context_base;
	/* bits of enum perfetto_rows, which may change; losses are always included */
	const atomic_uint *rows;
	uint64_t seed; /* random, per process */
	/*
	 * The rest is for live traces. Set by any thread: restart incremental state before the next
	 * row. NULL: never.
	 */
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

/*
 * For an export: begins a file with the process's description, and ends it with the last values of
 * counters, which hold until time_ns.
 */
void perfetto_sink_begin(struct sink *sink, uint64_t time_ns);
void perfetto_sink_end(struct sink *sink, uint64_t time_ns);

#endif
