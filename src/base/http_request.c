#include "base/http_request.h"

#include <string.h>
#include <strings.h>

#include "base/compiler.h"

#define TOKEN "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

size_t http_head_length(const char *bytes, size_t length)
{
	const char *end = length ? memmem(bytes, length, "\r\n\r\n", 4) : NULL;

	return end ? (size_t)(end - bytes) + 4 : 0;
}

/* Ends the line at its CR LF, and returns the next one. NULL: it has other control characters. */
static char *end_line(char *line)
{
	char *c = line;

	while (*c == '\t' || (unsigned char)*c >= ' ')
		if (*c++ == 0x7f)
			return NULL;
	if (c[0] != '\r' || c[1] != '\n')
		return NULL;
	*c = '\0';
	return c + 2;
}

static unsigned parse_target(char *target, struct http_request *out)
{
	char *query = strchr(target, '?');

	if (*target != '/' || target[strcspn(target, "#\t")])
		return 400;
	if (query)
		*query++ = '\0';
	out->path = target;
	out->query = query ? query : "";
	return 0;
}

/* METHOD TARGET HTTP/1.x */
static unsigned parse_first_line(char *line, struct http_request *out)
{
	char *target = strchr(line, ' '), *version = target ? strchr(target + 1, ' ') : NULL;

	if (!version || strspn(line, TOKEN) != (size_t)(target - line) || target == line)
		return 400;
	*target++ = *version++ = '\0';
	if (strcmp(version, "HTTP/1.1") != 0 && strcmp(version, "HTTP/1.0") != 0)
		return strncmp(version, "HTTP/", 5) == 0 ? 505 : 400;
	out->is_head = !strcmp(line, "HEAD");
	if (!out->is_head && strcmp(line, "GET") != 0)
		return 405;
	return parse_target(target, out);
}

/* NAME: VALUE. What would mean different things to different readers is refused. */
static unsigned parse_header(char *line, struct http_request *out)
{
	const struct {
		const char *name;
		const char **value;
		bool is_list; /* may come again: the first one counts */
	} known[] = { { "Host", &out->host, false },
		      { "Origin", &out->origin, false },
		      { "Cookie", &out->cookie, false },
		      { "Accept", &out->accept, true } };
	size_t length = strspn(line, TOKEN), end;
	char *value = line + length;

	if (!length || *value != ':')
		return 400;
	*value++ = '\0';
	value += strspn(value, " \t");
	for (end = strlen(value); end && strchr(" \t", value[end - 1]);)
		value[--end] = '\0';
	if (!strcasecmp(line, "Transfer-Encoding") ||
	    (!strcasecmp(line, "Content-Length") && strcmp(value, "0") != 0))
		return 400; /* neither method has a body */
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (strcasecmp(line, known[i].name) != 0)
			continue;
		if (*known[i].value && !known[i].is_list)
			return 400;
		*known[i].value = *known[i].value ?: value;
	}
	return 0;
}

unsigned http_request_parse(char *head, size_t length, struct http_request *out)
{
	char *line = head, *next;
	unsigned status;

	*out = (struct http_request){ .path = "/", .query = "" };
	if (length < 4 || memchr(head, '\0', length) ||
	    memcmp(head + length - 4, "\r\n\r\n", 4) != 0)
		return 400;
	next = end_line(line);
	status = next ? parse_first_line(line, out) : 400;
	while (!status && (line = next)[0] != '\r') {
		next = end_line(line);
		status = next ? parse_header(line, out) : 400;
	}
	return status || out->host ? status : 400;
}

/* Copies the value of NAME=VALUE in a list. */
static bool find_value(const char *list, const char *between, const char *name, char *value,
		       size_t size)
{
	size_t length = strlen(name);

	while (list && *list) {
		size_t item;

		list += strspn(list, between);
		item = strcspn(list, between);
		if (item > length && !strncmp(list, name, length) && list[length] == '=') {
			item -= length + 1;
			if (item >= size)
				return false;
			memcpy(value, list + length + 1, item);
			value[item] = '\0';
			return true;
		}
		list += item;
	}
	return false;
}

bool http_cookie(const struct http_request *r, const char *name, char *value, size_t size)
{
	return find_value(r->cookie, "; ", name, value, size);
}

bool http_parameter(const struct http_request *r, const char *name, char *value, size_t size)
{
	return find_value(r->query, "&", name, value, size);
}
