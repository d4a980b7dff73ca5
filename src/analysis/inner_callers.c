/*
 * inner_callers.c: kernels are counted by hotspot and stack; then each stack is walked outwards once,
 * and its time is added to the functions on it.
 */
#include "analysis/inner_callers.h"

#include <errno.h>

#include "analysis/groups.h"
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
	GROUPS(struct launched) launched; /* hotspot << 32 | stack, of one process */
	GROUPS(struct candidate) candidates; /* hotspot << 32 | function */
	struct map line_ns; /* hotspot << 32 | caller: time */
};

static int find_hotspots(struct finding *x)
{
	for (size_t i = 0; i < x->count; i++)
		if (map_put(&x->hotspot_of, x->report->hotspots->items[i].key, i) < 0)
			return -ENOMEM;
	return 0;
}

static int add_kernel(struct finding *x, const struct work_walk *w, uint32_t stack)
{
	const struct trace *t = x->report->trace;
	uint32_t key = kernel_columns(t)->config[w->row];
	struct launched *l;
	uint64_t hotspot;

	if (key >= trace_rows(t, TABLE_kernel_config))
		return 0;
	if (x->report->options.by == HOTSPOT_KERNEL)
		key = kernel_config_columns(t)->name[key];
	if (!map_get(&x->hotspot_of, key, &hotspot))
		return 0;
	l = groups_at(&x->launched, hotspot << 32 | stack, .hotspot = (uint32_t)hotspot,
		      .process = w->process, .stack = stack);
	if (!l)
		return -ENOMEM;
	l->ns += w->ns;
	return 0;
}

static int add_kernels(struct finding *x)
{
	const struct api_call_columns *calls = api_call_columns(x->report->trace);
	struct work_walk w = work_walk(&x->report->calls, &x->report->selection);
	uint32_t process = UINT32_MAX;
	int code = 0;

	while (code >= 0 && work_walk_next(&w)) {
		if (w.work != GPU_WORK_kernel || w.call == TRACE_NO_ROW ||
		    !column_has(calls->valid.stack, w.call))
			continue;
		if (w.process != process)
			map_clear(&x->launched.index);
		process = w.process;
		code = add_kernel(x, &w, calls->stack[w.call]);
	}
	return code;
}

static bool counts(const struct callers *c, uint32_t caller)
{
	const struct caller *f = caller_at(c, caller);

	return f->class == FRAME_PYTHON && !f->plumbing &&
	       !(f->library && is_framework_source(stacks_text(&c->stacks, f->file)));
}

static int add_frame(struct finding *x, const struct launched *l, uint32_t caller, unsigned depth)
{
	uint64_t hotspot = (uint64_t)l->hotspot << 32, *line_ns;
	struct candidate *f;
	uint32_t function;

	if (callers_function(&x->report->callers, caller, &function) < 0)
		return -ENOMEM;
	f = groups_at(&x->candidates, hotspot | function, .hotspot = l->hotspot,
		      .function = function, .line = caller, .depth = depth);
	line_ns = map_at(&x->line_ns, hotspot | caller, 0);
	if (!f || !line_ns)
		return -ENOMEM;
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
static int choose(struct finding *x, struct inner_callers *out)
{
	_cleanup_free_ unsigned *depths = calloc(x->count + 1, sizeof(*depths));

	for (size_t i = 0; depths && i < x->candidates.items.count; i++) {
		const struct candidate *f = &x->candidates.items.data[i];
		const struct hotspot *h = &x->report->hotspots->items[f->hotspot];

		if (f->ns < h->time.total_ns - h->time.total_ns / 2 ||
		    f->depth <= depths[f->hotspot])
			continue;
		depths[f->hotspot] = f->depth;
		out->items[f->hotspot] =
			caller_at(&x->report->callers, f->line)->library ? f->line : CALLER_NONE;
	}
	return depths ? 0 : -ENOMEM;
}

static int run(struct report *r, void *result)
{
	struct inner_callers *out = result;
	bool kernels = r->options.by == HOTSPOT_KERNEL || r->options.by == HOTSPOT_CONFIG;
	struct finding x = { .report = r, .hotspot_of = MAP_INIT, .line_ns = MAP_INIT };
	int code;

	if (kernels && r->callers.any)
		x.count = (size_t)MIN(r->options.callers_of, r->hotspots->count);
	out->items = malloc((x.count + 1) * sizeof(*out->items));
	if (!out->items)
		return -ENOMEM;
	out->count = x.count;
	for (size_t i = 0; i < x.count; i++)
		out->items[i] = CALLER_NONE;
	if (!x.count)
		return 0;
	code = find_hotspots(&x);
	if (code >= 0)
		code = add_kernels(&x);
	for (size_t i = 0; i < x.launched.items.count && code >= 0; i++)
		code = add_stack(&x, &x.launched.items.data[i]);
	if (code >= 0)
		code = choose(&x, out);
	map_release(&x.hotspot_of);
	map_release(&x.line_ns);
	groups_release(&x.launched);
	groups_release(&x.candidates);
	return code;
}

const struct analysis analysis_inner_callers = {
	.size = sizeof(struct inner_callers),
	.run = run,
	OWNS(struct inner_callers, items),
	.reads_others = true,
};
