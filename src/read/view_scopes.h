/* view_scopes.h: the scope of each row of a table: the column `scope` of `pitot view`. */
#ifndef PITOT_CLI_VIEW_SCOPES_H
#define PITOT_CLI_VIEW_SCOPES_H

#include "analysis/scope_paths.h"

struct view_scopes {
	struct nvtx_ranges ranges;
	uint32_t *paths; /* by row: of the innermost scope, or SCOPE_NONE; NULL: not loaded */
};

/* Whether rows of a table have one: calls, what calls cause, and what threads do at a time. */
bool view_scopes_known(const struct table_schema *table);
/* Once; to be released in any case. 0 or a negative code. */
int view_scopes_load(struct view_scopes *s, struct trace *t, const struct table_schema *table,
		     struct error *e) MUST_USE;
void view_scopes_release(struct view_scopes *s);

#endif
