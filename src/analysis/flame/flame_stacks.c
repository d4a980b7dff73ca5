/* flame_stacks.c: finds the node of an event in the tree: its levels, then its stack. */
#include <errno.h>
#include <string.h>

#include "analysis/flame/flame_state.h"
#include "base/strbuf.h"

static uint64_t key_of(size_t process, uint32_t value)
{
	return (uint64_t)process << 32 | value;
}

static void thread_text(struct flame_builder *b, size_t process, uint32_t tid, struct strbuf *out)
{
	const char *name = thread_name(&b->threads, process, tid);

	strbuf_adds(out, *name ? name : "thread");
}

static void process_text(const struct trace *t, size_t process, struct strbuf *out)
{
	const struct trace_process *p = trace_process(t, process);

	strbuf_addf(out, "process %u", p->pid);
	if (*p->command)
		strbuf_addf(out, " (%.60s)", p->command);
}

static void device_text(const struct flame_builder *b, size_t process, uint32_t device,
			struct strbuf *out)
{
	const struct gpu *gpu = &b->gpus.items[gpus_find(&b->gpus, process, device)];

	strbuf_addf(out, "GPU %u", gpu->ordinal);
	if (*gpu->name)
		strbuf_addf(out, " (%s)", gpu->name);
}

/* Text of a level for a value; UINT32_MAX: unknown. */
static void level_text(struct flame_builder *b, enum flame_level level, size_t process,
		       uint32_t value, struct strbuf *out)
{
	if (value == UINT32_MAX && level != FLAME_BY_PROCESS) {
		strbuf_addf(out, level == FLAME_BY_SCOPE ? "[no scope]" : "[unknown %s]",
			    flame_level_name(level));
		return;
	}
	switch (level) {
	case FLAME_BY_PROCESS:
		process_text(b->trace, process, out);
		break;
	case FLAME_BY_THREAD:
		thread_text(b, process, value, out);
		strbuf_addf(out, " %u", value);
		break;
	case FLAME_BY_DEVICE:
		device_text(b, process, value, out);
		break;
	case FLAME_BY_STREAM:
		strbuf_addf(out, "stream %u", value);
		if (b->several)
			strbuf_addf(out, " of process %u", trace_process(b->trace, process)->pid);
		break;
	case FLAME_BY_SCOPE:
		strbuf_adds(out, *trace_string(b->trace, value) ? trace_string(b->trace, value)
								: NO_SCOPE_NAME);
		break;
	case FLAME_LEVELS:
		break;
	}
}

uint32_t flame_text_frame(struct flame_builder *b, enum frame_class class,
			  const struct strbuf *text, const char *system_name)
{
	int64_t id = text->failed ? -ENOMEM
				  : stacks_add_frame(&b->flame->stacks, class, strbuf_text(text),
						     NULL, system_name);

	return id < 0 ? FLAME_NONE : (uint32_t)id;
}

/* Finds or adds the child of a node for a value of a level. */
static uint32_t add_level(struct flame_builder *b, uint32_t node, enum flame_level level,
			  size_t process, uint32_t value)
{
	uint64_t *frame = map_at(&b->levels[level], key_of(process, value), FLAME_NONE);

	if (!frame)
		return FLAME_NONE;
	if (*frame == FLAME_NONE) {
		_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

		level_text(b, level, process, value, &text);
		*frame = flame_text_frame(b, FRAME_LEVEL, &text, flame_level_name(level));
	}
	return flame_tree_child(&b->flame->tree, node, (uint32_t)*frame);
}

/* Adds one level for each scope, the outermost first. */
static uint32_t add_scopes(struct flame_builder *b, uint32_t node, uint32_t path)
{
	if (path == SCOPE_NONE)
		return add_level(b, node, FLAME_BY_SCOPE, 0, UINT32_MAX);
	b->climb.count = 0;
	for (; path != SCOPE_NONE; path = b->ranges.paths[path].parent)
		if (vec_push(&b->climb, path) < 0)
			return FLAME_NONE;
	while (b->climb.count) {
		path = b->climb.data[--b->climb.count];
		node = add_level(b, node, FLAME_BY_SCOPE, 0, b->ranges.paths[path].message);
	}
	return node;
}

