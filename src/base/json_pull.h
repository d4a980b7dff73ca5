/*
 * json_pull.h: reads one JSON text of any length and nesting (RFC 8259, strict) piece by piece:
 * values as they come, containers as an opening value and a closing. Memory is bounded: 64 KiB of
 * input, a bit per open container, and one text. Texts are those of json_read.h, numbers are
 * exactly as written. The input is untrusted.
 *
 *	struct json_pull p = { .read = input_read, .user = input };
 *	while ((rc = json_pull_next(&p, &e)) > 0)
 *		if (rc == JSON_PULL_VALUE && p.depth == 1 && !strcmp(strbuf_text(&p.key), "name"))
 *			use(p.kind, strbuf_text(&p.text));
 *	json_pull_release(&p);
 */
#ifndef PITOT_BASE_JSON_PULL_H
#define PITOT_BASE_JSON_PULL_H

#include <sys/types.h>

#include "base/json_read.h"

#define JSON_PULL_TEXT_MAX                                                                         \
	((size_t)1 << 20) /* bytes as written; the rest of a string is left out */
#define JSON_PULL_DEPTH_MAX ((size_t)1 << 20)

struct json_pull {
	/* Returns the number of bytes that it has written to `bytes`; 0: the end; or an error. */
	ssize_t (*read)(void *user, void *bytes, size_t size);
	void *user;
	bool accepts_nan; /* NaN, Infinity and -Infinity, which Python writes, are null */

	/* Set by json_pull_next: */
	enum json_kind kind; /* of the value; JSON_ARRAY and JSON_OBJECT: it has just been opened */
	size_t depth; /* open containers around the value, or around the closed one */
	struct strbuf key; /* of a member; "" elsewhere */
	struct strbuf text; /* as in struct json_members */
	bool is_cut; /* the text, or the key, had more bytes than JSON_PULL_TEXT_MAX */
	uint64_t line; /* newlines before */

	/* Private: */
	struct strbuf input, levels, token;
	struct json_members members;
	size_t at, open;
	bool begun, follows; /* follows: a value precedes in this container */
};

enum { JSON_PULL_END, JSON_PULL_VALUE, JSON_PULL_CLOSE };
/* Returns one of these, E_FORMAT with "line 3: …", -ENOMEM, or the error of read(). */
int json_pull_next(struct json_pull *p, struct error *e) MUST_USE;
/* Reads to the end of the container that has just been opened; other values have ended. */
int json_pull_skip(struct json_pull *p, struct error *e) MUST_USE;
void json_pull_release(struct json_pull *p);

#endif
