/*
 * callers.c: finds the caller of each row of stack_node. It follows from the result for the
 * parent's row and from the row's own frame, so each row is evaluated once.
 */
#include "analysis/callers.h"

#include <errno.h>
#include <string.h>

#include "analysis/filter.h"
#include "analysis/graph_stacks.h"
#include "analysis/stacks_names.h"
#include "base/path.h"
#include "trace/columns.h"
#include "names/module_name.h"
#include "vendor/vendors.h"

/* The best frames from the outermost one to this row, as ids of callers plus 1; 0: none. */
struct caller_node {
	uint32_t python_user, python, native[CALLER_RANKS];
	uint32_t callee;
	uint32_t self;
};

static uint32_t best_of(const struct caller_node *n)
{
	unsigned rank = 0;

	if (n->python_user || n->python)
		return n->python_user ? n->python_user : n->python;
	while (rank < CALLER_RANKS - 1 && !n->native[rank])
		rank++;
	return n->native[rank];
}

static const char *module_path(const struct callers *c, uint32_t module)
{
	const struct trace *t = c->stacks.trace;

	return module == TRACE_NO_ROW ? "" : trace_string(t, module_columns(t)->path[module]);
}

/* A function that is inlined in one place and called in another is the same line of the program. */
static int add_caller(struct callers *c, const struct caller *caller, uint32_t *id)
{
	const uint32_t key[] = { caller->function, caller->file, caller->line,
				 caller->class == FRAME_INLINED ? FRAME_NATIVE : caller->class,
				 caller->library };
	bool is_new;
	int64_t rc = interner_add(&c->keys, key, sizeof(key), &is_new);

	if (rc < 0 || (is_new && vec_push(&c->items, *caller) < 0))
		return -ENOMEM;
	*id = (uint32_t)rc;
	return 0;
}

/* Of the functions inlined at an address, the innermost that is not from a library's header. */
static const struct stack_line *choose_line(const struct callers *c, const struct stack_frame *f)
{
	const struct stack_line *lines = &c->stacks.lines.data[f->first_line];

	for (uint32_t i = 0; i < f->line_count; i++)
		if (!is_library_source(stacks_text(&c->stacks, lines[i].file)))
			return &lines[i];
	return &lines[f->line_count - 1];
}

/*
 * Returns "MmBackward0", of *length bytes, in "torch::autograd::generated::MmBackward0::apply";
 * NULL: the function is not a node of PyTorch's autograd.
 */
static const char *autograd_node(const char *function, size_t *length)
{
	static const char prefix[] = "torch::autograd::", suffix[] = "::apply";
	size_t size = strlen(function), end, start;
	unsigned depth = 0;

	if (size < sizeof(prefix) + sizeof(suffix) ||
	    strncmp(function, prefix, strlen(prefix)) != 0 ||
	    strcmp(function + size - strlen(suffix), suffix) != 0)
		return NULL;
	end = size - strlen(suffix);
	for (start = end; start > 0; start--) {
		depth += function[start - 1] == '>';
		depth -= function[start - 1] == '<' && depth;
		if (!depth && function[start - 1] == ':')
			break;
	}
	*length = end - start;
	return function + start;
}

static enum caller_rank rank_of(const char *function, bool library, bool is_vendor)
{
	if (!library)
		return CALLER_USER;
	if (autograd_node(function, &(size_t){ 0 }))
		return CALLER_NODE;
	return strstr(function, "+0x") || is_vendor ? CALLER_OTHER : CALLER_NAMED;
}

/* Names an autograd node without its namespaces. */
static int name_node(struct callers *c, struct caller *caller)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	size_t length;
	const char *node = autograd_node(stacks_text(&c->stacks, caller->function), &length);
	int64_t id;

	strbuf_addf(&text, "%.*s (autograd)", (int)length, node);
	id = text.failed ? -ENOMEM : stacks_add_text(&c->stacks, text.data, text.length);
	if (id < 0)
		return -ENOMEM;
	caller->function = (uint32_t)id;
	return 0;
}

static bool is_plumbing(const struct callers *c, const struct caller *x, const char *module)
{
	const char *function = stacks_text(&c->stacks, x->function);

	if (x->class == FRAME_SYSTEM)
		return true;
	if (x->class == FRAME_PYTHON)
		return is_framework_wrapper(function, stacks_text(&c->stacks, x->file));
	return x->rank == CALLER_OTHER || is_interpreter(module) || is_start_of_thread(function);
}

