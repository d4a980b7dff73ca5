/*
 * inner_callers.h: for each kernel the innermost Python function, outside of a framework's own
 * code, that still accounts for most of its time. If a model comes from a library, the user's line
 * is the same for all kernels; this names the model's module that launched the kernel.
 */
#ifndef PITOT_ANALYSIS_INNER_CALLERS_H
#define PITOT_ANALYSIS_INNER_CALLERS_H

#include "analysis/report.h"

struct inner_callers {
	/*
	 * By item of hotspots: a caller with its most frequent line; CALLER_NONE: the user's line.
	 */
	uint32_t *items;
	size_t count; /* at most report_options.callers_of */
};

#endif
