/*
 * http.h: POST over HTTP and HTTPS by the machine's libcurl, loaded at the first connection, so
 * that certificates, proxies and security fixes are the machine's. Redirects are not followed,
 * because they would send the key elsewhere.
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
	bool no_proxy; /* connect directly, whatever the environment says */
	uint64_t stall_timeout_ns; /* longest time without a byte in either direction */
	/* "Name: value" headers of all requests; NULL-terminated; must outlive the connection */
	const char *const *headers;
	const volatile sig_atomic_t *cancel; /* may be NULL */
	void (*progress)(void *user, uint64_t sent); /* bytes of the current body; may be NULL */
	void *user;
};

struct http_response {
	long status;
	uint64_t retry_after_s; /* 0: none */
	struct strbuf body; /* at most its first MiB */
	bool is_cut; /* the body was longer */
	char location[512]; /* of a redirect, printable, or "" */
};

int http_open(const struct http_options *options, struct http **out, struct error *e) MUST_USE;

/*
 * Returns 0 after a complete response of any status; -EIO if there was none but a retry may succeed
 * (*e describes the failure); -ECANCELED; or another negative code if a retry is useless. `headers`
 * are those of this request.
 */
int http_post(struct http *h, const char *url, const char *const *headers,
	      const struct strbuf *body, uint64_t timeout_ns, struct http_response *response,
	      struct error *e) MUST_USE;

/*
 * Replaces characters other than printable ASCII by '?', so that texts from the server cannot
 * control a terminal.
 */
void http_make_printable(char *text);
void http_response_release(struct http_response *response);
void http_free(struct http *h);

#endif
