/*
 * range_context.h: measures hardware counters of single launches in one CUDA context, through
 * CUPTI's range profiler with automatic ranges and kernel replay: while it is started, each launch
 * is a range and runs once per pass of the metrics, with its memory restored in between.
 *
 * All calls are made on the launching thread, in callbacks of the launch, in this order: at the
 * first selected launch cuptiRangeProfilerEnable and …GetCounterDataSize; before each selected
 * launch …CounterDataImageInitialize, …SetConfig and …Start; after it …Stop and …DecodeData.
 * Therefore an image has the range of one launch, and values are assigned without relying on
 * CUPTI's order. An image with two ranges also has another thread's launch and is discarded.
 *
 * A marked range is all work of the context between …PushRange (after …Start) and …PopRange (before
 * …Stop). Nothing is replayed: each occurrence is one pass, and the image has the values after
 * …Stop of the last one.
 */
#ifndef PITOT_CAPTURE_ENGINES_RANGE_CONTEXT_H
#define PITOT_CAPTURE_ENGINES_RANGE_CONTEXT_H

#include "capture/cuda/vendor.h"
#include "capture/engines/engine_metrics.h"

#ifdef PITOT_HAS_PROFILER_HOST

struct range_context {
	CUcontext handle; /* NULL: none */
	bool is_marked; /* ranges are marked with names; otherwise each launch is a range */
	/* Some passes of the marked range `key` have been made, and more must follow. */
	bool is_underway;
	uint64_t key;
	uint32_t passes; /* of the measurement so far */
	CUpti_RangeProfiler_Object *object;
	const struct engine_metrics *metrics;
	uint8_t *image;
	size_t image_bytes;
	bool started;
	const char *failed; /* the CUPTI function that failed last */
};

/*
 * Enables the profiler in a context: for marked ranges if the metrics are PROFILER_OF_RANGES, else
 * for single launches. The mode is fixed until range_context_close(), because CUPTI 13.0 crashes in
 * cuptiRangeProfilerStart after a change. This function and the next two return 0, or a CUptiResult
 * with the function in c->failed.
 */
int range_context_open(struct range_context *c, const struct cupti *cupti, CUcontext handle,
		       const struct engine_metrics *metrics) MUST_USE;
/* `name` is the marked range's, and ignored for launches. */
int range_context_start(struct range_context *c, const struct cupti *cupti,
			const char *name) MUST_USE;
/*
 * Ends what was started. *ranges is the number of measured launches or ranges; 0 while
 * c->is_underway. If it is 1, `values` are set, indexed like the names of the metric set.
 */
int range_context_stop(struct range_context *c, const struct cupti *cupti, size_t *ranges,
		       double *values) MUST_USE;
/* Disables the profiler, unless the context is `gone`, and frees the image. */
void range_context_close(struct range_context *c, const struct cupti *cupti, bool gone);

#endif
#endif
