/*
 * cpu_use.c: samples are first added up by stack, because threads come back to the same places.
 * Each stack is looked at once, for its line. For the functions the time of the stacks is added up
 * outwards, node by node, because stacks share their outer frames; then the tree is walked, and a function
 * counts where it is met first on the way in.
 */
#include "analysis/cpu_use.h"

#include <errno.h>

#include "analysis/report.h"
#include "analysis/stacks_names.h"

/* All samples with one stack. */
struct sampled_stack {
	uint32_t process, id;
	uint64_t samples, ns;
};

struct counting {
	const struct selection *selection;
	struct callers *callers;
	struct cpu_use *out;
	const uint64_t *times, *weights;
	const uint32_t *tids, *stacks;
	const uint8_t *stacks_valid;
	VEC(struct sampled_stack) by_stack;
	VEC(struct cpu_thread) threads;
	VEC(struct cpu_function) functions;
	VEC(struct cpu_line) lines;
	struct map stack_index; /* process << 32 | id, of this process */
	struct map thread_index; /* process << 32 | tid */
	struct map function_index; /* text of the name */
	struct map function_of; /* caller -> function */
	struct map line_index; /* caller << 32 | callee */
	VEC(uint32_t) open; /* by function: how often it is on the way to where the walk is */
	struct sampled_node *nodes; /* by row of table stack_node */
};

/* The time of all stacks through a node; the tree the other way round. TRACE_NO_ROW ends a list. */
struct sampled_node {
	uint64_t ns;
	uint32_t child, sibling;
};

static int load(struct trace *t, struct error *e)
{
	int r = trace_load(t, TABLE_cpu_sample, 0, e);

	if (r >= 0)
		r = trace_load(t, TABLE_capability, 0, e);
	return r < 0 ? r : trace_load(t, TABLE_off_cpu, 0, e);
}

static int add_sample(struct counting *x, size_t process, uint64_t row)
{
	uint32_t of = (uint32_t)trace_process(x->selection->trace, process)->of;
	uint32_t id = !x->stacks_valid || x->stacks_valid[row] ? x->stacks[row] : 0;
	struct cpu_thread thread = { .process = of, .thread = x->tids[row] };
	struct sampled_stack stack = { .process = (uint32_t)process, .id = id };
	uint64_t *item =
		map_at(&x->thread_index, (uint64_t)of << 32 | thread.thread, x->threads.count);

	if (!item || (*item == x->threads.count && vec_push(&x->threads, thread) < 0))
		return -ENOMEM;
	x->threads.data[*item].samples++;
	x->threads.data[*item].total_ns += x->weights[row];
	item = map_at(&x->stack_index, (uint64_t)process << 32 | id, x->by_stack.count);
	if (!item || (*item == x->by_stack.count && vec_push(&x->by_stack, stack) < 0))
		return -ENOMEM;
	x->by_stack.data[*item].samples++;
	x->by_stack.data[*item].ns += x->weights[row];
	x->out->samples++;
	x->out->total_ns += x->weights[row];
	if (!trace_process(x->selection->trace, process)->sampler)
		x->out->inside_ns += x->weights[row];
	return 0;
}

static int add_samples(struct counting *x)
{
	const struct trace *t = x->selection->trace;

	for (size_t p = 0; p < trace_process_count(t); p++) {
		uint64_t row = trace_first_row(t, TABLE_cpu_sample, p);
		uint64_t end = trace_first_row(t, TABLE_cpu_sample, p + 1);

		for (; row < end && x->selection->processes[p]; row++)
			if (selection_has_time(x->selection, true, x->times[row]) &&
			    add_sample(x, p, row) < 0)
				return -ENOMEM;
	}
	return 0;
}

/* What a frame is called in the list: a Python line with its place, else the function. */
static int name_of(struct counting *x, uint32_t caller, uint32_t *text)
{
	struct stacks *s = &x->callers->stacks;
	struct caller c = *caller_at(x->callers, caller);
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	int64_t id;

	*text = c.function;
	if (c.class != FRAME_PYTHON)
		return 0;
	python_name(stacks_text(s, c.function), stacks_text(s, c.file), c.line, &name);
	id = name.failed ? -ENOMEM : stacks_add_text(s, strbuf_text(&name), name.length);
	if (id < 0)
		return -ENOMEM;
	*text = (uint32_t)id;
	return 0;
}

static int find_function(struct counting *x, uint32_t caller, uint32_t *function)
{
	uint64_t *known = map_at(&x->function_of, caller, UINT64_MAX), *item;
	struct cpu_function new = { .caller = caller };

	if (!known)
		return -ENOMEM;
	if (*known == UINT64_MAX) {
		if (name_of(x, caller, &new.function) < 0)
			return -ENOMEM;
		item = map_at(&x->function_index, new.function, x->functions.count);
		if (!item || (*item == x->functions.count &&
			      (vec_push(&x->functions, new) < 0 || vec_push(&x->open, 0) < 0)))
			return -ENOMEM;
		*known = *item;
	}
	*function = (uint32_t)*known;
	return 0;
}

