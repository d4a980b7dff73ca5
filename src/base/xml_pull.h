/*
 * xml_pull.h: reads an XML document piece by piece: elements as they begin and end, and their text.
 * Names are as written; there are no name spaces. Of entities there are the five of XML and
 * characters by number; a document type, in which files can be read and texts can grow without
 * bound, is refused. The input is untrusted: memory is bounded by the limits below.
 */
#ifndef PITOT_BASE_XML_PULL_H
#define PITOT_BASE_XML_PULL_H

#include <sys/types.h>

#include "base/error.h"
#include "base/strbuf.h"

#define XML_DEPTH_MAX 64u
#define XML_ATTRIBUTES_MAX 32u
#define XML_TEXT_MAX ((size_t)1 << 20) /* bytes of a text; the rest is left out */

struct xml_pull {
	/* Returns the number of bytes that it has written to `bytes`; 0: the end; or an error. */
	ssize_t (*read)(void *user, void *bytes, size_t size);
	void *user;

	/* Set by xml_pull_next: */
	unsigned
		depth; /* open elements, with one that has just begun, without one that has ended */
	struct strbuf name; /* of the element that has begun or ended */
	struct strbuf text; /* what stood before that, in one element */
	struct strbuf attributes; /* of one that has begun: names and values, each with a NUL */
	unsigned attribute_count;
	uint64_t line; /* newlines before */

	/* Private: */
	char *input;
	size_t at, length;
	bool ended; /* the input */
	bool closes; /* <x/>: its end comes next */
	bool is_over; /* the first element has ended */
	struct strbuf path; /* names of the open elements, each with a NUL */
};

enum { XML_END, XML_OPEN, XML_CLOSE };
/* Returns one of these, E_FORMAT with "line 3: …", -ENOMEM, or the error of read(). */
int xml_pull_next(struct xml_pull *p, struct error *e) MUST_USE;
/* The value of an attribute of the element that has begun; NULL: it has none of that name. */
const char *xml_attribute(const struct xml_pull *p, const char *name);
void xml_pull_release(struct xml_pull *p);

#endif
