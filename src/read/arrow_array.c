/*
 * arrow_array.c: columns of selected rows as Arrow arrays.
 *
 * Numbers, times, enums and row numbers of all rows are the trace's own arrays, without a copy.
 * Derived, referred and filtered values are gathered, one column per thread. Texts become indexes
 * into a dictionary that contains each text of that column once, in the form in which it is shown.
 * Consumers convert a dictionary as a whole, so it must not contain the texts of other columns.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/search.h"
#include "pitot/read.h"
#include "read/read_table.h"
#include "names/demangle.h"
#include "trace/columns.h"
#include "trace/parallel.h"

#define BLOCK 4096u /* rows per step; a multiple of 8 */

struct array_owner {
	struct pitot_recording *recording;
	const void *buffers[3];
	void *owned[3];
};

static void array_release(struct ArrowArray *a)
{
	struct array_owner *owner = a->private_data;

	for (int64_t i = 0; i < a->n_children; i++) {
		if (a->children[i]->release)
			a->children[i]->release(a->children[i]);
		free(a->children[i]);
	}
	free(a->children);
	if (a->dictionary && a->dictionary->release)
		a->dictionary->release(a->dictionary);
	free(a->dictionary);
	for (size_t i = 0; i < ARRAY_SIZE(owner->owned); i++)
		free(owner->owned[i]);
	pitot_read_close(owner->recording);
	free(owner);
	a->release = NULL;
}

static int array_init(struct ArrowArray *a, struct pitot_recording *recording, uint64_t length,
		      int64_t buffers)
{
	struct array_owner *owner = calloc(1, sizeof(*owner));

	if (!owner)
		return -ENOMEM;
	owner->recording = recording;
	recording_ref(recording);
	*a = (struct ArrowArray){ .length = (int64_t)length,
				  .n_buffers = buffers,
				  .buffers = owner->buffers,
				  .release = array_release,
				  .private_data = owner };
	return 0;
}

/* Allocates a buffer owned by the array, with Arrow's alignment; NULL if out of memory. */
static void *array_buffer(struct ArrowArray *a, size_t i, uint64_t size)
{
	struct array_owner *owner = a->private_data;

	size = (MAX(size, 1u) + 63) & ~UINT64_C(63);
	owner->owned[i] = size < (1 << 20) ? calloc(1, size) : aligned_alloc(64, size);
	owner->buffers[i] = owner->owned[i];
	return owner->owned[i];
}

/* Where the values of a column come from. */
struct source {
	const struct read_table *table;
	const struct view_column *column;
	enum table_id id; /* table of `values` */
	const void *values;
	const uint8_t *valid; /* of the values; NULL: none is missing */
	const uint32_t *via; /* VIEW_REFERRED: rows of `id`; NULL: the table's own rows */
	const uint8_t *via_valid;
	const uint64_t *ends; /* VIEW_DURATION: ends of the starts in `values` */
	const uint8_t *end_valid;
	size_t width;
	bool is_ref; /* the value TRACE_NO_ROW is missing */
};

static struct source source_of(const struct read_table *r, size_t i)
{
	const struct trace *t = r->view.trace;
	const struct view_column *c = &r->columns.items.data[i];
	struct source s = { .table = r, .column = c, .id = r->view.schema->id, .width = 8 };
	int column = c->column;

	if (c->kind == VIEW_PID || c->kind == VIEW_SCOPE) {
		s.width = 4;
		s.values = r->scopes.paths;
		s.is_ref = c->kind == VIEW_SCOPE;
		return s;
	}
	if (c->kind == VIEW_REFERRED) {
		s.via = trace_u32(t, s.id, column);
		s.via_valid = trace_valid(t, s.id, column);
		s.id = r->view.schema->columns[column].ref;
		column = c->sub_column;
	}
	s.values = trace_column(t, s.id, column);
	s.valid = trace_valid(t, s.id, column);
	if (c->kind == VIEW_DURATION) {
		s.ends = trace_u64(t, s.id, c->end_column);
		s.end_valid = trace_valid(t, s.id, c->end_column);
	} else {
		s.width =
			c->schema->type == COLUMN_TYPE_BYTES ? sizeof(uint32_t) : c->schema->width;
		s.is_ref = c->schema->type == COLUMN_TYPE_REF;
	}
	return s;
}