static int function_of_node(struct counting *x, size_t process, uint32_t node, uint32_t *function)
{
	uint32_t caller;

	if (callers_frame(x->callers, process, node, &caller) < 0)
		return -ENOMEM;
	return find_function(x, caller, function);
}

/* The innermost function of a stack; the others get their time from the node's callers. */
static int add_node(struct counting *x, const struct sampled_stack *stack)
{
	enum stack_end end;
	uint32_t node, function;

	if (stacks_find(&x->callers->stacks, stack->process, stack->id, &node, &end) < 0)
		return -ENOMEM;
	if (node == TRACE_NO_ROW)
		return 0;
	x->nodes[node].ns += stack->ns;
	if (function_of_node(x, stack->process, node, &function) < 0)
		return -ENOMEM;
	x->functions.data[function].self_ns += stack->ns;
	return 0;
}

/* Adds times up outwards, and links callers with what they called. *root: the first outermost node. */
static int link_nodes(struct counting *x, size_t process, uint32_t *root)
{
	struct stacks *s = &x->callers->stacks;
	uint64_t first = trace_first_row(s->trace, TABLE_stack_node, process);
	uint64_t row = trace_first_row(s->trace, TABLE_stack_node, process + 1);

	*root = TRACE_NO_ROW;
	while (row-- > first) { /* callers come before */
		struct sampled_node *n = &x->nodes[row];
		uint32_t parent, *list = root;

		if (!n->ns)
			continue;
		if (stacks_parent(s, process, (uint32_t)row, &parent) < 0)
			return -ENOMEM;
		if (parent != TRACE_NO_ROW) {
			x->nodes[parent].ns += n->ns;
			list = &x->nodes[parent].child;
		}
		n->sibling = *list;
		*list = (uint32_t)row;
	}
	return 0;
}

/* Out of a node, and on to the next one. */
static int leave_nodes(struct counting *x, size_t process, uint32_t *node)
{
	uint32_t function, next = TRACE_NO_ROW;

	while (*node != TRACE_NO_ROW && next == TRACE_NO_ROW) {
		if (function_of_node(x, process, *node, &function) < 0)
			return -ENOMEM;
		x->open.data[function]--;
		next = x->nodes[*node].sibling;
		if (stacks_parent(&x->callers->stacks, process, *node, node) < 0)
			return -ENOMEM;
	}
	*node = next;
	return 0;
}

