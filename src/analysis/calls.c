#include "analysis/calls.h"

#include <errno.h>
#include <string.h>

#include "trace/columns.h"

static int load_columns(struct trace *t, struct calls *out, struct error *e)
{
	int r = trace_load(t, TABLE_api_function, 0, e);

	if (r >= 0)
		r = trace_load(t, TABLE_api_call,
			       COLUMN_BITS(api_call, start_ns, end_ns, function, thread), e);
	if (r < 0)
		return r;
	out->rows = trace_rows(t, TABLE_api_call);
	out->start_ns = api_call_columns(t)->start_ns;
	out->end_ns = api_call_columns(t)->end_ns;
	out->functions = api_call_columns(t)->function;
	out->threads = api_call_columns(t)->thread;
	out->function_kinds = api_function_columns(t)->kind;
	out->function_count = trace_rows(t, TABLE_api_function);
	return 0;
}

int calls_load(struct trace *t, struct calls *out, struct error *e)
{
	struct calls c = { 0 };
	int r = load_columns(t, &c, e);

	for (size_t i = 0; i < GPU_WORK_KINDS && r >= 0; i++)
		if (schema_gpu_work[i]->launching_kinds && trace_rows(t, schema_gpu_work[i]->id))
			r = trace_launches(t, schema_gpu_work[i]->id, &c.launches[i], e);
	if (r < 0)
		return r;
	for (uint64_t i = 0; c.function_kinds && i < c.function_count; i++)
		c.has_all |= c.function_kinds[i] == api_kind_other;
	*out = c;
	return 0;
}

static int count_one(void *user, uint32_t row)
{
	(void)row;
	++*(uint64_t *)user;
	return 0;
}

int calls_count_launches(struct trace *t, uint64_t *count, struct error *e)
{
	_cleanup_free_ uint8_t *functions = NULL;
	struct calls c = { 0 };
	uint64_t found = 0;
	int r = load_columns(t, &c, e);

	if (r < 0)
		return r;
	functions = calls_with_role(t, &c, CALLS_LAUNCH);
	r = functions ? 0 : -ENOMEM;
	for (size_t p = 0; p < trace_process_count(t) && r >= 0; p++)
		r = calls_outermost(t, &c, p, functions, count_one, &found);
	if (r < 0)
		return error_errno(e, ENOMEM, "cannot count launches");
	*count = found;
	return 0;
}

/*
 * CUPTI's names end in _v and the CUDA version that brought the call: cudaLaunchKernel_v7000,
 * cuMemcpyDtoH_v2 stays.
 */
const char *calls_function_name(const struct trace *t, uint32_t function, size_t *length)
{
	const uint32_t *names = api_function_columns(t)->name;
	uint32_t text = function < trace_rows(t, TABLE_api_function) ? names[function] : 0;
	const char *name = trace_string(t, text);
	size_t end = trace_string_length(t, text), digits = end;

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
	if (kind == api_kind_synchronize || role == CALLS_WAIT_OR_COPY)
		return kind == api_kind_synchronize || kind == api_kind_memcpy ||
		       kind == api_kind_memset;
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
	uint64_t *until = NULL;
	uint32_t thread = 0;
	int r = 0;

	for (; row < end && r >= 0; row++) {
		if (!functions[MIN(c->functions[row], c->function_count)] ||
		    c->end_ns[row] < c->start_ns[row])
			continue;
		if (!until || c->threads[row] != thread)
			until = map_at(&busy, c->threads[row], 0);
		thread = c->threads[row];
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
