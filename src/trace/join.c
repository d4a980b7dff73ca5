/*
 * join.c: which api_call launched a row, by process and correlation id.
 *
 * One index per process leads from a correlation id to the first call that has it, which is the outermost one, as calls
 * are ordered by their start. Further calls with the same id (a runtime function and the driver function that it calls)
 * are rare, and stand in a list sorted by id that is only looked at when the first one is not of a suitable kind.
 * Correlation id 0 stands for none.
 */
#include "trace/trace_data.h"

#include <errno.h>
#include <string.h>

#include "trace/parallel.h"

#define ROWS_PER_ITEM 65536u

struct further_call {
	uint64_t correlation;
	uint32_t row;
};

struct call_index {
	struct id_table first;
	VEC(struct further_call) further;
};

/* The kinds of calls that launch rows of a table, as bits of enum api_kind; 0: the table has no launches. */
static uint32_t launching_kinds(enum table_id table)
{
	const uint32_t graph = 1u << api_kind_graph_launch;

	switch (table) {
	case TABLE_kernel:
		return 1u << api_kind_launch | graph;
	case TABLE_memcpy:
		return 1u << api_kind_memcpy | graph;
	case TABLE_memset:
		return 1u << api_kind_memset | graph;
	case TABLE_synchronization:
		return 1u << api_kind_synchronize;
	case TABLE_graph_launch:
		return graph;
	case TABLE_cuda_event:
		return 1u << api_kind_event | graph;
	case TABLE_allocation:
	case TABLE_memory_pool:
		return 1u << api_kind_allocate | 1u << api_kind_release;
	default:
		return 0;
	}
}

static int compare_further(const void *a, const void *b)
{
	const struct further_call *x = a, *y = b;

	if (x->correlation != y->correlation)
		return x->correlation < y->correlation ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

static int index_process(void *user, unsigned worker, size_t process)
{
	const struct trace *t = user;
	const struct table_data *table = &t->tables[TABLE_api_call];
	const uint64_t *correlations = table->columns[COLUMN_api_call_correlation].values;
	struct call_index *index = &t->calls[process];
	uint64_t begin = table->first_row[process], end = table->first_row[process + 1];
	uint64_t least = UINT64_MAX, greatest = 0;

	(void)worker;
	if (begin == end)
		return 0;
	for (uint64_t i = begin; i < end; i++) {
		least = MIN(least, correlations[i]);
		greatest = MAX(greatest, correlations[i]);
	}
	if (id_table_init(&index->first, least, greatest, end - begin) < 0)
		return -ENOMEM;
	for (uint64_t i = begin; i < end; i++) {
		struct further_call call = { correlations[i], (uint32_t)i };
		int added = call.correlation ? id_table_add(&index->first, call.correlation, call.row) : 1;

		if (added < 0 || (added == 0 && vec_push(&index->further, call) < 0))
			return -ENOMEM;
	}
	if (index->further.count)
		qsort(index->further.data, index->further.count, sizeof(struct further_call), compare_further);
	return 0;
}

static int index_calls(struct trace *t)
{
	if (t->calls)
		return 0;
	t->calls = calloc(t->processes.count, sizeof(*t->calls));
	if (!t->calls)
		return -ENOMEM;
	t->call_index_count = t->processes.count;
	return parallel_for(t->options.threads, t->call_index_count, index_process, t);
}

void calls_release(struct trace *t)
{
	for (size_t i = 0; i < t->call_index_count; i++) {
		id_table_release(&t->calls[i].first);
		vec_release(&t->calls[i].further);
	}
	free(t->calls);
	t->calls = NULL;
	t->call_index_count = 0;
}

struct join {
	const struct trace *t;
	const struct table_data *table;
	const uint64_t *correlations;	/* of the table */
	const uint8_t *valid;
	uint32_t kinds;
	uint32_t *launches;
};

static bool suits(const struct join *join, uint32_t call)
{
	const uint32_t *functions = join->t->tables[TABLE_api_call].columns[COLUMN_api_call_function].values;
	const uint8_t *kinds = join->t->tables[TABLE_api_function].columns[COLUMN_api_function_kind].values;
	uint32_t function = functions[call];

	return function != TRACE_NO_ROW && kinds[function] < 32 && join->kinds >> kinds[function] & 1;
}

/* The first further call with this id that suits, or `otherwise`. */
static uint32_t find_further(const struct join *join, const struct call_index *index, uint64_t correlation,
			     uint32_t otherwise)
{
	size_t low = 0, high = index->further.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (index->further.data[middle].correlation < correlation)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < index->further.count && index->further.data[low].correlation == correlation; low++)
		if (suits(join, index->further.data[low].row))
			return index->further.data[low].row;
	return otherwise;
}

static int join_rows(void *user, unsigned worker, size_t item)
{
	const struct join *join = user;
	uint64_t row = (uint64_t)item * ROWS_PER_ITEM, end = MIN(row + ROWS_PER_ITEM, join->table->rows);
	size_t process = trace_row_process(join->t, (enum table_id)(join->table - join->t->tables), row);

	(void)worker;
	for (; row < end; row++) {
		uint64_t correlation = join->correlations[row];
		const struct call_index *index;
		uint32_t call = TRACE_NO_ROW;

		while (row >= join->table->first_row[process + 1])
			process++;
		index = &join->t->calls[process];
		if (correlation && (!join->valid || join->valid[row]))
			call = id_table_get(&index->first, correlation);
		if (call != TRACE_NO_ROW && index->further.count && !suits(join, call))
			call = find_further(join, index, correlation, call);
		join->launches[row] = call;
	}
	return 0;
}
_Static_assert(ID_ABSENT == TRACE_NO_ROW, "an absent id is no row");

static int load_columns(struct trace *t, enum table_id table, int correlation, struct error *e)
{
	int result = trace_load(t, table, UINT64_C(1) << correlation, e);

	if (result == 0)
		result = trace_load(t, TABLE_api_function, COLUMN_BIT(api_function, kind), e);
	if (result == 0)
		result = trace_load(t, TABLE_api_call,
				    COLUMN_BIT(api_call, correlation) | COLUMN_BIT(api_call, function), e);
	return result;
}

static int join_table(struct trace *t, struct table_data *table, enum table_id id, int correlation)
{
	struct join join = {
		.t = t,
		.table = table,
		.correlations = table->columns[correlation].values,
		.valid = table->columns[correlation].valid,
		.kinds = launching_kinds(id),
		.launches = array_new(table->rows, sizeof(uint32_t)),
	};
	int result = join.launches ? index_calls(t) : -ENOMEM;

	if (result < 0) {
		calls_release(t);
		free(join.launches);
		return result;
	}
	parallel_for(t->options.threads, (table->rows + ROWS_PER_ITEM - 1) / ROWS_PER_ITEM, join_rows, &join);
	table->launches = join.launches;
	return 0;
}

int trace_launches(struct trace *t, enum table_id id, const uint32_t **calls, struct error *e)
{
	const struct table_schema *schema = schema_table(id);
	int correlation = schema ? schema_column_by_name(schema, "correlation") : -1;
	int result;

	if (correlation < 0 || launching_kinds(id) == 0)
		return error_set(e, E_USAGE, "table '%s' has no launches", schema ? schema->name : "?");
	if (!t->tables[id].launches) {
		result = load_columns(t, id, correlation, e);
		if (result == 0)
			result = join_table(t, &t->tables[id], id, correlation);
		if (result == -ENOMEM)
			return error_errno(e, ENOMEM, "cannot find the launches of table '%s'", schema->name);
		if (result < 0)
			return result;
	}
	*calls = t->tables[id].launches;
	return 0;
}
