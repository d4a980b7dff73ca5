#include "capture/stack_rows.h"

#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "capture/launch_stacks.h"
#include "capture/rows.h"
#include "stack/frame.h"
#include "stack/python_code.h"

/* Key of a node in the tree: its parent and its frame. */
struct __attribute__((packed)) node_key {
	uint32_t parent;
	uint64_t frame;
};

static struct {
	bool ready;
	struct interner nodes; /* node_key -> node id - 1 */
} self;

void stack_rows_reset(void)
{
	if (self.ready)
		interner_clear(&self.nodes);
}

static void python_row(struct writer *w, struct row_stack_node *row, struct python_codes *codes,
		       uint64_t frame)
{
	struct python_code code;

	row->kind = frame_kind_python;
	row->address = python_frame_code(frame);
	row->line = python_frame_last(frame); /* already a line, see node_frame() */
	if (row->line == 0)
		ROW_MISSING(row, stack_node, line);
	if (codes && python_code_get(codes, python_frame_code(frame), &code)) {
		row->function = writer_string(w, code.name, code.name_length);
		row->file = writer_string(w, code.file, code.file_length);
	} else {
		ROW_MISSING(row, stack_node, function);
		ROW_MISSING(row, stack_node, file);
	}
}

/* What a frame is in the tree: for Python frames the line counts, not the instruction. */
static uint64_t node_frame(struct python_codes *codes, uint64_t frame)
{
	uint32_t id = python_frame_code(frame);

	if (!(frame & FRAME_PYTHON))
		return frame;
	return python_frame_encode(id,
				   codes ? python_line(codes, id, python_frame_last(frame)) : 0);
}

/* Id of the node below `parent`; its row is written when it is new. 0 without memory. */
static uint32_t node_of(struct writer *w, struct python_codes *codes, uint32_t parent,
			uint64_t frame)
{
	struct node_key key = { parent, node_frame(codes, frame) };
	struct row_stack_node row = { .parent = parent };
	bool is_new;
	int64_t id = interner_add(&self.nodes, &key, sizeof(key), &is_new);

	if (id < 0)
		return 0;
	row.id = (uint32_t)id + 1;
	if (!is_new)
		return row.id;
	if (key.frame & FRAME_PYTHON) {
		python_row(w, &row, codes, key.frame);
	} else {
		row.kind =
			key.frame & FRAME_INTERRUPTED ? frame_kind_interrupted : frame_kind_native;
		row.address = frame_address(key.frame);
		ROW_MISSING(&row, stack_node, function);
		ROW_MISSING(&row, stack_node, file);
		ROW_MISSING(&row, stack_node, line);
	}
	writer_append(w, TABLE_stack_node, &row);
	return row.id;
}

uint64_t stack_rows_event(struct writer *w, const struct ring *r, uint64_t position)
{
	const struct ring_event *event = ring_slot(r, position);
	unsigned count = MIN(event->d, LAUNCH_STACK_FRAMES);
	struct python_codes *codes = launch_stacks_codes();
	struct row_stack row = { .id = event->c, .depth = count, .end = (uint8_t)event->e };
	uint64_t frames[LAUNCH_STACK_FRAMES];

	if (!self.ready) {
		interner_init(&self.nodes);
		self.ready = true;
	}
	for (unsigned i = 0; i < count; i += 4)
		memcpy(&frames[i], ring_slot(r, position + 1 + i / 4),
		       MIN(4u, count - i) * sizeof(*frames));
	for (unsigned i = count; i > 0; i--)
		row.node = node_of(w, codes, row.node, frames[i - 1]);
	writer_append(w, TABLE_stack, &row);
	return 1 + (count + 3) / 4;
}

void stack_rows_finish(struct writer *w)
{
	struct launch_stacks_counts c;
	uint32_t version = launch_stacks_python_version();
	const char *reason = launch_stacks_python_reason();
	char text[256];

	launch_stacks_counts(&c);
	if (c.taken + c.none == 0)
		return;
	snprintf(text, sizeof(text),
		 "%llu stacks: %llu complete, %llu partial, %llu truncated, %llu too deep, %llu "
		 "none; "
		 "%u tables of %llu bytes in %llu ms",
		 (unsigned long long)(c.taken + c.none),
		 (unsigned long long)c.ends[stack_end_complete],
		 (unsigned long long)c.ends[stack_end_partial],
		 (unsigned long long)c.ends[stack_end_truncated],
		 (unsigned long long)c.ends[stack_end_depth], (unsigned long long)c.none, c.tables,
		 (unsigned long long)c.table_bytes, (unsigned long long)(c.build_ns / 1000000));
	rows_capability(w, "stacks", capability_state_on, NULL, "native", text);
	if (version) {
		snprintf(text, sizeof(text), "CPython %u.%u.%u, %llu stacks matched by guess",
			 version >> 24, version >> 16 & 255, version >> 8 & 255,
			 (unsigned long long)c.unsure_python);
		rows_capability(w, "python_stacks", capability_state_on, NULL, "python", text);
	} else if (reason[0]) {
		rows_capability(w, "python_stacks", capability_state_unavailable, NULL, NULL,
				reason);
	}
}
