/*
 * flame_picture.h: parts shared by the SVG and HTML flame graphs: colors, texts, layout.
 */
#ifndef PITOT_EXPORT_FLAME_FLAME_PICTURE_H
#define PITOT_EXPORT_FLAME_FLAME_PICTURE_H

#include "analysis/flame/flame.h"
#include "base/html.h"

/* Embedded from src/export/ by cmake/PitotEmbed.cmake. */
extern const char flame_svg_css[], flame_svg_js[], flame_html_css[], flame_html_js[],
	page_search_js[];

/* Return the style sheet class of a frame class ("python"), of a kind's root box ("kind-cpu"). */
const char *flame_class_word(enum frame_class class);
const char *flame_kind_word(enum flame_kind kind);

/*
 * Returns the color step of a change, from -5 (shrank most) to 5 (grew most); 0: equal. The step
 * depends on the change's share of whole_ns, the larger of the kind's totals before and after.
 */
int flame_change_step(uint64_t ns, uint64_t before_ns, uint64_t whole_ns);

/* Appends a text such as "12.3 ms of GPU time in 1,656 operations". */
void flame_section_text(struct strbuf *out, const struct flame *f, enum flame_kind kind);

/*
 * Layout of a flame graph. The smallest boxes are left out; one box at the end of a parent's
 * children stands for those left out, so that times still add up.
 */
#define FLAME_DEPTH_MAX 1000 /* levels drawn; deeper ones are left out in the same way */

struct flame_box {
	uint32_t node; /* for boxes left out, their parent */
	uint32_t depth; /* 0: the kind's root */
	uint32_t left_out; /* 0, or the number of frames that this box stands for */
	uint64_t start_ns, ns; /* start: from the left edge of the kind */
	uint64_t count, before_ns;
};

struct flame_drawing {
	VEC(struct flame_box) boxes; /* parents before children, left to right */
	uint32_t levels; /* number of depths in use */
	uint64_t least_ns; /* smaller boxes were left out */
};

/*
 * Lays out the boxes of a kind: about `max` at most, and none below total / fraction. Returns 0 or
 * -ENOMEM; release d in both cases.
 */
int flame_draw(const struct flame *f, enum flame_kind kind, size_t max, uint64_t fraction,
	       struct flame_drawing *d) MUST_USE;
void flame_drawing_release(struct flame_drawing *d);

#endif
