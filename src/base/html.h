/* html.h: text from outside in pages of HTML, which it cannot break out of. */
#ifndef PITOT_BASE_HTML_H
#define PITOT_BASE_HTML_H

#include "base/strbuf.h"

/* Appends text for XML and HTML, also inside attributes; what XML forbids becomes U+FFFD. */
void html_escape(struct strbuf *out, const char *text, size_t length);
/*
 * Appends JSON that cannot end the script element it stands in: '<', which is in strings only, as
 * \u003c.
 */
void html_add_json(struct strbuf *out, const char *json, size_t length);

#endif
