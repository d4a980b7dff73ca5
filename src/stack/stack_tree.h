/*
 * stack_tree.h: stacks as stored in a recording: a tree of nodes (caller, frame), so that stacks
 * share outer frames, and a row for each stack. Used on the collector's thread.
 *
 * Each segment with rows that refer to a stack has the rows of that stack (format/writer.h requests
 * them). Nodes and stacks remember the last segment that has their row. Ids are the same in all
 * segments.
 */
#ifndef PITOT_STACK_STACK_TREE_H
#define PITOT_STACK_STACK_TREE_H

#include <stdbool.h>

#include "base/map.h"
#include "base/vec.h"
#include "format/writer.h"
#include "stack/frame.h"

#define STACK_TREE_IDS ((1u << 24) - 1) /* most stacks of a tree */

struct stack_tree_node {
	uint64_t frame;
	uint32_t parent; /* id; 0: none */
	uint32_t segment; /* last segment with its row; 0: none */
};

struct stack_tree_stack {
	uint32_t node; /* id of the innermost node; 0: not stored or not known yet */
	uint32_t segment;
	uint16_t depth;
	uint8_t end; /* enum stack_end */
	bool awaited; /* rows refer to it, but it has not been added yet */
	bool refused; /* it has no row */
};

/* Fills in address, function, file and line of a Python frame; unknown ones remain missing. */
typedef void stack_describe(void *context, struct writer *w, uint64_t frame,
			    struct row_stack_node *row);

struct stack_tree {
	uint32_t first_node, first_stack; /* ids begin after these */
	VEC(struct stack_tree_node) nodes; /* [id - first_node - 1] */
	VEC(struct stack_tree_stack) stacks; /* [id - first_stack - 1] */
	uint32_t awaited; /* number of awaited stacks */
	/* another tree of the same writer, whose awaited stacks count too; may be NULL */
	const struct stack_tree *other;
	uint32_t *slots; /* open addressing: ids, 0: free */
	size_t slot_count;
	VEC(uint32_t) path; /* room for the nodes of the deepest stack */
	uint32_t nodes_max;
	uint64_t refused; /* stacks refused for lack of room or memory */
	struct map known; /* of stack_tree_id(): innermost node and end -> id */
	stack_describe *describe; /* may be NULL: no Python frames */
	void *context;
};

void stack_tree_init(struct stack_tree *t, uint32_t nodes_max, stack_describe *describe,
		     void *context);
void stack_tree_release(struct stack_tree *t);

/*
 * Adds a new stack and appends its rows: nodes that the segment lacks, parents first, then the
 * stack. Frames are innermost first. Returns 0, or -ENOMEM or E_LIMIT; the stack then has no row
 * (counted).
 */
int stack_tree_add(struct stack_tree *t, struct writer *w, uint32_t id, const uint64_t *frames,
		   unsigned count, enum stack_end end);

/* A writer_need_stack with the tree as context: called before a row that refers to the stack. */
void stack_tree_need(void *tree, struct writer *w, uint32_t id);

/*
 * Alternative to stack_tree_add() without an interner: returns the id of the stack, which is added
 * if it is new (*is_new, may be NULL). From then on the writer calls stack_tree_need(), so no row
 * may be appended to `w` after the tree's release. Returns 0 without room or memory (counted).
 */
uint32_t stack_tree_id(struct stack_tree *t, struct writer *w, const uint64_t *frames,
		       unsigned count, enum stack_end end, bool *is_new);

#endif
