/* link: -Wl,--export-dynamic */
/* The host API of a CUPTI that this program plays itself, to fail where it is told to. */
#include "cupti/profiler_host.h"

#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "support/cmocka_tests.h"

/* The roofs of tensor cores need both figures of each type; set tensor is where they come from. */
static void test_tensor_roofs(void **state)
{
	static const char *const types[] = {
		"fp8",           "fp16",          "fp16_dst_fp16", "fp16_dst_fp32",
		"bf16_dst_fp32", "tf32_dst_fp32", "fp64",
	};
	static const char *const ends[] = { ".sum", ".sum.peak_sustained" };

	(void)state;
	for (size_t i = 0; i < 2 * ARRAY_SIZE(types); i++) {
		const char *const *name = metric_set_named("tensor");
		char wanted[64];

		snprintf(wanted, sizeof(wanted), "sm__ops_path_tensor_src_%s%s", types[i / 2],
			 ends[i % 2]);
		while (*name && strcmp(*name, wanted) != 0)
			name++;
		if (!*name)
			fail_msg("set tensor lacks %s", wanted);
	}
}

#ifdef PITOT_HAS_PROFILER_HOST

#include <cuda.h>
#include <cupti_profiler_host.h>
#include <cupti_target.h>
#include <dlfcn.h>

#define EXPORT __attribute__((visibility("default")))
#define IMAGE_BYTES 64

static bool has_chip, has_image;
static unsigned objects;
static char object;

EXPORT CUptiResult cuptiProfilerHostInitialize(CUpti_Profiler_Host_Initialize_Params *p)
{
	if (!has_chip)
		return CUPTI_ERROR_INVALID_CHIP_NAME;
	objects++;
	p->pHostObject = (CUpti_Profiler_Host_Object *)&object;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiProfilerHostDeinitialize(CUpti_Profiler_Host_Deinitialize_Params *p)
{
	assert_ptr_equal(p->pHostObject, &object); /* of none, a library may end the program */
	objects--;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiProfilerHostGetBaseMetrics(CUpti_Profiler_Host_GetBaseMetrics_Params *p)
{
	static const char *names[] = { "sm__cycles" };

	p->ppMetricNames = names;
	p->numMetrics = p->metricType == CUPTI_METRIC_TYPE_COUNTER;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult
cuptiProfilerHostGetConfigImageSize(CUpti_Profiler_Host_GetConfigImageSize_Params *p)
{
	p->configImageSize = IMAGE_BYTES;
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiProfilerHostGetConfigImage(CUpti_Profiler_Host_GetConfigImage_Params *p)
{
	if (!has_image)
		return CUPTI_ERROR_UNKNOWN;
	memset(p->pConfigImage, 1, IMAGE_BYTES);
	return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiProfilerHostGetNumOfPasses(CUpti_Profiler_Host_GetNumOfPasses_Params *p)
{
	p->numOfPasses = 3;
	return CUPTI_SUCCESS;
}

/* Functions that no test needs an answer of. */
#define SUCCEEDS(function, type)                                                                   \
	EXPORT CUptiResult cupti##function(CUpti_##type##_Params *p)                               \
	{                                                                                          \
		(void)p;                                                                           \
		return CUPTI_SUCCESS;                                                              \
	}
SUCCEEDS(ProfilerHostGetSupportedChips, Profiler_Host_GetSupportedChips)
SUCCEEDS(ProfilerHostGetSubMetrics, Profiler_Host_GetSubMetrics)
SUCCEEDS(ProfilerHostGetMetricProperties, Profiler_Host_GetMetricProperties)
SUCCEEDS(ProfilerHostConfigAddMetrics, Profiler_Host_ConfigAddMetrics)
SUCCEEDS(ProfilerHostEvaluateToGpuValues, Profiler_Host_EvaluateToGpuValues)
SUCCEEDS(DeviceGetChipName, Device_GetChipName)

static int open_chip(struct profiler_host **h, void *library, struct error *e)
{
	return profiler_host_open(h, library, "GH100", PROFILER_OF_LAUNCHES, NULL, 0, e);
}

static void test_a_library_without_the_functions(void **state)
{
	void *library = dlopen("libm.so.6", RTLD_NOW);
	struct profiler_host *h = NULL;
	struct error e = { 0 };

	(void)state;
	assert_non_null(library);
	assert_int_equal(open_chip(&h, library, &e), E_UNSUPPORTED);
	assert_non_null(strstr(e.text, "lacks cuptiProfilerHost"));
	assert_null(h);
	dlclose(library);
}

static void test_a_chip_that_is_unknown(void **state)
{
	void *own = dlopen(NULL, RTLD_NOW);
	struct profiler_host *h = NULL;
	struct error e = { 0 };

	(void)state;
	has_chip = false;
	assert_int_equal(open_chip(&h, own, &e), E_UNSUPPORTED);
	assert_non_null(strstr(e.text, "does not know chip 'GH100'"));
	assert_int_equal(objects, 0);
	dlclose(own);
}

static void test_passes(void **state)
{
	static const char *const names[] = { "sm__cycles.sum" };
	void *own = dlopen(NULL, RTLD_NOW);
	struct profiler_host *h;
	struct error e = { 0 };

	(void)state;
	has_chip = true;
	assert_int_equal(open_chip(&h, own, &e), 0);
	for (int i = 0; i < 2; i++) {
		has_image = i == 0;
		assert_int_equal(profiler_host_passes(h, names, 1), has_image ? 3 : 0);
		assert_int_equal(objects, 1);
	}
	profiler_host_free(h);
	assert_int_equal(objects, 0);
	dlclose(own);
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tensor_roofs),
#ifdef PITOT_HAS_PROFILER_HOST
		cmocka_unit_test(test_a_library_without_the_functions),
		cmocka_unit_test(test_a_chip_that_is_unknown),
		cmocka_unit_test(test_passes),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
