/*
 * flame_where.h: the conditions of `pitot flame --where`: those of `pitot view`, for all tables
 * that a flame graph is made of. A condition on a column that a table does not have leaves out the
 * table's rows.
 */
#ifndef PITOT_CLI_FLAME_WHERE_H
#define PITOT_CLI_FLAME_WHERE_H

#include "base/options.h"
#include "read/view_where.h"

#define FLAME_TABLES (GPU_WORK_KINDS + 3)

struct flame_where {
	struct view_table tables[FLAME_TABLES];
	struct view_where conditions[FLAME_TABLES];
	bool left_out[FLAME_TABLES];
};

/*
 * Reads the conditions and loads what they need.
 * 0, E_USAGE or another negative code; to be released in all cases. The texts must outlive w.
 */
int flame_where_init(struct flame_where *w, struct trace *t, const struct option_list *conditions,
		     struct error *e) MUST_USE;
void flame_where_release(struct flame_where *w);
/* For flame_options.select; user is the struct. */
bool flame_where_holds(void *user, enum table_id table, uint64_t row);

#endif
