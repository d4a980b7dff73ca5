/*
 * inner_callers.h: for each kernel the innermost Python function that still holds most of its time,
 * outside of a framework's own code: of a model in a library, the module that launched it, where
 * the user's line is the same for all kernels.
 */
#ifndef PITOT_ANALYSIS_INNER_CALLERS_H
#define PITOT_ANALYSIS_INNER_CALLERS_H

#include "analysis/report.h"

struct inner_callers {
	/*
	 * By item of hotspots: a caller with its commonest line, or CALLER_NONE: there is none but
	 * the user's.
	 */
	uint32_t *items;
	size_t count; /* of the items that were asked for: report_options.callers_of */
};

#endif
