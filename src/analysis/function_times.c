/*
 * function_times.c: adds the times of stacks up towards the root, node by node, because stacks
 * share their outer frames. Then walks the tree; a function counts at its outermost occurrence on a
 * path.
 */
#include "analysis/function_times.h"

#include <errno.h>

#include "analysis/groups.h"
#include "analysis/stacks_names.h"

/* Time of all stacks through a node, and links to its children; TRACE_NO_ROW ends a list. */
struct function_node {
	uint64_t ns;
	uint32_t child, sibling;
};

int function_times_init(struct function_times *f, struct callers *callers, bool lines)
{
	uint64_t count = trace_rows(callers->stacks.trace, TABLE_stack_node);

	*f = (struct function_times){
		.callers = callers, .lines = lines, .by_name = MAP_INIT, .by_caller = MAP_INIT
	};
	f->nodes = malloc((count + 1) * sizeof(*f->nodes));
	for (uint64_t i = 0; f->nodes && i < count; i++)
		f->nodes[i] = (struct function_node){ 0, TRACE_NO_ROW, TRACE_NO_ROW };
	return f->nodes ? 0 : -ENOMEM;
}

/* Name of a frame in the list: its function, and for Python the file and line. */
static int name_of(struct function_times *x, uint32_t caller, uint32_t *text)
{
	struct stacks *s = &x->callers->stacks;
	struct caller c = *caller_at(x->callers, caller);
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	int64_t id;

	*text = c.function;
	if (c.class != FRAME_PYTHON)
		return 0;
	python_name(stacks_text(s, c.function), stacks_text(s, c.file), x->lines ? c.line : 0,
		    &name);
	id = name.failed ? -ENOMEM : stacks_add_text(s, strbuf_text(&name), name.length);
	if (id < 0)
		return -ENOMEM;
	*text = (uint32_t)id;
	return 0;
}

static int find_function(struct function_times *x, uint32_t caller, uint32_t *function)
{
	uint64_t *known = map_at(&x->by_caller, caller, UINT64_MAX), *item;
	struct function_time new = { .caller = caller };

	if (!known)
		return -ENOMEM;
	if (*known == UINT64_MAX) {
		if (name_of(x, caller, &new.function) < 0)
			return -ENOMEM;
		item = map_at(&x->by_name, new.function, x->items.count);
		if (!item || (*item == x->items.count &&
			      (vec_push(&x->items, new) < 0 || vec_push(&x->open, 0) < 0)))
			return -ENOMEM;
		*known = *item;
	}
	*function = (uint32_t)*known;
	return 0;
}

static int function_of_node(struct function_times *x, size_t process, uint32_t node,
			    uint32_t *function)
{
	uint32_t caller;

	if (callers_frame(x->callers, process, node, &caller) < 0)
		return -ENOMEM;
	return find_function(x, caller, function);
}

/*
 * Adds times up towards the root, and links parents to children. *root: the first outermost node.
 */
static int link_nodes(struct function_times *x, size_t process, uint32_t *root)
{
	struct stacks *s = &x->callers->stacks;
	uint64_t first = trace_first_row(s->trace, TABLE_stack_node, process);
	uint64_t row = trace_first_row(s->trace, TABLE_stack_node, process + 1);

	*root = TRACE_NO_ROW;
	while (row-- > first) { /* callers come before */
		struct function_node *n = &x->nodes[row];
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

/* Leaves a node without further children and continues with the next node of the walk. */
static int leave_nodes(struct function_times *x, size_t process, uint32_t *node)
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

static int add_functions(struct function_times *x, size_t process)
{
	uint32_t node, function;

	if (link_nodes(x, process, &node) < 0)
		return -ENOMEM;
	while (node != TRACE_NO_ROW) {
		struct function_time *item;

		if (function_of_node(x, process, node, &function) < 0)
			return -ENOMEM;
		item = &x->items.data[function];
		if (!item->order)
			item->order = ++x->walked;
		if (x->open.data[function]++ == 0)
			item->total_ns += x->nodes[node].ns;
		if (x->nodes[node].child != TRACE_NO_ROW)
			node = x->nodes[node].child;
		else if (leave_nodes(x, process, &node) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Finds the innermost frame that is not plumbing, starting at a node; if none, the node itself. */
static int find_self(struct function_times *x, size_t process, uint32_t node, uint32_t *function)
{
	uint32_t caller, first = node;

	while (node != TRACE_NO_ROW) {
		if (callers_frame(x->callers, process, node, &caller) < 0)
			return -ENOMEM;
		if (!caller_at(x->callers, caller)->plumbing)
			return find_function(x, caller, function);
		if (stacks_parent(&x->callers->stacks, process, node, &node) < 0)
			return -ENOMEM;
	}
	return function_of_node(x, process, first, function);
}

int function_times_add(struct function_times *f, size_t process, uint32_t id, uint64_t ns,
		       bool by_library)
{
	enum stack_end end;
	uint32_t node, function;
	int rc;

	if (stacks_find(&f->callers->stacks, process, id, &node, &end) < 0)
		return -ENOMEM;
	if (node == TRACE_NO_ROW)
		return 0;
	f->nodes[node].ns += ns;
	rc = by_library ? find_self(f, process, node, &function)
			: function_of_node(f, process, node, &function);
	if (rc < 0)
		return -ENOMEM;
	f->items.data[function].self_ns += ns;
	return 1;
}

ORDER(compare_functions, struct function_time, DOWN(self_ns) ?: DOWN(total_ns) ?: UP(function))

int function_times_sum(struct function_times *f)
{
	int rc = 0;

	for (size_t p = 0; p < trace_process_count(f->callers->stacks.trace) && rc >= 0; p++)
		rc = add_functions(f, p);
	vec_sort(&f->items, compare_functions);
	return rc;
}

void function_times_release(struct function_times *f)
{
	vec_release(&f->items);
	vec_release(&f->open);
	map_release(&f->by_name);
	map_release(&f->by_caller);
	free(f->nodes);
}
