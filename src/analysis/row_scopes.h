/* row_scopes.h: the scope of each row of a table: the column `scope` of `pitot view`. */
#ifndef PITOT_ANALYSIS_ROW_SCOPES_H
#define PITOT_ANALYSIS_ROW_SCOPES_H

#include "analysis/nvtx_ranges.h"

struct row_scopes {
	struct nvtx_ranges ranges;
	uint32_t *paths; /* per row: path of the innermost scope, or SCOPE_NONE; NULL: not loaded */
};

/* Whether rows of a table have a scope: calls, work caused by calls, and events of a thread. */
bool row_scopes_available(const struct table_schema *table);
/* Call once; release in any case. Returns 0 or a negative code. */
int row_scopes_load(struct row_scopes *s, struct trace *t, const struct table_schema *table,
		    struct error *e) MUST_USE;
void row_scopes_release(struct row_scopes *s);

#endif
