/*
 * join.c: finds the api_call that launched a row, by process and correlation id.
 *
 * The calls of each process are distributed over about as many buckets, by correlation id. Ids come
 * from a counter that also counts calls which are not recorded, so they are spread evenly over a
 * range, and neighbours in time are neighbours in the buckets. If they are not (many gaps in the
 * recording, or hostile input), ids are hashed first.
 *
 * Calls with the same id (a runtime function and the driver function that it calls) are in their
 * bucket in the order of their rows, the outer call first. A call of a launching kind is preferred.
 * Correlation id 0 means none.
 */
#include "trace/trace_data.h"

#include <errno.h>
#include <string.h>

#include "trace/parallel.h"

#define ROWS_PER_ITEM 65536u

/* If a bucket has more calls than this, the ids are not spread evenly. */
#define BUCKET_MAX 64

struct call_index {
	uint64_t least;
	unsigned shift; /* bucket of an id: (id - least) >> shift; HASHED: hash of the id */
	uint32_t buckets; /* a power of two when hashed */
	uint32_t *first; /* bucket b is calls[first[b]] … calls[first[b + 1] - 1] */
	uint32_t *calls; /* rows of api_call */
};
#define HASHED 64u

/* Bucket of an id, or `buckets` if the id is out of range. */
static uint32_t bucket_of(const struct call_index *index, uint64_t id)
{
	uint64_t bucket;

	if (index->shift == HASHED)
		return (uint32_t)hash_u64(id) & (index->buckets - 1);
	bucket = (id - index->least) >> index->shift;
	return (uint32_t)MIN(bucket, index->buckets);
}

static uint32_t count_calls(struct call_index *index, const uint64_t *ids, uint64_t begin,
			    uint64_t end)
{
	uint32_t greatest = 0;

	memset(index->first, 0, ((size_t)index->buckets + 2) * sizeof(*index->first));
	for (uint64_t row = begin; row < end; row++) {
		uint32_t *count = &index->first[bucket_of(index, ids[row]) + 1];

		*count += ids[row] != 0;
		greatest = MAX(greatest, *count);
	}
	return greatest;
}

/* Chooses shift and buckets: at most twice as many buckets as calls. */
static void shape_buckets(struct call_index *index, const uint64_t *ids, uint64_t begin,
			  uint64_t end)
{
	uint64_t least = UINT64_MAX, greatest = 0;

	for (uint64_t row = begin; row < end; row++) {
		least = ids[row] ? MIN(least, ids[row]) : least;
		greatest = MAX(greatest, ids[row]);
	}
	least = MIN(least, greatest);
	index->least = least;
	index->shift = 0;
	while ((greatest - least) >> index->shift >= end - begin)
		index->shift++;
	index->buckets = (uint32_t)((greatest - least) >> index->shift) + 1;
}

static int index_process(void *user, unsigned worker, size_t process)
{
	const struct trace *t = user;
	const struct table_data *table = &t->tables[TABLE_api_call];
	const uint64_t *ids = table->columns[COLUMN_api_call_correlation].values;
	struct call_index *index = &t->calls[process];
	uint64_t begin = table->first_row[process], end = table->first_row[process + 1];

	(void)worker;
	if (begin == end)
		return 0;
	shape_buckets(index, ids, begin, end);
	/* also large enough for hashed ids, which have no more buckets */
	index->first = array_new((uint64_t)index->buckets + 2, sizeof(*index->first));
	index->calls = array_new(end - begin, sizeof(*index->calls));
	if (!index->first || !index->calls)
		return -ENOMEM;
	if (count_calls(index, ids, begin, end) > BUCKET_MAX) {
		index->shift = HASHED;
		index->buckets = 1u << (31 - __builtin_clz(index->buckets));
		count_calls(index, ids, begin, end);
	}
	for (uint32_t b = 0; b < index->buckets; b++)
		index->first[b + 1] += index->first[b];
	/* filling advances first[b] to the end of bucket b, which is the start of bucket b + 1 */
	for (uint64_t row = begin; row < end; row++)
		if (ids[row])
			index->calls[index->first[bucket_of(index, ids[row])]++] = (uint32_t)row;
	memmove(index->first + 1, index->first, (size_t)index->buckets * sizeof(*index->first));
	index->first[0] = 0;
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

static void drop_ids(struct table_data *table, const struct table_schema *schema)
{
	for (int c = 0; c < schema->column_count; c++) {
		if (!table->columns[c].for_join)
			continue;
		free(table->columns[c].values);
		free(table->columns[c].valid);
		table_set_column(table, schema, c, (struct column_data){ 0 });
	}
}

void trace_launches_done(struct trace *t)
{
	for (size_t id = 1; id <= TABLE_MAX; id++)
		drop_ids(&t->tables[id], schema_table((uint32_t)id));
	for (size_t i = 0; i < t->call_index_count; i++) {
		free(t->calls[i].first);
		free(t->calls[i].calls);
	}
	free(t->calls);
	t->calls = NULL;
	t->call_index_count = 0;
}

struct join {
	const struct trace *t;
	const struct table_data *table;
	const uint64_t *ids; /* the table's correlation ids; 0 where missing */
	const uint64_t *call_ids; /* correlation ids of api_call */
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

static uint32_t find_call(const struct join *join, const struct call_index *index, uint64_t id)
{
	uint32_t found = TRACE_NO_ROW, bucket, tried = 0;

	if (id == 0 || !index->first)
		return TRACE_NO_ROW;
	bucket = bucket_of(index, id);
	if (bucket == index->buckets)
		return TRACE_NO_ROW;
	for (uint32_t i = index->first[bucket]; i < index->first[bucket + 1]; i++) {
		if (join->call_ids[index->calls[i]] != id)
			continue;
		if (is_launching(join, index->calls[i]))
			return index->calls[i];
		if (tried++ == 0)
			found = index->calls[i];
		if (tried == BUCKET_MAX)
			break;
	}
	return found;
}

static int join_rows(void *user, unsigned worker, size_t item)
{
	const struct join *join = user;
	uint64_t row = (uint64_t)item * ROWS_PER_ITEM,
		 end = MIN(row + ROWS_PER_ITEM, join->table->rows);
	size_t process =
		trace_row_process(join->t, (enum table_id)(join->table - join->t->tables), row);

	(void)worker;
	for (; row < end; row++) {
		while (row >= join->table->first_row[process + 1])
			process++;
		join->launches[row] = find_call(join, &join->t->calls[process], join->ids[row]);
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
	int result = join.launches ? index_calls(t) : -ENOMEM;

	if (result < 0) {
		trace_launches_done(t);
		free(join.launches);
		return result;
	}
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
