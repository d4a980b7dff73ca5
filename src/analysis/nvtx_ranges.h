/*
 * nvtx_ranges.h: the program's ranges: push/pop pairs of each thread and domain, start/end pairs by
 * range id, and for each call of CUDA the innermost pushed range that its thread was in. A range
 * that is never closed ends with the recording and says so; one whose pop is lost ends where its
 * thread's next push or pop of the domain shows by its level that it has.
 *
 * A pushed range that counts as a scope has a path (scope_paths.h): the names of the scopes around
 * it and its own. A range that carries a scope on, by a token, is inside of that scope and has its
 * path.
 */
#ifndef PITOT_ANALYSIS_NVTX_RANGES_H
#define PITOT_ANALYSIS_NVTX_RANGES_H

#include "base/map.h"
#include "trace/trace.h"

#define NVTX_NO_RANGE UINT32_MAX
#define SCOPE_NONE UINT32_MAX /* outside of all scopes */
#define SCOPE_DEPTH_MAX 255u /* scopes inside each other: programs forget to pop */

/* Which pushed ranges are scopes: those of Pitot's domain, or of all others, or both. */
enum scope_choice { SCOPES_ALL, SCOPES_PITOT, SCOPES_NVTX };

struct nvtx_range {
	uint64_t start_ns, end_ns;
	uint32_t row; /* of table nvtx that opened it */
	uint32_t process, thread;
	uint32_t domain;
	uint32_t message; /* string id; 0 when there is none */
	/* Pushed range of the thread that was open when this one was pushed, or NVTX_NO_RANGE. */
	uint32_t parent;
	/*
	 * The same, or the range that it carries on, or the one of the thread that an autograd
	 * thread works for. Always an earlier range.
	 */
	uint32_t outer;
	uint32_t path; /* its own, or that of the scope around it; SCOPE_NONE */
	bool pushed; /* push/pop; else start/end, which may cross threads and has no parent */
	bool open; /* never closed: end_ns is the end of the recording */
	bool pitot; /* of Pitot's domain */
	/*
	 * carries on a scope; one that the recording does not have where `outer` is NVTX_NO_RANGE
	 */
	bool carried;
	bool is_scope; /* begins a scope: the path ends with its name, and it is no carried one */
};

struct scope_path {
	uint32_t parent; /* an earlier path, or SCOPE_NONE */
	uint32_t message; /* string id; 0 when there is none */
	uint32_t depth; /* scopes around it */
};

struct nvtx_ranges {
	struct nvtx_range *items; /* by process, then start; parents before their children */
	size_t count;
	/* in the order of their first range; equal ones of all processes are one */
	struct scope_path *paths;
	size_t path_count;
	uint64_t unmatched; /* pops and ends without a beginning */
	/* Range of each row of api_call or NVTX_NO_RANGE; NULL when not asked for. */
	uint32_t *of_call;
};

/*
 * From tables nvtx, nvtx_domain and thread, and start_ns and thread of api_call if with_calls,
 * which are loaded. 0 or -ENOMEM; released in any case.
 *
 * With calls, ranges and calls of PyTorch's autograd threads belong into ranges of the thread that
 * called backward(), which waits for them: what is in no range of such a thread is in the innermost
 * range of the only other thread of its process that has one, if there is only one; threads that
 * carry a scope on do not count.
 */
int nvtx_ranges_pair(struct nvtx_ranges *n, const struct trace *t, enum scope_choice scopes,
		     bool with_calls) MUST_USE;
/* Loads them as well; after a failure nothing needs a release. */
int nvtx_ranges_init(struct nvtx_ranges *n, struct trace *t, enum scope_choice scopes,
		     bool with_calls, struct error *e) MUST_USE;
void nvtx_ranges_release(struct nvtx_ranges *n);

/* The range that one carries on, which is no carried one; of others the range itself. */
static inline uint32_t nvtx_scope(const struct nvtx_range *items, uint32_t range)
{
	return items[range].carried && items[range].outer != NVTX_NO_RANGE ? items[range].outer
									   : range;
}

/* Path of a range, or of NVTX_NO_RANGE. */
static inline uint32_t nvtx_path(const struct nvtx_ranges *n, uint32_t range)
{
	return range == NVTX_NO_RANGE ? SCOPE_NONE : n->items[range].path;
}

/* Path around a call: a row of api_call or TRACE_NO_ROW. */
static inline uint32_t nvtx_path_of_call(const struct nvtx_ranges *n, uint32_t call)
{
	return call == TRACE_NO_ROW || !n->of_call ? SCOPE_NONE : nvtx_path(n, n->of_call[call]);
}

/* Finds the innermost pushed range around events of a process that come in order of time. */
struct nvtx_cursor {
	const struct nvtx_ranges *ranges;
	size_t next; /* range that has not begun yet */
	uint32_t process;
	struct map last; /* thread -> its range that began last and may be open */
};

void nvtx_cursor_init(struct nvtx_cursor *c, const struct nvtx_ranges *n, size_t process);
void nvtx_cursor_release(struct nvtx_cursor *c);
/* Range or NVTX_NO_RANGE in *range. 0 or -ENOMEM. */
int nvtx_cursor_at(struct nvtx_cursor *c, uint32_t thread, uint64_t time_ns,
		   uint32_t *range) MUST_USE;

#endif
