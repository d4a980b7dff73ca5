#include "analysis/gpu_functions.h"

#include <errno.h>

#include "base/vec.h"
#include "trace/events.h"

/* Times of the work of one process, by the stacks of their launches. */
struct times {
	struct map index; /* stack -> item */
	VEC(struct {
		uint32_t stack;
		uint64_t ns;
	})
	items;
};

static int add_time(struct times *x, uint32_t stack, uint64_t ns)
{
	uint64_t *item = map_at(&x->index, stack, x->items.count);

	if (!item)
		return -ENOMEM;
	if (*item == x->items.count) {
		if (vec_reserve(&x->items, 1) < 0)
			return -ENOMEM;
		x->items.data[x->items.count].stack = stack;
		x->items.data[x->items.count++].ns = 0;
	}
	x->items.data[*item].ns += ns;
	return 0;
}

static int add_rows(const struct report *r, size_t work, size_t process, struct times *x,
		    struct gpu_functions *out)
{
	struct event_columns c = events_of(r->trace, schema_gpu_work[work]->id);
	const struct api_call_columns *calls = api_call_columns(r->trace);
	const struct kernel_columns *kernels = kernel_columns(r->trace);
	uint64_t row = trace_first_row(r->trace, c.table, process);
	uint64_t end = trace_first_row(r->trace, c.table, process + 1);

	for (; row < end; row++) {
		uint32_t call = calls_launch(&r->calls, work, row), stack = 0;

		if (!event_is_timed(&c, row) ||
		    !selection_has_time(&r->selection, true, c.start_ns[row]) ||
		    !selection_has_place(&r->selection, c.device[row], c.stream[row]) ||
		    !selection_has_call(&r->selection, call) ||
		    (work == GPU_WORK_kernel &&
		     !selection_has_config(&r->selection, kernels->config[row])))
			continue;
		if (call != TRACE_NO_ROW && column_has(calls->valid.stack, call))
			stack = calls->stack[call];
		if (add_time(x, stack, c.end_ns[row] - c.start_ns[row]) < 0)
			return -ENOMEM;
		out->total_ns += c.end_ns[row] - c.start_ns[row];
	}
	return 0;
}

static int add_process(const struct report *r, size_t process, struct gpu_functions *out)
{
	struct times x = { .index = MAP_INIT };
	int code = 0;

	for (size_t work = 0; work < GPU_WORK_KINDS && code >= 0; work++)
		if (trace_rows(r->trace, schema_gpu_work[work]->id))
			code = add_rows(r, work, process, &x, out);
	for (size_t i = 0; i < x.items.count && code >= 0; i++) {
		code = function_times_add(&out->functions, process, x.items.data[i].stack,
					  x.items.data[i].ns, true);
		if (code == 0)
			out->stackless_ns += x.items.data[i].ns;
	}
	map_release(&x.index);
	vec_release(&x.items);
	return code < 0 ? code : 0;
}

static int by_total(const void *a, const void *b)
{
	const struct function_time *x = a, *y = b;

	if (x->total_ns != y->total_ns)
		return x->total_ns < y->total_ns ? 1 : -1;
	if (x->self_ns != y->self_ns)
		return x->self_ns < y->self_ns ? -1 : 1;
	return x->function < y->function ? -1 : x->function > y->function;
}

static int run(struct report *r, void *result)
{
	struct gpu_functions *out = result;
	int code = function_times_init(&out->functions, &r->callers, false);

	for (size_t p = 0; code >= 0 && r->callers.any && p < trace_process_count(r->trace); p++)
		if (r->selection.processes[p])
			code = add_process(r, p, out);
	if (code >= 0)
		code = function_times_sum(&out->functions);
	if (out->functions.items.count)
		qsort(out->functions.items.data, out->functions.items.count,
		      sizeof(*out->functions.items.data), by_total);
	return code;
}

static void release(void *out)
{
	struct gpu_functions *g = out;

	function_times_release(&g->functions);
}

/* It adds to `callers`, which others read while they run. */
const struct analysis analysis_gpu_functions = {
	.size = sizeof(struct gpu_functions),
	.run = run,
	.release = release,
	.reads_others = true,
};
