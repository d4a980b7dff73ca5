/*
 * stream_captures.h: which streams of the program capture a graph. CUPTI synchronizes a context to
 * measure a launch or range in it, which breaks a capture in progress. So nothing is measured
 * meanwhile. Captures that began before the engine was attached are not known.
 */
#ifndef PITOT_CAPTURE_ENGINES_STREAM_CAPTURES_H
#define PITOT_CAPTURE_ENGINES_STREAM_CAPTURES_H

#include <stdbool.h>

#include "capture/cuda/vendor.h"
#include "cupti/profiler_host.h"

#ifdef PITOT_HAS_PROFILER_HOST
#define STREAM_CAPTURES_MAX 256u

/* Whether a function of the driver begins or ends a capture, or destroys a stream. */
bool stream_captures_is_function(const char *name);

/*
 * Must be called for each such call, in its callbacks. Returns 1 if a capture is about to begin,
 * -E2BIG if it is one more than can be known, else 0.
 */
int stream_captures_call(const CUpti_CallbackData *data, const char *function);

/* Whether any stream captures. */
bool stream_captures_any(void);

/* Forgets the captures in a context; NULL: all of them. */
void stream_captures_forget(CUcontext context);
void stream_captures_after_fork(void);
#endif

#endif
