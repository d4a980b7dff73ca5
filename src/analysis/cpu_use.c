/* cpu_use.c: samples are first added up by stack, because threads come back to the same places. */
#include "analysis/cpu_use.h"

#include <errno.h>

#include "analysis/report.h"

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
	VEC(struct cpu_line) lines;
	struct map stack_index; /* process << 32 | id, of this process */
	struct map thread_index; /* process << 32 | tid */
	struct map line_index; /* caller << 32 | callee */
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
	return MIN(function_times_add(&x->out->functions, stack.process, stack.id, stack.ns, false),
		   0);
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
	int code = function_times_init(&out->functions, &r->callers, true);

	if (code >= 0)
		code = add_samples(&x);
	for (uint32_t i = 0; i < x.by_stack.count && code >= 0; i++)
		code = add_stack(&x, x.by_stack.data[i]);
	if (code >= 0)
		code = function_times_sum(&out->functions);
	if (code >= 0) {
		code = take(&x);
	} else {
		vec_release(&x.threads);
		vec_release(&x.lines);
	}
	count_pauses(&r->selection, out);
	capability_read(t, "cpu", &out->way);
	vec_release(&x.by_stack);
	map_release(&x.stack_index);
	map_release(&x.thread_index);
	map_release(&x.line_index);
	return code;
}

static void release(void *out)
{
	struct cpu_use *c = out;

	free(c->threads);
	function_times_release(&c->functions);
	free(c->lines);
}

const struct analysis analysis_cpu_use = {
	.size = sizeof(struct cpu_use),
	.load = load,
	.run = run,
	.release = release,
};
