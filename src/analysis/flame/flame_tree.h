/*
 * flame_tree.h: calls as a tree: what each frame took itself, and with all that it called.
 *
 * A tree is built in any order, then finished: nodes then stand in the order in which they are
 * drawn, parents before their children, the largest child first. Node 0 stands for everything and
 * has no frame; its children, the kinds of time, are in the order of their frames.
 */
#ifndef PITOT_ANALYSIS_FLAME_FLAME_TREE_H
#define PITOT_ANALYSIS_FLAME_FLAME_TREE_H

#include "analysis/stacks.h"

#define FLAME_ROOT 0u
#define FLAME_NONE UINT32_MAX

struct flame_node {
	uint32_t parent; /* FLAME_NONE for node 0 */
	uint32_t frame; /* of stacks.frames */
	union {
		uint32_t depth; /* 0: children of node 0; set by flame_tree_finish */
		uint32_t first; /* while the tree is built: first child, 0: none */
	};
	union {
		uint32_t end; /* first node after its descendants; set by flame_tree_finish */
		uint32_t next; /* while the tree is built: next of the first children, 0: none */
	};
	uint64_t self_ns, total_ns; /* total: set by flame_tree_finish */
	uint64_t self_count, total_count; /* events */
	uint64_t before_self_ns, before_total_ns; /* of the recording that is compared with */
};

struct flame_slot;

struct flame_tree {
	VEC(struct flame_node) nodes;
	struct flame_slot
		*slots; /* open addressing by parent and frame, of all but the first children */
	size_t slots_used;
	size_t slot_count;
};

/* 0 or -ENOMEM; after a failure there is nothing to release. */
int flame_tree_init(struct flame_tree *t) MUST_USE;
void flame_tree_release(struct flame_tree *t);

/*
 * The child of a node that has this frame, made if need be. FLAME_NONE: no memory. Not after
 * flame_tree_finish.
 */
uint32_t flame_tree_child(struct flame_tree *t, uint32_t parent, uint32_t frame) MUST_USE;

/* Adds time to a node; sums stop at 2^64-1. */
static inline void flame_tree_add(struct flame_tree *t, uint32_t node, uint64_t ns, uint64_t count)
{
	struct flame_node *n = &t->nodes.data[node];

	if (__builtin_add_overflow(n->self_ns, ns, &n->self_ns))
		n->self_ns = UINT64_MAX;
	n->self_count += count;
}

/*
 * Sums up, leaves out nodes without anything, and orders. `stacks` has the names that decide
 * between equal children. 0 or -ENOMEM.
 */
int flame_tree_finish(struct flame_tree *t, const struct stacks *stacks) MUST_USE;

/*
 * Turns paths around: the innermost frames come first, below each kind of time and its levels.
 * Before flame_tree_finish. 0 or -ENOMEM, and then nothing has changed.
 */
int flame_tree_invert(struct flame_tree *t, const struct stacks *stacks) MUST_USE;

/*
 * Keeps only what stands below (or is) a frame with a nonzero byte in `focus`, and not below one
 * with a nonzero byte in `ignore`; either may be NULL. Before flame_tree_finish. 0 or -ENOMEM.
 */
int flame_tree_filter(struct flame_tree *t, const uint8_t *focus, const uint8_t *ignore) MUST_USE;

#endif
