#include "analysis/calls.h"

#include <string.h>

int calls_load(struct trace *t, struct calls *out, struct error *e)
{
	struct calls c = { 0 };
	int r = trace_load(t, TABLE_api_function, 0, e);

	if (r >= 0)
		r = trace_load(t, TABLE_api_call,
			       COLUMN_BIT(api_call, start_ns) | COLUMN_BIT(api_call, end_ns) |
				       COLUMN_BIT(api_call, function) |
				       COLUMN_BIT(api_call, thread),
			       e);
	for (size_t i = 0; i < GPU_TABLES && r >= 0; i++)
		if (trace_rows(t, gpu_tables[i]))
			r = trace_launches(t, gpu_tables[i], &c.launches[i], e);
	if (r < 0)
		return r;
	c.rows = trace_rows(t, TABLE_api_call);
	c.start_ns = trace_u64(t, TABLE_api_call, COLUMN_api_call_start_ns);
	c.end_ns = trace_u64(t, TABLE_api_call, COLUMN_api_call_end_ns);
	c.functions = trace_u32(t, TABLE_api_call, COLUMN_api_call_function);
	c.threads = trace_u32(t, TABLE_api_call, COLUMN_api_call_thread);
	c.function_kinds = trace_u8(t, TABLE_api_function, COLUMN_api_function_kind);
	c.function_count = trace_rows(t, TABLE_api_function);
	*out = c;
	return 0;
}

/*
 * CUPTI's names end in _v and the CUDA version that brought the call: cudaLaunchKernel_v7000,
 * cuMemcpyDtoH_v2 stays.
 */
const char *calls_function_name(const struct trace *t, uint32_t function, size_t *length)
{
	const uint32_t *names = trace_u32(t, TABLE_api_function, COLUMN_api_function_name);
	const char *name = function < trace_rows(t, TABLE_api_function)
				   ? trace_string(t, names[function])
				   : "";
	size_t end = strlen(name), digits = end;

	*length = end;
	while (digits && name[digits - 1] >= '0' && name[digits - 1] <= '9')
		digits--;
	if (end - digits >= 4 && digits >= 3 && name[digits - 1] == 'v' && name[digits - 2] == '_')
		*length = digits - 2;
	return name;
}
