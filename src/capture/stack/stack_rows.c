#include "capture/stack/stack_rows.h"

#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "capture/core/source.h"
#include "capture/stack/stack_capture.h"
#include "format/rows.h"
#include "stack/frame.h"
#include "stack/python/python_code.h"
#include "stack/stack_tree.h"

#define NODES_PER_STACK 10u /* capacity; with slots that is at most 64 MiB in total */

/* The stacks of the last generations, whose ids rows may still refer to. */
static struct generation_tree {
	struct stack_tree tree;
	bool used;
	uint32_t number;
} trees[STACK_GENERATIONS];

static uint64_t refused; /* by released trees, and stacks whose tree was released already */

enum {
	LOST_STACKS,
	LOST_NODES,
	LOST_MEMORY,
	LOST_CODE,
	LOST_OBJECTS,
	LOST_NAMES,
	LOST_LINES,
	LOST_KINDS
};

static uint64_t reported[LOST_KINDS];

void stack_rows_reset(void)
{
	for (unsigned i = 0; i < STACK_GENERATIONS; i++)
		if (trees[i].used)
			stack_tree_release(&trees[i].tree);
	memset(trees, 0, sizeof(trees));
	refused = 0;
	memset(reported, 0, sizeof(reported));
}

/* Merges frames of one line into one node: the line replaces the instruction. */
static uint64_t frame_by_line(struct python_codes *codes, uint64_t frame)
{
	uint32_t id = python_frame_code(frame);

	if (!(frame & FRAME_PYTHON))
		return frame;
	return python_frame_encode(id,
				   codes ? python_line(codes, id, python_frame_last(frame)) : 0);
}

static void describe(void *context, struct writer *w, uint64_t frame, struct row_stack_node *row)
{
	uint32_t number = ((struct generation_tree *)context)->number;
	struct python_codes *codes = stack_capture_codes_of(number << STACK_TABLE_ID_BITS);
	struct python_code code;

	row->missing = 0;
	row->address = python_frame_code(frame);
	row->line = python_frame_last(frame);
	ROW_MISSING_IF(row, stack_node, line, row->line == 0);
	if (codes && python_code_get(codes, python_frame_code(frame), &code)) {
		row->function = writer_string(w, code.name, code.name_length);
		row->file = writer_string(w, code.file, code.file_length);
	} else {
		ROW_MISSING(row, stack_node, function);
		ROW_MISSING(row, stack_node, file);
	}
}

/* Returns the tree that has the stack, created if necessary. NULL: it was released. */
static struct stack_tree *tree_of(uint32_t id)
{
	uint32_t number = id >> STACK_TABLE_ID_BITS;
	struct generation_tree *g = &trees[number % STACK_GENERATIONS];

	if (g->used && g->number == number)
		return &g->tree;
	if (g->used && g->number > number)
		return NULL;
	if (g->used) {
		refused += g->tree.refused;
		stack_tree_release(&g->tree);
	}
	stack_tree_init(&g->tree, NODES_PER_STACK * stack_capture_max(), describe, g);
	g->tree.first_stack = number << STACK_TABLE_ID_BITS;
	g->tree.first_node = number * NODES_PER_STACK * STACKS_MAX; /* for any later limit */
	g->tree.other = &trees[(number + 1) % STACK_GENERATIONS].tree;
	g->used = true;
	g->number = number;
	return &g->tree;
}

/* Called before a row that refers to the stack is appended. */
static void write_needed(void *context, struct writer *w, uint32_t id)
{
	struct stack_tree *tree = tree_of(id);

	(void)context;
	if (tree)
		stack_tree_need(tree, w, id);
}

/* Adds a new stack; `writer` is the context that stack_capture_intern passes on. */
static bool add(void *writer, uint32_t id, const uint64_t *stack, unsigned count,
		enum stack_end end)
{
	static uint64_t frames[STACK_FRAMES_MAX];
	struct python_codes *codes = stack_capture_codes_of(id);
	struct stack_tree *tree = tree_of(id);

	writer_on_stack(writer, write_needed, NULL);
	if (!tree) {
		refused++;
		return false;
	}
	count = MIN(count, STACK_FRAMES_MAX);
	for (unsigned i = 0; i < count; i++)
		frames[i] = frame_by_line(codes, stack[i]);
	stack_tree_add(tree, writer, id, frames, count, end);
	if (tree->nodes.count > tree->nodes_max / 4 * 3)
		stack_capture_renew(id);
	return true;
}

uint64_t stack_rows_event(struct writer *w, const struct ring *r, uint64_t position)
{
	static uint64_t frames[STACK_FRAMES_MAX];
	const struct ring_event *event = ring_slot(r, position);
	unsigned count = MIN(event->d, STACK_FRAMES_MAX);

	for (unsigned i = 0; i < count; i += 4)
		memcpy(&frames[i], ring_slot(r, position + 1 + i / 4),
		       MIN(4u, count - i) * sizeof(*frames));
	add(w, event->c, frames, count, (enum stack_end)event->e);
	return 1 + (count + 3) / 4;
}

uint32_t stack_rows_sample(struct writer *w, const uint64_t *frames, unsigned count,
			   enum stack_end end)
{
	return stack_capture_intern(frames, count, end, add, w);
}

