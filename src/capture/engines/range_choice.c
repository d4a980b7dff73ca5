#include "capture/engines/range_choice.h"

#ifdef PITOT_HAS_PROFILER_HOST

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "base/map.h"

#define VERDICTS 256u

static struct {
	char pattern[OPTION_TEXT_MAX];
	atomic_uint_fast64_t skip, count;
	atomic_uint_fast64_t matched; /* launches so far */
	CUresult (*is_capturing)(CUstream stream, CUstreamCaptureStatus *status);
} choice;

static atomic_uintptr_t verdicts[VERDICTS]; /* address of a name, twice, and 1 if it is wanted */

/* '*' and '?' alone; a text without them may be anywhere in the name. Nothing is allocated. */
static bool matches(const char *pattern, const char *name)
{
	const char *star = NULL, *retry = NULL;

	while (*name) {
		if (*pattern == '*') {
			star = ++pattern;
			retry = name;
		} else if (*pattern == '?' || *pattern == *name) {
			pattern++;
			name++;
		} else if (star) {
			pattern = star;
			name = ++retry;
		} else {
			return false;
		}
	}
	return !pattern[strspn(pattern, "*")];
}

static bool is_wanted_name(const char *name)
{
	bool is_pattern = strpbrk(choice.pattern, "*?");

	if (!name)
		return strcmp(choice.pattern, "*") == 0;
	return is_pattern ? matches(choice.pattern, name) : strstr(name, choice.pattern) != NULL;
}

/* Each name is compared once: it stays where it is as long as its module is loaded. */
bool range_choice_has_name(const char *name)
{
	uintptr_t key = (uintptr_t)name << 1;
	atomic_uintptr_t *verdict = &verdicts[hash_u64((uintptr_t)name) % VERDICTS];
	uintptr_t known = atomic_load_explicit(verdict, memory_order_relaxed);

	if (known && (known & ~(uintptr_t)1) == key)
		return known & 1;
	known = key | is_wanted_name(name);
	atomic_store_explicit(verdict, known, memory_order_relaxed);
	return known & 1;
}

void range_choice_forget_names(void)
{
	for (size_t i = 0; i < VERDICTS; i++)
		atomic_store_explicit(&verdicts[i], 0, memory_order_relaxed);
}

static bool starts_with(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* The stream of a launch; false: this function is not known. */
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

	if (!choice.is_capturing || !stream_of(data, function, &stream))
		return false;
	result = choice.is_capturing(stream, &status);
	return result == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE;
}

bool range_choice_is_turn(void)
{
	uint64_t number = atomic_fetch_add(&choice.matched, 1), skip = atomic_load(&choice.skip),
		 count = atomic_load(&choice.count);

	return number >= skip && (!count || number - skip < count);
}

bool range_choice_is_done(void)
{
	uint64_t count = atomic_load(&choice.count);

	return count && atomic_load(&choice.matched) >= atomic_load(&choice.skip) + count;
}

void range_choice_set(const struct settings *wanted)
{
	memcpy(choice.pattern, wanted->kernels, sizeof(choice.pattern));
	atomic_store(&choice.skip, wanted->kernel_skip);
	atomic_store(&choice.count, wanted->kernel_count);
	atomic_store(&choice.matched, 0);
	range_choice_forget_names();
}

bool range_choice_find_driver(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);

	if (driver)
		*(void **)&choice.is_capturing = dlsym(driver, "cuStreamIsCapturing");
	return choice.is_capturing;
}

#endif
