/*
 * inner_callers.c: walks each stack that launched kernels of a hotspot towards the root once, and
 * adds its time to the functions on it.
 */
#include "analysis/inner_callers.h"

#include <errno.h>

#include "analysis/groups.h"
#include "analysis/hotspots.h"
#include "analysis/stacks_names.h"

/* A function on stacks of one hotspot. */
struct candidate {
	uint32_t hotspot, function; /* function: a caller without its line */
	uint32_t line; /* the caller (a line of the function) with most of the time */
	uint64_t ns, line_ns;
	unsigned depth; /* distance from the outermost frame */
	const struct launched *last; /* last stack added, so that recursion counts once */
};

struct finding {
	struct report *report;
	GROUPS(struct candidate) candidates; /* key: hotspot << 32 | function */
	struct map line_ns; /* hotspot << 32 | caller -> time */
};

static bool is_candidate(const struct callers *c, uint32_t caller)
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
		if (is_candidate(c, caller) && add_frame(x, l, caller, depth) < 0)
			return -ENOMEM;
		if (stacks_parent(&c->stacks, l->process, node, &node) < 0)
			return -ENOMEM;
	}
	return 0;
}

/*
 * Chooses the innermost with at least half of the time, unless it is the user's and shown anyway.
 */
static int choose(const struct finding *x, struct inner_callers *out)
{
	_cleanup_free_ unsigned *depths = calloc(out->count + 1, sizeof(*depths));

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

static int find(struct finding *x, struct inner_callers *out)
{
	const struct hotspots *h = x->report->hotspots;
	int code = 0;

	for (size_t i = 0; i < h->launched_count && code >= 0; i++)
		if (h->launched[i].hotspot < out->count && h->launched[i].ns)
			code = add_stack(x, &h->launched[i]);
	return code < 0 ? code : choose(x, out);
}

static int run(struct report *r, void *result)
{
	struct inner_callers *out = result;
	bool kernels = r->options.by == HOTSPOT_KERNEL || r->options.by == HOTSPOT_CONFIG;
	struct finding x = { .report = r, .line_ns = MAP_INIT };
	size_t count = kernels ? (size_t)MIN(r->options.callers_of, r->hotspots->count) : 0;
	int code;

	out->items = malloc((count + 1) * sizeof(*out->items));
	if (!out->items)
		return -ENOMEM;
	out->count = count;
	for (size_t i = 0; i < count; i++)
		out->items[i] = CALLER_NONE;
	code = find(&x, out);
	map_release(&x.line_ns);
	groups_release(&x.candidates);
	return code;
}

const struct analysis analysis_inner_callers = {
	.size = sizeof(struct inner_callers),
	.run = run,
	.owned = { OWNS(struct inner_callers, items) },
	.reads_others = true,
};
