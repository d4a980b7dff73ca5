#include "cli/flame_print.h"

#include <errno.h>

static enum table_id flame_table(size_t i)
{
	static const enum table_id others[] = { TABLE_api_call, TABLE_cpu_sample, TABLE_off_cpu };

	return i < GPU_WORK_KINDS ? schema_gpu_work[i]->id : others[i - GPU_WORK_KINDS];
}

/* Adds a condition to all tables; at least one must have the column. */
static int add_condition(struct flame_where *w, const char *text, struct error *e)
{
	struct error first = { 0 };
	unsigned known = 0;

	for (size_t i = 0; i < FLAME_TABLES; i++) {
		struct error mine = { 0 };
		int rc = view_where_add(&w->tables[i], text, &w->conditions[i], &mine);

		if (rc == -ENOMEM)
			return error_set(e, rc, "out of memory");
		if (rc >= 0)
			known++;
		else
			w->left_out[i] = true;
		if (rc < 0 && !first.code)
			first = mine;
	}
	return known ? 0 : error_set(e, first.code, "%s", first.text);
}

int flame_where_init(struct flame_where *w, struct trace *t, const struct option_list *conditions,
		     struct error *e)
{
	uint64_t origin_ns, end_ns;
	int rc = 0;

	*w = (struct flame_where){ 0 };
	trace_span(t, &origin_ns, &end_ns);
	for (size_t i = 0; i < FLAME_TABLES; i++)
		w->tables[i] = (struct view_table){ .trace = t,
						    .schema = schema_table(flame_table(i)),
						    .origin_ns = origin_ns };
	for (unsigned i = 0; i < conditions->count && rc >= 0; i++)
		rc = add_condition(w, conditions->items[i], e);
	for (size_t i = 0; i < FLAME_TABLES && rc >= 0; i++) {
		rc = view_columns_load(&w->tables[i], &w->conditions[i].columns, e);
		if (rc >= 0 && view_where_prepare(&w->tables[i], &w->conditions[i]) < 0)
			rc = error_set(e, -ENOMEM, "out of memory");
	}
	return rc;
}

void flame_where_release(struct flame_where *w)
{
	for (size_t i = 0; i < FLAME_TABLES; i++)
		view_where_release(&w->conditions[i]);
}

bool flame_where_holds(void *user, enum table_id table, uint64_t row)
{
	const struct flame_where *w = user;

	for (size_t i = 0; i < FLAME_TABLES; i++)
		if (flame_table(i) == table)
			return !w->left_out[i] &&
			       view_where_holds(&w->tables[i], &w->conditions[i], row);
	return false;
}
