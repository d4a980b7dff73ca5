/*
 * gpufl_sink.h: a sink (format/sink.h) that writes gpufl's logs, wire format 1 (docs/gpufl.md). The
 * recorder uses it while recording; `pitot export --format gpufl` appends the rows of a recording
 * to it.
 *
 * Rows that lack a time, or end before they start, are left out; a row of table `loss`, which
 * becomes a record, counts them. History is bounded: kernels find scope and stack of their launch
 * only among the last calls_max calls.
 */
#ifndef PITOT_GPUFL_GPUFL_SINK_H
#define PITOT_GPUFL_GPUFL_SINK_H

#include "base/strbuf.h"
#include "format/sink.h"
#include "gpufl/gpufl_files.h"

struct gpufl_options {
	struct gpufl_files_options files; /* log_path and session are copied */
	const char *shown_path; /* log_path in job_start; NULL: files.log_path */
	const char *address; /* ip_addr of the machine, copied; NULL: unknown */
	/*
	 * CLOCK_REALTIME minus CLOCK_MONOTONIC; rows of `clock` correct it after CLOCK_REALTIME is
	 * set
	 */
	int64_t epoch_offset_ns;
	bool compact; /* equal launches share one kernel_detail instead of one per kernel */
	/* write blocking calls as synchronizations, because there are no rows of these */
	bool blocking_calls;
	size_t calls_max; /* 0: 65,536 */

	void *user; /* passed to the function, which may be NULL */
	/* Appends the frames of call stack `id`, outermost first, separated by |. */
	void (*stack)(void *user, uint32_t id, struct strbuf *out);
};

/*
 * Returns the record type of a mark of a window of system metrics, such as "system_start", and the
 * window's name; NULL: the mark is another one, which has no record.
 */
const char *gpufl_mark_type(const char *text, const char **name);

/* Returns 0 and *out, or a negative errno if the directory cannot be created. */
int gpufl_sink_new(const struct gpufl_options *options, struct sink **out,
		   struct error *e) MUST_USE;

#endif
