/*
 * json_read.h: reads the members of one JSON object or the items of one array (RFC 8259, strict).
 * In strings, U+FFFD stands for invalid UTF-8, control characters, \u0000, unpaired surrogates and
 * unknown escapes. Nested arrays and objects are skipped; another reader can be opened on their
 * bytes. The input is untrusted; nothing is read beyond `end`.
 *
 *	_cleanup_members_ struct json_members m = JSON_MEMBERS(text, length);
 *	while ((rc = json_members_next(&m, &e)) > 0)
 *		use(strbuf_text(&m.key), m.kind, strbuf_text(&m.text));
 */
#ifndef PITOT_BASE_JSON_READ_H
#define PITOT_BASE_JSON_READ_H

#include <stdbool.h>

#include "base/error.h"
#include "base/strbuf.h"

enum json_kind {
	JSON_STRING,
	JSON_NUMBER,
	JSON_TRUE,
	JSON_FALSE,
	JSON_NULL,
	JSON_ARRAY,
	JSON_OBJECT
};

struct json_members {
	const char *p, *end;
	unsigned line; /* line of the member, from 1 */
	bool is_array, begun, over;
	enum json_kind kind; /* of the value */
	struct strbuf key; /* "" for items of an array */
	/* a string without its escapes; a number, true or false as written; else "" */
	struct strbuf text;
	const char *value; /* bytes of the value in the input */
	size_t value_length;
};

#define JSON_MEMBERS(bytes, length) { .p = (bytes), .end = (bytes) + (length), .line = 1 }
#define JSON_ITEMS(bytes, length)                                                                  \
	{ .p = (bytes), .end = (bytes) + (length), .line = 1, .is_array = true }

/*
 * Reads the next member. Returns 1 when key, kind and text are set, 0 at the end, when nothing
 * follows the object, or a negative code with "line 3: …".
 */
int json_members_next(struct json_members *m, struct error *e) MUST_USE;
void json_members_release(struct json_members *m);
#define _cleanup_members_ _cleanup_(json_members_release)

struct json_found {
	enum json_kind kind;
	char text[256]; /* same as json_members.text, truncated */
};

/*
 * Finds the last member of that name. Returns 0, -ENOENT when the object has none, or another
 * negative code when the bytes are not a complete object.
 */
int json_find(const char *bytes, size_t length, const char *key, struct json_found *out,
	      struct error *e) MUST_USE;

#endif
