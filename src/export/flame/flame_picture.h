/*
 * flame_picture.h: what flame graphs as SVG and as HTML have in common: colours, texts, escaping.
 */
#ifndef PITOT_EXPORT_FLAME_FLAME_PICTURE_H
#define PITOT_EXPORT_FLAME_FLAME_PICTURE_H

#include "export/flame/flame_draw.h"

/* From src/export/, by cmake/PitotEmbed.cmake. */
extern const char flame_svg_css[], flame_svg_js[], flame_html_css[], flame_html_js[];

/* Appends text for XML and HTML, also inside attributes; what XML forbids becomes U+FFFD. */
void flame_escape(struct strbuf *out, const char *text, size_t length);

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

#endif
