#include "analysis/gpu_functions.h"

#include <errno.h>

#include "analysis/groups.h"
#include "analysis/hotspots.h"

struct stack_time {
	uint32_t process, stack; /* id in the process, or 0 */
	uint64_t ns;
};

static int add(struct gpu_functions *out, uint32_t process, uint32_t stack, uint64_t ns)
{
	int code = function_times_add(&out->functions, process, stack, ns, true);

	out->total_ns += ns;
	out->stackless_ns += code == 0 ? ns : 0;
	return code < 0 ? code : 0;
}

/* The analysis `hotspots` has already added kernels up by stack. */
static int add_kernels(const struct hotspots *h, struct gpu_functions *out)
{
	int code = 0;

	for (size_t i = 0; i < h->launched_count && code >= 0; i++)
		if (h->launched[i].ns)
			code = add(out, h->launched[i].process, h->launched[i].stack,
				   h->launched[i].ns);
	return code;
}

static int add_others(const struct report *r, struct gpu_functions *out)
{
	const struct callers *c = &r->callers;
	GROUPS(struct stack_time) stacks = GROUPS_INIT; /* by row of table stack */
	struct work_walk w = work_walk(&r->calls, &r->selection);
	int code = 0;

	w.skipped = 1u << GPU_WORK_kernel;
	while (code >= 0 && work_walk_next(&w)) {
		uint32_t row = callers_stack_of_call(c, w.process, w.call);
		struct stack_time *t =
			groups_at(&stacks, row, .process = w.process,
				  .stack = row == TRACE_NO_ROW ? 0 : c->call_stacks[w.call]);

		code = t ? 0 : -ENOMEM;
		if (t)
			t->ns += w.ns;
	}
	for (size_t i = 0; i < stacks.items.count && code >= 0; i++)
		code = add(out, stacks.items.data[i].process, stacks.items.data[i].stack,
			   stacks.items.data[i].ns);
	groups_release(&stacks);
	return code;
}

/* Of functions with the same work, which call each other, the outermost comes first. */
ORDER(by_total, struct function_time, DOWN(total_ns) ?: UP(order))

static int run(struct report *r, void *result)
{
	struct gpu_functions *out = result;
	int code = function_times_init(&out->functions, &r->callers, false);

	if (code >= 0 && r->callers.any)
		code = add_kernels(r->hotspots, out);
	if (code >= 0 && r->callers.any)
		code = add_others(r, out);
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

/* reads_others also because it changes `callers`, which concurrent analyses read. */
const struct analysis analysis_gpu_functions = {
	.size = sizeof(struct gpu_functions),
	.run = run,
	.release = release,
	.reads_others = true,
};