/* Finds the rows of s->values for n rows from `first`; TRACE_NO_ROW: refers to none. */
static void find_rows(const struct source *s, const uint32_t *rows, uint64_t first, uint32_t n,
		      uint32_t *index)
{
	for (uint32_t i = 0; i < n; i++)
		index[i] = rows ? rows[first + i] : (uint32_t)(first + i);
	for (uint32_t i = 0; i < n && s->via; i++)
		index[i] = column_has(s->via_valid, index[i]) ? s->via[index[i]] : TRACE_NO_ROW;
}

static void gather_pids(const struct source *s, const uint32_t *index, uint32_t n, uint32_t *out)
{
	const struct trace *t = s->table->view.trace;
	size_t process = trace_row_process(t, s->id, index[0]);

	for (uint32_t i = 0; i < n; i++) {
		while (index[i] >= trace_first_row(t, s->id, process + 1))
			process++;
		out[i] = trace_process(t, process)->pid;
	}
}

#define GATHER(type)                                                                               \
	for (uint32_t i = 0; i < n; i++)                                                           \
	((type *)out)[i] = index[i] == TRACE_NO_ROW ? 0 : ((const type *)s->values)[index[i]]

static void gather(const struct source *s, const uint32_t *index, uint32_t n, void *out)
{
	const uint64_t *starts = s->values;

	if (s->column->kind == VIEW_PID)
		gather_pids(s, index, n, out);
	else if (s->ends)
		for (uint32_t i = 0; i < n; i++)
			((uint64_t *)out)[i] = s->ends[index[i]] - starts[index[i]];
	else if (s->width == 1)
		GATHER(uint8_t);
	else if (s->width == 2)
		GATHER(uint16_t);
	else if (s->width == 4)
		GATHER(uint32_t);
	else
		GATHER(uint64_t);
}

static bool has_value(const struct source *s, uint32_t row)
{
	if (row == TRACE_NO_ROW || !column_has(s->valid, row))
		return false;
	if (s->ends)
		return column_has(s->end_valid, row) &&
		       s->ends[row] >= ((const uint64_t *)s->values)[row];
	return !s->is_ref || ((const uint32_t *)s->values)[row] != TRACE_NO_ROW;
}

/* Appends the validity bits of n rows; returns the number of missing values. */
static uint32_t add_bits(const struct source *s, const uint32_t *index, uint32_t n, uint8_t *bits)
{
	uint32_t missing = 0;

	for (uint32_t i = 0; i < n; i += 8) {
		uint8_t byte = 0;

		for (uint32_t k = 0; k < 8 && i + k < n; k++) {
			bool has = has_value(s, index[i + k]);

			byte |= (uint8_t)(has << k);
			missing += !has;
		}
		bits[i / 8] = byte;
	}
	return missing;
}

/* The texts of a column, each once. */
struct texts {
	struct interner interner;
	uint32_t *numbers; /* per id: number plus 1; 0: not seen yet */
};

static int64_t add_text(struct texts *texts, const struct read_table *r, size_t column, uint32_t id)
{
	_cleanup_strbuf_ struct strbuf shown = STRBUF_INIT, text = STRBUF_INIT;
	enum read_form form = r->forms[column];
	const struct trace *t = r->view.trace;

	if (r->columns.items.data[column].kind == VIEW_SCOPE)
		scope_path_text(&r->scopes.ranges, t, id, &shown);
	else if (form == READ_SHORT)
		kernel_name_short(trace_string(t, id), &shown);
	else if (form == READ_FULL)
		demangle(trace_string(t, id), &shown);
	else
		strbuf_add(&shown, trace_string(t, id), trace_string_length(t, id));
	strbuf_add_utf8(&text, strbuf_text(&shown), shown.length);
	if (shown.failed || text.failed)
		return -ENOMEM;
	return interner_add(&texts->interner, strbuf_text(&text), text.length, NULL);
}

