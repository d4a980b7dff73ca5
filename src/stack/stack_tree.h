/*
 * stack_tree.h: stacks as the recording keeps them: nodes of (caller, frame), so that stacks share
 * their outer frames, and a row for each stack. For the collector's thread.
 *
 * The rows of a stack are in each segment with rows that refer to it (format/writer.h asks for
 * them); a node and a stack know the last segment that has their row. Ids are the same in all
 * segments.
 */
#ifndef PITOT_STACK_STACK_TREE_H
#define PITOT_STACK_STACK_TREE_H

#include <stdbool.h>

#include "base/map.h"
#include "base/vec.h"
#include "format/writer.h"
#include "stack/frame.h"

#define STACK_TREE_IDS ((1u << 24) - 1) /* stacks of a tree at most */
#define STACK_TREE_DEPTH 2048u /* frames of a stack at most */

struct stack_tree_node {
	uint64_t frame;
	uint32_t parent; /* id, 0: none */
	uint32_t segment; /* the last that has its row; 0: none */
};

struct stack_tree_stack {
	uint32_t node; /* id of the innermost; 0: not kept, or not known yet */
	uint32_t segment;
	uint16_t depth;
	uint8_t end; /* enum stack_end */
	bool awaited; /* rows refer to it, but it has not been added yet */
	bool refused; /* it has no row */
};

/*
 * Fills in what is known of a Python frame: address, function, file, line; unset ones are missing.
 */
typedef void stack_describe(void *context, struct writer *w, uint64_t frame,
			    struct row_stack_node *row);

struct stack_tree {
	uint32_t first_node, first_stack; /* ids begin after these */
	VEC(struct stack_tree_node) nodes; /* [id - first_node - 1] */
	VEC(struct stack_tree_stack) stacks; /* [id - first_stack - 1] */
	uint32_t awaited; /* how many */
	/* of the same writer, whose awaited stacks count too; may be NULL */
	const struct stack_tree *other;
	uint32_t *slots; /* open addressing: ids, 0 = free */
	size_t slot_count;
	uint32_t nodes_max;
	uint64_t refused; /* stacks for which there was no room or memory */
	struct map known; /* of stack_tree_id: innermost node and end -> id */
	stack_describe *describe; /* may be NULL: there are no Python frames */
	void *context;
};

void stack_tree_init(struct stack_tree *t, uint32_t nodes_max, stack_describe *describe,
		     void *context);
void stack_tree_release(struct stack_tree *t);

/*
 * Takes a new stack and appends its rows: of nodes that the segment does not have, parents first,
 * then its own. Frames are innermost first. 0; -ENOMEM or E_LIMIT, and then the stack has no row
 * (counted).
 */
int stack_tree_add(struct stack_tree *t, struct writer *w, uint32_t id, const uint64_t *frames,
		   unsigned count, enum stack_end end);

/*
 * A writer_need_stack, whose context is the tree: a row is to be appended that refers to the stack.
 */
void stack_tree_need(void *tree, struct writer *w, uint32_t id);

/*
 * Instead of stack_tree_add, for who has no interner: the id of the stack, which is kept when it is
 * new (*is_new, may be NULL). From then on the writer calls stack_tree_need() for stacks: no row
 * may be appended to `w` after the tree's release. 0: there is no room or memory for it (counted).
 */
uint32_t stack_tree_id(struct stack_tree *t, struct writer *w, const uint64_t *frames,
		       unsigned count, enum stack_end end, bool *is_new);

#endif
