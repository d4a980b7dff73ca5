/*
 * http.h: requests over HTTP and HTTPS by the machine's libcurl, loaded at the first connection, so
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
	const char *ca_setting; /* by which the user names it, for errors; NULL: --ca-file */
	bool no_proxy; /* connect directly, whatever the environment says */
	uint64_t stall_timeout_ns; /* longest time without a byte in either direction */
	/* "Name: value" headers of all requests; NULL-terminated; must outlive the connection */
	const char *const *headers;
	const volatile sig_atomic_t *cancel; /* may be NULL */
	void (*progress)(void *user, uint64_t sent); /* bytes of the current body; may be NULL */
	void *user;
};

enum http_method { HTTP_POST, HTTP_PUT, HTTP_GET, HTTP_DELETE };

/* With which requests to object storage are signed (AWS Signature Version 4). */
struct http_signer {
	const char *scope; /* "aws:amz:REGION:SERVICE" */
	const char *key, *secret;
};

struct http_request {
	enum http_method method;
	const char *url;
	const char *const *headers; /* of this request; NULL-terminated */
	const struct http_signer *signer; /* NULL: it is not signed */
	const struct strbuf *body; /* of POST */
	int file; /* of PUT: what is sent, from its beginning */
	uint64_t file_bytes;
	/*
	 * Receives the body of a response with status 200, and returns 0, or a negative code, which
	 * ends the request. NULL: it is response.body.
	 */
	int (*receive)(void *user, const void *bytes, size_t length);
	void *user;
	uint64_t timeout_ns;
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
 * (*e describes the failure); -ECANCELED; or another negative code if a retry is useless.
 */
int http_send(struct http *h, const struct http_request *request, struct http_response *response,
	      struct error *e) MUST_USE;

/* Whether a text is printable ASCII without blanks, so that it cannot end a header. */
bool http_is_header_text(const char *text);
/* Whether a URL leads to this machine itself. */
bool http_is_loopback(const char *url);

/*
 * Replaces characters other than printable ASCII by '?', so that texts from the server cannot
 * control a terminal.
 */
void http_make_printable(char *text);
void http_response_release(struct http_response *response);
void http_free(struct http *h);

#endif
