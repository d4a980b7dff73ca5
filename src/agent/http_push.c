#include "agent/http_push.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "upload/http.h"

#define HEADERS_MAX 16u
#define HEADER_BYTES_MAX ((size_t)16 << 10)
#define STALL_NS (5 * NS_PER_S)

struct http_push {
	const struct http_push_options *options;
	struct http *http;
	char url[1024];
	char *text; /* of the headers */
	size_t text_bytes;
	char type[64];
	const char *headers[HEADERS_MAX + 3];
};

static int digit(char c)
{
	const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c | 0x20) : NULL;

	return c >= '0' && c <= '9' ? c - '0' : at ? (int)(at - digits) : -1;
}

/* NAME=VALUE,…, with %XX for other characters, into "Name: value". */
static int set_headers(struct http_push *o, size_t count, struct error *e)
{
	const char *variable = getenv(o->options->headers);
	size_t length = variable ? strlen(variable) : 0;
	char *to;

	if (!length)
		return 0;
	if (length > HEADER_BYTES_MAX)
		return error_set(e, E_USAGE, "%s is too long", o->options->headers);
	o->text_bytes = 2 * length + 2;
	to = o->text = calloc(1, o->text_bytes);
	if (!to)
		return error_set(e, -ENOMEM, "out of memory");
	while (*variable) {
		size_t end = strcspn(variable, ","), equal = strcspn(variable, "=,");

		if (!equal || equal == end || count == HEADERS_MAX + 2)
			return error_set(e, E_USAGE, "%s is no list of NAME=VALUE",
					 o->options->headers);
		o->headers[count++] = to;
		for (size_t i = 0; i < end; i++) {
			int high = variable[i] == '%' && i + 2 < end ? digit(variable[i + 1]) : -1;
			int low = high < 0 ? -1 : digit(variable[i + 2]);
			char c = low < 0 ? variable[i] : (char)(high << 4 | low);

			if (i == equal) {
				*to++ = ':';
				*to++ = ' ';
				continue;
			}
			if (c < ' ' || c > '~' || (i < equal && c == ' '))
				return error_set(e, E_USAGE,
						 "%s has characters that are none of a header",
						 o->options->headers);
			*to++ = c;
			i += low < 0 ? 0 : 2;
		}
		*to++ = '\0';
		variable += end + (variable[end] == ',');
	}
	return 0;
}

static int set_url(struct http_push *o, struct error *e)
{
	const char *url = o->options->url;
	size_t length = strlen(url);

	while (length && url[length - 1] == '/')
		length--;
	if (strpbrk(url, "@?#\\") || !http_is_header_text(url) ||
	    length + strlen(o->options->path) >= sizeof(o->url) ||
	    (strncasecmp(url, "https://", 8) != 0 && strncasecmp(url, "http://", 7) != 0))
		return error_set(e, E_USAGE,
				 "%s takes http://HOST:PORT or https://HOST:PORT, without a user, "
				 "a password and a query",
				 o->options->option);
	if (o->text && !strncasecmp(url, "http://", 7) && !http_is_loopback(url))
		return error_set(e, E_USAGE,
				 "'%s' is not encrypted, and %s may have keys: use https://", url,
				 o->options->headers);
	snprintf(o->url, sizeof(o->url), "%.*s%s", (int)length, url, o->options->path);
	return 0;
}

int http_push_open(struct http_push **out, const struct http_push_options *options, struct error *e)
{
	struct http_options http = { .stall_timeout_ns = STALL_NS,
				     .ca_setting = options->certificate };
	const char *certificate = getenv(options->certificate);
	struct http_push *o = calloc(1, sizeof(*o));
	int rc;

	if (!o)
		return error_set(e, -ENOMEM, "out of memory");
	o->options = options;
	snprintf(o->type, sizeof(o->type), "Content-Type: %s", options->type);
	o->headers[0] = o->type;
	o->headers[1] = "Expect:";
	rc = set_headers(o, 2, e);
	rc = rc < 0 ? rc : set_url(o, e);
	http.headers = o->headers;
	http.no_proxy = http_is_loopback(options->url);
	http.ca_file = certificate && *certificate ? certificate : NULL;
	rc = rc < 0 ? rc : http_open(&http, &o->http, e);
	if (rc < 0)
		http_push_free(o);
	else
		*out = o;
	return rc;
}

/* Neither a rate, a key nor a path is the fault of what was sent. */
static bool is_of_body(long status)
{
	return status == 400 || status == 413 || status == 415 || status == 422;
}

int http_push_send(struct http_push *o, const struct strbuf *body, struct error *e)
{
	static const char *const none[] = { NULL };
	const struct http_request request = { .method = HTTP_POST,
					      .url = o->url,
					      .headers = none,
					      .body = body,
					      .timeout_ns = 2 * STALL_NS };
	struct http_response a;
	int rc;

	if (body->failed)
		return error_set(e, -ENOMEM, "out of memory");
	rc = http_send(o->http, &request, &a, e);
	if (rc < 0)
		return error_prefix(e, "cannot send %s to '%s'", o->options->what, o->url);
	if (a.status < 200 || a.status > 299)
		rc = error_set(e, is_of_body(a.status) ? -EBADMSG : -EPROTO,
			       "cannot send %s: '%s' answers HTTP %ld", o->options->what, o->url,
			       a.status);
	http_response_release(&a);
	return rc;
}

void http_push_free(struct http_push *o)
{
	if (!o)
		return;
	http_free(o->http);
	if (o->text)
		explicit_bzero(o->text, o->text_bytes);
	free(o->text);
	free(o);
}
