#include "agent/otlp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "upload/http.h"

#define PATH "/v1/metrics"
#define CERTIFICATE "OTEL_EXPORTER_OTLP_CERTIFICATE"
#define HEADERS_MAX 16u
#define HEADER_BYTES_MAX ((size_t)16 << 10)
#define STALL_NS (5 * NS_PER_S)

struct otlp {
	struct http *http;
	char url[1024];
	char *text; /* of the headers */
	size_t text_bytes;
	const char *headers[HEADERS_MAX + 3];
};

static int digit(char c)
{
	const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c | 0x20) : NULL;

	return c >= '0' && c <= '9' ? c - '0' : at ? (int)(at - digits) : -1;
}

/* NAME=VALUE,…, with %XX for other characters, into "Name: value". */
static int set_headers(struct otlp *o, size_t count, struct error *e)
{
	const char *variable = getenv("OTEL_EXPORTER_OTLP_HEADERS");
	size_t length = variable ? strlen(variable) : 0;
	char *to;

	if (!length)
		return 0;
	if (length > HEADER_BYTES_MAX)
		return error_set(e, E_USAGE, "OTEL_EXPORTER_OTLP_HEADERS is too long");
	o->text_bytes = 2 * length + 2;
	to = o->text = calloc(1, o->text_bytes);
	if (!to)
		return error_set(e, -ENOMEM, "out of memory");
	while (*variable) {
		size_t end = strcspn(variable, ","), equal = strcspn(variable, "=,");

		if (!equal || equal == end || count == HEADERS_MAX + 2)
			return error_set(e, E_USAGE,
					 "OTEL_EXPORTER_OTLP_HEADERS is no list of NAME=VALUE");
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
						 "OTEL_EXPORTER_OTLP_HEADERS has characters that "
						 "are none of a header");
			*to++ = c;
			i += low < 0 ? 0 : 2;
		}
		*to++ = '\0';
		variable += end + (variable[end] == ',');
	}
	return 0;
}

static int set_url(struct otlp *o, const char *url, struct error *e)
{
	size_t length = strlen(url);

	while (length && url[length - 1] == '/')
		length--;
	if (strpbrk(url, "@?#\\") || !http_is_header_text(url) ||
	    length + sizeof(PATH) > sizeof(o->url) ||
	    (strncasecmp(url, "https://", 8) != 0 && strncasecmp(url, "http://", 7) != 0))
		return error_set(e, E_USAGE,
				 "--otlp takes http://HOST:PORT or https://HOST:PORT, without a "
				 "user, a password and a query");
	if (o->text && !strncasecmp(url, "http://", 7) && !http_is_loopback(url))
		return error_set(e, E_USAGE,
				 "'%s' is not encrypted, and OTEL_EXPORTER_OTLP_HEADERS may have "
				 "keys: use https://",
				 url);
	snprintf(o->url, sizeof(o->url), "%.*s" PATH, (int)length, url);
	return 0;
}

int otlp_open(struct otlp **out, const char *url, struct error *e)
{
	static const char *const headers[] = { "Content-Type: application/json", "Expect:" };
	struct http_options http = { .stall_timeout_ns = STALL_NS, .ca_setting = CERTIFICATE };
	const char *certificate = getenv(CERTIFICATE);
	struct otlp *o = calloc(1, sizeof(*o));
	int rc;

	if (!o)
		return error_set(e, -ENOMEM, "out of memory");
	memcpy(o->headers, headers, sizeof(headers));
	rc = set_headers(o, ARRAY_SIZE(headers), e);
	rc = rc < 0 ? rc : set_url(o, url, e);
	http.headers = o->headers;
	http.no_proxy = http_is_loopback(url);
	http.ca_file = certificate && *certificate ? certificate : NULL;
	rc = rc < 0 ? rc : http_open(&http, &o->http, e);
	if (rc < 0)
		otlp_free(o);
	else
		*out = o;
	return rc;
}

int otlp_send(struct otlp *o, const struct strbuf *body, struct error *e)
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
		return error_prefix(e, "cannot send metrics to '%s'", o->url);
	if (a.status < 200 || a.status > 299)
		rc = error_set(e, -EPROTO, "cannot send metrics: '%s' answers HTTP %ld", o->url,
			       a.status);
	http_response_release(&a);
	return rc;
}

void otlp_free(struct otlp *o)
{
	if (!o)
		return;
	http_free(o->http);
	if (o->text)
		explicit_bzero(o->text, o->text_bytes);
	free(o->text);
	free(o);
}