uint32_t flame_base(struct flame_builder *b, enum flame_kind kind, const struct flame_event *event)
{
	uint32_t node =
		flame_tree_child(&b->flame->tree, FLAME_ROOT, b->flame->sections[kind].frame);
	const uint32_t values[FLAME_BY_SCOPE] = {
		[FLAME_BY_PROCESS] = 0,
		[FLAME_BY_THREAD] = event->thread,
		[FLAME_BY_DEVICE] = event->device,
		[FLAME_BY_STREAM] = event->stream,
	};
	unsigned levels = b->options->levels;

	if (flame_kind_is_sampled(kind))
		levels &= ~(1u << FLAME_BY_DEVICE | 1u << FLAME_BY_STREAM);

	for (enum flame_level i = 0; i < FLAME_BY_SCOPE; i++)
		if (levels & 1u << i)
			node = add_level(b, node, i, event->process, values[i]);
	if (levels & 1u << FLAME_BY_SCOPE)
		node = add_scopes(b, node, event->scope);
	return node;
}

int flame_add_time(struct flame_builder *b, enum flame_kind kind, uint32_t node, uint64_t ns)
{
	struct flame_section *section = &b->flame->sections[kind];

	if (node == FLAME_NONE)
		return -ENOMEM;
	flame_tree_add(&b->flame->tree, node, ns, 1);
	section->total_ns += ns;
	section->count++;
	return 0;
}

/*
 * Maps a frame to what xpu-perf shows: consecutive launch frames are merged, and frames of CUPTI
 * and Pitot are dropped (FLAME_NONE).
 */
static int64_t xpu_perf_frame(struct stacks *s, uint32_t frame)
{
	const char *name = stacks_text(s, s->frames.data[frame].name);

	if (strstr(name, "libcupti.so") || strstr(name, "libpitot.so"))
		return FLAME_NONE;
	if (strstr(name, "cudaLaunchKernel"))
		return stacks_add_frame(s, FRAME_CALL, "cudaLaunchKernel", NULL, NULL);
	return frame;
}

static uint32_t add_frame(struct flame_builder *b, uint32_t node, uint32_t frame)
{
	struct flame_tree *t = &b->flame->tree;
	int64_t id = frame;

	if (b->options->detail == STACK_XPU_PERF) {
		id = xpu_perf_frame(&b->flame->stacks, frame);
		if (id < 0)
			return FLAME_NONE;
		if (id == FLAME_NONE || ((uint32_t)id != frame && t->nodes.data[node].frame == id))
			return node;
	}
	return flame_tree_child(t, node, (uint32_t)id);
}

/* Adds all frames of a stack_node below a node of the tree. */
static uint32_t add_frames(struct flame_builder *b, uint32_t node, size_t process,
			   uint32_t stack_node)
{
	struct stacks *s = &b->flame->stacks;
	int64_t id = stacks_expand(s, process, stack_node);
	struct stack_expansion x;

	if (id < 0)
		return FLAME_NONE;
	x = s->expansions.data[id];
	for (uint32_t i = 0; i < x.count && node != FLAME_NONE; i++)
		node = add_frame(b, node, s->expanded.data[x.first + i]);
	return node;
}

/* Whether the interpreter's frames between Python frames are hidden. */
static bool hides_interpreter(const struct flame_builder *b)
{
	return b->options->detail == STACK_FUNCTIONS && !b->options->interpreter;
}

/*
 * Collects the rows of a stack, from the innermost one to the first whose node is cached; *node is
 * that node, or the base. *python is the index of the innermost Python frame whose interpreter
 * frames are hidden, or SIZE_MAX.
 */
