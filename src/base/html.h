/* html.h: escapes untrusted text for HTML pages. */
#ifndef PITOT_BASE_HTML_H
#define PITOT_BASE_HTML_H

#include "base/strbuf.h"

/*
 * Pages are files that contain everything: their policy forbids all requests. Pages that `pitot
 * serve` makes have no policy of their own, because the server sends one, which allows only scripts
 * with its nonce; `bar` is markup that leads from page to page. NULL: pages are files. The texts
 * are not copied.
 */
void html_serve(const char *nonce, const char *bar);
/* Replaces the bar, and returns the one before: pages inside of pages have none. */
const char *html_serve_bar(const char *bar);

/* Elements of a page that depend on it: of the head, and the begins of two. */
void html_add_policy(struct strbuf *out);
void html_add_body(struct strbuf *out);
void html_add_script(struct strbuf *out, const char *attributes);

/* Appends text escaped for XML and HTML, also in attributes. Invalid characters become U+FFFD. */
void html_escape(struct strbuf *out, const char *text, size_t length);
/*
 * Appends JSON to a script element. '<', which JSON has in strings only, becomes \u003c, so that
 * the text cannot close the element.
 */
void html_add_json(struct strbuf *out, const char *json, size_t length);

#endif
