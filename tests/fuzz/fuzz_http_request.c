/* layer: base */
/*
 * Heads of requests. What is accepted has a path and a host without control characters, and does
 * not change if it is written anew; cookies and parameters fit into what they are copied to.
 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/http_request.h"
#include "base/strbuf.h"

static void check_text(const char *text)
{
	for (; text && *text; text++)
		if (((unsigned char)*text < ' ' && *text != '\t') || *text == 0x7f)
			abort();
}

static bool is_equal(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static void check_again(const struct http_request *r)
{
	_cleanup_strbuf_ struct strbuf head = STRBUF_INIT;
	struct http_request again;

	strbuf_addf(&head, "%s %s%s%s HTTP/1.1\r\nHost: %s\r\n", r->is_head ? "HEAD" : "GET",
		    r->path, *r->query ? "?" : "", r->query, r->host);
	if (r->origin)
		strbuf_addf(&head, "origin:%s \r\n", r->origin);
	if (r->cookie)
		strbuf_addf(&head, "COOKIE:\t%s\r\n", r->cookie);
	strbuf_adds(&head, "\r\n");
	if (http_head_length(head.data, head.length) != head.length ||
	    http_request_parse(head.data, head.length, &again) || again.is_head != r->is_head ||
	    !is_equal(again.path, r->path) || !is_equal(again.query, r->query) ||
	    !is_equal(again.host, r->host) || !is_equal(again.origin, r->origin) ||
	    !is_equal(again.cookie, r->cookie))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t length = http_head_length((const char *)data, size);
	char *head = malloc(length + 1), value[8];
	struct http_request r;

	if (!head)
		return 0;
	memcpy(head, data, length);
	head[length] = '\0';
	if (http_request_parse(head, length, &r) == 0) {
		if (r.path[0] != '/' || !r.host)
			abort();
		check_text(r.path), check_text(r.query), check_text(r.host);
		check_text(r.origin), check_text(r.cookie);
		if (http_cookie(&r, "a", value, sizeof(value)))
			check_text(value);
		if (http_parameter(&r, "a", value, sizeof(value)))
			check_text(value);
		check_again(&r);
	}
	free(head);
	return 0;
}
