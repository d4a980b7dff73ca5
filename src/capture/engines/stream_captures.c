#include "capture/engines/stream_captures.h"

#ifdef PITOT_HAS_PROFILER_HOST

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/starts_with.h"

static struct capture {
	CUcontext context;
	CUstream stream;
} captures[STREAM_CAPTURES_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held briefly */
static atomic_uint count;

static bool begins_capture(const char *function)
{
	return starts_with(function, "cuStreamBegin"); /* Capture, Recapture */
}

bool stream_captures_is_function(const char *name)
{
	return begins_capture(name) || starts_with(name, "cuStreamEndCapture") ||
	       starts_with(name, "cuStreamDestroy");
}

/* The stream is the first parameter of all these functions. Only a thread's own can be 0. */
static struct capture capture_of(const CUpti_CallbackData *data)
{
	struct capture c = { .context = data->context };

	if (data->functionParams)
		memcpy(&c.stream, data->functionParams, sizeof(c.stream));
	if (!c.stream)
		c.stream = CU_STREAM_PER_THREAD;
	return c;
}

static int add(const struct capture *c)
{
	unsigned i;

	pthread_mutex_lock(&lock);
	i = atomic_load(&count);
	if (i < STREAM_CAPTURES_MAX) {
		captures[i] = *c;
		atomic_store(&count, i + 1);
	}
	pthread_mutex_unlock(&lock);
	return i < STREAM_CAPTURES_MAX ? 1 : -E2BIG;
}

/* Removes the first entry for the stream, or all for the context. NULL matches any. */
static void take_out(CUcontext context, CUstream stream)
{
	unsigned i = 0;

	pthread_mutex_lock(&lock);
	while (i < atomic_load(&count)) {
		if ((context && captures[i].context != context) ||
		    (stream && captures[i].stream != stream)) {
			i++;
			continue;
		}
		captures[i] = captures[atomic_load(&count) - 1];
		atomic_fetch_sub(&count, 1);
		if (stream)
			break;
	}
	pthread_mutex_unlock(&lock);
}

void stream_captures_forget(CUcontext context)
{
	take_out(context, NULL);
}

bool stream_captures_any(void)
{
	return atomic_load(&count);
}

static bool is_over(const char *function, bool enters, CUresult result)
{
	if (begins_capture(function))
		return result != CUDA_SUCCESS;
	if (starts_with(function, "cuStreamDestroy"))
		return enters;
	return !enters && result != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

int stream_captures_call(const CUpti_CallbackData *data, const char *function)
{
	struct capture c = capture_of(data);
	bool enters = data->callbackSite == CUPTI_API_ENTER;
	CUresult result = CUDA_SUCCESS;

	if (!enters && data->functionReturnValue)
		result = *(const CUresult *)data->functionReturnValue;
	if (enters && begins_capture(function))
		return add(&c);
	if (is_over(function, enters, result))
		take_out(NULL, c.stream);
	return 0;
}

void stream_captures_after_fork(void)
{
	pthread_mutex_init(&lock, NULL);
	atomic_store(&count, 0);
}

#endif
