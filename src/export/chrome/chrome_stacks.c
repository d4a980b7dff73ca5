/*
 * chrome_stacks.c: writes the stacks of calls as the Trace Event Format defines them: "stackFrames"
 * is a tree of frames, written after the events, and "sf" of an event is its leaf in the tree. Few
 * viewers show them, so the calling line is an argument as well.
 */
#include <errno.h>

#include "base/path.h"
#include "export/chrome/chrome_writer.h"

int chrome_stacks_init(struct chrome *c, struct error *e)
{
	struct chrome_stacks *s = &c->stacks;

	if (!c->view.with_stacks)
		return 0;
	if (!raw_init(&s->tree) || !raw_init(&s->callers))
		return error_set(e, -ENOMEM, "out of memory");
	return export_stacks_init(&s->frames, c->view.trace, e);
}

void chrome_stacks_release(struct chrome_stacks *s)
{
	export_stacks_release(&s->frames);
	map_release(&s->ids);
	map_release(&s->nodes);
	map_release(&s->caller_ids);
	vec_release(&s->items);
	strbuf_release(&s->tree);
	strbuf_release(&s->callers);
}

static const char *file_of(const struct chrome *c, const struct stack_frame *f)
{
	const struct stacks *s = &c->stacks.frames.stacks;
	size_t length;

	if (f->module != TRACE_NO_ROW)
		return base_name(export_text(&c->view, TABLE_module, COLUMN_module_path, f->module,
					     &length));
	return f->class == FRAME_SYSTEM ? "[kernel]" : base_name(stacks_text(s, f->file));
}

/* ,"7":{"category":"libtorch.so","name":"at::add","parent":6} */
static void write_node(struct chrome *c, uint64_t id, uint64_t parent, uint32_t frame,
		       uint32_t line)
{
	const struct export_stacks *x = &c->stacks.frames;
	const char *name = export_frame_name(x, frame, line);
	const char *file = file_of(c, &x->stacks.frames.data[frame]);
	struct strbuf *s = &c->stacks.tree;

	if (s->length)
		TEXT(s, ",");
	TEXT(s, "\n\"");
	text_u64(s, id);
	TEXT(s, "\":{\"category\":");
	text_string(s, file, strlen(file));
	TEXT(s, ",\"name\":");
	text_string(s, name, strlen(name));
	if (parent) {
		TEXT_U64(s, "parent", parent);
	}
	TEXT(s, "}");
}

/* Returns the node of a line below the node of its caller; 0 if out of memory. */
static uint64_t add_node(struct chrome *c, uint64_t parent, uint32_t frame, uint32_t line)
{
	const struct stack_frame *f = &c->stacks.frames.stacks.frames.data[frame];
	uint32_t number = f->line_count ? f->first_line + line : UINT32_MAX - frame;
	size_t known = c->stacks.nodes.count;
	uint64_t id = map_number(&c->stacks.nodes, parent << 32 | number);

	if (c->stacks.nodes.count > known)
		write_node(c, id, parent, frame, line);
	return id;
}

/* Returns the innermost Python frame or, if there is none, the innermost frame. */
static uint32_t caller_of(const struct export_stacks *x)
{
	for (size_t i = x->frames.count; i-- > 0;)
		if (x->stacks.frames.data[x->frames.data[i]].class == FRAME_PYTHON)
			return x->frames.data[i];
	return x->frames.data[x->frames.count - 1];
}

/* Sets the item's text ,"caller":"step (train.py:12)", which is written once per frame. */
static int add_caller(struct chrome *c, struct chrome_stack *item)
{
	const struct export_stacks *x = &c->stacks.frames;
	uint32_t frame = caller_of(x);
	uint64_t *at = map_at(&c->stacks.caller_ids, frame, 0);
	struct strbuf *s = &c->stacks.callers;
	const char *name = export_frame_name(x, frame, 0);
	size_t from = s->length;

	if (!at)
		return -ENOMEM;
	if (!*at) {
		TEXT(s, ",\"caller\":");
		text_string(s, name, strlen(name));
		if (s->failed || s->length > UINT32_MAX)
			return -ENOMEM;
		*at = (uint64_t)from << 32 | (s->length - from);
	}
	item->caller = (uint32_t)(*at >> 32);
	item->caller_length = (uint32_t)*at;
	return 0;
}

/* Fills the item of a stack not seen before. */
static int add_stack(struct chrome *c, size_t process, uint32_t id, struct chrome_stack *item)
{
	struct export_stacks *x = &c->stacks.frames;
	uint64_t node = 0;

	*item = (struct chrome_stack){ 0 };
	if (export_stacks_find(x, process, id, true) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < x->frames.count; i++) {
		uint32_t lines = x->stacks.frames.data[x->frames.data[i]].line_count;

		for (uint32_t line = MAX(lines, 1u); line-- > 0;) {
			node = add_node(c, node, x->frames.data[i], line);
			if (!node || node > UINT32_MAX)
				return -ENOMEM;
		}
	}
	item->node = (uint32_t)node;
	return node ? add_caller(c, item) : 0;
}

int chrome_stack(struct chrome *c, const struct export_event *event,
		 const struct chrome_stack **stack)
{
	struct chrome_stacks *s = &c->stacks;
	uint32_t id = export_call_stack(&c->view, event->row);
	struct chrome_stack item;
	uint64_t *position;

	*stack = NULL;
	if (!id)
		return 0;
	position = map_at(&s->ids, (uint64_t)event->process << 32 | id, UINT64_MAX);
	if (!position)
		return -ENOMEM;
	if (*position == UINT64_MAX) {
		*position = s->items.count;
		if (add_stack(c, event->process, id, &item) < 0 || s->tree.failed ||
		    vec_push(&s->items, item) < 0)
			return -ENOMEM;
	}
	if (s->items.data[*position].node)
		*stack = &s->items.data[*position];
	return 0;
}
