/*
 * view_where.h: conditions of `pitot view --where`: COLUMN OPERATOR VALUE without blanks between
 * them, such as stream=7, start>=1.5s, duration>20us, bytes<64K, kind!=HtoD, name=*gemm*, end=-
 * (missing).
 */
#ifndef PITOT_READ_VIEW_WHERE_H
#define PITOT_READ_VIEW_WHERE_H

#include "read/view_columns.h"

enum where_operator {
	WHERE_EQUAL,
	WHERE_UNEQUAL,
	WHERE_LESS,
	WHERE_AT_MOST,
	WHERE_GREATER,
	WHERE_AT_LEAST
};

struct view_condition {
	size_t column; /* item of view_where.columns */
	enum where_operator op;
	bool missing; /* the value is "-" */
	uint64_t number; /* signed values: as int64_t */
	double real; /* for a counter's value; is_fraction: `number` is not exact */
	bool is_fraction;
	const char *text; /* glob, for texts */
	uint8_t *matches; /* for texts, per string id: 0 not tested, 1 no match, 2 match */
	uint32_t match_count;
};

struct view_where {
	struct view_columns columns;
	VEC(struct view_condition) conditions; /* all must hold */
};

void view_where_release(struct view_where *w);
/* Returns E_USAGE if the text is not a condition. The text must outlive w. */
int view_where_add(const struct view_table *t, const char *text, struct view_where *w,
		   struct error *e) MUST_USE;
/*
 * Adds a condition on the table's time, in ns from the origin: --since and --until. Returns E_USAGE
 * if the table has no times.
 */
int view_where_time(const struct view_table *t, enum where_operator op, uint64_t ns,
		    struct view_where *w, struct error *e) MUST_USE;
/* Call after the columns have been loaded. Returns 0 or -ENOMEM. */
int view_where_prepare(const struct view_table *t, struct view_where *w) MUST_USE;
bool view_where_holds(const struct view_table *t, const struct view_where *w, uint64_t row);

#endif
