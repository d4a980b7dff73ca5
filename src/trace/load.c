/*
 * load.c: decodes the requested columns of a table, on all processors.
 *
 * The first load of a table decides which rows it has. Each block is assigned rows, and all blocks
 * are decoded directly into them; if some are damaged, rows are assigned again without these
 * blocks. From then on rows do not move, so pointers to columns remain valid when other columns are
 * loaded; a block that fails later has missing values. The first load always includes the time
 * column, because it decides the order of the rows; the permutation is kept for later columns.
 * Tables with repeated rows load all their columns at once, and drop the repetitions.
 */
#include "base/plural.h"
#include "trace/trace_state.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/reserve.h"
#include "trace/parallel.h"

#define REPEATED_BYTES 48 /* memory per row while repeated rows are found */
#define ROWS_PER_THREAD 16384 /* fewer rows are not worth a thread */

/*
 * Values and validity start as zero pages, which take no memory until a value other than 0 comes.
 * Values in the memory of dropped correlation ids do not, but need no new pages: `report` clears 16
 * bytes a kernel with its call less.
 */
struct load_column {
	int index;
	const struct column_schema *schema;
	struct column_data data;
	bool zeroed; /* the values started as zero pages */
	uint8_t *complete; /* by block: no value is missing */
	atomic_bool has_values; /* some value is not 0 */
	atomic_bool has_valid; /* some value is not missing */
};

/* State of one thread. */
struct load_worker {
	struct decoder *decoder;
	uint8_t *valid; /* block_rows bytes for each column */
};

struct load_job {
	struct trace *t;
	struct table_data *table;
	enum table_id table_id;
	bool first; /* load of this table */
	bool overlaps; /* CPU samples of processes that two methods have sampled */
	unsigned threads;
	uint32_t block_rows; /* of the largest block */
	struct load_column columns[64];
	size_t column_count;
	struct load_worker workers[PARALLEL_MAX];
	pthread_mutex_t lock; /* for allocating column.data.valid */
	atomic_bool damaged;
	atomic_uint_fast64_t rows_done;
};

const struct session *item_session(const struct trace *t, const struct block_item *item)
{
	return &t->sessions.data[t->segments.data[item->segment].session];
}

