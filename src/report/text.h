/* text.h: text for people: styles, folding, and escaping for terminals. */
#ifndef PITOT_REPORT_TEXT_H
#define PITOT_REPORT_TEXT_H

#include "base/strbuf.h"

#define TEXT_CUT ".." /* marks the end of a cut text */

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

/* Escape sequence that begins a style; STYLE_NONE ends it. "" without color. */
const char *style_begin(bool color, enum style style);
/* Appends text in a style. */
void style_add(struct strbuf *out, bool color, enum style style, const char *text);

/* Appends text, folded at blanks to `width` columns, each line indented by `indent` blanks. */
void text_fold(struct strbuf *out, const char *text, unsigned indent, unsigned width);

/* Number of columns of UTF-8 text: one per code point. */
size_t text_columns(const char *text, size_t length);
/* Number of bytes of the first `columns` code points. */
size_t text_prefix(const char *text, size_t columns);

/*
 * Appends text made safe for a terminal: control characters, invalid UTF-8, and characters that
 * change the direction or appearance of other text become \xNN or \u{NNNN}. So do the first
 * characters of workflow commands, which GitHub's runner obeys in all output: "::" where a line may
 * begin, and "##[". A backslash is not escaped.
 */
void text_safe(struct strbuf *out, const char *text, size_t length);

/* One of nothing, which only 0 is, and four densities, in UTF-8 or else in ASCII. */
const char *text_shade(bool utf8, uint64_t part, uint64_t whole);

/* Cuts a text to `columns` columns (at least 2), and marks the cut. */
void text_shorten(struct strbuf *text, size_t columns);

#endif
