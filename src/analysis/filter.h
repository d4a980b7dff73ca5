/*
 * filter.h: which part of a recording is analysed (filter), and its form for fast row tests
 * (selection).
 *
 * A row is in the window if it starts in it; a row without a time is selected only if there is no
 * window. Analyses that join intervals (GPU busy, idle, overlap) cut them at the window's edges
 * instead.
 */
#ifndef PITOT_ANALYSIS_FILTER_H
#define PITOT_ANALYSIS_FILTER_H

#include "trace/trace.h"

struct nvtx_ranges;

struct filter {
	uint64_t since_ns, until_ns; /* CLOCK_MONOTONIC: since <= time < until */
	int64_t pid, device, stream; /* device: CUDA ordinal; -1: all */
	const char *kernel; /* kernels by name, see text_matches; NULL: all */
	/* launched inside of a matching scope, at any depth, see scope_paths_match; NULL: all */
	const char *scope;
};

#define FILTER_ALL                                                                                 \
	{                                                                                          \
		.until_ns = UINT64_MAX, .pid = -1, .device = -1, .stream = -1                      \
	}

/* Matches a glob with * ? [ ]; a pattern without any of these matches any part of the text. */
bool text_matches(const char *pattern, const char *text);
/* The same for a kernel: its mangled, demangled or shortened name matches. */
bool kernel_name_matches(const char *pattern, const char *name);

struct selection {
	const struct trace *trace;
	struct filter filter;
	bool windowed; /* since or until is given */
	uint8_t *processes; /* one byte per process: selected */
	uint8_t *configs; /* one byte per row of kernel_config: selected; NULL: all */
	uint8_t *scopes; /* one byte per path: selected; NULL: all */
	uint8_t *calls; /* one byte per row of api_call: inside a selected scope; NULL: all */
};

/* Loads what it needs. filter->scope needs `ranges` with calls. 0 or a negative code. */
int selection_init(struct selection *s, struct trace *t, const struct filter *f,
		   const struct nvtx_ranges *ranges, struct error *e) MUST_USE;
void selection_release(struct selection *s);

/*
 * Walks over the rows of a table in the selected processes, process by process:
 *
 *	for (struct row_walk w = selection_rows(s, TABLE_kernel); row_walk_next(&w);)
 *		add(w.process, w.row);
 *
 * all_rows walks over all processes, process_rows over one.
 */
struct row_walk {
	uint64_t row;
	uint32_t process; /* of the row */
	uint32_t next_process;
	uint64_t end;
	const struct trace *trace;
	const uint8_t *selected; /* one byte per process; NULL: all */
	enum table_id table;
};

static inline struct row_walk selection_rows(const struct selection *s, enum table_id table)
{
	return (struct row_walk){ .trace = s->trace, .selected = s->processes, .table = table };
}

static inline struct row_walk all_rows(const struct trace *t, enum table_id table)
{
	return (struct row_walk){ .trace = t, .table = table };
}

static inline struct row_walk process_rows(const struct trace *t, enum table_id table,
					   size_t process)
{
	return (struct row_walk){ .row = trace_first_row(t, table, process) - 1,
				  .process = (uint32_t)process,
				  .next_process = UINT32_MAX,
				  .end = trace_first_row(t, table, process + 1),
				  .trace = t,
				  .table = table };
}

/* Advances to the first row of the next process that has rows; false: there is none. */
bool row_walk_next_process(struct row_walk *w);

static inline bool row_walk_next(struct row_walk *w)
{
	return ++w->row < w->end || row_walk_next_process(w);
}

/* The text of a STRING column; "" if it is missing. For tables of definitions, as trace_value. */
const char *row_text(const struct trace *t, enum table_id table, int column, uint64_t row);

/* Whether a row is in the window; valid: its start is known. */
static inline bool selection_has_time(const struct selection *s, bool valid, uint64_t start_ns)
{
	if (!valid)
		return !s->windowed;
	return start_ns >= s->filter.since_ns && start_ns < s->filter.until_ns;
}

/* Whether work launched by a call (row of api_call or TRACE_NO_ROW) is inside a selected scope. */
static inline bool selection_has_call(const struct selection *s, uint32_t call)
{
	return !s->calls || (call != TRACE_NO_ROW && s->calls[call]);
}

static inline bool selection_has_place(const struct selection *s, uint32_t device, uint32_t stream)
{
	return (s->filter.device < 0 || s->filter.device == device) &&
	       (s->filter.stream < 0 || s->filter.stream == stream);
}

static inline bool selection_has_config(const struct selection *s, uint32_t config)
{
	return !s->configs || (config != TRACE_NO_ROW && s->configs[config]);
}

#endif
