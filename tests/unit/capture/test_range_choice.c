/* test_range_choice.c: which names --kernels chooses, and which launches run at once. */
#include "capture/engines/kernel_choice.h"
#include "capture/engines/range_choice.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "support/cmocka_tests.h"

#ifdef PITOT_HAS_PROFILER_HOST

#define PLAIN "saxpy"
#define TEMPLATE "_ZN2at6native18elementwise_kernelILi128ELi4EEEviPf"
#define HIDDEN "_ZN12_GLOBAL__N_15stageIiEEvPi" /* void (anonymous namespace)::stage<int>(int*) */

static bool chooses(const char *patterns, const char *name)
{
	struct settings s = SETTINGS_INIT;

	snprintf(s.kernels, sizeof(s.kernels), "%s", patterns);
	kernel_choice_set(&s);
	return kernel_choice_has_name(name);
}

static void test_mangled(void **state)
{
	(void)state;
	assert_true(chooses("*", NULL));
	assert_false(chooses("s*", NULL));
	assert_true(chooses("", PLAIN));
	assert_true(chooses("none,ax", PLAIN));
	assert_false(chooses("mangled=ax", PLAIN));
	assert_true(chooses("mangled=saxpy", PLAIN));
	assert_true(chooses("mangled=*ax*,none", PLAIN));
	assert_false(chooses("s?xp", PLAIN));
	assert_false(chooses("none,saxpyy", PLAIN));
}

static void test_readable(void **state)
{
	(void)state;
	assert_true(chooses("demangled=sax*", PLAIN));
	assert_true(chooses("function=saxpy", PLAIN));
	assert_false(chooses("function=sax", PLAIN));
	assert_true(chooses("demangled=void (anonymous namespace)::stage<int>(*)", HIDDEN));
	assert_true(chooses("function=stage", HIDDEN));
	assert_true(chooses("demangled=void at::native::elementwise_kernel<128? 4>(*", TEMPLATE));
	assert_true(chooses("a,function=elementwise_kernel", TEMPLATE));
	assert_false(chooses("demangled=elementwise_kernel*", TEMPLATE));
	assert_false(chooses("function=native", TEMPLATE));
}

/* Another kernel's name may be where one was before its module was unloaded. */
static void test_unloaded_names(void **state)
{
	char name[] = "saxpy";

	(void)state;
	assert_true(chooses("saxpy", name));
	name[0] = 'd';
	kernel_choice_forget_names();
	assert_false(kernel_choice_has_name(name));
}

/*
 * Which launches of 12 are measured, and with which one the last was, from 1; 0: there may be more.
 */
static const char *turns(const struct settings *s, unsigned *last)
{
	static char text[13];

	kernel_choice_set(s);
	*last = 0;
	for (unsigned i = 0; i < 12; i++) {
		text[i] = kernel_choice_is_turn() ? 'x' : '.';
		if (!*last && kernel_choice_is_done())
			*last = i + 1;
	}
	return text;
}

static void check_ranges(const char *ranges, const char *expected, unsigned expected_last)
{
	struct settings s = SETTINGS_INIT;
	unsigned last;

	s.kernel_skip = 2;
	s.kernel_count = 3;
	snprintf(s.kernel_ranges, sizeof(s.kernel_ranges), "%s", ranges);
	assert_string_equal(turns(&s, &last), expected);
	assert_int_equal(last, expected_last);
}

static void test_ranges(void **state)
{
	struct settings all = SETTINGS_INIT;
	unsigned last;

	(void)state;
	check_ranges("", "..xxx.......", 5);
	check_ranges("0+1", "x...........", 1);
	check_ranges("7+2,1+2", ".xx....xx...", 9);
	check_ranges("1+4,3+4,10+4294967295", ".xxxxxx...xx", 0);
	check_ranges("2+0", "............", 1);
	check_ranges("1+18446744073709551615", ".xxxxxxxxxxx", 0);
	check_ranges("1+1,x,3+1", ".x..........", 2);
	check_ranges("1+1,3", ".x..........", 2);
	all.kernel_count = 0;
	all.kernel_skip = 11;
	assert_string_equal(turns(&all, &last), "...........x");
	assert_int_equal(last, 0);
}

