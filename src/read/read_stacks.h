/* read_stacks.h: call stacks as lists of frames: the column "stack.frames". */
#ifndef PITOT_READ_READ_STACKS_H
#define PITOT_READ_READ_STACKS_H

#include "export/export_stacks.h"

struct stack_frames {
	uint64_t first, count; /* items of `names` */
};

struct read_stacks {
	struct export_stacks export;
	struct interner texts; /* names of frames, in UTF-8 */
	VEC(uint32_t) names; /* items of `texts`; outermost frame of each stack first */
	VEC(struct stack_frames) stacks; /* distinct stacks */
	uint32_t *stack_of_row; /* per row: item of `stacks`, or TRACE_NO_ROW; NULL: not loaded */
};

/* Whether rows of a table, or the calls that caused them, have stacks. */
bool read_stacks_available(const struct table_schema *table);
/* Call once, with *s zeroed; release *s in any case. Returns 0 or a negative code. */
int read_stacks_load(struct read_stacks *s, struct trace *t, const struct table_schema *table,
		     struct error *e) MUST_USE;
/* Appends a text; invalid UTF-8 becomes U+FFFD. */
void read_add_utf8(struct strbuf *out, const char *text, size_t length);
void read_stacks_release(struct read_stacks *s);

#endif
