#include "analysis/triggered.h"

#include <errno.h>
#include <stdlib.h>

#include "analysis/report.h"
#include "base/search.h"

ORDER(compare_rows, struct row_trigger, UP(time_ns))

static int run(struct report *r, void *result)
{
	struct triggered *out = result;
	uint64_t rows = trace_rows(r->trace, TABLE_trigger);

	out->items = rows ? calloc(rows, sizeof(*out->items)) : NULL;
	if (rows && !out->items)
		return -ENOMEM;
	for (; out->count < rows; out->count++)
		trace_row(r->trace, TABLE_trigger, out->count, &out->items[out->count]);
	if (rows)
		qsort(out->items, out->count, sizeof(*out->items), compare_rows);
	return 0;
}

const struct analysis analysis_triggered = {
	.size = sizeof(struct triggered),
	.needs = { { TABLE_trigger, 0 } },
	.run = run,
	.owned = { OWNS(struct triggered, items) },
};
