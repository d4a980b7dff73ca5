/*
 * gpufl_sink.h: a sink (format/sink.h) that writes gpufl's logs, wire format 1 (docs/gpufl.md). The
 * recorder uses it while it records, `pitot export --format gpufl` hands it the rows of a
 * recording.
 *
 * Rows that lack a time, or end before they start, are left out: there is a row of `loss` for them,
 * which becomes a record. What is kept of the past is bounded: kernels find scope and stack of a
 * launch among the last calls_max calls.
 */
#ifndef PITOT_GPUFL_GPUFL_SINK_H
#define PITOT_GPUFL_GPUFL_SINK_H

#include "base/strbuf.h"
#include "format/sink.h"
#include "gpufl/gpufl_files.h"

struct gpufl_options {
	struct gpufl_files_options files; /* log_path and session are copied */
	const char *shown_path; /* what job_start has for log_path; NULL: that */
	/*
	 * Of CLOCK_REALTIME to CLOCK_MONOTONIC; rows of `clock` correct it when the former is set.
	 */
	int64_t epoch_offset_ns;
	bool compact; /* one kernel_detail for equal launches instead of one a kernel */
	bool blocking_calls; /* are written as synchronizations: there are no rows of them */
	size_t calls_max; /* 0: 65,536 */

	void *user; /* of the functions, which may be NULL */
	/* Appends a kernel's name as a person wrote it. */
	void (*demangle)(void *user, const char *name, struct strbuf *out);
	/* Appends the frames of call stack `id`, the outermost first, with | between them. */
	void (*stack)(void *user, uint32_t id, struct strbuf *out);
};

/* 0 and *out, or a negative errno: the directory cannot be made. */
int gpufl_sink_new(const struct gpufl_options *options, struct sink **out,
		   struct error *e) MUST_USE;

#endif