/* Returns the number of possible ids of a column's texts: the trace's strings, or scope paths. */
static uint32_t text_ids(const struct read_table *r, size_t column)
{
	return r->columns.items.data[column].kind == VIEW_SCOPE
		       ? (uint32_t)r->scopes.ranges.path_count
		       : trace_string_count(r->view.trace);
}

/* Replaces text ids by dictionary numbers. Missing values become 0. */
static int number_texts(struct texts *texts, const struct read_table *r, size_t column,
			const uint8_t *bits, uint32_t *values, uint64_t n)
{
	uint32_t ids = text_ids(r, column);

	for (uint64_t i = 0; i < n; i++) {
		uint32_t id = MIN(values[i], ids);
		int64_t number;

		if (bits && !(bits[i / 8] >> i % 8 & 1)) {
			values[i] = 0;
			continue;
		}
		if (!texts->numbers[id]) {
			number = add_text(texts, r, column, id);
			if (number < 0)
				return -ENOMEM;
			texts->numbers[id] = (uint32_t)number + 1;
		}
		values[i] = texts->numbers[id] - 1;
	}
	return 0;
}

/* Builds the array of texts; E_LIMIT if they exceed 2 GiB. */
static int dictionary_init(struct ArrowArray *a, const struct interner *texts)
{
	struct ArrowArray *d = a->dictionary = calloc(1, sizeof(*d));
	struct array_owner *owner = a->private_data;
	int32_t *offsets, end = 0;
	char *bytes;

	if (!d || array_init(d, owner->recording, texts->count, 3) < 0)
		return -ENOMEM;
	if (texts->bytes > INT32_MAX)
		return E_LIMIT;
	offsets = array_buffer(d, 1, (texts->count + 1) * sizeof(*offsets));
	bytes = array_buffer(d, 2, texts->bytes);
	if (!offsets || !bytes)
		return -ENOMEM;
	for (size_t i = 0; i < texts->count; i++) {
		offsets[i] = end;
		memcpy(bytes + end, texts->items[i].text, texts->items[i].length);
		end += (int32_t)texts->items[i].length;
	}
	offsets[texts->count] = end;
	return 0;
}

static int add_dictionary(const struct read_table *r, size_t i, struct ArrowArray *a)
{
	struct texts texts = { .numbers = calloc((size_t)text_ids(r, i) + 1, sizeof(uint32_t)) };
	int result = -ENOMEM;

	interner_init(&texts.interner);
	if (texts.numbers)
		result = number_texts(&texts, r, i, a->buffers[0],
				      ((struct array_owner *)a->private_data)->owned[1],
				      (uint64_t)a->length);
	if (result == 0)
		result = dictionary_init(a, &texts.interner);
	interner_release(&texts.interner);
	free(texts.numbers);
	return result;
}

/*
 * Adds the names of all values up to the largest that occurs; unknown values of newer versions get
 * their numbers as names.
 */
static int add_enum(const struct column_schema *schema, struct ArrowArray *a)
{
	const uint8_t *values = a->buffers[1];
	uint8_t greatest = 0;
	struct interner names;
	int result = 0;

	for (unsigned v = 0; v < schema->value_count; v++)
		greatest = MAX(greatest, schema->values[v].value);
	for (int64_t i = 0; i < a->length; i++)
		greatest = MAX(greatest, values[i]);
	interner_init(&names);
	for (unsigned v = 0; v <= greatest && result == 0; v++) {
		const char *name = schema_value_name(schema, v);
		char number[8];

		snprintf(number, sizeof(number), "%u", v);
		name = name ? name : number;
		result = interner_add(&names, name, strlen(name), NULL) == v ? 0 : -ENOMEM;
	}
	if (result == 0)
		result = dictionary_init(a, &names);
	interner_release(&names);
	return result;
}

