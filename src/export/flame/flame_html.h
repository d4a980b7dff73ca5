/* flame_html.h: a flame graph's page as text, to be shown inside of another page. */
#ifndef PITOT_EXPORT_FLAME_FLAME_HTML_H
#define PITOT_EXPORT_FLAME_FLAME_HTML_H

#include "export/flame/flame_formats.h"

/* Appends the page, with about `boxes` boxes of a kind at most. Returns 0 or -ENOMEM. */
int flame_html_append(const struct flame *f, const struct flame_write *w, size_t boxes,
		      struct strbuf *page) MUST_USE;

#endif
