/*
 * flame_draw.h: which boxes of a flame graph are drawn, and where. The smallest are left out; what
 * was left out of a box is one box at the end of its children, so that no time disappears.
 */
#ifndef PITOT_EXPORT_FLAME_FLAME_DRAW_H
#define PITOT_EXPORT_FLAME_FLAME_DRAW_H

#include "analysis/flame/flame.h"
#include "base/strbuf.h"

#define FLAME_DEPTH_MAX 1000 /* levels drawn; what is deeper is left out likewise */

struct flame_box {
	uint32_t node; /* or, of what was left out, its parent */
	uint32_t depth; /* 0: the kind itself */
	uint32_t left_out; /* 0, or the number of frames that this box stands for */
	uint64_t start_ns, ns; /* from the left edge of the kind */
	uint64_t count, before_ns;
};

struct flame_drawing {
	VEC(struct flame_box) boxes; /* parents before children, from the left */
	uint32_t levels; /* depths used */
	uint64_t least_ns; /* smaller boxes were left out */
};

/*
 * The boxes of a kind, at most about `max` and none below total / fraction. 0 or -ENOMEM; to be
 * released in both cases.
 */
int flame_draw(const struct flame *f, enum flame_kind kind, size_t max, uint64_t fraction,
	       struct flame_drawing *d) MUST_USE;
void flame_drawing_release(struct flame_drawing *d);

#endif
