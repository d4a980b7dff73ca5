/* html.h: escapes untrusted text for HTML pages. */
#ifndef PITOT_BASE_HTML_H
#define PITOT_BASE_HTML_H

#include "base/strbuf.h"

/* Element of a page's head: nothing is ever requested from anywhere. */
#define HTML_POLICY                                                                                \
	"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "              \
	"style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; "  \
	"form-action 'none'\">\n"

/* Appends text escaped for XML and HTML, also in attributes. Invalid characters become U+FFFD. */
void html_escape(struct strbuf *out, const char *text, size_t length);
/*
 * Appends JSON to a script element. '<', which JSON has in strings only, becomes \u003c, so that
 * the text cannot close the element.
 */
void html_add_json(struct strbuf *out, const char *json, size_t length);

#endif
