/*
 * stack_tree.h: stacks as the recording keeps them: nodes of (caller, frame), so that stacks share
 * their outer frames, and a row for each stack. For the collector's thread.
 */
#ifndef PITOT_STACK_TREE_H
#define PITOT_STACK_TREE_H

#include <stdbool.h>

#include "base/vec.h"
#include "format/writer.h"
#include "stack/frame.h"

struct stack_tree_node {
	uint64_t frame;
	uint32_t parent; /* id, 0: none */
};

/* Fills in what is known of a Python frame: address, function, file, line; unset ones are missing. */
typedef void stack_describe(void *context, struct writer *w, uint64_t frame,
			    struct row_stack_node *row);

struct stack_tree {
	VEC(struct stack_tree_node) nodes; /* [id - 1] */
	uint32_t *slots; /* open addressing: ids, 0 = free */
	size_t slot_count;
	uint32_t nodes_max;
	uint64_t refused; /* stacks for which there was no room or memory */
	stack_describe *describe; /* may be NULL: there are no Python frames */
	void *context;
};

void stack_tree_init(struct stack_tree *t, uint32_t nodes_max, stack_describe *describe,
		     void *context);
void stack_tree_release(struct stack_tree *t);

/*
 * Appends the rows of a new stack: of nodes that are new, parents first, then its own. Frames are
 * innermost first. 0; -ENOMEM or E_LIMIT, and then the stack has no row (counted).
 */
int stack_tree_add(struct stack_tree *t, struct writer *w, uint32_t id, const uint64_t *frames,
		   unsigned count, enum stack_end end);

#endif
