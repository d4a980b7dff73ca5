/*
 * join.c: finds the api_call that launched a row, by process and correlation id.
 *
 * The calls of each process are sorted by correlation id. Ids come from a counter, so the calls,
 * which are in order of time, are sorted or nearly so, and sort_rows has little to do. Rows of work
 * are nearly in the order of their calls, so each search begins where the one before ended, and its
 * steps double.
 *
 * Calls with the same id (a runtime function and the driver function that it calls) are in the
 * order of their rows, the outer call first. A call of a launching kind is preferred. Correlation
 * id 0 means none.
 */
#include "trace/trace_state.h"

#include <errno.h>
#include <string.h>

#include "base/search.h"
#include "trace/parallel.h"

#define ROWS_PER_ITEM 65536u

/* Only this many calls with the same id are searched for one of a launching kind. */
#define CALLS_PER_ID 64

static int sort_calls(struct trace *t)
{
	const struct table_data *table = &t->tables[TABLE_api_call];
	int result = 0;

	if (!t->calls_sorted && table->rows)
		result = sort_rows(table->columns[COLUMN_api_call_correlation].values,
				   table->first_row, t->processes.count, &t->calls_by_id);
	t->calls_sorted = result == 0;
	return result;
}

static void drop_ids(struct table_data *table, const struct table_schema *schema)
{
	for (int c = 0; c < schema->column_count; c++) {
		if (!table->columns[c].for_join)
			continue;
		free(table->spare);
		table->spare = table->columns[c].values;
		free(table->columns[c].valid);
		table_set_column(table, schema, c, (struct column_data){ 0 });
	}
}

void trace_launches_done(struct trace *t)
{
	for (size_t id = 1; id <= TABLE_MAX; id++)
		drop_ids(&t->tables[id], schema_table((uint32_t)id));
	free(t->calls_by_id);
	t->calls_by_id = NULL;
	t->calls_sorted = false;
}

struct join {
	const struct trace *t;
	const struct table_data *table;
	const uint64_t *ids; /* the table's correlation ids; 0 where missing */
	const uint64_t *call_ids; /* correlation ids of api_call */
	const uint32_t *order; /* the calls of each process by id; NULL: by row */
	uint32_t kinds;
	uint32_t *launches;
};

static bool is_launching(const struct join *join, uint32_t call)
{
	const uint32_t *functions =
		join->t->tables[TABLE_api_call].columns[COLUMN_api_call_function].values;
	const uint8_t *kinds =
		join->t->tables[TABLE_api_function].columns[COLUMN_api_function_kind].values;
	uint32_t function = functions[call];

	return function != TRACE_NO_ROW && kinds[function] < 32 &&
	       join->kinds >> kinds[function] & 1;
}

/* The calls of one process, as indexes of `order`. */
struct search {
	const struct join *join;
	uint64_t begin, end;
	uint64_t at; /* where the latest search ended */
};

static uint32_t call_at(const struct join *join, uint64_t i)
{
	return join->order ? join->order[i] : (uint32_t)i;
}

static bool is_before(const struct search *s, uint64_t i, uint64_t id)
{
	return s->join->call_ids[call_at(s->join, i)] < id;
}

/* Moves to the first call whose id is not less. */
static void advance(struct search *s, uint64_t id)
{
	uint64_t low = s->at, high = s->at, step = 1;

	while (high < s->end && is_before(s, high, id)) {
		low = high + 1;
		high = MIN(high + step, s->end);
		step *= 2;
	}
	while (low > s->begin && !is_before(s, low - 1, id)) {
		high = low - 1;
		low = high - MIN(high - s->begin, step);
		step *= 2;
	}
	s->at = low + sorted_prefix(high - low, i, is_before(s, low + i, id));
}

static uint32_t find_call(struct search *s, uint64_t id)
{
	const struct join *join = s->join;
	uint32_t found = TRACE_NO_ROW, tried = 0;

	if (id == 0)
		return TRACE_NO_ROW;
	advance(s, id);
	for (uint64_t i = s->at; i < s->end && tried < CALLS_PER_ID; i++) {
		uint32_t call = call_at(join, i);

		if (join->call_ids[call] != id)
			break;
		if (is_launching(join, call))
			return call;
		if (tried++ == 0)
			found = call;
	}
	return found;
}

static int join_rows(void *user, unsigned worker, size_t item)
{
	const struct join *join = user;
	enum table_id id = (enum table_id)(join->table - join->t->tables);
	uint64_t row = (uint64_t)item * ROWS_PER_ITEM,
		 end = MIN(row + ROWS_PER_ITEM, join->table->rows);

	(void)worker;
	while (row < end) {
		size_t process = trace_row_process(join->t, id, row);
		uint64_t last = MIN(end, join->table->first_row[process + 1]);
		struct search s = { .join = join };

		s.begin = s.at = trace_first_row(join->t, TABLE_api_call, process);
		s.end = trace_first_row(join->t, TABLE_api_call, process + 1);
		for (; row < last; row++)
			join->launches[row] = find_call(&s, join->ids[row]);
	}
	return 0;
}

/* Marks correlation ids that only the join has loaded, so that trace_launches_done frees them. */
static int load_ids(struct trace *t, enum table_id table, int correlation, struct error *e)
{
	struct column_data *column = &t->tables[table].columns[correlation];
	bool is_others = column->loaded && !column->for_join;
	int result = trace_load(t, table, UINT64_C(1) << correlation, e);

	column->for_join = result == 0 && !is_others;
	return result;
}

static int load_columns(struct trace *t, enum table_id table, int correlation, struct error *e)
{
	int result = load_ids(t, table, correlation, e);

	if (result == 0)
		result = load_ids(t, TABLE_api_call, COLUMN_api_call_correlation, e);
	if (result == 0)
		result = trace_load(t, TABLE_api_function, COLUMN_BITS(api_function, kind), e);
	if (result == 0)
		result = trace_load(t, TABLE_api_call, COLUMN_BITS(api_call, function), e);
	return result;
}

static int join_table(struct trace *t, struct table_data *table, enum table_id id, int correlation)
{
	struct join join = {
		.t = t,
		.table = table,
		.ids = table->columns[correlation].values,
		.call_ids = t->tables[TABLE_api_call].columns[COLUMN_api_call_correlation].values,
		.kinds = schema_table(id)->launching_kinds,
		.launches = array_new(table->rows, sizeof(uint32_t)),
	};
	int result = join.launches ? sort_calls(t) : -ENOMEM;

	if (result < 0) {
		trace_launches_done(t);
		free(join.launches);
		return result;
	}
	join.order = t->calls_by_id;
	parallel_for(t->options.threads, (table->rows + ROWS_PER_ITEM - 1) / ROWS_PER_ITEM,
		     join_rows, &join);
	table->launches = join.launches;
	return 0;
}

int trace_launches(struct trace *t, enum table_id id, const uint32_t **calls, struct error *e)
{
	const struct table_schema *schema = schema_table(id);
	int correlation, result;

	if (!schema || !schema->launching_kinds)
		return error_set(e, E_USAGE, "table '%s' has no launches",
				 schema ? schema->name : "?");
	correlation = schema->roles[ROLE_CORRELATION];
	if (!t->tables[id].launches) {
		result = load_columns(t, id, correlation, e);
		if (result == 0)
			result = join_table(t, &t->tables[id], id, correlation);
		if (result == -ENOMEM)
			return error_errno(e, ENOMEM, "cannot find the launches of table '%s'",
					   schema->name);
		if (result < 0)
			return result;
	}
	*calls = t->tables[id].launches;
	return 0;
}