#define CHECK_POINTERS(table, id, doc)                                                             \
	_Static_assert(sizeof(struct table##_columns) == 2 * COLUMNS_##table * sizeof(void *),     \
		       "pointers to values, then to validity");
SCHEMA_TABLES(CHECK_POINTERS)

void table_set_column(struct table_data *table, const struct table_schema *schema, int column,
		      struct column_data data)
{
	char *values = (char *)&table->by_name + (size_t)column * sizeof(void *);
	char *validity = values + schema->column_count * sizeof(void *);

	table->columns[column] = data;
	memcpy(values, &data.values, sizeof(data.values));
	memcpy(validity, &data.valid, sizeof(data.valid));
}

int rows_assign(struct trace *t, struct table_data *table, struct error *e)
{
	uint64_t *first_row = calloc(t->processes.count + 1, sizeof(*first_row));
	uint64_t row = 0;
	size_t process = 0;

	if (!first_row)
		return -ENOMEM;
	for (size_t i = 0; i < table->items.count; i++) {
		struct block_item *item = &table->items.data[i];

		while (process < item_session(t, item)->process)
			first_row[++process] = row;
		item->row = row;
		if (item->state != BLOCK_DAMAGED)
			row += item->rows;
	}
	while (process < t->processes.count)
		first_row[++process] = row;
	free(table->first_row);
	table->first_row = first_row;
	table->rows = row;
	table->rows_assigned = true;
	if (row < TRACE_NO_ROW)
		return 0;
	table->rows_assigned = false;
	return error_set(e, E_LIMIT, "%llu rows are too many for one table; the limit is %u",
			 (unsigned long long)row, TRACE_NO_ROW - 1);
}

void rows_unassign(struct trace *t, enum table_id id)
{
	struct table_data *table = &t->tables[id];

	table->rows_assigned = false;
	free(table->permutation);
	table->permutation = NULL;
	for (size_t i = 0; i < table->items.count; i++) {
		struct block_item *item = &table->items.data[i];

		item->rows = t->segments.data[item->segment].file.blocks[item->block].header.rows;
	}
}

/* Stores the validity of a block with missing values; mark_complete does so for other blocks. */
static int store_validity(struct load_job *job, struct load_column *column,
			  const struct block_item *item, const struct column_target *target)
{
	uint8_t *whole;

	pthread_mutex_lock(&job->lock);
	if (!column->data.valid)
		column->data.valid = array_zeroed(job->table->rows, 1);
	whole = column->data.valid;
	pthread_mutex_unlock(&job->lock);
	if (!whole)
		return -ENOMEM;
	if (!target->all_missing)
		memcpy(whole + item->row, target->valid, item->rows);
	return 0;
}

static void mark_complete(const struct load_job *job)
{
	for (size_t c = 0; c < job->column_count; c++) {
		uint8_t *valid = job->columns[c].data.valid;

		for (size_t i = 0; valid && i < job->table->items.count; i++)
			if (job->columns[c].complete[i])
				memset(valid + job->table->items.data[i].row, 1,
				       job->table->items.data[i].rows);
	}
}

/* Translates ids of the session to string ids of the trace, or to rows. */
static void translate(struct load_job *job, struct load_column *column,
		      const struct block_item *item, const uint8_t *valid)
{
	bool is_string = column->schema->type == COLUMN_TYPE_STRING;
	const struct table_data *target =
		&job->t->tables[is_string ? TABLE_string : column->schema->ref];
	const struct id_table *ids = &target->ids[job->t->segments.data[item->segment].session];
	uint32_t *values = (uint32_t *)column->data.values + item->row;
	uint32_t absent = is_string ? STRING_LOST : TRACE_NO_ROW,
		 missing = is_string ? STRING_EMPTY : TRACE_NO_ROW;

	for (uint32_t i = 0; i < item->rows; i++) {
		uint32_t value = id_table_get(ids, values[i]);

		if (valid && !valid[i]) {
			values[i] = missing;
			continue;
		}
		values[i] = value == ID_ABSENT ? absent : value;
	}
}

static int finish_block(struct load_job *job, const struct block_item *item,
			const struct column_target *targets)
{
	uint64_t shift_ns = job->t->segments.data[item->segment].shift_ns;

	for (size_t c = 0; c < job->column_count; c++) {
		struct load_column *column = &job->columns[c];
		const uint8_t *valid = targets[c].has_missing ? targets[c].valid : NULL;
		bool is_ref = column->schema->type == COLUMN_TYPE_REF;

		bool is_id = is_ref || (column->schema->type == COLUMN_TYPE_STRING &&
					!targets[c].all_missing);

		if (shift_ns && column->schema->type == COLUMN_TYPE_TIME && !targets[c].all_zero)
			host_time_shift(targets[c].values, valid, item->rows, shift_ns);
		/* 0 is the id of the empty string */
		if (is_id)
			translate(job, column, item, valid);
		if (is_id || !targets[c].all_zero)
			atomic_store_explicit(&column->has_values, true, memory_order_relaxed);
		if (!targets[c].all_missing)
			atomic_store_explicit(&column->has_valid, true, memory_order_relaxed);
		column->complete[item - job->table->items.data] = !valid;
		if (valid && store_validity(job, column, item, &targets[c]) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Marks all values as missing: other columns of the block could be decoded, but not these. */
static void set_missing(const struct load_job *job, struct block_item *item,
			struct column_target *targets)
{
	item->state = BLOCK_INCOMPLETE;
	for (size_t c = 0; c < job->column_count; c++) {
		memset(targets[c].values, 0, (size_t)item->rows * job->columns[c].schema->width);
		memset(targets[c].valid, 0, item->rows);
		targets[c].has_missing = targets[c].all_missing = targets[c].all_zero = true;
	}
}

static void report_progress(struct load_job *job, unsigned worker, uint32_t rows)
{
	const struct trace_options *options = &job->t->options;
	uint64_t done =
		atomic_fetch_add_explicit(&job->rows_done, rows, memory_order_relaxed) + rows;

	if (options->progress && worker == 0)
		options->progress(options->progress_user, done, job->table->rows);
}

/*
 * The times on which a column is based, if they are loaded and were not sorted; NULL: they are
 * decoded again. `report` has 6 % fewer instructions with them.
 */
static const uint64_t *base_values(const struct load_job *job, const struct load_column *column,
				   const struct block_item *item)
{
	int time_column = schema_table(job->table_id)->time_column;
	const uint64_t *times;

	if (job->first || job->table->permutation || time_column < 0 ||
	    column->schema->base != time_column || job->t->segments.data[item->segment].shift_ns)
		return NULL;
	times = job->table->columns[time_column].values;
	return times ? times + item->row : NULL;
}

#define WEIGHT_MAX (UINT64_C(1) << 50) /* 13 days of CPU time */

/*
 * Whether a CPU sample stands for more than is possible. Such a block is damaged; with what is left
 * the weights of all rows add up to less than 2^63, so that no reader's sums can wrap.
 */
static bool has_impossible_weights(const struct load_job *job, const struct block_item *item,
				   const struct column_target *targets)
{
	uint64_t most = MIN(WEIGHT_MAX, (UINT64_MAX >> 1) / MAX(job->table->rows, 1));
	size_t c = 0;

	while (c < job->column_count && job->columns[c].index != COLUMN_cpu_sample_weight_ns)
		c++;
	if (job->table_id != TABLE_cpu_sample || c == job->column_count)
		return false;
	for (uint32_t row = 0; row < item->rows; row++)
		if (((const uint64_t *)targets[c].values)[row] > most)
			return true;
	return false;
}

static int load_block(void *user, unsigned index, size_t number)
{
	struct load_job *job = user;
	struct load_worker *worker = &job->workers[index];
	struct block_item *item = &job->table->items.data[number];
	const struct segment *file = &job->t->segments.data[item->segment].file;
	struct column_target targets[64];
	int result;

	if (item->state == BLOCK_DAMAGED)
		return 0;
	for (size_t c = 0; c < job->column_count; c++) {
		const struct load_column *column = &job->columns[c];

		targets[c] = (struct column_target){
			.column = column->index,
			.values =
				(uint8_t *)column->data.values + item->row * column->schema->width,
			.valid = worker->valid + c * job->block_rows,
			.base = base_values(job, column, item),
			.zeroed = column->zeroed,
		};
	}
	result = block_decode(worker->decoder, file, &file->blocks[item->block], targets,
			      job->column_count);
	if (result == -ENOMEM)
		return result;
	if (result == 0 && has_impossible_weights(job, item, targets))
		result = E_FORMAT;
	if (result < 0 && job->first) {
		item->state = BLOCK_DAMAGED;
		atomic_store(&job->damaged, true);
		return 0;
	}
	if (result < 0)
		set_missing(job, item, targets);
	report_progress(job, index, item->rows);
	return finish_block(job, item, targets);
}

static void free_columns(struct load_job *job)
{
	for (size_t c = 0; c < job->column_count; c++) {
		free(job->columns[c].data.values);
		free(job->columns[c].data.valid);
		free(job->columns[c].complete);
		job->columns[c].complete = NULL;
		job->columns[c].data = (struct column_data){ .loaded = true };
	}
}

static int allocate_column(struct load_job *job, struct load_column *column)
{
	column->zeroed = !job->table->spare || column->schema->width != sizeof(uint64_t);
	if (column->zeroed) {
		column->data.values = array_zeroed(job->table->rows, column->schema->width);
	} else {
		column->data.values = job->table->spare;
		job->table->spare = NULL;
	}
	column->complete = calloc(job->table->items.count, 1);
	return column->data.values && column->complete ? 0 : -ENOMEM;
}

/* Decodes all blocks once. -EAGAIN: some are damaged, so rows must be assigned again. */
static int decode_blocks(struct load_job *job)
{
	int result;

	free_columns(job);
	if (job->table->rows == 0)
		return 0;
	for (size_t c = 0; c < job->column_count; c++)
		if (allocate_column(job, &job->columns[c]) < 0)
			return -ENOMEM;
	atomic_store(&job->damaged, false);
	atomic_store(&job->rows_done, 0);
	result = parallel_for(job->threads, job->table->items.count, load_block, job);
	mark_complete(job);
	return result == 0 && atomic_load(&job->damaged) ? -EAGAIN : result;
}

/* A few bytes of a file can encode very many rows, so check before allocating. */
static int check_memory(const struct load_job *job, const char *name, struct error *e)
{
	uint64_t memory = memory_share(1);
	uint64_t row_bytes = 0;

	for (size_t c = 0; c < job->column_count; c++)
		row_bytes += job->columns[c].schema->width;
	if (job->first && (schema_table(job->table_id)->repeated || job->overlaps))
		row_bytes += REPEATED_BYTES;
	if (row_bytes * job->table->rows <= memory)
		return 0;
	return error_set(e, E_LIMIT,
			 "table '%s' needs %llu MiB of memory, this machine has %llu; "
			 "load fewer columns",
			 name, (unsigned long long)(row_bytes * job->table->rows >> 20),
			 (unsigned long long)(memory >> 20));
}

static int permute_column(void *user, unsigned worker, size_t number)
{
	struct load_job *job = user;
	struct load_column *column = &job->columns[number];
	int result = 0;

	(void)worker;
	if (atomic_load_explicit(&column->has_values, memory_order_relaxed))
		result = sort_apply(column->data.values, column->schema->width,
				    job->table->permutation, job->table->rows);
	if (result == 0 && column->data.valid &&
	    atomic_load_explicit(&column->has_valid, memory_order_relaxed))
		result = sort_apply(column->data.valid, 1, job->table->permutation,
				    job->table->rows);
	return result;
}

static int order_rows(struct load_job *job, int time_column)
{
	struct table_data *table = job->table;
	int result;

	if (table->rows == 0 || time_column < 0)
		return 0;
	for (size_t c = 0; c < job->column_count && job->first; c++) {
		if (job->columns[c].index != time_column)
			continue;
		result = sort_rows(job->columns[c].data.values, table->first_row,
				   job->t->processes.count, &table->permutation);
		if (result < 0)
			return result;
	}
	return table->permutation
		       ? parallel_for(job->threads, job->column_count, permute_column, job)
		       : 0;
}

static int workers_init(struct load_job *job)
{
	size_t blocks = job->table->items.count;

	job->threads = (unsigned)MIN(job->t->options.threads,
				     blocks ? 1 + job->table->size.rows / ROWS_PER_THREAD : 0);
	for (size_t i = 0; i < blocks; i++)
		job->block_rows = MAX(job->block_rows, job->table->items.data[i].rows);
	for (unsigned i = 0; i < job->threads; i++) {
		job->workers[i].decoder = decoder_new();
		job->workers[i].valid = malloc(job->column_count * job->block_rows);
		if (!job->workers[i].decoder || !job->workers[i].valid)
			return -ENOMEM;
	}
	return 0;
}

static void workers_release(struct load_job *job)
{
	for (unsigned i = 0; i < job->threads; i++) {
		decoder_free(job->workers[i].decoder);
		free(job->workers[i].valid);
	}
}

/* Drops repeated rows, and CPU samples that do not count. All columns are loaded. */
static int drop_rows(struct load_job *job, struct error *e)
{
	struct row_column columns[64];

	for (size_t c = 0; c < job->column_count; c++) {
		struct column_data *data = &job->columns[c].data;

		if (!data->valid && job->overlaps) {
			data->valid = malloc(job->table->rows + 1);
			if (!data->valid)
				return -ENOMEM;
			memset(data->valid, 1, job->table->rows);
		}
		columns[c] = (struct row_column){ data->values, data->valid,
						  job->columns[c].schema->width };
	}
	return job->overlaps ? cpu_samples_resolve(job->t, columns, e)
			     : dedup_rows(job->t, job->table, columns, job->column_count, e);
}

/* Moves names that early versions wrote as text, into `other`, to `name`. */
static int read_old_names(struct load_job *job)
{
	struct column_data *name = &job->columns[COLUMN_capability_name].data;
	struct column_data *other = &job->columns[COLUMN_capability_other].data;
	uint8_t *names = name->values;
	uint32_t *others = other->values;

	if (job->table_id != TABLE_capability || !name->valid)
		return 0;
	if (!other->valid) {
		other->valid = array_zeroed(job->table->rows, 1);
		if (!other->valid)
			return -ENOMEM;
		memset(other->valid, 1, job->table->rows);
	}
	for (uint64_t row = 0; row < job->table->rows; row++) {
		if (name->valid[row])
			continue;
		names[row] = (uint8_t)feature_find(trace_string(job->t, others[row]));
		name->valid[row] = 1;
		if (names[row] == feature_other)
			continue;
		other->valid[row] = 0;
		others[row] = STRING_EMPTY;
	}
	atomic_store(&job->columns[COLUMN_capability_name].has_values, true);
	atomic_store(&job->columns[COLUMN_capability_name].has_valid, true);
	return 0;
}

static int run_job(struct load_job *job, const struct table_schema *schema, struct error *e)
{
	int result = workers_init(job);

	if (result < 0)
		return result;
	do {
		if (job->first)
			result = rows_assign(job->t, job->table, e);
		if (result == 0)
			result = check_memory(job, schema->name, e);
		if (result == 0)
			result = decode_blocks(job);
	} while (result == -EAGAIN);
	if (result == 0)
		result = read_old_names(job);
	if (result == 0 && job->table->rows && job->first && (schema->repeated || job->overlaps))
		result = drop_rows(job, e);
	if (result == 0)
		result = order_rows(job, schema->time_column);
	if (result < 0) {
		free_columns(job);
		if (job->first)
			rows_unassign(job->t, job->table_id);
		return result;
	}
	for (size_t c = 0; c < job->column_count; c++) {
		job->columns[c].data.has_values = atomic_load(&job->columns[c].has_values);
		table_set_column(job->table, schema, job->columns[c].index, job->columns[c].data);
		free(job->columns[c].complete);
	}
	return 0;
}

/* Lists the columns to decode, and loads the tables that they refer to. */
static int choose_columns(struct load_job *job, const struct table_schema *schema, uint64_t columns,
			  struct error *e)
{
	int result = job->first && job->table_id == TABLE_cpu_sample
			     ? cpu_samples_overlap(job->t, e)
			     : 0;

	job->overlaps = result > 0;
	result = MIN(result, 0);
	if (schema->repeated || job->overlaps)
		columns = UINT64_MAX; /* all columns decide which rows there are */
	if (schema->time_column >= 0)
		columns |= UINT64_C(1) << schema->time_column;
	for (int c = 0; c < schema->column_count && result == 0; c++) {
		const struct column_schema *column = &schema->columns[c];

		if (!(columns >> c & 1))
			continue;
		job->table->columns[c].for_join = false;
		if (job->table->columns[c].loaded)
			continue;
		if (column->type == COLUMN_TYPE_STRING)
			result = refs_load(job->t, TABLE_string, e);
		else if (column->type == COLUMN_TYPE_REF)
			result = refs_load(job->t, column->ref, e);
		job->columns[job->column_count].index = c;
		job->columns[job->column_count++].schema = column;
	}
	return result;
}

int trace_load_repeated(struct trace *t, struct error *e)
{
	int result = 0;

	for (uint32_t id = 1; id <= TABLE_MAX && (result >= 0 || result == E_LIMIT); id++)
		if (schema_table(id)->repeated ||
		    (id == TABLE_cpu_sample && cpu_samples_overlap(t, e) > 0))
			result = trace_load(t, (enum table_id)id, 0, e);
	return result == E_LIMIT ? 0 : result;
}

void trace_load_done(struct trace *t)
{
	for (size_t id = 1; id <= TABLE_MAX; id++) {
		struct table_data *table = &t->tables[id];

		table->order_forgotten |= table->permutation != NULL;
		free(table->permutation);
		table->permutation = NULL;
		free(table->spare);
		table->spare = NULL;
	}
}

int trace_load(struct trace *t, enum table_id id, uint64_t columns, struct error *e)
{
	const struct table_schema *schema = schema_table(id);
	struct load_job *job;
	int result;

	if (!schema || (schema->column_count < 64 && columns >> schema->column_count))
		return error_set(e, E_USAGE, "no such table or column");
	if (id == TABLE_string)
		return strings_decode(t, e);
	job = calloc(1, sizeof(*job));
	if (!job)
		return error_errno(e, ENOMEM, "cannot load table '%s'", schema->name);
	job->t = t;
	job->table = &t->tables[id];
	job->table_id = id;
	job->first = !job->table->rows_assigned;
	pthread_mutex_init(&job->lock, NULL);
	result = choose_columns(job, schema, columns ? columns : UINT64_MAX, e);
	if (result == 0 && job->column_count && job->table->order_forgotten)
		result = error_set(e, E_USAGE, "columns of table '%s' after trace_load_done",
				   schema->name);
	if (result == 0 && job->column_count)
		result = run_job(job, schema, e);
	if (result == -ENOMEM)
		error_errno(e, ENOMEM, "cannot load table '%s' of %llu row%s", schema->name,
			    (unsigned long long)job->table->size.rows,
			    plural(job->table->size.rows));
	workers_release(job);
	pthread_mutex_destroy(&job->lock);
	free(job);
	return result;
}
