/*
 * flame_picture.h: what flame graphs as SVG and as HTML have in common: colours, texts, escaping.
 */
#ifndef PITOT_EXPORT_FLAME_FLAME_PICTURE_H
#define PITOT_EXPORT_FLAME_FLAME_PICTURE_H

#include "analysis/flame/flame.h"
#include "base/html.h"

/* From src/export/, by cmake/PitotEmbed.cmake. */
extern const char flame_svg_css[], flame_svg_js[], flame_html_css[], flame_html_js[];

/* The short word of a class for style sheets: "python"; of a kind's own box: "kind-cpu". */
const char *flame_class_word(enum frame_class class);
const char *flame_kind_word(enum flame_kind kind);

/*
 * A comparison's colour: -5 (shrank most) to 5 (grew most), 0 equal; how much of the kind's whole
 * time (`whole_ns`, the larger of before and after) the change is.
 */
int flame_change_step(uint64_t ns, uint64_t before_ns, uint64_t whole_ns);

/* Appends "12.3 ms of GPU time in 1,656 operations". */
void flame_section_text(struct strbuf *out, const struct flame *f, enum flame_kind kind);

/*
 * Which boxes of a flame graph are drawn, and where. The smallest are left out; what
 * was left out of a box is one box at the end of its children, so that no time disappears.
 */
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
