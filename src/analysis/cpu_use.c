/* cpu_use.c: adds samples up by stack first, because threads repeatedly run the same stacks. */
#include "analysis/cpu_use.h"

#include <errno.h>

#include "analysis/groups.h"
#include "analysis/report.h"

/* The samples with one stack. */
struct sampled_stack {
	uint32_t process, id;
	uint64_t samples, ns;
};

struct tally {
	struct report *report;
	struct cpu_use *out;
	GROUPS(struct sampled_stack) stacks; /* process << 32 | id */
	GROUPS(struct cpu_thread) threads; /* process << 32 | tid */
	GROUPS(struct cpu_line) lines; /* caller << 32 | callee */
};

static int add_sample(struct tally *x, uint32_t process, uint64_t row)
{
	const struct cpu_sample_columns *c = cpu_sample_columns(x->report->trace);
	const struct trace_process *p = trace_process(x->report->trace, process);
	uint32_t id = column_has(c->valid.stack, row) ? c->stack[row] : 0;
	uint64_t ns = c->weight_ns[row];
	struct cpu_thread *thread =
		groups_at(&x->threads, (uint64_t)p->subject << 32 | c->thread[row],
			  .process = (uint32_t)p->subject, .thread = c->thread[row]);
	struct sampled_stack *stack =
		groups_at(&x->stacks, (uint64_t)process << 32 | id, .process = process, .id = id);

	if (!thread || !stack)
		return -ENOMEM;
	thread->samples++;
	thread->total_ns += ns;
	stack->samples++;
	stack->ns += ns;
	x->out->samples++;
	x->out->total_ns += ns;
	if (!p->sampler)
		x->out->inside_ns += ns;
	return 0;
}

static int add_samples(struct tally *x)
{
	const struct selection *s = &x->report->selection;
	const uint64_t *times = cpu_sample_columns(s->trace)->time_ns;

	for (struct row_walk w = selection_rows(s, TABLE_cpu_sample); row_walk_next(&w);)
		if (selection_has_time(s, true, times[w.row]) &&
		    add_sample(x, w.process, w.row) < 0)
			return -ENOMEM;
	return 0;
}

static int add_stack(struct tally *x, const struct sampled_stack stack)
{
	struct caller_place place;
	struct cpu_line *line;

	if (callers_place(&x->report->callers, stack.process, stack.id, &place) < 0)
		return -ENOMEM;
	if (place.caller == CALLER_NONE) {
		x->out->stackless += stack.samples;
		x->out->stackless_ns += stack.ns;
		return 0;
	}
	if (place.in_kernel) {
		x->out->kernel_ns += stack.ns;
		x->out->kernel_by_process[trace_process(x->report->trace, stack.process)
						  ->subject] += stack.ns;
	}
	line = groups_at(&x->lines, (uint64_t)place.caller << 32 | place.callee,
			 .caller = place.caller, .callee = place.callee);
	if (!line)
		return -ENOMEM;
	line->samples += stack.samples;
	line->total_ns += stack.ns;
	return MIN(function_times_add(&x->out->functions, stack.process, stack.id, stack.ns, false),
		   0);
}

ORDER(compare_threads, struct cpu_thread, DOWN(total_ns) ?: UP(process) ?: UP(thread))

ORDER(compare_lines, struct cpu_line, DOWN(total_ns) ?: UP(caller) ?: UP(callee))

static int count_processes(struct cpu_use *out)
{
	_cleanup_(map_release) struct map known = MAP_INIT;
	int rc = 0;

	for (size_t i = 0; i < out->thread_count && rc >= 0; i++)
		rc = map_put(&known, out->threads[i].process, 1);
	out->processes = known.count;
	return rc;
}

static void count_pauses(const struct selection *s, struct cpu_use *out)
{
	const struct off_cpu_columns *c = off_cpu_columns(s->trace);

	for (struct row_walk w = selection_rows(s, TABLE_off_cpu); row_walk_next(&w);) {
		uint64_t start_ns = c->start_ns[w.row];

		if (!selection_has_time(s, true, start_ns))
			continue;
		out->pauses++;
		out->pause_ns += MAX(c->end_ns[w.row], start_ns) - start_ns;
	}
}

/* Of the concurrent analyses only this one changes `callers`; the others read only of_stack. */
static int run(struct report *r, void *result)
{
	struct cpu_use *out = result;
	struct tally x = { .report = r, .out = out };
	int code = function_times_init(&out->functions, &r->callers, true);

	out->kernel_by_process =
		calloc(trace_process_count(r->trace) + 1, sizeof(*out->kernel_by_process));
	if (!out->kernel_by_process)
		code = -ENOMEM;
	if (code >= 0)
		code = add_samples(&x);
	for (size_t i = 0; i < x.stacks.items.count && code >= 0; i++)
		code = add_stack(&x, x.stacks.items.data[i]);
	if (code >= 0)
		code = function_times_sum(&out->functions);
	groups_take(&x.threads, compare_threads, &out->threads, &out->thread_count);
	groups_take(&x.lines, compare_lines, &out->lines, &out->line_count);
	groups_release(&x.stacks);
	if (code >= 0)
		code = count_processes(out);
	count_pauses(&r->selection, out);
	capability_read(r->trace, feature_cpu, &out->sampling);
	capability_read(r->trace, feature_cpu_python, &out->python);
	capability_read(r->trace, feature_symbols, &out->symbols);
	return code;
}

static void release(void *out)
{
	struct cpu_use *c = out;

	free(c->threads);
	free(c->kernel_by_process);
	function_times_release(&c->functions);
	free(c->lines);
}

const struct analysis analysis_cpu_use = {
	.size = sizeof(struct cpu_use),
	.needs = { { TABLE_cpu_sample, 0 }, { TABLE_capability, 0 }, { TABLE_off_cpu, 0 } },
	.run = run,
	.release = release,
};
