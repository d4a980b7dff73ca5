/* test_event_words.c: what functions of CUDA, HIP and others do, by their names. */
#include <string.h>

#include "support/cmocka_tests.h"

#include "schema/event_words.h"

#define CU(name, kind)                                                                             \
	{ "cu" name, api_kind_##kind }, { "cuda" name, api_kind_##kind },                          \
	{                                                                                          \
		"hip" name, api_kind_##kind                                                        \
	}

static void test_kinds(void **state)
{
	static const struct {
		const char *name;
		enum api_kind kind;
	} functions[] = {
		CU("LaunchHostFunc", host_function),
		CU("StreamAddCallback_ptsz", host_function),
		CU("StreamWaitValue32_v2", stream_memory),
		CU("StreamWriteValue64", stream_memory),
		CU("StreamBatchMemOp", stream_memory),
		CU("StreamBeginCapture_v2", begin_capture),
		CU("StreamEndCapture", end_capture),
		CU("LaunchKernel", launch),
		CU("LaunchCooperativeKernel", launch),
		CU("ExtLaunchKernel", launch),
		CU("ModuleLaunchKernel", launch),
		CU("ExtModuleLaunchKernel", launch),
		CU("HccModuleLaunchKernel", launch),
		CU("GraphLaunch_ptsz", graph_launch),
		CU("MemcpyDtoHAsync_v2", memcpy),
		CU("MemsetD32", memset),
		CU("CtxSynchronize", synchronize),
		CU("DeviceSynchronize", synchronize),
		CU("ThreadSynchronize", synchronize),
		CU("StreamSynchronize_ptsz", synchronize),
		CU("EventSynchronize", synchronize),
		CU("StreamWaitEvent", event),
		CU("EventRecordWithFlags", event),
		CU("MemAllocAsync", allocate),
		CU("MemHostAlloc", allocate),
		CU("MallocManaged", allocate),
		CU("HostAlloc", allocate),
		CU("MemCreate", allocate),
		CU("MemHostRegister_v2", allocate),
		CU("HostRegister", allocate),
		CU("MemFreeHost", release),
		CU("FreeAsync", release),
		CU("MemRelease", release),
		CU("MemHostUnregister", release),
		CU("HostUnregister", release),
		CU("GetDevice", other),
		CU("EventQuery", query),
		{ "zeCommandListAppendLaunchKernel", api_kind_launch },
		{ "clEnqueueNDRangeKernel", api_kind_launch },
		{ "urEnqueueUSMMemcpy", api_kind_memcpy },
		{ "zeCommandListAppendMemoryCopy", api_kind_memcpy },
		{ "zeCommandListAppendMemoryFill", api_kind_memset },
		{ "urEnqueueUSMFill", api_kind_memset },
		{ "zeEventHostSynchronize", api_kind_synchronize },
		{ "clFinish", api_kind_synchronize },
		{ "zeMemAllocDevice", api_kind_allocate },
		{ "zeMemFree", api_kind_release },
		{ "zeInit", api_kind_other },
		{ "", api_kind_other },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
		if (api_kind_of_function(functions[i].name) != functions[i].kind)
			fail_msg("%s is of kind %d", functions[i].name,
				 api_kind_of_function(functions[i].name));
}

static void test_what_a_function_waits_for(void **state)
{
	(void)state;
	assert_int_equal(synchronization_of_function("cudaStreamWaitEvent"),
			 synchronization_kind_stream_wait_event);
	assert_int_equal(synchronization_of_function("cuEventSynchronize"),
			 synchronization_kind_event);
	assert_int_equal(synchronization_of_function("hipStreamSynchronize"),
			 synchronization_kind_stream);
	assert_int_equal(synchronization_of_function("cudaDeviceSynchronize"),
			 synchronization_kind_context);
	assert_int_equal(synchronization_of_function("cuCtxSynchronize"),
			 synchronization_kind_context);
	assert_int_equal(synchronization_of_function("cudaThreadSynchronize"),
			 synchronization_kind_context);
	assert_int_equal(synchronization_of_function("cuMemcpyHtoD"), synchronization_kind_unknown);
}

static void test_names_without_a_version(void **state)
{
	static const struct {
		const char *name, *without;
	} names[] = {
		{ "cudaLaunchKernel_v7000", "cudaLaunchKernel" },
		{ "cuMemcpyDtoH_v2", "cuMemcpyDtoH_v2" },
		{ "cuMemcpyDtoH_v2_ptds", "cuMemcpyDtoH_v2_ptds" },
		{ "cudaMalloc", "cudaMalloc" },
		{ "x1234", "x1234" },
		{ "v3020", "v3020" },
		{ "3020", "3020" },
		{ "", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(api_name_length(names[i].name, strlen(names[i].name)),
				 strlen(names[i].without));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_what_a_function_waits_for),
		cmocka_unit_test(test_names_without_a_version),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
