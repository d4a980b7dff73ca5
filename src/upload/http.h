/*
 * http.h: POST over HTTP and HTTPS by the machine's libcurl, which is loaded when a connection is
 * made: its certificates, proxies and fixes are those of the machine. Redirects are not followed:
 * the key would go elsewhere.
 */
#ifndef PITOT_UPLOAD_HTTP_H
#define PITOT_UPLOAD_HTTP_H

#include <signal.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/strbuf.h"

struct http;

struct http_options {
	const char *ca_file; /* NULL: the machine's */
	uint64_t stall_timeout_ns; /* no byte either way for so long */
	/* of all requests, "Name: value"; ends with NULL; must live as long */
	const char *const *headers;
	const volatile sig_atomic_t *cancel; /* may be NULL */
	void (*progress)(void *user, uint64_t sent); /* bytes of this body; may be NULL */
	void *user;
};

struct http_response {
	long status;
	uint64_t retry_after_s; /* 0: none */
	struct strbuf body; /* a MiB of it at most */
	bool is_cut; /* there was more of it */
	char location[512]; /* of a redirect, printable, or "" */
};

int http_open(const struct http_options *options, struct http **out, struct error *e) MUST_USE;

/*
 * 0: there is a whole answer, with any status. -EIO: there is none, which another time may be
 * different; *e says what went wrong. -ECANCELED, and other negative codes, for what will not get
 * better. `headers` are those of this request.
 */
int http_post(struct http *h, const char *url, const char *const *headers,
	      const struct strbuf *body, uint64_t timeout_ns, struct http_response *response,
	      struct error *e) MUST_USE;

/*
 * What the server says can do nothing to a terminal: other characters than ASCII's printable ones
 * become '?'.
 */
void http_make_printable(char *text);
void http_response_release(struct http_response *response);
void http_free(struct http *h);

#endif