/* Makes a caller of the only frame of an expansion. */
static int make_caller(struct callers *c, int64_t expansion, uint32_t *id)
{
	const struct stacks *s = &c->stacks;
	const struct stack_frame *f =
		&s->frames.data[s->expanded.data[s->expansions.data[expansion].first]];
	const struct stack_line *line = choose_line(c, f);
	const char *function = stacks_text(s, line->function), *module = module_path(c, f->module);
	bool is_vendor = f->class != FRAME_PYTHON &&
			 (is_vendor_module(module) || vendor_is_library(module) ||
			  vendor_is_function(function));
	struct caller caller = {
		.function = line->function,
		.file = line->file,
		.line = line->line,
		.class = f->class,
	};

	if (f->class == FRAME_PYTHON)
		caller.library = is_library_source(stacks_text(s, line->file));
	else
		caller.library = is_vendor || f->class == FRAME_SYSTEM || is_library_module(module);
	caller.rank = (uint8_t)rank_of(function, caller.library, is_vendor);
	caller.plumbing = is_plumbing(c, &caller, module);
	if (caller.rank == CALLER_NODE && caller.class != FRAME_PYTHON && name_node(c, &caller) < 0)
		return -ENOMEM;
	return add_caller(c, &caller, id);
}

int callers_frame(struct callers *c, size_t process, uint32_t node, uint32_t *caller)
{
	int64_t id = stacks_expand(&c->stacks, process, node);
	uint64_t *known;

	if (id < 0)
		return -ENOMEM;
	known = map_at(&c->expansions, (uint64_t)id, CALLER_NONE);
	if (!known)
		return -ENOMEM;
	if (*known == CALLER_NONE) {
		if (make_caller(c, id, caller) < 0)
			return -ENOMEM;
		*known = *caller;
	}
	*caller = (uint32_t)*known;
	return 0;
}

int callers_function(struct callers *c, uint32_t caller, uint32_t *function)
{
	struct caller without_line = *caller_at(c, caller);

	without_line.line = 0;
	return add_caller(c, &without_line, function);
}

/* Whether this callee is worth showing beside the line that called it. */
static bool is_informative(struct callers *c, size_t process, uint32_t node, const struct caller *x)
{
	const char *function = stacks_text(&c->stacks, x->function), *module;
	int64_t id;
	const struct stack_frame *f;

	if (x->class == FRAME_PYTHON)
		return true;
	if (x->class == FRAME_SYSTEM || vendor_is_launch(function))
		return false;
	id = stacks_expand(&c->stacks, process, node);
	if (id < 0)
		return false;
	f = &c->stacks.frames.data[c->stacks.expanded.data[c->stacks.expansions.data[id].first]];
	module = module_path(c, f->module);
	return !is_interpreter(module) && !(vendor_is_library(module) && strstr(function, "+0x"));
}

/* Updates *n, the result for the parent's row, with the frame of this row. */
static int resolve(struct callers *c, size_t process, uint32_t row, struct caller_node *n)
{
	const struct caller *x;
	uint32_t id, before = best_of(n);

	if (callers_frame(c, process, row, &id) < 0)
		return -ENOMEM;
	x = &c->items.data[id++];
	n->self = id;
	if (x->class == FRAME_PYTHON) {
		n->python = id;
		n->python_user = x->library ? n->python_user : id;
	} else {
		if (x->class != FRAME_SYSTEM)
			n->native[x->rank] = id;
	}
	if (best_of(n) != before || best_of(n) == id) {
		n->callee = 0;
	} else if (!n->callee && is_informative(c, process, row, x)) {
		/* without its line, so that each line of a caller is one row of a table */
		if (callers_function(c, id - 1, &id) < 0)
			return -ENOMEM;
		n->callee = id + 1;
	}
	return 0;
}

/* Fills the entries of a row and of its ancestors. */
static int find_node(struct callers *c, size_t process, uint32_t row)
{
	struct caller_node n = { 0 };

	c->climb.count = 0;
	while (row != TRACE_NO_ROW) {
		if (c->nodes[row].self) {
			n = c->nodes[row];
			break;
		}
		if (vec_push(&c->climb, row) < 0 ||
		    stacks_parent(&c->stacks, process, row, &row) < 0)
			return -ENOMEM;
	}
	while (c->climb.count) {
		row = c->climb.data[--c->climb.count];
		if (resolve(c, process, row, &n) < 0)
			return -ENOMEM;
		c->nodes[row] = n;
	}
	return 0;
}

int callers_place(struct callers *c, size_t process, uint32_t id, struct caller_place *place)
{
	const struct caller_node *n;
	enum stack_end end;
	uint32_t row = TRACE_NO_ROW;

	*place = (struct caller_place){ CALLER_NONE, CALLER_NONE, false };
	if (id && stacks_find(&c->stacks, process, id, &row, &end) < 0)
		return -ENOMEM;
	if (row == TRACE_NO_ROW)
		return 0;
	if (!c->nodes[row].self && find_node(c, process, row) < 0)
		return -ENOMEM;
	n = &c->nodes[row];
	place->caller = (best_of(n) ? best_of(n) : n->self) - 1;
	place->callee = n->callee - 1; /* CALLER_NONE for 0 */
	place->in_kernel = c->items.data[n->self - 1].class == FRAME_SYSTEM;
	return 0;
}

