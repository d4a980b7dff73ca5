#include "analysis/waits.h"

#include <errno.h>

#include "base/map.h"
#include "base/vec.h"

struct counting {
	const struct selection *selection;
	const struct calls *calls;
	const struct callers *callers;
	struct map index; /* function << 32 | caller -> item */
	VEC(struct wait_line) items;
	struct waits *out;
};

static int add_call(void *user, uint32_t row)
{
	struct counting *x = user;
	const struct calls *c = x->calls;
	struct wait_line new = { .caller = x->callers->of_call[row],
				 .function = c->functions[row] };
	uint64_t ns = c->end_ns[row] - c->start_ns[row], *item;
	struct wait_line *line;

	if (!selection_has_time(x->selection, true, c->start_ns[row]) ||
	    !selection_has_call(x->selection, row))
		return 0;
	item = map_at(&x->index, (uint64_t) new.function << 32 | new.caller, x->items.count);
	if (!item || (*item == x->items.count && vec_push(&x->items, new) < 0))
		return -ENOMEM;
	line = &x->items.data[*item];
	line->count++;
	line->total_ns += ns;
	line->max_ns = MAX(line->max_ns, ns);
	x->out->calls++;
	x->out->total_ns += ns;
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct wait_line *x = a, *y = b;

	if (x->total_ns != y->total_ns)
		return x->total_ns < y->total_ns ? 1 : -1;
	if (x->caller != y->caller)
		return x->caller < y->caller ? -1 : 1;
	return x->function < y->function ? -1 : x->function > y->function;
}

static int run(struct report *r, void *result)
{
	_cleanup_free_ uint8_t *functions = calls_with_role(r->trace, &r->calls, CALLS_WAIT);
	struct waits *out = result;
	struct counting x = { &r->selection, &r->calls, &r->callers, .index = MAP_INIT,
			      .out = out };
	int code = functions ? 0 : -ENOMEM;

	for (size_t p = 0; p < trace_process_count(r->trace) && code >= 0; p++)
		if (r->selection.processes[p])
			code = calls_outermost(r->trace, &r->calls, p, functions, add_call, &x);
	if (x.items.count)
		qsort(x.items.data, x.items.count, sizeof(*x.items.data), compare);
	out->items = x.items.data;
	out->count = x.items.count;
	map_release(&x.index);
	return code;
}

const struct analysis analysis_waits = {
	.size = sizeof(struct waits),
	.run = run,
	OWNS(struct waits, items),
};
