/*
 * json_read.h: reads the members of one JSON object (RFC 8259, strictly). Members that are arrays or objects are checked and left
 * out. Any bytes will do; nothing is read beyond `end`.
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

enum json_kind { JSON_STRING, JSON_NUMBER, JSON_TRUE, JSON_FALSE, JSON_NULL, JSON_ARRAY, JSON_OBJECT };

struct json_members {
	const char *p, *end;
	unsigned line; /* of the member, from 1 */
	bool begun, over;
	enum json_kind kind; /* of the value */
	struct strbuf key;
	struct strbuf text; /* a string's characters; a number, true or false as it stands there; else "" */
};

#define JSON_MEMBERS(bytes, length) { .p = (bytes), .end = (bytes) + (length), .line = 1 }

/* 1: key, kind and text are the next member's; 0: there are no more, and nothing follows; negative: "line 3: …". */
int json_members_next(struct json_members *m, struct error *e) MUST_USE;
void json_members_release(struct json_members *m);

#endif
