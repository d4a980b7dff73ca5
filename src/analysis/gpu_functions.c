#include "analysis/gpu_functions.h"

#include <errno.h>

#include "analysis/groups.h"

struct stack_time {
	uint32_t stack;
	uint64_t ns;
};

/* Of the work of one process, by the stacks of their launches. */
struct times {
	GROUPS(struct stack_time) stacks;
};

static int add_stacks(struct times *x, uint32_t process, struct gpu_functions *out)
{
	int code = 0;

	for (size_t i = 0; i < x->stacks.items.count && code >= 0; i++) {
		const struct stack_time *t = &x->stacks.items.data[i];

		code = function_times_add(&out->functions, process, t->stack, t->ns, true);
		if (code == 0)
			out->stackless_ns += t->ns;
	}
	x->stacks.items.count = 0;
	map_clear(&x->stacks.index);
	return code;
}

static int add_work(const struct report *r, struct gpu_functions *out)
{
	const struct api_call_columns *calls = api_call_columns(r->trace);
	struct work_walk w = work_walk(&r->calls, &r->selection);
	struct times x = { 0 };
	uint32_t process = 0;
	int code = 0;

	while (code >= 0 && work_walk_next(&w)) {
		bool known = w.call != TRACE_NO_ROW && column_has(calls->valid.stack, w.call);
		uint32_t stack = known ? calls->stack[w.call] : 0;
		struct stack_time *t;

		if (w.process != process)
			code = add_stacks(&x, process, out);
		process = w.process;
		t = groups_at(&x.stacks, stack, .stack = stack);
		if (!t) {
			code = -ENOMEM;
			break;
		}
		t->ns += w.ns;
		out->total_ns += w.ns;
	}
	if (code >= 0)
		code = add_stacks(&x, process, out);
	groups_release(&x.stacks);
	return code < 0 ? code : 0;
}

static int by_total(const void *a, const void *b)
{
	const struct function_time *x = a, *y = b;

	return order_down(x->total_ns, y->total_ns) ?: order_up(x->self_ns, y->self_ns)
		       ?: order_up(x->function, y->function);
}

static int run(struct report *r, void *result)
{
	struct gpu_functions *out = result;
	int code = function_times_init(&out->functions, &r->callers, false);

	if (code >= 0 && r->callers.any)
		code = add_work(r, out);
	if (code >= 0)
		code = function_times_sum(&out->functions);
	vec_sort(&out->functions.items, by_total);
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
