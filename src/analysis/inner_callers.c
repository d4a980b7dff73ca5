/*
 * inner_callers.c: kernels are counted by hotspot and stack; then each stack is walked outwards once,
 * and its time is added to the functions on it.
 */
#include "analysis/inner_callers.h"

#include <errno.h>

#include "analysis/stacks_names.h"

/* Time of a hotspot that was launched with a stack. */
struct launched {
	uint32_t hotspot, process, stack;
	uint64_t ns;
};

/* A function on stacks of one hotspot. */
struct candidate {
	uint32_t hotspot, function; /* function: a caller without its line */
	uint32_t line; /* the caller that holds most of it */
	uint64_t ns, line_ns;
	unsigned depth; /* from the outermost frame */
	const struct launched *last; /* counted for this: recursion counts once */
};

struct finding {
	struct report *report;
	size_t count; /* hotspots that are looked at */
	struct map hotspot_of; /* key -> item of hotspots */
	struct map launched_index; /* of one process: hotspot << 32 | stack */
	VEC(struct launched) launched;
	struct map candidate_index; /* hotspot << 32 | function */
	VEC(struct candidate) candidates;
	struct map line_ns; /* hotspot << 32 | caller: time */
};

static int find_hotspots(struct finding *x)
{
	for (size_t i = 0; i < x->count; i++)
		if (map_put(&x->hotspot_of, x->report->hotspots->items[i].key, i) < 0)
			return -ENOMEM;
	return 0;
}

static int add_kernel(struct finding *x, size_t process, uint64_t row, uint32_t stack, uint64_t ns)
{
	const struct trace *t = x->report->trace;
	uint32_t key = trace_u32(t, TABLE_kernel, COLUMN_kernel_config)[row];
	struct launched new = { .process = (uint32_t)process, .stack = stack };
	uint64_t hotspot, *item;

	if (key >= trace_rows(t, TABLE_kernel_config))
		return 0;
	if (x->report->options.by == HOTSPOT_KERNEL)
		key = trace_u32(t, TABLE_kernel_config, COLUMN_kernel_config_name)[key];
	if (!map_get(&x->hotspot_of, key, &hotspot))
		return 0;
	new.hotspot = (uint32_t)hotspot;
	item = map_at(&x->launched_index, hotspot << 32 | stack, x->launched.count);
	if (!item || (*item == x->launched.count && vec_push(&x->launched, new) < 0))
		return -ENOMEM;
	x->launched.data[*item].ns += ns;
	return 0;
}

static int add_kernels(struct finding *x, size_t process)
{
	const struct report *r = x->report;
	const struct trace *t = r->trace;
	const uint64_t *starts = trace_u64(t, TABLE_kernel, COLUMN_kernel_start_ns);
	const uint64_t *ends = trace_u64(t, TABLE_kernel, COLUMN_kernel_end_ns);
	const uint8_t *starts_valid = trace_valid(t, TABLE_kernel, COLUMN_kernel_start_ns);
	const uint8_t *ends_valid = trace_valid(t, TABLE_kernel, COLUMN_kernel_end_ns);
	const uint32_t *stacks = trace_u32(t, TABLE_api_call, COLUMN_api_call_stack);
	const uint8_t *valid = trace_valid(t, TABLE_api_call, COLUMN_api_call_stack);
	uint64_t row = trace_first_row(t, TABLE_kernel, process);
	uint64_t end = trace_first_row(t, TABLE_kernel, process + 1);

	map_clear(&x->launched_index);
	for (; row < end; row++) {
		uint32_t call = calls_launch(&r->calls, 0, row);

		if (call == TRACE_NO_ROW || (valid && !valid[call]) ||
		    (starts_valid && !starts_valid[row]) || (ends_valid && !ends_valid[row]) ||
		    ends[row] < starts[row] ||
		    !selection_has_time(&r->selection, true, starts[row]) ||
		    !selection_has_call(&r->selection, call))
			continue;
		if (add_kernel(x, process, row, stacks[call], ends[row] - starts[row]) < 0)
			return -ENOMEM;
	}
	return 0;
}

static bool counts(const struct callers *c, uint32_t caller)
{
	const struct caller *f = caller_at(c, caller);

	return f->class == FRAME_PYTHON && !f->plumbing &&
	       !(f->library && is_framework_source(stacks_text(&c->stacks, f->file)));
}

