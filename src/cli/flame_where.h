/*
 * flame_where.h: the conditions of `pitot flame --where`, which are those of `pitot view`, applied
 * to all tables of a flame graph. If a table lacks a condition's column, all its rows are left out.
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
 * Reads the conditions and loads the columns that they need. The texts must outlive w. Returns 0,
 * E_USAGE or another negative code. Release w in any case.
 */
int flame_where_init(struct flame_where *w, struct trace *t, const struct option_list *conditions,
		     struct error *e) MUST_USE;
void flame_where_release(struct flame_where *w);
/* For flame_options.select; user is the struct. */
bool flame_where_holds(void *user, enum table_id table, uint64_t row);

#endif
