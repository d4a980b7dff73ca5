#include "export/export_stacks.h"

#include <errno.h>

#include "schema/event_words.h"

static int add_notes(struct export_stacks *x)
{
	for (int i = 0; i < STACK_NOTES_END; i++) {
		const char *text = i == STACK_NOTE_NONE ? NO_STACK
				   : i >= STACK_NOTE_STATES
					   ? off_cpu_note((unsigned)i - STACK_NOTE_STATES)
					   : stack_end_note((uint8_t)(i + 1));
		int64_t frame = stacks_add_frame(&x->stacks, FRAME_NOTE, text, NULL, NULL);

		if (frame < 0)
			return -ENOMEM;
		x->notes[i] = (uint32_t)frame;
	}
	return 0;
}

int export_stacks_init(struct export_stacks *x, struct trace *t, struct error *e)
{
	int r = stacks_init(&x->stacks, t, STACK_ADDRESSES, false, e);

	if (r >= 0 && add_notes(x) < 0) {
		stacks_release(&x->stacks);
		return error_set(e, -ENOMEM, "out of memory");
	}
	return r;
}

void export_stacks_release(struct export_stacks *x)
{
	if (x->stacks.trace)
		stacks_release(&x->stacks);
	vec_release(&x->nodes);
	vec_release(&x->frames);
}

/* Collects the nodes of a stack, from `node` outwards. */
static int collect_nodes(struct export_stacks *x, size_t process, uint32_t node, bool of_call)
{
	x->nodes.count = 0;
	while (node != TRACE_NO_ROW) {
		int64_t id = stacks_expand(&x->stacks, process, node);

		if (id < 0)
			return -ENOMEM;
		of_call = of_call && x->stacks.expansions.data[id].vendor;
		if (!of_call && vec_push(&x->nodes, (uint32_t)id) < 0)
			return -ENOMEM;
		if (stacks_parent(&x->stacks, process, node, &node) < 0)
			return -ENOMEM;
	}
	return 0;
}

int export_stacks_find(struct export_stacks *x, size_t process, uint32_t id, bool of_call)
{
	struct stacks *s = &x->stacks;
	enum stack_end end = stack_end_complete;
	uint32_t node;

	x->frames.count = 0;
	if (stacks_find(s, process, id, &node, &end) < 0 ||
	    collect_nodes(x, process, node, of_call) < 0)
		return -ENOMEM;
	if (x->nodes.count && end != stack_end_complete &&
	    export_stacks_note(x, (enum stack_note)(MIN(end, stack_end_guessed) - 1)) < 0)
		return -ENOMEM;
	for (size_t i = x->nodes.count; i-- > 0;) {
		const struct stack_expansion *e = &s->expansions.data[x->nodes.data[i]];

		for (uint32_t k = 0; k < e->count; k++)
			if (vec_push(&x->frames, s->expanded.data[e->first + k]) < 0)
				return -ENOMEM;
	}
	return 0;
}

int export_stacks_note(struct export_stacks *x, enum stack_note note)
{
	return vec_push(&x->frames, x->notes[note]);
}

const char *export_frame_name(const struct export_stacks *x, uint32_t frame, size_t line)
{
	const struct stacks *s = &x->stacks;
	const struct stack_frame *f = &s->frames.data[frame];

	/* the name of a Python frame includes its line */
	if (f->class == FRAME_PYTHON || !f->line_count)
		return stacks_text(s, f->name);
	return stacks_text(s, s->lines.data[f->first_line + line].function);
}
