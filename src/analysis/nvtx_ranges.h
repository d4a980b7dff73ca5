/*
 * nvtx_ranges.h: NVTX push/pop pairs of each thread and domain, start/end pairs by range id, and
 * for each call of CUDA the innermost pushed range that its thread was in. A range that is never
 * closed ends with the recording and says so; one whose pop is lost ends where its thread's next
 * push or pop of the domain shows by its level that it has.
 */
#ifndef PITOT_ANALYSIS_NVTX_RANGES_H
#define PITOT_ANALYSIS_NVTX_RANGES_H

#include "base/map.h"
#include "trace/trace.h"

#define NVTX_NO_RANGE UINT32_MAX
#define NVTX_DEPTH_MAX                                                                             \
	255u /* ranges inside each other that are shown as such: programs forget to pop */

struct nvtx_range {
	uint64_t start_ns, end_ns;
	uint32_t row; /* of table nvtx that opened it */
	uint32_t process, thread;
	uint32_t domain;
	uint32_t message; /* string id; 0 when there is none */
	/* Pushed range of the thread that was open when this one was pushed, or NVTX_NO_RANGE. */
	uint32_t parent;
	/* The same, or that of the thread that an autograd thread works for: nvtx_ranges_adopt. */
	uint32_t outer;
	/* This range, or the one around it that has NVTX_DEPTH_MAX around it: where a view of all levels ends. */
	uint32_t shown;
	uint32_t depth; /* ranges around it, at most NVTX_DEPTH_MAX */
	bool pushed; /* push/pop; else start/end, which may cross threads and has no parent */
	bool open; /* never closed: end_ns is the end of the recording */
};

struct nvtx_ranges {
	struct nvtx_range *items; /* by process, then start; parents before their children */
	size_t count;
	uint64_t unmatched; /* pops and ends without a beginning */
	/* Range of each row of api_call or NVTX_NO_RANGE; NULL when not asked for. */
	uint32_t *of_call;
};

/* From table nvtx, and start_ns and thread of api_call if with_calls, which are loaded. 0 or -ENOMEM; released in any case. */
int nvtx_ranges_pair(struct nvtx_ranges *n, const struct trace *t, bool with_calls) MUST_USE;
/* Loads them as well; after a failure nothing needs a release. */
int nvtx_ranges_init(struct nvtx_ranges *n, struct trace *t, bool with_calls,
		     struct error *e) MUST_USE;
void nvtx_ranges_release(struct nvtx_ranges *n);
/*
 * Puts what PyTorch's autograd threads launch into ranges of the thread that called backward(), which waits for them: a
 * call or a range of such a thread without an open range belongs into the innermost range of the only other thread of its
 * process that has one, if there is only one. Fills of_call and `outer`. Table thread must be loaded. 0 or -ENOMEM.
 */
int nvtx_ranges_adopt(struct nvtx_ranges *n, const struct trace *t) MUST_USE;

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
