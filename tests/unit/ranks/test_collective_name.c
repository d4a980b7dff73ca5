#include "ranks/collective_name.h"

#include "support/cmocka_tests.h"

#define NONE UINT8_MAX

static const struct {
	const char *name;
	uint8_t function; /* NONE: not a kernel of NCCL */
} samples[] = {
	{ "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
	  collective_function_all_reduce },
	{ "_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE",
	  collective_function_all_reduce },
	{ "ncclDevKernel_AllGather_RING_LL(x)", collective_function_all_gather },
	{ "ncclDevKernel_ReduceScatter_Sum_bf16_RING_SIMPLE(x)",
	  collective_function_reduce_scatter },
	{ "ncclDevKernel_Reduce_Sum_f32_RING_LL(x)", collective_function_reduce },
	{ "ncclDevKernel_Broadcast_RING_LL(x)", collective_function_broadcast },
	{ "ncclSymkDevKernel_AllGather_LL", collective_function_all_gather },
	{ "ncclSymkDevKernel_AlltoAll_ST", collective_function_all_to_all },
	{ "ncclSymkDevKernel_AllToAll_ST", collective_function_all_to_all },
	{ "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)", collective_function_all_reduce },
	{ "ncclKernel_ReduceScatter_RING_LL_Sum_float", collective_function_reduce_scatter },
	{ "ncclDevKernel_SendRecv(x)", collective_function_other },
	{ "ncclDevKernel_Generic_1", collective_function_other },
	{ "ncclDevKernel_", collective_function_other },
	{ "AllReduce", NONE },
	{ "ncclDevKernelAllReduce", NONE },
	{ "void at::native::AllReduceKernel<float>(float*)", NONE },
	{ "", NONE },
};

static void kernels_tell_their_function(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		enum collective_function function = (enum collective_function)NONE;
		bool known = collective_name_parse(samples[i].name, &function);

		if (known != (samples[i].function != NONE) || function != samples[i].function)
			fail_msg("%s: %d", samples[i].name, function);
	}
}

/* In the others some ranks only give or only take, so that they can end before others begin. */
static void only_some_need_all_ranks(void **state)
{
	static const bool mutual[] = {
		[collective_function_all_reduce] = true,
		[collective_function_all_gather] = true,
		[collective_function_reduce_scatter] = true,
		[collective_function_all_to_all] = true,
		[collective_function_other] = false,
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(mutual); i++)
		assert_int_equal(collective_is_mutual((enum collective_function)i), mutual[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernels_tell_their_function),
		cmocka_unit_test(only_some_need_all_ranks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
