/*
 * pickle.h: reads pickles of Python's data types (protocols 2 to 5) as a tree. Nothing is called:
 * an opcode that names or calls anything is refused. The input is untrusted; texts point into it.
 */
#ifndef PITOT_IMPORT_PICKLE_H
#define PITOT_IMPORT_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/map.h"
#include "base/vec.h"

#define PICKLE_NONE UINT32_MAX /* no value */

struct pickle_value;
struct pickle_list;

struct pickle {
	uint32_t top; /* the value */

	/* Private: */
	VEC(struct pickle_value) values;
	VEC(struct pickle_list) lists;
	VEC(uint32_t) stack; /* values */
	VEC(uint32_t) marks; /* heights of the stack */
	struct map memo; /* number -> value */
	size_t items; /* of all lists */
};

/* Items of a list or tuple, or keys and values of a dictionary; none of anything else. */
struct pickle_items {
	const uint32_t *values;
	size_t count;
};

struct pickle_text {
	const char *bytes;
	size_t length;
};

/* Returns 0, E_FORMAT, E_UNSUPPORTED for an opcode that is no data, E_LIMIT or -ENOMEM. */
int pickle_read(struct pickle *p, const void *bytes, size_t length, struct error *e) MUST_USE;
void pickle_release(struct pickle *p);

struct pickle_items pickle_items(const struct pickle *p, uint32_t value);
/* Returns the value of a key in a dictionary (of its first 512), or PICKLE_NONE. */
uint32_t pickle_member(const struct pickle *p, uint32_t dict, const char *key);
/* Returns a text, empty if it is none. */
struct pickle_text pickle_text(const struct pickle *p, uint32_t value);
bool pickle_integer(const struct pickle *p, uint32_t value, int64_t *out);

#endif
