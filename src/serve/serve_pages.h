/* serve_pages.h: the server's own pages, and the list as JSON. */
#ifndef PITOT_SERVE_SERVE_PAGES_H
#define PITOT_SERVE_SERVE_PAGES_H

#include "serve/serve_state.h"

/* Answers with a page that says what is wrong. */
void serve_problem(struct serve *s, uint64_t connection, unsigned status, const char *text);
/* Appends the page of the list, or of what runs. */
void serve_list_page(const struct serve *s, struct strbuf *out);
void serve_live_page(const struct serve *s, struct strbuf *out);
/* Appends the list as JSON. */
void serve_list(struct serve *s, struct strbuf *out);
/* Appends the page that the token leads to: it goes on to the list, with the cookie. */
void serve_enter_page(const struct serve *s, struct strbuf *out);

#endif
