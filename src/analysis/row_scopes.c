#include "analysis/row_scopes.h"

#include <errno.h>
#include <stdlib.h>

#include "analysis/filter.h"
#include "trace/columns.h"

static int thread_column(const struct table_schema *table)
{
	return table->time_column < 0 ? -1 : schema_column_by_name(table, "thread");
}

bool row_scopes_available(const struct table_schema *table)
{
	return table->launching_kinds || thread_column(table) >= 0;
}

/* For calls, or work that they cause. */
static int find_by_call(struct row_scopes *s, struct trace *t, enum table_id table, struct error *e)
{
	const uint32_t *calls = NULL;
	int rc = table == TABLE_api_call ? 0 : trace_launches(t, table, &calls, e);

	for (uint64_t row = 0; rc >= 0 && row < trace_rows(t, table); row++)
		s->paths[row] = nvtx_path_of_call(&s->ranges, calls ? calls[row] : (uint32_t)row);
	return rc;
}

/* For events of a thread. */
static int find_by_thread(struct row_scopes *s, struct trace *t, const struct table_schema *table,
			  struct error *e)
{
	int column = thread_column(table);
	int rc = trace_load(t, table->id, UINT64_C(1) << column | UINT64_C(1) << table->time_column,
			    e);
	const uint32_t *threads = trace_u32(t, table->id, column);
	const uint8_t *valid = trace_valid(t, table->id, column);
	const uint64_t *times = trace_u64(t, table->id, table->time_column);
	struct nvtx_cursor cursor = { .ranges = &s->ranges };

	for (struct row_walk w = all_rows(t, table->id); rc >= 0 && row_walk_next(&w);) {
		uint32_t range = NVTX_NO_RANGE;

		if (column_has(valid, w.row))
			rc = nvtx_cursor_at(&cursor, trace_process(t, w.process)->subject,
					    threads[w.row], times[w.row], &range);
		s->paths[w.row] = nvtx_path(&s->ranges, range);
	}
	map_release(&cursor.last);
	return rc == -ENOMEM ? error_set(e, rc, "out of memory") : rc;
}

int row_scopes_load(struct row_scopes *s, struct trace *t, const struct table_schema *table,
		    struct error *e)
{
	int rc = s->paths ? 0 : nvtx_ranges_init(&s->ranges, t, SCOPES_ALL, true, e);

	if (rc < 0 || s->paths)
		return rc;
	s->paths = malloc((trace_rows(t, table->id) + 1) * sizeof(*s->paths));
	if (!s->paths)
		return error_set(e, -ENOMEM, "out of memory");
	return table->launching_kinds || table->id == TABLE_api_call
		       ? find_by_call(s, t, table->id, e)
		       : find_by_thread(s, t, table, e);
}

void row_scopes_release(struct row_scopes *s)
{
	nvtx_ranges_release(&s->ranges);
	free(s->paths);
}
