/*
 * whole_table.h: call frame information compiled in the plainest way, all of it in one list: what
 * unwind_parts.c makes where it is asked must say the same.
 */
#ifndef PITOT_TESTS_WHOLE_TABLE_H
#define PITOT_TESTS_WHOLE_TABLE_H

#include <string.h>

#include "base/bytes.h"
#include "base/vec.h"
#include "elf/unwind_input.h"

struct whole_row {
	uint64_t start; /* from here on, up to the next row's */
	struct unwind_rule rule;
};

struct whole_place {
	uint64_t start;
	size_t offset; /* in the section */
};

struct whole_table {
	VEC(struct whole_row) rows;
	uint64_t end; /* of the last function */
	uint32_t damaged; /* entries that were left out */
};

static const struct unwind_rule whole_none = { .cfa = CFA_NONE };

static inline void whole_take_row(void *context, uint64_t start, const struct unwind_rule *rule)
{
	struct whole_table *t = context;

	if (vec_push(&t->rows, ((struct whole_row){ start, *rule })) < 0)
		abort();
}

static inline void whole_add(struct whole_table *t, const struct eh_section *section,
			     const struct eh_fde *fde)
{
	if (fde->start < t->end || fde->end <= fde->start) {
		t->damaged++;
		return;
	}
	eh_frame_rows(section, fde, whole_take_row, t);
	whole_take_row(t, fde->end, &whole_none);
	t->end = fde->end;
}

static inline int whole_compare(const void *a, const void *b)
{
	const struct whole_place *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

static inline struct whole_table whole_table_make(const struct unwind_input *in)
{
	struct whole_table t = { .damaged = 0 };
	VEC(struct whole_place) places = { 0 };
	struct eh_fde fde = { 0 };
	size_t next;
	int r;

	for (size_t at = 0; (r = eh_frame_entry(&in->section, at, &fde, &next)) >= 0; at = next)
		if (r > 0 && vec_push(&places, ((struct whole_place){ fde.start, at })) < 0)
			abort();
	if (places.count)
		qsort(places.data, places.count, sizeof(*places.data), whole_compare);
	for (size_t i = 0; i < places.count; i++) {
		if (eh_frame_entry(&in->section, places.data[i].offset, &fde, &next) == 1)
			whole_add(&t, &in->section, &fde);
		else
			t.damaged++;
	}
	vec_release(&places);
	return t;
}

/* The last row that begins at or before the address: of several at one, the last. */
static inline const struct unwind_rule *whole_table_find(const struct whole_table *t,
							 uint64_t address)
{
	size_t low = 0, high = t->rows.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (t->rows.data[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &t->rows.data[low - 1].rule : &whole_none;
}

static inline void whole_table_release(struct whole_table *t)
{
	vec_release(&t->rows);
}

#endif
