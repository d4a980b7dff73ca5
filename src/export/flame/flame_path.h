/*
 * flame_path.h: iterates over the nodes of a flame graph that have self time, with their call
 * paths.
 */
#ifndef PITOT_EXPORT_FLAME_FLAME_PATH_H
#define PITOT_EXPORT_FLAME_FLAME_PATH_H

#include "analysis/flame/flame.h"

struct flame_path {
	const struct flame *flame;
	uint32_t node, end; /* next node, and one past the last */
	VEC(uint32_t) nodes; /* call path, from just below the kind's root frame inwards */
	bool failed; /* out of memory: the iteration ended early */
};

static inline struct flame_path flame_path_init(const struct flame *f, enum flame_kind kind)
{
	uint32_t node = f->sections[kind].node;

	return (struct flame_path){
		.flame = f,
		.node = node == FLAME_NONE ? 0 : node + 1,
		.end = node == FLAME_NONE ? 0 : f->tree.nodes.data[node].end,
	};
}

static inline void flame_path_release(struct flame_path *p)
{
	vec_release(&p->nodes);
}

/* Advances to the next node with self time, the last of p->nodes. Returns false at the end. */
static inline bool flame_path_next(struct flame_path *p)
{
	while (p->node < p->end) {
		const struct flame_node *n = &p->flame->tree.nodes.data[p->node];

		p->nodes.count = n->depth - 1;
		if (vec_push(&p->nodes, p->node) < 0) {
			p->failed = true;
			return false;
		}
		p->node++;
		if (n->self_ns || n->self_count)
			return true;
	}
	return false;
}

#endif
