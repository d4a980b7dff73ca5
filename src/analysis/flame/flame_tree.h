/*
 * flame_tree.h: a call tree with the time of each frame, itself (self) and with its callees
 * (total).
 *
 * Nodes are added in any order. flame_tree_finish puts them into drawing order: parents before
 * children, the largest child first. Node 0 is the root and has no frame; its children, the kinds
 * of time, are ordered by their frames.
 */
#ifndef PITOT_ANALYSIS_FLAME_FLAME_TREE_H
#define PITOT_ANALYSIS_FLAME_FLAME_TREE_H

#include "analysis/stacks.h"

#define FLAME_ROOT 0u
#define FLAME_NONE UINT32_MAX

struct flame_node {
	uint32_t parent; /* FLAME_NONE for node 0 */
	uint32_t frame; /* of stacks.frames */
	uint32_t depth; /* children of the root have 0; set by flame_tree_finish */
	uint32_t end; /* first node after its descendants; set by flame_tree_finish */
	uint64_t self_ns, total_ns; /* total: set by flame_tree_finish */
	uint64_t self_count, total_count; /* events */
	uint64_t before_self_ns, before_total_ns; /* of the baseline of a diff */
};

struct flame_tree {
	VEC(struct flame_node) nodes;
	struct map children; /* parent << 32 | frame -> node */
};

/* 0 or -ENOMEM; after an error, do not release *t. */
int flame_tree_init(struct flame_tree *t) MUST_USE;
void flame_tree_release(struct flame_tree *t);

/*
 * Finds or adds a child. FLAME_NONE: out of memory, now or when the parent or the frame was made.
 * Call only before flame_tree_finish.
 */
uint32_t flame_tree_child(struct flame_tree *t, uint32_t parent, uint32_t frame) MUST_USE;

/* Adds time to a node; sums saturate at 2^64-1. */
static inline void flame_tree_add(struct flame_tree *t, uint32_t node, uint64_t ns, uint64_t count)
{
	struct flame_node *n = &t->nodes.data[node];

	if (__builtin_add_overflow(n->self_ns, ns, &n->self_ns))
		n->self_ns = UINT64_MAX;
	n->self_count += count;
}

/*
 * Computes totals, drops empty nodes, and orders the nodes. `stacks` has the names that order equal
 * children. 0 or -ENOMEM.
 */
int flame_tree_finish(struct flame_tree *t, const struct stacks *stacks) MUST_USE;

/*
 * Reverses the stacks: innermost frames first, below each kind of time and its levels. If that
 * were too much work, outer frames become one frame, `deeper`. Call only before flame_tree_finish.
 * 0 or -ENOMEM; after an error the tree is unchanged.
 */
int flame_tree_invert(struct flame_tree *t, const struct stacks *stacks, uint32_t deeper) MUST_USE;

/*
 * Keeps nodes at or below a frame with a nonzero byte in `focus` and not at or below one in
 * `ignore`; either may be NULL. Call only before flame_tree_finish. 0 or -ENOMEM.
 */
int flame_tree_filter(struct flame_tree *t, const uint8_t *focus, const uint8_t *ignore) MUST_USE;

#endif
