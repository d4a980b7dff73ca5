#include "analysis/calls.h"

#include <errno.h>
#include <string.h>

#include "analysis/capabilities.h"

int calls_load(struct trace *t, struct calls *out, struct error *e)
{
	struct capability_note watched;
	struct calls c = { 0 };
	int r = capability_find(t, "api_call", &watched, e);

	if (r >= 0)
		r = trace_load(t, TABLE_api_function, 0, e);

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
	c.has_all = strcmp(watched.asked, "all") == 0;
	for (uint64_t i = 0; c.function_kinds && i < c.function_count; i++)
		c.has_all |= c.function_kinds[i] == api_kind_other;
	*out = c;
	return 0;
}

int calls_count_launches(struct trace *t, uint64_t *count, struct error *e)
{
	int r = trace_load(t, TABLE_api_function, COLUMN_BIT(api_function, kind), e);
	const uint32_t *functions;
	const uint8_t *kinds;

	if (r >= 0)
		r = trace_load(t, TABLE_api_call, COLUMN_BIT(api_call, function), e);
	if (r < 0)
		return r;
	*count = 0;
	functions = trace_u32(t, TABLE_api_call, COLUMN_api_call_function);
	kinds = trace_u8(t, TABLE_api_function, COLUMN_api_function_kind);
	for (uint64_t i = 0; functions && kinds && i < trace_rows(t, TABLE_api_call); i++)
		if (functions[i] != TRACE_NO_ROW)
			*count += kinds[functions[i]] == api_kind_launch ||
				  kinds[functions[i]] == api_kind_graph_launch;
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

static bool has_role(const struct trace *t, const struct calls *c, uint32_t function,
		     enum call_role role)
{
	enum api_kind kind = function < c->function_count
				     ? (enum api_kind)c->function_kinds[function]
				     : api_kind_other;
	size_t length;
	const char *name;

	if (role == CALLS_LAUNCH)
		return kind == api_kind_launch || kind == api_kind_graph_launch;
	if (kind == api_kind_synchronize)
		return true;
	if (kind != api_kind_memcpy)
		return false;
	name = calls_function_name(t, function, &length);
	return !memmem(name, length, "Async", 5);
}

uint8_t *calls_with_role(const struct trace *t, const struct calls *c, enum call_role role)
{
	uint8_t *functions = malloc(c->function_count + 1);

	for (uint32_t i = 0; functions && i <= c->function_count; i++)
		functions[i] = has_role(t, c, i, role);
	return functions;
}

int calls_outermost(const struct trace *t, const struct calls *c, size_t process,
		    const uint8_t *functions, int (*visit)(void *user, uint32_t row), void *user)
{
	uint64_t row = trace_first_row(t, TABLE_api_call, process);
	uint64_t end = trace_first_row(t, TABLE_api_call, process + 1);
	struct map busy = MAP_INIT; /* thread -> end of its last call */
	int r = 0;

	for (; row < end && r >= 0; row++) {
		uint64_t *until;

		if (!functions[MIN(c->functions[row], c->function_count)] ||
		    c->end_ns[row] < c->start_ns[row])
			continue;
		until = map_at(&busy, c->threads[row], 0);
		if (!until) {
			r = -ENOMEM;
			break;
		}
		if (c->start_ns[row] < *until && c->end_ns[row] <= *until)
			continue;
		*until = c->end_ns[row];
		r = visit(user, (uint32_t)row);
	}
	map_release(&busy);
	return r < 0 ? r : 0;
}
