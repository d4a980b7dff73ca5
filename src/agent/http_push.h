/*
 * http_push.h: sends requests to a server that collects metrics or profiles, over HTTP. Metrics are
 * sums since the agent began, so that what a collector has missed is in the next ones.
 */
#ifndef PITOT_AGENT_HTTP_PUSH_H
#define PITOT_AGENT_HTTP_PUSH_H

#include "base/error.h"
#include "base/strbuf.h"

struct http_push;

struct http_push_options {
	const char *url; /* http://HOST:PORT; NULL: there is none */
	const char *option; /* by which the user names it, for errors */
	const char *what; /* is sent: "metrics" */
	const char *path, *type; /* of requests */
	/*
	 * Variables with headers, NAME=VALUE,…, such as keys, with which another machine is only
	 * reached by HTTPS; and with a file of certificates of authorities.
	 */
	const char *headers, *certificate;
};

/* Sends nothing; the options must outlive it. Returns 0 or a negative code. */
int http_push_open(struct http_push **out, const struct http_push_options *options,
		   struct error *e) MUST_USE;
/* Returns 0, -EBADMSG if the server will never take this body, or another negative code. */
int http_push_send(struct http_push *c, const struct strbuf *body, struct error *e) MUST_USE;
void http_push_free(struct http_push *c); /* may be NULL */

#endif
