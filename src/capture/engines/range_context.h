/*
 * range_context.h: hardware counters of single launches in one CUDA context, through CUPTI's range
 * profiler with automatic ranges and replay of kernels: while it is started, each launch is a
 * range, and runs as often as the metrics need passes, with its memory put back in between.
 *
 * The order of the calls, all on the launching thread, in callbacks of the launch: at the first
 * launch that is wanted cuptiRangeProfilerEnable and …GetCounterDataSize; before each one
 * …CounterDataImageInitialize, …SetConfig and …Start; after it …Stop and …DecodeData. So an image
 * never has more than the ranges of one launch, and whose values they are does not depend on
 * CUPTI's order. An image with two ranges has another thread's launch, too, and is thrown away.
 *
 * A marked range is everything in the context between …PushRange and …PopRange, behind …Start and
 * before …Stop. Nothing is replayed: each occurrence is one pass, and after …Stop of the last one
 * the image has the values.
 */
#ifndef PITOT_CAPTURE_ENGINES_RANGE_CONTEXT_H
#define PITOT_CAPTURE_ENGINES_RANGE_CONTEXT_H

#include "capture/cuda/vendor.h"
#include "capture/engines/engine_metrics.h"

#ifdef PITOT_HAS_PROFILER_HOST

struct range_context {
	CUcontext handle; /* NULL: none */
	bool is_marked; /* ranges are marked with names; else each launch is one */
	/* Of marked ranges: passes of the range `key` have been made, others are to follow. */
	bool is_underway;
	uint64_t key;
	uint32_t passes; /* of the measurement so far */
	CUpti_RangeProfiler_Object *object;
	const struct engine_metrics *metrics;
	uint8_t *image;
	size_t image_bytes;
	bool started;
	const char *failed; /* the function of CUPTI that failed last */
};

/*
 * Enables the profiler in a context: for marked ranges if the metrics are PROFILER_OF_RANGES, else
 * for single launches. It stays with that, because CUPTI 13.0 crashes in cuptiRangeProfilerStart
 * after a change. These functions return 0 or a CUptiResult; then c->failed is the function.
 */
int range_context_open(struct range_context *c, const struct cupti *cupti, CUcontext handle,
		       const struct engine_metrics *metrics) MUST_USE;
/* `name`: of the marked range. */
int range_context_start(struct range_context *c, const struct cupti *cupti,
			const char *name) MUST_USE;
/*
 * Ends what was started. *ranges: launches or ranges that were measured, of which `values`, by
 * index in the set, are those of the first; 0 while c->is_underway.
 */
int range_context_stop(struct range_context *c, const struct cupti *cupti, size_t *ranges,
		       double *values) MUST_USE;
/* `gone`: the context is, and CUPTI is told nothing. */
void range_context_close(struct range_context *c, const struct cupti *cupti, bool gone);

#endif
#endif
