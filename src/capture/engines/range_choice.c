#include "capture/engines/range_choice.h"

#ifdef PITOT_HAS_PROFILER_HOST

#include <string.h>

#include "base/starts_with.h"

static struct {
	CUresult (*is_capturing)(CUstream stream, CUstreamCaptureStatus *status);
	CUresult (*current_context)(CUcontext *context);
} driver;

/* Finds the stream of a launch. Returns false if the function is unknown. */
static bool stream_of(const CUpti_CallbackData *data, const char *function, CUstream *stream)
{
	const void *parameters = data->functionParams;
	size_t length = strlen(function);
	bool per_thread = length > 5 && strcmp(function + length - 5, "_ptsz") == 0;

	*stream = NULL;
	if (starts_with(function, "cuLaunchKernelEx")) {
		const CUlaunchConfig *config =
			parameters ? ((const cuLaunchKernelEx_params *)parameters)->config : NULL;

		*stream = config ? config->hStream : NULL;
	} else if (strcmp(function, "cuLaunchKernel") == 0 ||
		   strcmp(function, "cuLaunchKernel_ptsz") == 0) {
		*stream = parameters ? ((const cuLaunchKernel_params *)parameters)->hStream : NULL;
	} else if (strcmp(function, "cuLaunchCooperativeKernel") == 0 ||
		   strcmp(function, "cuLaunchCooperativeKernel_ptsz") == 0) {
		*stream = parameters
				  ? ((const cuLaunchCooperativeKernel_params *)parameters)->hStream
				  : NULL;
	} else if (strcmp(function, "cuGraphLaunch") == 0 ||
		   strcmp(function, "cuGraphLaunch_ptsz") == 0) {
		*stream = parameters ? ((const cuGraphLaunch_params *)parameters)->hStream : NULL;
	} else {
		return false;
	}
	if (!*stream)
		*stream = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
	return true;
}

bool range_choice_runs_at_once(const CUpti_CallbackData *data, const char *function)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUstream stream;
	CUresult result;

	if (!driver.is_capturing || !stream_of(data, function, &stream))
		return false;
	result = driver.is_capturing(stream, &status);
	return result == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE;
}

CUcontext range_choice_current_context(void)
{
	CUcontext context = NULL;

	return driver.current_context && driver.current_context(&context) == CUDA_SUCCESS ? context
											  : NULL;
}

bool range_choice_find_driver(void)
{
	*(void **)&driver.is_capturing = driver_function("cuStreamIsCapturing");
	*(void **)&driver.current_context = driver_function("cuCtxGetCurrent");
	return driver.is_capturing;
}

#endif