/* Finds the callers of the stacks of a process's calls, in the order of the calls. */
static int find_callers(struct callers *c, size_t process)
{
	struct row_walk w = process_rows(c->stacks.trace, TABLE_api_call, process);
	struct caller_place place;
	uint32_t unused;

	/* builds the table that callers_stack_of_call reads */
	if (stacks_find_row(&c->stacks, process, 1, &unused) < 0)
		return -ENOMEM;
	while (row_walk_next(&w)) {
		uint32_t stack = callers_stack_of_call(c, process, (uint32_t)w.row);

		if (stack == TRACE_NO_ROW || c->of_stack[stack])
			continue;
		if (callers_place(c, process, c->call_stacks[w.row], &place) < 0)
			return -ENOMEM;
		c->of_stack[stack] = place.caller + 1; /* 0 for none */
		c->any |= place.caller != CALLER_NONE;
	}
	return 0;
}

static int find_all_callers(struct callers *c)
{
	const struct trace *t = c->stacks.trace;
	int rc = 0;

	c->of_stack = calloc(trace_rows(t, TABLE_stack) + 1, sizeof(*c->of_stack));
	if (!c->of_stack)
		return -ENOMEM;
	if (!trace_rows(t, TABLE_stack))
		return 0;
	c->call_stacks = api_call_columns(t)->stack;
	c->call_stacks_valid = api_call_columns(t)->valid.stack;
	for (size_t p = 0; p < trace_process_count(t) && rc >= 0; p++)
		rc = find_callers(c, p);
	return rc;
}

int callers_init(struct callers *c, struct trace *t, bool with_calls, struct error *e)
{
	int rc;

	*c = (struct callers){ .expansions = MAP_INIT };
	rc = with_calls ? trace_load(t, TABLE_api_call, COLUMN_BIT(api_call, stack), e) : 0;
	if (rc >= 0)
		rc = stacks_init(&c->stacks, t, STACK_ADDRESSES, false, e);
	if (rc < 0)
		return rc;
	interner_init(&c->keys);
	c->nodes = calloc(trace_rows(t, TABLE_stack_node) + 1, sizeof(*c->nodes));
	rc = c->nodes ? 0 : -ENOMEM;
	if (rc >= 0 && with_calls)
		rc = find_all_callers(c);
	if (rc < 0) {
		callers_release(c);
		return error_set(e, rc, "out of memory");
	}
	return 0;
}

static int find_kernels(struct callers *c, const struct graph_stacks *g)
{
	const struct trace *t = c->stacks.trace;
	const struct kernel_columns *kernels = kernel_columns(t);
	struct caller_place place;

	for (struct row_walk w = all_rows(t, TABLE_kernel); row_walk_next(&w);) {
		bool node = column_has(kernels->valid.graph_node, w.row);
		uint32_t stack =
			node ? graph_stacks_find(g, w.process, kernels->graph_node[w.row]) : 0;

		if (callers_place(c, w.process, stack, &place) < 0)
			return -ENOMEM;
		c->of_kernel[w.row] = place.caller;
	}
	return 0;
}

int callers_captures(struct callers *c, struct trace *t, struct error *e)
{
	struct graph_stacks g;
	int rc = trace_load(t, TABLE_kernel, COLUMN_BIT(kernel, graph_node), e);

	if (rc >= 0)
		rc = graph_stacks_init(&g, t, e);
	if (rc < 0)
		return rc;
	c->of_kernel = malloc((trace_rows(t, TABLE_kernel) + 1) * sizeof(*c->of_kernel));
	rc = c->of_kernel ? find_kernels(c, &g) : -ENOMEM;
	graph_stacks_release(&g);
	return rc < 0 ? error_set(e, rc, "out of memory") : 0;
}

void callers_release(struct callers *c)
{
	if (!c->stacks.trace)
		return;
	stacks_release(&c->stacks);
	vec_release(&c->items);
	vec_release(&c->climb);
	interner_release(&c->keys);
	map_release(&c->expansions);
	free(c->nodes);
	free(c->of_stack);
	free(c->of_kernel);
	*c = (struct callers){ 0 };
}

void caller_text(const struct callers *c, uint32_t caller, uint32_t callee, struct strbuf *out)
{
	const struct caller *x;
	const char *file;

	if (caller == CALLER_NONE) {
		strbuf_adds(out, "(no stack)");
		return;
	}
	x = caller_at(c, caller);
	file = base_name(stacks_text(&c->stacks, x->file));
	strbuf_adds(out, file);
	if (*file && x->line)
		strbuf_addf(out, ":%u", x->line);
	strbuf_adds(out, *file ? " " : "");
	strbuf_adds(out, stacks_text(&c->stacks, x->function));
	if (callee != CALLER_NONE)
		strbuf_addf(out, " -> %s", stacks_text(&c->stacks, caller_at(c, callee)->function));
}
