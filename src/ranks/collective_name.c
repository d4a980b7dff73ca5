#include "ranks/collective_name.h"

#include <string.h>

#include "base/compiler.h"
#include "base/starts_with.h"

bool collective_name_parse(const char *name, enum collective_function *out)
{
	static const char *const kernels[] = { "ncclDevKernel_", "ncclSymkDevKernel_",
					       "ncclKernel_" };
	static const struct {
		const char *name;
		enum collective_function function;
	} functions[] = {
		{ "AllReduce", collective_function_all_reduce },
		{ "AllGather", collective_function_all_gather },
		{ "ReduceScatter", collective_function_reduce_scatter },
		{ "Broadcast", collective_function_broadcast },
		{ "Reduce", collective_function_reduce },
		{ "AlltoAll", collective_function_all_to_all },
		{ "AllToAll", collective_function_all_to_all },
	};

	for (size_t k = 0; k < ARRAY_SIZE(kernels); k++) {
		const char *rest = strstr(name, kernels[k]);

		if (!rest)
			continue;
		rest += strlen(kernels[k]);
		for (size_t f = 0; f < ARRAY_SIZE(functions); f++) {
			if (starts_with(rest, functions[f].name)) {
				*out = functions[f].function;
				return true;
			}
		}
		*out = collective_function_other; /* SendRecv, Generic */
		return true;
	}
	return false;
}

bool collective_is_mutual(enum collective_function function)
{
	return function == collective_function_all_reduce ||
	       function == collective_function_all_gather ||
	       function == collective_function_reduce_scatter ||
	       function == collective_function_all_to_all;
}
