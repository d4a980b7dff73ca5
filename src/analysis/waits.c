#include "analysis/waits.h"

#include <errno.h>

#include "base/map.h"
#include "base/vec.h"

struct counting {
	const struct selection *selection;
	const struct calls *calls;
	const struct callers *callers;
	struct map index; /* function << 32 | caller -> item */
	VEC(struct blocked_line) items;
	struct blocked *out;
};

static int add_call(void *user, uint32_t row)
{
	struct counting *x = user;
	const struct calls *c = x->calls;
	struct blocked_line new = { .caller = x->callers->of_call[row],
				    .function = c->functions[row] };
	uint64_t ns = c->end_ns[row] - c->start_ns[row], *item;
	struct blocked_line *line;

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
	const struct blocked_line *x = a, *y = b;

	if (x->total_ns != y->total_ns)
		return x->total_ns < y->total_ns ? 1 : -1;
	if (x->caller != y->caller)
		return x->caller < y->caller ? -1 : 1;
	return x->function < y->function ? -1 : x->function > y->function;
}

int blocked_analyze(const struct selection *s, const struct calls *calls,
		    const struct callers *callers, struct blocked *out)
{
	_cleanup_free_ uint8_t *functions = calls_with_role(s->trace, calls, CALLS_WAIT);
	struct counting x = { s, calls, callers, .index = MAP_INIT, .out = out };
	int r = functions ? 0 : -ENOMEM;

	*out = (struct blocked){ 0 };
	for (size_t p = 0; p < trace_process_count(s->trace) && r >= 0; p++)
		if (s->processes[p])
			r = calls_outermost(s->trace, calls, p, functions, add_call, &x);
	if (x.items.count)
		qsort(x.items.data, x.items.count, sizeof(*x.items.data), compare);
	out->items = x.items.data;
	out->count = x.items.count;
	map_release(&x.index);
	if (r < 0)
		blocked_release(out);
	return r;
}

void blocked_release(struct blocked *b)
{
	free(b->items);
	*b = (struct blocked){ 0 };
}