/* As long as the setting may be: what does not fit is not read. */
static void test_many_ranges(void **state)
{
	struct settings s = SETTINGS_INIT;
	unsigned last;

	(void)state;
	memset(s.kernel_ranges, ',', sizeof(s.kernel_ranges) - 1);
	for (size_t i = 0; i + 4 < sizeof(s.kernel_ranges); i += 4)
		memcpy(s.kernel_ranges + i, i ? "9+0" : "9+2", 3);
	assert_string_equal(turns(&s, &last), ".........xx.");
	assert_int_equal(last, 11);
}

/* --- a driver with one stream that captures, and the last one that was asked about --- */

#define CAPTURING ((CUstream)0x5000)
#define OTHER ((CUstream)0x6000)

static CUstream asked;

static CUresult is_capturing(CUstream stream, CUstreamCaptureStatus *status)
{
	asked = stream;
	*status = stream == CAPTURING ? CU_STREAM_CAPTURE_STATUS_ACTIVE
				      : CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlsym(void *handle, const char *name);
void *__real_dlopen(const char *name, int flags);
void *__real_dlsym(void *handle, const char *name);

void *__wrap_dlopen(const char *name, int flags)
{
	return name && strcmp(name, "libcuda.so.1") == 0 ? &asked : __real_dlopen(name, flags);
}

void *__wrap_dlsym(void *handle, const char *name)
{
	CUresult (*found)(CUstream, CUstreamCaptureStatus *) = is_capturing;
	void *address;

	if (handle != &asked)
		return __real_dlsym(handle, name);
	memcpy(&address, &found, sizeof(address));
	return strcmp(name, "cuStreamIsCapturing") == 0 ? address : NULL;
}

static bool runs_at_once(const char *function, const void *parameters)
{
	CUpti_CallbackData data = { .functionParams = parameters };

	asked = NULL;
	return range_choice_runs_at_once(&data, function);
}

/* Every launch of the driver names its stream at another place; no stream is the default one. */
static void test_streams_of_launches(void **state)
{
	cuLaunchKernel_params kernel = { .hStream = OTHER };
	cuLaunchCooperativeKernel_params cooperative = { .hStream = OTHER };
	cuGraphLaunch_params graph = { .hStream = OTHER };
	CUlaunchConfig config = { .hStream = OTHER };
	cuLaunchKernelEx_params ex = { .config = &config };
	const struct {
		const char *function;
		void *parameters;
		CUstream *stream;
	} launches[] = {
		{ "cuLaunchKernel", &kernel, &kernel.hStream },
		{ "cuLaunchKernel_ptsz", &kernel, &kernel.hStream },
		{ "cuLaunchKernelEx", &ex, &config.hStream },
		{ "cuLaunchKernelEx_ptsz", &ex, &config.hStream },
		{ "cuLaunchCooperativeKernel", &cooperative, &cooperative.hStream },
		{ "cuLaunchCooperativeKernel_ptsz", &cooperative, &cooperative.hStream },
		{ "cuGraphLaunch", &graph, &graph.hStream },
		{ "cuGraphLaunch_ptsz", &graph, &graph.hStream },
	};

	(void)state;
	assert_false(runs_at_once("cuLaunchKernel", &kernel)); /* nobody to ask yet */
	assert_true(range_choice_find_driver());
	for (size_t i = 0; i < ARRAY_SIZE(launches); i++) {
		const char *function = launches[i].function;
		bool per_thread = strstr(function, "_ptsz");

		*launches[i].stream = OTHER;
		assert_true(runs_at_once(function, launches[i].parameters));
		assert_ptr_equal(asked, OTHER);
		*launches[i].stream = CAPTURING;
		assert_false(runs_at_once(function, launches[i].parameters));
		*launches[i].stream = NULL;
		assert_true(runs_at_once(function, launches[i].parameters));
		assert_ptr_equal(asked, per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY);
		assert_true(runs_at_once(function, NULL));
	}
	assert_false(runs_at_once("cuLaunch", &kernel));
	assert_false(runs_at_once("cuMemcpyAsync", &kernel));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mangled),        cmocka_unit_test(test_readable),
		cmocka_unit_test(test_unloaded_names), cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_many_ranges),    cmocka_unit_test(test_streams_of_launches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
	return 0; /* CUDA's headers are older than the engine needs */
}

#endif