void stack_rows_losses(struct writer *w, uint64_t since_ns, uint64_t now_ns)
{
	static const struct {
		enum loss_reason reason;
		const char *detail;
	} kinds[LOST_KINDS] = {
		[LOST_STACKS] = { loss_reason_stack_limit,
				  "calls with new stacks beyond the limit of distinct stacks" },
		[LOST_NODES] = { loss_reason_stack_limit,
				 "distinct stacks beyond the limit of distinct frames" },
		[LOST_MEMORY] = { loss_reason_no_memory, "stacks of calls" },
		[LOST_CODE] = { loss_reason_stack_limit, "frames of Python functions beyond the "
							 "limit of distinct functions" },
		[LOST_OBJECTS] = { loss_reason_unnamed_frames,
				   "Python frames that run no code object" },
		[LOST_NAMES] = { loss_reason_string_limit, "names of Python functions and files "
							   "that were truncated or left out" },
		[LOST_LINES] = { loss_reason_string_limit, "Python functions without line numbers: "
							   "their tables are too long" },
	};
	struct stack_capture_counts c;
	uint64_t nodes = refused;

	stack_capture_counts(&c);
	for (unsigned i = 0; i < STACK_GENERATIONS; i++)
		nodes += trees[i].tree.refused;
	const uint64_t counts[LOST_KINDS] = {
		[LOST_STACKS] = c.table_full,
		[LOST_NODES] = nodes,
		[LOST_MEMORY] = c.no_memory,
		[LOST_CODE] = c.python.no_slot + c.python.no_room,
		[LOST_OBJECTS] = c.python.not_code,
		[LOST_NAMES] = c.python.bad_strings + c.python.cut_names,
		[LOST_LINES] = c.python.no_lines,
	};
	for (unsigned i = 0; i < LOST_KINDS; i++)
		rows_loss_more(w, kinds[i].reason, counts[i], &reported[i], since_ns, now_ns,
			       kinds[i].detail);
}

void stack_rows_finish(struct writer *w)
{
	struct stack_capture_counts c;
	uint32_t version = stack_capture_python_version();
	const char *reason = stack_capture_python_reason();
	char text[256];

	/* The reason for missing Python frames concerns CPU samples too. */
	if (!version && reason[0])
		rows_capability(w, feature_python_stacks, capability_state_unavailable, NULL, NULL,
				reason);
	stack_capture_counts(&c);
	if (c.walked + c.none == 0)
		return;
	snprintf(
		text, sizeof(text),
		"%llu stack%s: %llu complete, %llu partial, %llu truncated, %llu guessed, %llu too "
		"deep, %llu "
		"none; "
		"unwind rules of %u part%s of the code, %llu byte%s, in %llu ms",
		(unsigned long long)(c.walked + c.none), plural(c.walked + c.none),
		(unsigned long long)c.ends[stack_end_complete],
		(unsigned long long)c.ends[stack_end_partial],
		(unsigned long long)c.ends[stack_end_truncated],
		(unsigned long long)c.ends[stack_end_guessed],
		(unsigned long long)c.ends[stack_end_depth], (unsigned long long)c.none, c.parts,
		plural(c.parts), (unsigned long long)c.rule_bytes, plural(c.rule_bytes),
		(unsigned long long)(c.build_ns / 1000000));
	rows_capability(w, feature_stacks, capability_state_on, NULL, "native", text);
	if (version) {
		snprintf(text, sizeof(text), "CPython %u.%u.%u, %llu stack%s matched by guess",
			 version >> 24, version >> 16 & 255, version >> 8 & 255,
			 (unsigned long long)c.python_unmatched, plural(c.python_unmatched));
		rows_capability(w, feature_python_stacks, capability_state_on, NULL, "python",
				text);
	}
}

/* --- the source --- */

#define RULES_NS (10 * NS_PER_MS) /* share of a tick for compiling unwind rules */

static bool rules_pending; /* unwind rules are left to compile: the next tick comes soon */

static void extend(const struct source_start *how)
{
	if (how->vendors || how->wanted->cpu)
		stack_capture_start(how->wanted);
}

/* A new recording has no rows yet of the known stacks. */
static void start(const struct source_start *how)
{
	stack_rows_reset();
	stack_capture_begin();
	extend(how);
}

static void window(const struct settings *settings, struct writer *w)
{
	(void)w;
	stack_capture_window(settings);
}

static uint64_t collect(struct writer *w, uint64_t now_ns)
{
	(void)w;
	(void)now_ns;
	rules_pending = stack_capture_update(RULES_NS);
	return rules_pending;
}

static uint64_t wait_ns(uint64_t now_ns)
{
	(void)now_ns;
	return rules_pending ? NS_PER_MS : UINT64_MAX;
}

/* The trees' memory is leaked: the collector may have been using it. */
static void after_fork(void)
{
	memset(trees, 0, sizeof(trees));
	stack_capture_after_fork();
	stack_rows_reset();
}

const struct source stack_source = {
	.name = "stacks",
	.start = start,
	.extend = extend,
	.window = window,
	.collect = collect,
	.periodic = stack_rows_losses,
	.wait_ns = wait_ns,
	.stopped = stack_rows_finish,
	.after_fork = after_fork,
	.handlers = { { RING_STACK, stack_rows_event } },
	.handler_count = 1,
};