static int add_frame(struct finding *x, const struct launched *l, uint32_t caller, unsigned depth)
{
	struct candidate new = { .hotspot = l->hotspot, .line = caller, .depth = depth }, *f;
	uint64_t *item, *line_ns;

	if (callers_function(&x->report->callers, caller, &new.function) < 0)
		return -ENOMEM;
	item = map_at(&x->candidate_index, (uint64_t)l->hotspot << 32 | new.function,
		      x->candidates.count);
	line_ns = map_at(&x->line_ns, (uint64_t)l->hotspot << 32 | caller, 0);
	if (!item || !line_ns ||
	    (*item == x->candidates.count && vec_push(&x->candidates, new) < 0))
		return -ENOMEM;
	f = &x->candidates.data[*item];
	f->depth = MAX(f->depth, depth);
	if (f->last == l)
		return 0;
	f->last = l;
	f->ns += l->ns;
	*line_ns += l->ns;
	if (*line_ns > f->line_ns) {
		f->line_ns = *line_ns;
		f->line = caller;
	}
	return 0;
}

static int add_stack(struct finding *x, const struct launched *l)
{
	struct callers *c = &x->report->callers;
	unsigned depth = 0;
	enum stack_end end;
	uint32_t node, parent, caller;

	if (stacks_find(&c->stacks, l->process, l->stack, &node, &end) < 0)
		return -ENOMEM;
	for (parent = node; parent != TRACE_NO_ROW; depth++)
		if (stacks_parent(&c->stacks, l->process, parent, &parent) < 0)
			return -ENOMEM;
	for (; node != TRACE_NO_ROW; depth--) {
		if (callers_frame(c, l->process, node, &caller) < 0)
			return -ENOMEM;
		if (counts(c, caller) && add_frame(x, l, caller, depth) < 0)
			return -ENOMEM;
		if (stacks_parent(&c->stacks, l->process, node, &node) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* The innermost that holds at least half of the hotspot's time; the user's own is told anyway. */
static void choose(struct finding *x, struct inner_callers *out)
{
	for (size_t i = 0; i < x->candidates.count; i++) {
		const struct candidate *f = &x->candidates.data[i];
		const struct hotspot *h = &x->report->hotspots->items[f->hotspot];
		uint64_t *depth = map_at(&x->launched_index, f->hotspot, 0);

		if (!depth || f->ns < h->time.total_ns - h->time.total_ns / 2 || f->depth <= *depth)
			continue;
		*depth = f->depth;
		out->items[f->hotspot] =
			caller_at(&x->report->callers, f->line)->library ? f->line : CALLER_NONE;
	}
}

static int run(struct report *r, void *result)
{
	struct inner_callers *out = result;
	bool kernels = r->options.by == HOTSPOT_KERNEL || r->options.by == HOTSPOT_CONFIG;
	struct finding x = { .report = r,
			     .count = kernels && r->callers.any ? (size_t)MIN(r->options.callers_of,
									      r->hotspots->count)
								: 0,
			     .hotspot_of = MAP_INIT,
			     .launched_index = MAP_INIT,
			     .candidate_index = MAP_INIT,
			     .line_ns = MAP_INIT };
	int code = 0;

	out->items = malloc((x.count + 1) * sizeof(*out->items));
	if (!out->items)
		return -ENOMEM;
	out->count = x.count;
	for (size_t i = 0; i < x.count; i++)
		out->items[i] = CALLER_NONE;
	if (x.count)
		code = find_hotspots(&x);
	for (size_t p = 0; x.count && code >= 0 && p < trace_process_count(r->trace); p++)
		if (r->selection.processes[p])
			code = add_kernels(&x, p);
	for (size_t i = 0; i < x.launched.count && code >= 0; i++)
		code = add_stack(&x, &x.launched.data[i]);
	map_clear(&x.launched_index);
	if (code >= 0)
		choose(&x, out);
	map_release(&x.hotspot_of);
	map_release(&x.launched_index);
	map_release(&x.candidate_index);
	map_release(&x.line_ns);
	vec_release(&x.launched);
	vec_release(&x.candidates);
	return code;
}

const struct analysis analysis_inner_callers = {
	.size = sizeof(struct inner_callers),
	.run = run,
	OWNS(struct inner_callers, items),
	.reads_others = true,
};