struct job {
	struct read_table *table;
	struct pitot_recording *recording;
	const uint32_t *rows; /* NULL: all */
	uint64_t count;
	struct ArrowArray *out;
};

/* Uses the trace's own array or a copy of the values, and sets the validity bits. */
static int fill(const struct job *job, const struct source *s, struct ArrowArray *a)
{
	struct array_owner *owner = a->private_data;
	bool own = s->column->kind == VIEW_STORED && !view_is_text(s->column) && !job->rows &&
		   s->values;
	bool maybe = s->valid || s->via || s->ends || s->is_ref;
	uint8_t *values = own ? NULL : array_buffer(a, 1, job->count * s->width),
		*bits = maybe ? array_buffer(a, 0, (job->count + 7) / 8) : NULL;
	uint32_t index[BLOCK];

	if ((!own && !values) || (maybe && !bits))
		return -ENOMEM;
	if (own)
		owner->buffers[1] = s->values;
	for (uint64_t first = 0; first < job->count && (!own || maybe); first += BLOCK) {
		uint32_t n = (uint32_t)MIN(BLOCK, job->count - first);

		find_rows(s, job->rows, first, n, index);
		if (!own)
			gather(s, index, n, values + first * s->width);
		if (maybe)
			a->null_count += add_bits(s, index, n, bits + first / 8);
	}
	if (a->null_count == 0)
		owner->buffers[0] = NULL;
	return 0;
}

static uint32_t stack_of(const struct job *job, uint64_t i)
{
	return job->table->stacks.stack_of_row[job->rows ? job->rows[i] : i];
}

/* Adds the names of all lists, concatenated, as the only child of their array. */
static int add_names(const struct job *job, struct ArrowArray *a, uint64_t count)
{
	const struct read_stacks *s = &job->table->stacks;
	struct ArrowArray *child = calloc(1, sizeof(*child));
	uint32_t *values;

	a->children = calloc(1, sizeof(struct ArrowArray *));
	if (!child || !a->children || array_init(child, job->recording, count, 2) < 0) {
		free(child);
		return -ENOMEM;
	}
	a->children[a->n_children++] = child;
	values = array_buffer(child, 1, count * sizeof(*values));
	if (!values)
		return -ENOMEM;
	for (uint64_t i = 0; i < job->count; i++) {
		const struct stack_frames *frames;

		if (stack_of(job, i) == TRACE_NO_ROW)
			continue;
		frames = &s->stacks.data[stack_of(job, i)];
		memcpy(values, s->names.data + frames->first, frames->count * sizeof(*values));
		values += frames->count;
	}
	return dictionary_init(child, &s->texts);
}

/* Encodes stacks as lists; E_LIMIT if they have 2^31 frames or more. */
static int fill_lists(const struct job *job, struct ArrowArray *a)
{
	int32_t *offsets = array_buffer(a, 1, (job->count + 1) * sizeof(*offsets));
	uint8_t *bits = array_buffer(a, 0, job->count / 8 + 1);
	uint64_t end = 0;

	if (!offsets || !bits)
		return -ENOMEM;
	memset(bits, 0, job->count / 8 + 1);
	for (uint64_t i = 0; i < job->count; i++) {
		uint32_t stack = stack_of(job, i);

		offsets[i] = (int32_t)end;
		if (stack == TRACE_NO_ROW) {
			a->null_count++;
			continue;
		}
		bits[i / 8] |= (uint8_t)(1 << i % 8);
		end += job->table->stacks.stacks.data[stack].count;
		if (end > INT32_MAX)
			return E_LIMIT;
	}
	offsets[job->count] = (int32_t)end;
	return add_names(job, a, end);
}

static int make_column(void *user, unsigned worker, size_t i)
{
	const struct job *job = user;
	const struct read_table *r = job->table;
	struct ArrowArray *a = job->out->children[i];
	int result = array_init(a, job->recording, job->count, 2);
	struct source source;

	(void)worker;
	if (r->forms[i] == READ_FRAMES)
		return result < 0 ? result : fill_lists(job, a);
	source = source_of(r, i);
	if (result == 0)
		result = fill(job, &source, a);
	if (result == 0 && read_is_text(r, i))
		return add_dictionary(r, i, a);
	return result == 0 && read_is_enum(r, i) ? add_enum(source.column->schema, a) : result;
}