static int add_functions(struct counting *x, size_t process)
{
	uint32_t node, function;

	if (link_nodes(x, process, &node) < 0)
		return -ENOMEM;
	while (node != TRACE_NO_ROW) {
		if (function_of_node(x, process, node, &function) < 0)
			return -ENOMEM;
		if (x->open.data[function]++ == 0)
			x->functions.data[function].total_ns += x->nodes[node].ns;
		if (x->nodes[node].child != TRACE_NO_ROW)
			node = x->nodes[node].child;
		else if (leave_nodes(x, process, &node) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int add_stack(struct counting *x, const struct sampled_stack stack)
{
	struct caller_place place;
	struct cpu_line line = { 0 };
	uint64_t *item;

	if (callers_place(x->callers, stack.process, stack.id, &place) < 0)
		return -ENOMEM;
	if (place.caller == CALLER_NONE) {
		x->out->stackless += stack.samples;
		x->out->stackless_ns += stack.ns;
		return 0;
	}
	x->out->kernel_ns += place.in_kernel ? stack.ns : 0;
	line.caller = place.caller;
	line.callee = place.callee;
	item = map_at(&x->line_index, (uint64_t)line.caller << 32 | line.callee, x->lines.count);
	if (!item || (*item == x->lines.count && vec_push(&x->lines, line) < 0))
		return -ENOMEM;
	x->lines.data[*item].samples += stack.samples;
	x->lines.data[*item].total_ns += stack.ns;
	return add_node(x, &stack);
}

static int compare_threads(const void *a, const void *b)
{
	const struct cpu_thread *x = a, *y = b;

	if (x->total_ns != y->total_ns)
		return x->total_ns < y->total_ns ? 1 : -1;
	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	return x->thread < y->thread ? -1 : x->thread > y->thread;
}

static int compare_functions(const void *a, const void *b)
{
	const struct cpu_function *x = a, *y = b;

	if (x->self_ns != y->self_ns)
		return x->self_ns < y->self_ns ? 1 : -1;
	if (x->total_ns != y->total_ns)
		return x->total_ns < y->total_ns ? 1 : -1;
	return x->function < y->function ? -1 : x->function > y->function;
}

static int compare_lines(const void *a, const void *b)
{
	const struct cpu_line *x = a, *y = b;

	if (x->total_ns != y->total_ns)
		return x->total_ns < y->total_ns ? 1 : -1;
	if (x->caller != y->caller)
		return x->caller < y->caller ? -1 : 1;
	return x->callee < y->callee ? -1 : x->callee > y->callee;
}

/* Hands a list over, ordered. */
#define TAKE(x, list, count_name, order)                                                           \
	do {                                                                                       \
		if ((x)->list.count)                                                               \
			qsort((x)->list.data, (x)->list.count, sizeof(*(x)->list.data), order);    \
		(x)->out->list = (x)->list.data;                                                   \
		(x)->out->count_name = (x)->list.count;                                            \
	} while (0)

static int take(struct counting *x)
{
	struct map processes = MAP_INIT;
	int r = 0;

	TAKE(x, threads, thread_count, compare_threads);
	TAKE(x, functions, function_count, compare_functions);
	TAKE(x, lines, line_count, compare_lines);
	for (size_t i = 0; i < x->out->thread_count && r >= 0; i++) {
		uint64_t *known = map_at(&processes, x->out->threads[i].process, 0);

		if (!known) {
			r = -ENOMEM;
			break;
		}
		x->out->processes += !*known;
		*known = 1;
	}
	map_release(&processes);
	return r;
}

static void count_pauses(const struct selection *s, struct cpu_use *out)
{
	const struct trace *t = s->trace;
	const uint64_t *starts = trace_u64(t, TABLE_off_cpu, COLUMN_off_cpu_start_ns);
	const uint64_t *ends = trace_u64(t, TABLE_off_cpu, COLUMN_off_cpu_end_ns);

	for (size_t p = 0; p < trace_process_count(t); p++) {
		uint64_t row = trace_first_row(t, TABLE_off_cpu, p);
		uint64_t end = trace_first_row(t, TABLE_off_cpu, p + 1);

		for (; row < end && s->processes[p]; row++) {
			if (!selection_has_time(s, true, starts[row]))
				continue;
			out->pauses++;
			out->pause_ns += ends[row] > starts[row] ? ends[row] - starts[row] : 0;
		}
	}
}

/* The only analysis of the first stage that adds to `callers`; the others read of_call. */
static int run(struct report *r, void *result)
{
	const struct trace *t = r->trace;
	struct cpu_use *out = result;
	struct counting x = {
		.selection = &r->selection,
		.callers = &r->callers,
		.out = out,
		.times = trace_u64(t, TABLE_cpu_sample, COLUMN_cpu_sample_time_ns),
		.weights = trace_u64(t, TABLE_cpu_sample, COLUMN_cpu_sample_weight_ns),
		.tids = trace_u32(t, TABLE_cpu_sample, COLUMN_cpu_sample_thread),
		.stacks = trace_u32(t, TABLE_cpu_sample, COLUMN_cpu_sample_stack),
		.stacks_valid = trace_valid(t, TABLE_cpu_sample, COLUMN_cpu_sample_stack),
	};
	uint64_t node_count = trace_rows(t, TABLE_stack_node);
	int code = add_samples(&x);

	x.nodes = malloc((node_count + 1) * sizeof(*x.nodes));
	if (!x.nodes)
		code = -ENOMEM;
	for (uint64_t i = 0; i < node_count && code >= 0; i++)
		x.nodes[i] = (struct sampled_node){ 0, TRACE_NO_ROW, TRACE_NO_ROW };
	for (uint32_t i = 0; i < x.by_stack.count && code >= 0; i++)
		code = add_stack(&x, x.by_stack.data[i]);
	for (size_t p = 0; p < trace_process_count(t) && code >= 0; p++)
		code = add_functions(&x, p);
	if (code >= 0) {
		code = take(&x);
	} else {
		vec_release(&x.threads);
		vec_release(&x.functions);
		vec_release(&x.lines);
	}
	count_pauses(&r->selection, out);
	capability_read(t, "cpu", &out->way);
	vec_release(&x.by_stack);
	vec_release(&x.open);
	free(x.nodes);
	map_release(&x.stack_index);
	map_release(&x.thread_index);
	map_release(&x.function_index);
	map_release(&x.function_of);
	map_release(&x.line_index);
	return code;
}

static void release(void *out)
{
	struct cpu_use *c = out;

	free(c->threads);
	free(c->functions);
	free(c->lines);
}

const struct analysis analysis_cpu_use = {
	.size = sizeof(struct cpu_use),
	.load = load,
	.run = run,
	.release = release,
};
