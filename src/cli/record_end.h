/* record_end.h: what `pitot record` says at the end: where the recording is, what is in it, and what it cost. */
#ifndef PITOT_CLI_RECORD_END_H
#define PITOT_CLI_RECORD_END_H

#include "base/error.h"
#include "base/strbuf.h"
#include "trace/trace.h"

struct record_end {
	uint64_t elapsed_ns; /* of the command */
	uint64_t bytes;
	uint64_t kernels, copies, sets, graph_launches, launches;
	size_t processes, gpu_processes;
	size_t gpus;
	uint64_t busy_ns; /* union of GPU work, all GPUs added */
	uint64_t gpu_span_ns; /* first to last GPU work, all GPUs added */
	uint64_t lost; /* all counts added; an unknown one counts as 1 */
	char lost_most[64]; /* reason of the greatest loss */
	uint64_t callbacks, callback_ns; /* Pitot on the command's threads */
	uint64_t collector_ns; /* CPU of Pitot's own threads */
	uint64_t setup_ns, exit_ns;
	char no_gpu_reason
		[512]; /* why there are no GPU data, as the recorder in the command told; "" if it did not */
};

/* Reads the recording. 0 or a negative code. */
int record_end_read(const char *directory, struct record_end *end, struct error *e) MUST_USE;

/* Five lines, and what to type next. `why` says why there are no GPU data; NULL: there are. */
void record_end_text(const struct record_end *end, const char *directory, const char *why,
		     bool color, struct strbuf *out);
/* The same as one JSON object in one line. */
void record_end_json(const struct record_end *end, const char *directory, const char *why,
		     int status, struct strbuf *out);

#endif
