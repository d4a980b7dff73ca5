/* info.h: shared by the text and the JSON of `pitot info`: info_text.c, info_json.c. */
#ifndef PITOT_CLI_INFO_H
#define PITOT_CLI_INFO_H

#include "cli/ui.h"
#include "trace/trace.h"

struct info {
	const struct context *context;
	struct trace *trace;
	const char *path;
	uint64_t start_ns, end_ns;
	const struct trace_loss *losses;
	size_t loss_count;
	int64_t damaged; /* blocks; -1: not checked */
};

uint64_t info_number(const struct info *i, enum table_id table, int column, uint64_t row);
/* Returns the name of the state of a row of capability. */
const char *info_state(const struct info *i, uint64_t row);

/* Whether the session at `index` is a sampler's, about the process of another session. */
bool info_is_sampler_session(const struct info *i, size_t index);
/* Returns the process at `index`, extended by the sampler's session about it. */
struct trace_process info_process(const struct info *i, size_t index);

/*
 * The drift of CLOCK_REALTIME against CLOCK_MONOTONIC over the readings of one process and its
 * sampler, and the accuracy of the readings.
 */
struct info_clock {
	uint64_t readings, gpu_readings;
	uint64_t first_ns, first_offset, last_ns, last_offset;
	uint64_t widest_ns;
};

struct info_clock info_read_clock(const struct info *i, size_t process);
int64_t info_drift_ns(const struct info_clock *s);

void info_print_text(const struct info *i, struct strbuf *out);
void info_print_json(const struct info *i, struct strbuf *out);

#endif
