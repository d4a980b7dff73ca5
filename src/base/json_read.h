/*
 * json_read.h: reads the members of one JSON object, or the items of one array (RFC 8259,
 * strictly). Values that are arrays or objects are skipped; another reader goes over their bytes.
 * Any bytes will do; nothing is read beyond `end`.
 *
 *	struct json_members m = JSON_MEMBERS(text, length);
 *	while ((r = json_members_next(&m, &e)) > 0)
 *		use(strbuf_text(&m.key), m.kind, strbuf_text(&m.text));
 *	json_members_release(&m);
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
	unsigned line; /* of the member, from 1 */
	bool is_array, begun, over;
	enum json_kind kind; /* of the value */
	struct strbuf key; /* of an item: "" */
	/* a string's characters; a number, true or false as it stands there; else "" */
	struct strbuf text;
	const char *value; /* the bytes of the value, as they stand there */
	size_t value_length;
};

#define JSON_MEMBERS(bytes, length) { .p = (bytes), .end = (bytes) + (length), .line = 1 }
#define JSON_ITEMS(bytes, length)                                                                  \
	{ .p = (bytes), .end = (bytes) + (length), .line = 1, .is_array = true }

/*
 * 1: key, kind and text are the next member's; 0: there are no more, and nothing follows; negative:
 * "line 3: …".
 */
int json_members_next(struct json_members *m, struct error *e) MUST_USE;
void json_members_release(struct json_members *m);

struct json_found {
	enum json_kind kind;
	char text[256]; /* as json_members has it, cut */
};

/*
 * The last member of that name. 0; -ENOENT: the object has none; other codes: it is no whole
 * object.
 */
int json_find(const char *bytes, size_t length, const char *key, struct json_found *out,
	      struct error *e) MUST_USE;

#endif