static int climb(struct flame_builder *b, uint32_t base, size_t process, uint32_t row,
		 size_t *python, uint32_t *node)
{
	struct stacks *s = &b->flame->stacks;

	*python = SIZE_MAX;
	b->climb.count = 0;
	while (row != TRACE_NO_ROW) {
		uint64_t known = 0;
		int64_t id;

		map_get(&b->prefixes, key_of(base, row), &known);
		*node = (uint32_t)known;
		if (known && *python == SIZE_MAX)
			return 0;
		id = stacks_expand(s, process, row);
		if (id < 0)
			return -ENOMEM;
		/* towards a Python frame, interpreter frames are hidden: see add_stack */
		if (known && s->expansions.data[id].python)
			return 0;
		if (s->expansions.data[id].python && *python == SIZE_MAX && hides_interpreter(b))
			*python = b->climb.count;
		if (vec_push(&b->climb, row) < 0 || stacks_parent(s, process, row, &row) < 0)
			return -ENOMEM;
	}
	*node = base;
	return 0;
}

/*
 * Finds or adds the node of the tree for a stack whose innermost frame is a stack_node, with a
 * cache of nodes.
 *
 * Interpreter frames on the path to the innermost Python frame are hidden. Such a row can have a
 * different node if no Python frame follows, so on that path only Python frames are cached.
 */
static uint32_t add_stack(struct flame_builder *b, uint32_t base, size_t process,
			  uint32_t stack_node)
{
	struct stacks *s = &b->flame->stacks;
	uint32_t node;
	size_t python;

	if (base == FLAME_NONE || climb(b, base, process, stack_node, &python, &node) < 0)
		return FLAME_NONE;
	while (b->climb.count && node != FLAME_NONE) {
		uint32_t row = b->climb.data[--b->climb.count];
		int64_t id = stacks_expand(s, process, row);
		bool before = python != SIZE_MAX && b->climb.count > python;

		if (id < 0)
			return FLAME_NONE;
		if (before && s->expansions.data[id].runs_python)
			continue;
		node = add_frames(b, node, process, row);
		if (node == FLAME_NONE || (before && !s->expansions.data[id].python))
			continue;
		if (map_put(&b->prefixes, key_of(base, row), node) < 0)
			return FLAME_NONE;
	}
	return node;
}

/* Frame of the CUDA function of a call; FLAME_NONE: out of memory. */
static uint32_t function_frame(struct flame_builder *b, uint32_t call)
{
	uint64_t *frame = map_at(&b->function_frames, b->calls.functions[call], FLAME_NONE);

	if (frame && *frame == FLAME_NONE) {
		_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
		size_t length;
		const char *name = calls_function_name(b->trace, b->calls.functions[call], &length);

		strbuf_add(&text, length ? name : "[unknown call]", length ? length : 14);
		*frame = flame_text_frame(b, FRAME_CALL, &text, NULL);
	}
	return frame ? (uint32_t)*frame : FLAME_NONE;
}

/* Whether a text names the function of a frame; the library internally appends "_ptsz". */
static bool is_function(const struct stacks *s, uint32_t text, uint32_t frame)
{
	const char *name = stacks_text(s, s->frames.data[frame].name), *is = stacks_text(s, text);
	size_t length = strlen(name);

	return !strncmp(is, name, length) &&
	       (!is[length] || !strcmp(is + length, "_ptsz") || !strcmp(is + length, "_ptds") ||
		is[length] == '+' /* xpu-perf's offsets */);
}

/*
 * Skips the innermost frames of CUDA's libraries, and the called function itself, for which a frame
 * is added separately.
 */