struct row_list {
	VEC(uint32_t) rows;
};

/*
 * Appends the selected rows of a process. Rows are sorted by time, so a window is found without
 * examining all rows.
 */
static int select_of_process(const struct read_table *r, uint64_t row, uint64_t end,
			     struct row_list *list)
{
	const struct trace *t = r->view.trace;
	const struct table_schema *schema = r->view.schema;
	const uint64_t *times = r->windowed ? trace_u64(t, schema->id, schema->time_column) : NULL;
	const uint8_t *valid = r->windowed ? trace_valid(t, schema->id, schema->time_column) : NULL;

	if (times) {
		uint64_t begin = row, rows = end - row;

		row = begin + sorted_prefix(rows, i, times[begin + i] < r->since_ns);
		end = begin + sorted_prefix(rows, i, times[begin + i] < r->until_ns);
	}
	for (; row < end; row++)
		if (column_has(valid, row) && view_where_holds(&r->view, &r->where, row) &&
		    vec_push(&list->rows, (uint32_t)row) < 0)
			return -ENOMEM;
	return 0;
}

/* Selects the rows; the caller frees *rows. NULL: all rows. */
static int select_rows(const struct read_table *r, uint32_t **rows, uint64_t *count)
{
	const struct trace *t = r->view.trace;
	enum table_id id = r->view.schema->id;
	struct row_list chosen = { VEC_INIT };
	int result = 0;

	*count = trace_rows(t, id);
	*rows = NULL;
	if (!r->windowed && r->where.conditions.count == 0)
		return 0;
	if (vec_reserve(&chosen.rows, 1) < 0)
		return -ENOMEM;
	for (size_t p = 0; p < trace_process_count(t) && result == 0; p++)
		result = select_of_process(r, trace_first_row(t, id, p),
					   trace_first_row(t, id, p + 1), &chosen);
	if (result < 0)
		vec_release(&chosen.rows);
	*rows = chosen.rows.data;
	*count = chosen.rows.count;
	return result;
}

static int make_columns(struct job *job)
{
	size_t count = job->table->columns.items.count;
	int result = array_init(job->out, job->recording, job->count, 1);

	if (result < 0)
		return result;
	job->out->children = calloc(MAX(count, 1u), sizeof(*job->out->children));
	for (size_t i = 0; i < count && job->out->children; i++) {
		job->out->children[i] = calloc(1, sizeof(struct ArrowArray));
		if (!job->out->children[i])
			break;
		job->out->n_children++;
	}
	result = (size_t)job->out->n_children < count || !job->out->children
			 ? -ENOMEM
			 : parallel_for(parallel_processors(), count, make_column, job);
	if (result < 0)
		array_release(job->out);
	return result;
}

int read_table_array(struct read_table *r, struct pitot_recording *recording,
		     struct ArrowArray *out, struct error *e)
{
	struct job job = { .table = r, .recording = recording, .out = out };
	_cleanup_free_ uint32_t *rows = NULL;
	int result = view_columns_load(&r->view, &r->columns, e);

	if (result >= 0)
		result = view_columns_load(&r->view, &r->where.columns, e);
	for (size_t i = 0; i < r->columns.items.count && result >= 0; i++)
		if (r->forms[i] == READ_FRAMES)
			result = read_stacks_load(&r->stacks, r->view.trace, r->view.schema, e);
	if (result < 0)
		return result;
	if (view_where_prepare(&r->view, &r->where) < 0 || select_rows(r, &rows, &job.count) < 0)
		return error_set(e, -ENOMEM, "out of memory");
	job.rows = rows;
	result = make_columns(&job);
	return result < 0 ? error_set(e, result, "cannot read table '%s': %s", r->view.schema->name,
				      error_code_text(result))
			  : 0;
}
