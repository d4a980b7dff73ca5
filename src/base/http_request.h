/*
 * http_request.h: the head of a request of HTTP/1.1, as far as servers of ours use it: a method, a
 * path, and a few headers. Whoever sends it is not trusted.
 */
#ifndef PITOT_BASE_HTTP_REQUEST_H
#define PITOT_BASE_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#define HTTP_REQUEST_MAX 16384u /* bytes of a head: all ports of a machine share their cookies */

struct http_request {
	bool is_head; /* HEAD; else GET */
	const char *path, *query; /* as they were sent, without "?"; query "": none */
	const char *host;
	const char *origin, *cookie, *accept; /* NULL: there is none */
};

/* Returns the length of a head with its empty line at the begin of the bytes; 0: not complete. */
size_t http_head_length(const char *bytes, size_t length);
/*
 * Parses a head of that length in place: the texts of the result point into it. Returns 0, or the
 * status to refuse the request with.
 */
unsigned http_request_parse(char *head, size_t length, struct http_request *out);
/*
 * Copies the value of a cookie. Returns false if there is none of that name or it does not fit.
 */
bool http_cookie(const struct http_request *r, const char *name, char *value, size_t size);
/*
 * Copies a parameter of the query: NAME=VALUE between '&'. Nothing is decoded. Returns false if
 * there is none of that name or it does not fit.
 */
bool http_parameter(const struct http_request *r, const char *name, char *value, size_t size);

#endif
