/* stream_calls.h: a program that calls functions of streams, for stream_captures.h. */
#ifndef PITOT_TESTS_STREAM_CALLS_H
#define PITOT_TESTS_STREAM_CALLS_H

#include "capture/engines/launch_calls.h"
#include "capture/engines/stream_captures.h"

enum { ENTERS, SUCCEEDS, FAILS_OTHERWISE, ON_THE_WRONG_THREAD };

/* The program calls a function of this stream. */
static inline void call_stream(const char *function, uintptr_t stream, uintptr_t context, int how)
{
	CUresult result = how == ON_THE_WRONG_THREAD ? CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD
			  : how == FAILS_OTHERWISE   ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
						     : CUDA_SUCCESS;
	CUpti_CallbackData data = { .context = (CUcontext)context,
				    .functionParams = &stream,
				    .functionReturnValue = how == ENTERS ? NULL : &result,
				    .callbackSite =
					    how == ENTERS ? CUPTI_API_ENTER : CUPTI_API_EXIT };

	launch_calls_stream(&data, function);
}

/* Calls it from begin to end. Returns whether any stream captures then. */
static inline bool call(const char *function, uintptr_t stream, int how)
{
	call_stream(function, stream, 1, ENTERS);
	call_stream(function, stream, 1, how);
	return stream_captures_any();
}

#endif
