/* text.h: text for people: styles, folded lines, and text from outside made safe for a terminal. */
#ifndef PITOT_REPORT_TEXT_H
#define PITOT_REPORT_TEXT_H

#include "base/strbuf.h"

#define TEXT_CUT ".." /* where a text was cut */

enum style {
	STYLE_NONE,
	STYLE_BOLD,
	STYLE_DIM,
	STYLE_RED,
	STYLE_GREEN,
	STYLE_YELLOW,
	STYLE_BLUE,
	STYLE_CYAN
};

/*
 * Escape sequence that begins a style ("" without colour); STYLE_NONE ends it. `color` is c->color
 * or c->color_errors.
 */
const char *style_begin(bool color, enum style style);
/* Appends text in a style, and ends it. */
void style_add(struct strbuf *out, bool color, enum style style, const char *text);

/*
 * Appends text, folded at blanks to `width` columns, each line after `indent` blanks. Empty lines
 * part paragraphs.
 */
void text_fold(struct strbuf *out, const char *text, unsigned indent, unsigned width);

/* Columns that UTF-8 text takes: its code points. */
size_t text_columns(const char *text, size_t length);
/* Bytes of the first `columns` code points. */
size_t text_prefix(const char *text, size_t columns);

/*
 * Appends text so that it can do nothing to a terminal: control characters, bytes that are no UTF-8
 * and characters that change the direction or the look of other text become \xNN or \u{NNNN}; a
 * backslash stays as it is.
 */
void text_safe(struct strbuf *out, const char *text, size_t length);

/* Cuts a text that takes more than `columns` columns (at least 2), and marks the cut. */
void text_shorten(struct strbuf *text, size_t columns);

#endif