static int skip_vendor_frames(struct flame_builder *b, size_t process, uint32_t function,
			      uint32_t *stack_node)
{
	struct stacks *s = &b->flame->stacks;

	while (*stack_node != TRACE_NO_ROW) {
		int64_t id = stacks_expand(s, process, *stack_node);
		const struct stack_expansion *x;

		if (id < 0)
			return -ENOMEM;
		x = &s->expansions.data[id];
		if (!x->vendor && !is_function(s, x->innermost, function))
			return 0;
		if (stacks_parent(s, process, *stack_node, stack_node) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Adds a frame for the thread, in place of a stack that was not recorded. */
static uint32_t add_thread(struct flame_builder *b, uint32_t base, size_t process, uint32_t tid)
{
	uint64_t *frame = map_at(&b->thread_frames, key_of(process, tid), FLAME_NONE);

	if (!frame)
		return FLAME_NONE;
	if (*frame == FLAME_NONE) {
		_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

		strbuf_addc(&text, '[');
		thread_text(b, process, tid, &text);
		strbuf_addc(&text, ']');
		*frame = flame_text_frame(b, FRAME_NOTE, &text, NULL);
	}
	return flame_tree_child(&b->flame->tree, base, (uint32_t)*frame);
}

/* Adds a note for the missing outer frames of an incomplete stack. */
static uint32_t add_end(struct flame_builder *b, uint32_t base, enum stack_end end)
{
	if (end == stack_end_complete || b->options->detail == STACK_XPU_PERF)
		return base;
	return flame_tree_child(&b->flame->tree, base,
				b->ends[end < ARRAY_SIZE(b->ends) ? end : stack_end_partial]);
}

uint32_t flame_sample(struct flame_builder *b, uint32_t base, size_t process, uint32_t stack,
		      uint32_t thread, uint64_t *stackless)
{
	uint32_t stack_node = TRACE_NO_ROW;
	enum stack_end end = stack_end_complete;

	if (stack && stacks_find(&b->flame->stacks, process, stack, &stack_node, &end) < 0)
		return FLAME_NONE;
	if (stack_node == TRACE_NO_ROW) {
		++*stackless;
		return add_thread(b, base, flame_process(b, process), thread);
	}
	return add_stack(b, add_end(b, base, end), process, stack_node);
}

uint32_t flame_capture(struct flame_builder *b, uint32_t base, size_t process, uint32_t stack)
{
	struct stacks *s = &b->flame->stacks;
	enum stack_end end;
	uint32_t row;
	int64_t id;

	if (stacks_find(s, process, stack, &row, &end) < 0)
		return FLAME_NONE;
	if (row == TRACE_NO_ROW)
		return FLAME_NOT_CAPTURED;
	base = add_end(b, base, end);
	while (row != TRACE_NO_ROW) {
		id = stacks_expand(s, process, row);
		if (id < 0)
			return FLAME_NONE;
		if (!s->expansions.data[id].vendor)
			break;
		if (stacks_parent(s, process, row, &row) < 0)
			return FLAME_NONE;
	}
	return add_stack(b, base, process, row);
}

uint32_t flame_call(struct flame_builder *b, uint32_t base, size_t process, uint32_t call)
{
	uint32_t id =
		b->stack_ids && (!b->stack_valid || b->stack_valid[call]) ? b->stack_ids[call] : 0;
	uint32_t stack_node = TRACE_NO_ROW, node = base, function = function_frame(b, call);
	enum stack_end end = stack_end_complete;

	if (function == FLAME_NONE)
		return FLAME_NONE;
	if (id && stacks_find(&b->flame->stacks, process, id, &stack_node, &end) < 0)
		return FLAME_NONE;
	b->flame->calls++;
	if (stack_node == TRACE_NO_ROW) {
		node = add_thread(b, base, flame_process(b, process), b->calls.threads[call]);
	} else {
		b->flame->calls_with_stack++;
		if (skip_vendor_frames(b, process, function, &stack_node) < 0)
			return FLAME_NONE;
		node = add_stack(b, add_end(b, base, end), process, stack_node);
	}
	return flame_tree_child(&b->flame->tree, node, function);
}
