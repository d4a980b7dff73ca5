/*
 * nvtx_ranges.h: the program's ranges: push/pop pairs by thread and domain, start/end pairs by
 * range id, and for each CUDA call the innermost pushed range around it. A range that is never
 * closed is marked and ends with the recording. If a pop was lost, the range ends at the thread's
 * next push or pop of the domain whose level shows that the range is closed.
 *
 * Ranges of Pitot's domain that are started and ended are outermost scopes.
 *
 * A pushed range that counts as a scope has a path ("step/forward"): the names of the scopes around
 * it and its own. A range that continues a scope of another thread, by a token, is inside of that
 * scope and has its path.
 */
#ifndef PITOT_ANALYSIS_NVTX_RANGES_H
#define PITOT_ANALYSIS_NVTX_RANGES_H

#include "base/map.h"
#include "base/strbuf.h"
#include "trace/trace.h"

#define NVTX_NO_RANGE UINT32_MAX
#define SCOPE_NONE UINT32_MAX /* outside of all scopes */
#define SCOPE_DEPTH_MAX 255u /* nesting limit, for programs that forget to pop */

/* Which pushed ranges are scopes: those of Pitot's domain, of all other domains, or both. */
enum scope_choice { SCOPES_ALL, SCOPES_PITOT, SCOPES_NVTX };

struct nvtx_range {
	uint64_t start_ns, end_ns;
	uint32_t row; /* row of table nvtx that opened it */
	uint32_t process, thread;
	uint32_t domain;
	uint32_t message; /* string id; 0 when there is none */
	/*
	 * Innermost range of the thread that was open when this one was pushed, or NVTX_NO_RANGE.
	 */
	uint32_t parent;
	/*
	 * The parent, the range that this one continues, or the range of the thread that waits for
	 * this autograd thread. Always an earlier range.
	 */
	uint32_t outer;
	uint32_t path; /* its own path, that of the scope around it, or SCOPE_NONE */
	bool pushed; /* push/pop; else start/end, which may cross threads and has no parent */
	bool open; /* never closed: end_ns is the end of the recording */
	bool pitot; /* in Pitot's domain */
	/* continues a scope; if `outer` is NVTX_NO_RANGE, that scope is not in the recording */
	bool carried;
	bool is_scope; /* begins a scope: its path ends with its name; false if carried */
};

struct scope_path {
	uint32_t parent; /* an earlier path, or SCOPE_NONE */
	uint32_t message; /* string id; 0 when there is none */
	uint32_t depth; /* number of scopes around it */
};

struct nvtx_ranges {
	struct nvtx_range *items; /* by process, then start; parents before their children */
	size_t count;
	/* in the order of their first ranges; equal paths of different processes are one */
	struct scope_path *paths;
	size_t path_count;
	uint64_t unmatched; /* pops and ends without a beginning */
	/* by row of api_call: its range or NVTX_NO_RANGE; NULL if with_calls was false */
	uint32_t *of_call;
};

/*
 * Pairs the ranges of the loaded tables nvtx, nvtx_domain and thread and, if with_calls, start_ns
 * and thread of api_call. 0 or -ENOMEM; release *n in either case.
 *
 * With calls, ranges and calls of PyTorch's autograd threads are assigned to the thread that called
 * backward() and waits for them. An event that is in no range of its autograd thread belongs to the
 * innermost range of the only other thread of the process that has an open range; threads that
 * continue a scope do not count.
 */
int nvtx_ranges_pair(struct nvtx_ranges *n, const struct trace *t, enum scope_choice scopes,
		     bool with_calls) MUST_USE;
/* The same, and loads the tables. After an error, do not release *n. */
int nvtx_ranges_init(struct nvtx_ranges *n, struct trace *t, enum scope_choice scopes,
		     bool with_calls, struct error *e) MUST_USE;
void nvtx_ranges_release(struct nvtx_ranges *n);

/* The range that begins the scope which a carried range continues; else the range itself. */
static inline uint32_t nvtx_scope(const struct nvtx_range *items, uint32_t range)
{
	return items[range].carried && items[range].outer != NVTX_NO_RANGE ? items[range].outer
									   : range;
}

/* Path of a range; SCOPE_NONE for NVTX_NO_RANGE. */
static inline uint32_t nvtx_path(const struct nvtx_ranges *n, uint32_t range)
{
	return range == NVTX_NO_RANGE ? SCOPE_NONE : n->items[range].path;
}

/* Path around a call (row of api_call or TRACE_NO_ROW). */
static inline uint32_t nvtx_path_of_call(const struct nvtx_ranges *n, uint32_t call)
{
	return call == TRACE_NO_ROW || !n->of_call ? SCOPE_NONE : nvtx_path(n, n->of_call[call]);
}

/*
 * Finds the innermost pushed ranges around events. Fast if these are visited by process and in
 * order of time; begins anew where they are not. Initialize with the ranges and zeros.
 */
struct nvtx_cursor {
	const struct nvtx_ranges *ranges;
	uint64_t time_ns; /* of the latest event */
	size_t next; /* the next range to begin */
	uint32_t process;
	struct map last; /* thread -> its latest range that may be open; owned */
};

/* Sets *range, NVTX_NO_RANGE if there is none. 0 or -ENOMEM. */
int nvtx_cursor_at(struct nvtx_cursor *c, size_t process, uint32_t thread, uint64_t time_ns,
		   uint32_t *range) MUST_USE;

/* --- scope_paths.c --- */

#define SCOPE_DOMAIN "pitot" /* the domain whose ranges are Pitot's own scopes */
#define NO_SCOPE_NAME "(no name)" /* stands for the name of a scope without text */

/* Builds the paths of paired ranges. 0 or -ENOMEM. */
int scope_paths_find(struct nvtx_ranges *n, enum scope_choice choice) MUST_USE;

/*
 * Returns one byte per path: whether it or a path around it matches. The caller frees the array;
 * NULL: out of memory. A '/' in the glob separates levels: "step/fwd*" matches scopes whose name
 * matches the last part, directly inside of a scope whose name matches the first part; parts match
 * as in text_matches. A name that contains a '/' may also match the whole glob.
 */
uint8_t *scope_paths_match(const struct nvtx_ranges *n, const struct trace *t, const char *glob);

static inline bool scope_path_selected(const uint8_t *matches, uint32_t path)
{
	return !matches || (path != SCOPE_NONE && matches[path]);
}

/* Appends "step/forward"; cuts the outer part of very long paths. Nothing for SCOPE_NONE. */
void scope_path_text(const struct nvtx_ranges *n, const struct trace *t, uint32_t path,
		     struct strbuf *out);
/* The last name of a path. */
const char *scope_path_name(const struct nvtx_ranges *n, const struct trace *t, uint32_t path);

#endif
