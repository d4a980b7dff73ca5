/*
 * flame_memory.c: adds the blocks of memory that are live at the peak of their process, device and
 * kind to a flame graph, below a frame for these: its total is the peak, to the byte. Kinds of
 * memory may lie within each other.
 */

#include "analysis/flame/flame_state.h"
#include "analysis/memory/memory_use.h"

/* Frame of a group: "device, device 0". */
static uint32_t group_frame(struct flame_builder *b, const struct memory_group *g)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	const char *kind = schema_value_name(
		&schema_table(TABLE_allocation)->columns[COLUMN_allocation_kind], g->kind);

	strbuf_addf(&text, "%s, device %u", kind ? kind : "?", g->device);
	if (b->several)
		strbuf_addf(&text, " of process %u", trace_process(b->trace, g->process)->pid);
	return flame_text_frame(b, FRAME_LEVEL, &text, NULL);
}

static uint32_t add_note(struct flame_builder *b, uint32_t base, const char *note)
{
	int64_t frame = stacks_add_frame(&b->flame->stacks, FRAME_NOTE, note, NULL, NULL);

	return frame < 0 ? FLAME_NONE : flame_tree_child(&b->flame->tree, base, (uint32_t)frame);
}

static uint32_t block_node(struct flame_builder *b, const struct memory_group *g, uint32_t base,
			   uint32_t call, bool is_base)
{
	uint64_t *stackless = &b->flame->sections[FLAME_MEMORY].stackless;

	if (is_base)
		return add_note(b, base, "[before the recording]");
	if (call == TRACE_NO_ROW)
		return add_note(b, base, "[no call]");
	return flame_sample(b, base, g->process,
			    b->stack_ids && column_has(b->stack_valid, call) ? b->stack_ids[call]
									     : 0,
			    b->calls.threads[call], stackless);
}

static int add_block(struct flame_builder *b, const struct memory_use *u,
		     const struct memory_block *block, const uint32_t *calls)
{
	const struct memory_group *g = &u->items[block->group];
	uint32_t call = block->row == TRACE_NO_ROW ? TRACE_NO_ROW : calls[block->row];
	struct flame_event event = flame_event_of(b, g->process, call);
	uint32_t node;

	if (!memory_is_live(block, g->peak_row) || !scope_path_selected(b->scopes, event.scope))
		return 0;
	event.device = g->device;
	node = flame_base(b, FLAME_MEMORY, &event);
	node = flame_tree_child(&b->flame->tree, node, group_frame(b, g));
	return flame_add_time(b, FLAME_MEMORY,
			      block_node(b, g, node, call, block->row == TRACE_NO_ROW),
			      block->bytes);
}

int flame_add_memory(struct flame_builder *b, struct error *e)
{
	struct filter filter = FILTER_ALL;
	_cleanup_(memory_use_release) struct memory_use use = { 0 };
	struct selection selection;
	const uint32_t *calls = NULL;
	int rc = trace_load(b->trace, TABLE_allocation, MEMORY_COLUMNS, e);

	if (rc >= 0)
		rc = trace_launches(b->trace, TABLE_allocation, &calls, e);
	filter.until_ns = b->options->until_ns;
	if (rc >= 0)
		rc = selection_init(&selection, b->trace, &filter, NULL, e);
	if (rc < 0)
		return rc;
	rc = memory_use_find(&use, b->trace, &selection);
	for (size_t i = 0; i < use.block_count && rc >= 0; i++)
		rc = add_block(b, &use, &use.blocks[i], calls);
	selection_release(&selection);
	return rc;
}
