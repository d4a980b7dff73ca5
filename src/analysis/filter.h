/*
 * filter.h: which part of a recording is looked at, and that choice made ready for fast tests of
 * rows.
 *
 * A row belongs to the window when it starts in it; a row without a time belongs to it when there
 * is no window. Where intervals are joined (GPU busy, idle, overlap), they are cut at the window's
 * edges instead.
 */
#ifndef PITOT_ANALYSIS_FILTER_H
#define PITOT_ANALYSIS_FILTER_H

#include "trace/trace.h"

struct nvtx_ranges;

struct filter {
	uint64_t since_ns, until_ns; /* CLOCK_MONOTONIC: since <= time < until */
	int64_t pid, device, stream; /* device: CUDA ordinal; -1: all */
	const char *kernel; /* kernels by name, see text_matches; NULL: all */
	/* launched inside of such a scope, at any depth, see scope_paths_match; NULL: all */
	const char *scope;
};

#define FILTER_ALL                                                                                 \
	{                                                                                          \
		.until_ns = UINT64_MAX, .pid = -1, .device = -1, .stream = -1                      \
	}

/* A glob with * ? [ ]; a pattern without any of them matches as a part of the text. */
bool text_matches(const char *pattern, const char *text);
/* The same for a kernel's name as the compiler made it, as it is written, or shortened. */
bool kernel_name_matches(const char *pattern, const char *name);

struct selection {
	const struct trace *trace;
	struct filter filter;
	bool windowed; /* since or until is given */
	uint8_t *processes; /* one byte a process: wanted */
	uint8_t *configs; /* one byte a row of kernel_config: wanted; NULL: all */
	uint8_t *scopes; /* one byte a path: wanted; NULL: all */
	uint8_t *calls; /* one byte a row of api_call: inside a wanted scope; NULL: all */
};

/*
 * Loads what the filter needs. `ranges` is needed when filter->scope is given, with calls. 0 or a
 * negative code.
 */
int selection_init(struct selection *s, struct trace *t, const struct filter *f,
		   const struct nvtx_ranges *ranges, struct error *e) MUST_USE;
void selection_release(struct selection *s);

/*
 * The rows of a table in the wanted processes, process by process:
 *
 *	for (struct row_walk w = selection_rows(s, TABLE_kernel); row_walk_next(&w);)
 *		add(w.process, w.row);
 */
struct row_walk {
	uint64_t row;
	uint32_t process; /* of the row */
	uint32_t next_process;
	uint64_t end;
	const struct trace *trace;
	const uint8_t *wanted; /* one byte a process; NULL: all */
	enum table_id table;
};

static inline struct row_walk selection_rows(const struct selection *s, enum table_id table)
{
	return (struct row_walk){ .trace = s->trace, .wanted = s->processes, .table = table };
}

static inline struct row_walk all_rows(const struct trace *t, enum table_id table)
{
	return (struct row_walk){ .trace = t, .table = table };
}

/* Goes on to the first row of the next process that has any; false: there is none. */
bool row_walk_next_process(struct row_walk *w);

static inline bool row_walk_next(struct row_walk *w)
{
	return ++w->row < w->end || row_walk_next_process(w);
}

/* A row by its start; valid: the start is known. */
static inline bool selection_has_time(const struct selection *s, bool valid, uint64_t start_ns)
{
	if (!valid)
		return !s->windowed;
	return start_ns >= s->filter.since_ns && start_ns < s->filter.until_ns;
}

/*
 * Whether work launched by a call (a row of api_call or TRACE_NO_ROW) is inside a wanted scope.
 */
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
