#include "export/tables/flat_table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/search.h"
#include "names/demangle.h"
#include "trace/columns.h"
#include "trace/counter_value.h"
#include "trace/events.h"

/* ---- columns ---- */

static const struct {
	const char *name;
	enum flat_type type;
	enum flat_source source;
	bool maybe;
	const char *meaning;
} leading[] = {
	{ "job", FLAT_TEXT, FLAT_JOB, true, "job of a scheduler, if known" },
	{ "host", FLAT_TEXT, FLAT_HOST, false, "host name" },
	{ "rank", FLAT_I32, FLAT_RANK, true, "rank in the job" },
	{ "pid", FLAT_U32, FLAT_PID, false, "process id" },
	{ "session", FLAT_U64, FLAT_SESSION, false, "id of the recorded process image" },
};

static struct flat_column *add_column(struct flat_table *f, const char *name, enum flat_type type,
				      enum flat_source source, int column)
{
	struct flat_column c = { .type = type, .source = source, .column = column, .meaning = "" };

	snprintf(c.name, sizeof(c.name), "%s", name);
	if (vec_push(&f->columns, c) < 0)
		return NULL;
	return &f->columns.data[f->columns.count - 1];
}

static enum flat_type type_of(const struct column_schema *c)
{
	switch (c->type) {
	case COLUMN_TYPE_TIME:
		return FLAT_TIME;
	case COLUMN_TYPE_STRING:
	case COLUMN_TYPE_ENUM:
		return FLAT_TEXT;
	case COLUMN_TYPE_I32:
		return FLAT_I32;
	case COLUMN_TYPE_I64:
		return FLAT_I64;
	case COLUMN_TYPE_U64:
		return FLAT_U64;
	default:
		return FLAT_U32;
	}
}

/* Whether the bits of the column are a double, or a number that its counter explains. */
static bool is_reading(enum table_id table, int column)
{
	return (table == TABLE_counter_sample && column == COLUMN_counter_sample_value) ||
	       (table == TABLE_metric_value && column == COLUMN_metric_value_value) ||
	       (table == TABLE_range_value && column == COLUMN_range_value_value);
}

static bool is_leading(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(leading); i++)
		if (!strcmp(leading[i].name, name))
			return true;
	return false;
}

/* The column with the name of a table's rows, or -1. */
static int label_of(const struct table_schema *s)
{
	int label = s->roles[ROLE_LABEL];

	return label >= 0 ? label : schema_column_by_name(s, "name");
}

static int add_stored(struct flat_table *f, int i)
{
	const struct table_schema *s = f->schema;
	const struct column_schema *c = &s->columns[i];
	bool reading = is_reading(s->id, i), is_ref = c->type == COLUMN_TYPE_REF;
	struct flat_column *column = add_column(f, c->name, reading ? FLAT_F64 : type_of(c),
						reading ? FLAT_READING : FLAT_STORED, i);
	char name[64];

	if (!column)
		return -ENOMEM;
	if (is_leading(c->name))
		snprintf(column->name, sizeof(column->name), "%s_%s", s->name, c->name);
	/* A reference may lead nowhere in a damaged recording. */
	column->maybe = c->maybe || is_ref;
	column->is_end = i == s->roles[ROLE_END] && s->roles[ROLE_START] >= 0;
	column->meaning = c->meaning;
	if (!is_ref || label_of(schema_table(c->ref)) < 0)
		return 0;
	snprintf(name, sizeof(name), "%s_name", c->name);
	column = add_column(f, name, FLAT_TEXT, FLAT_NAME, i);
	if (!column)
		return -ENOMEM;
	column->maybe = true;
	column->meaning = "name of that";
	return 0;
}

/* Whether rows of other tables refer to rows of this one. */
static bool is_referred(enum table_id table)
{
	for (uint32_t id = 1; id <= TABLE_MAX; id++)
		for (int i = 0; i < schema_table(id)->column_count; i++)
			if (schema_table(id)->columns[i].ref == table)
				return true;
	return false;
}

static int add_columns(struct flat_table *f)
{
	const struct table_schema *s = f->schema;
	struct flat_column *c;
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(leading); i++) {
		c = add_column(f, leading[i].name, leading[i].type, leading[i].source, -1);
		if (!c)
			return -ENOMEM;
		c->maybe = leading[i].maybe;
		c->meaning = leading[i].meaning;
	}
	if (is_referred(s->id)) {
		c = add_column(f, "row", FLAT_U32, FLAT_ROW, -1);
		if (!c)
			return -ENOMEM;
		c->meaning = "number that columns of other tables refer to";
	}
	for (int i = 0; i < s->column_count && rc == 0; i++)
		if (s->id != TABLE_process || !is_leading(s->columns[i].name))
			rc = add_stored(f, i);
	if (rc < 0 || s->roles[ROLE_START] < 0 || s->roles[ROLE_END] < 0)
		return rc;
	c = add_column(f, "duration_ns", FLAT_U64, FLAT_DURATION, s->roles[ROLE_START]);
	if (!c)
		return -ENOMEM;
	c->maybe = true;
	c->meaning = "end - start";
	return 0;
}

/* Loads what labels of a referred table need, which may be another table. */
static int load_label(struct trace *t, enum table_id table, struct error *e)
{
	const struct table_schema *s = schema_table(table);
	int label = label_of(s);
	int rc = 0;

	if (label >= 0)
		rc = trace_load(t, table, UINT64_C(1) << label, e);
	if (rc >= 0 && label >= 0 && s->columns[label].type == COLUMN_TYPE_REF)
		rc = load_label(t, (enum table_id)s->columns[label].ref, e);
	return rc;
}

uint64_t flat_row_at(const struct flat_table *f, size_t process, uint64_t time_ns)
{
	const uint64_t *times = trace_u64(f->trace, f->schema->id, f->schema->time_column);
	uint64_t from = trace_first_row(f->trace, f->schema->id, process);
	uint64_t to = trace_first_row(f->trace, f->schema->id, process + 1);

	return from + sorted_prefix(to - from, i, times[from + i] < time_ns);
}

/* The rows of a process that are to be written. */
static void rows_of_process(const struct flat_table *f, size_t process, uint64_t *from,
			    uint64_t *to)
{
	*from = trace_first_row(f->trace, f->schema->id, process);
	*to = trace_first_row(f->trace, f->schema->id, process + 1);
	if (f->partitions && f->partitions[process] != f->partition) {
		*to = *from;
	} else if (f->windowed) {
		*from = flat_row_at(f, process, f->options->since_ns);
		*to = flat_row_at(f, process, f->options->until_ns);
	}
}

static uint64_t count_rows(const struct flat_table *f)
{
	uint64_t rows = 0, from, to;

	if (!f->windowed && !f->partitions)
		return trace_rows(f->trace, f->schema->id);
	for (size_t p = 0; p < trace_process_count(f->trace); p++) {
		rows_of_process(f, p, &from, &to);
		rows += to - from;
	}
	return rows;
}

/* Without a choice of rows, those of several processes are one after the other. */
bool flat_next(struct flat_table *f, uint64_t *first, size_t *count)
{
	uint64_t from = 0,
		 end = f->given || f->memory ? f->rows : trace_rows(f->trace, f->schema->id);
	bool by_process = f->windowed || f->partitions;

	for (; by_process && f->process < trace_process_count(f->trace); f->process++) {
		rows_of_process(f, f->process, &from, &end);
		f->next = MAX(f->next, from);
		if (f->next < end)
			break;
	}
	if (f->next >= end || (by_process && f->process == trace_process_count(f->trace)))
		return false;
	*first = f->next;
	*count = (size_t)MIN(end - f->next, (uint64_t)FLAT_ROWS);
	f->next += *count;
	f->taken += *count;
	return true;
}

static bool is_for_exports(enum table_id table)
{
	return table != TABLE_string;
}

int flat_progress(const struct flat_table *f)
{
	const struct export_options *o = f->options;
	uint64_t total = 0;

	if (!o)
		return 0;
	for (uint32_t id = 1; id <= TABLE_MAX && o->progress; id++)
		total += is_for_exports((enum table_id)id) ? trace_rows(f->trace, id) : 0;
	if (o->progress)
		o->progress(o->progress_user, export_result_events(f->result) + f->taken, total);
	return o->cancel && *o->cancel ? -ECANCELED : 0;
}

int flat_describe(struct flat_table *f, struct trace *t, enum table_id table, struct error *e)
{
	*f = (struct flat_table){ .trace = t, .schema = schema_table(table) };
	f->offset_ns = trace_unix_ns(t, 0);
	return add_columns(f) < 0 ? error_set(e, -ENOMEM, "out of memory") : 0;
}

int flat_load(const struct flat_table *f, const struct flat_column *c, struct error *e)
{
	const struct table_schema *s = f->schema;
	/* Processes of rows are known once any column is loaded. */
	uint64_t columns = c->column >= 0 ? UINT64_C(1) << c->column : 1;
	int rc;

	if (c->source == FLAT_DURATION)
		columns |= UINT64_C(1) << s->roles[ROLE_END];
	if (c->source == FLAT_READING && s->id == TABLE_counter_sample)
		columns |= COLUMN_BITS(counter_sample, counter);
	rc = trace_load(f->trace, s->id, columns, e);
	if (rc >= 0 && c->source == FLAT_NAME)
		rc = load_label(f->trace, (enum table_id)s->columns[c->column].ref, e);
	if (rc >= 0 && c->source == FLAT_READING && s->id == TABLE_counter_sample)
		rc = trace_load(f->trace, TABLE_counter, COUNTER_VALUE_COLUMNS, e);
	if (rc >= 0 && (c->source == FLAT_RANK || c->source == FLAT_JOB))
		rc = trace_load(f->trace, TABLE_process, COLUMN_BITS(process, rank, job), e);
	return rc < 0 ? rc : 0;
}

int flat_table_init(struct flat_table *f, struct trace *t, const struct export_options *options,
		    const struct export_result *result, enum table_id table, struct error *e)
{
	int rc = flat_describe(f, t, table, e);

	f->options = options;
	f->result = result;
	if (rc < 0 || !is_for_exports(table) || !trace_rows(t, table))
		return rc;
	rc = trace_load(t, table, 0, e);
	for (size_t i = 0; i < f->columns.count && rc >= 0; i++)
		rc = flat_load(f, &f->columns.data[i], e);
	if (rc < 0)
		return rc;
	f->windowed = f->schema->time_column >= 0 &&
		      (options->since_ns || options->until_ns != UINT64_MAX);
	f->rows = count_rows(f);
	return f->rows > 0;
}

int flat_select(struct flat_table *f, const size_t *partitions, size_t partition)
{
	f->partitions = partitions;
	f->partition = partition;
	f->rows = count_rows(f);
	return f->rows > 0;
}

const struct trace_process *flat_first_process(const struct flat_table *f)
{
	for (size_t i = 0; !f->given && !f->memory && i < trace_process_count(f->trace); i++)
		if (!f->partitions || f->partitions[i] == f->partition)
			return trace_process(f->trace, i);
	return NULL;
}

void flat_table_release(struct flat_table *f)
{
	vec_release(&f->columns);
}

int flat_check_options(const struct export_options *o, const char *format, struct error *e)
{
	if (o->kernel || o->scope)
		return error_set(e, E_USAGE,
				 "%s has whole tables: leave out --kernel and --scope, and select "
				 "there",
				 format);
	return 0;
}

/* ---- rows in memory ---- */

void flat_memory_init(struct flat_table *f, const struct flat_memory *memory, uint64_t rows)
{
	*f = (struct flat_table){ .memory = memory, .rows = rows };
}

int flat_memory_column(struct flat_table *f, const char *name, enum flat_type type, bool maybe,
		       const char *meaning)
{
	struct flat_column *c = add_column(f, name, type, FLAT_MEMORY, (int)f->columns.count);

	if (!c)
		return -ENOMEM;
	c->maybe = maybe;
	c->meaning = meaning;
	return 0;
}

const char *flat_name(const struct flat_table *f)
{
	return f->memory ? f->memory->name : f->schema->name;
}

static void read_memory(const struct flat_table *f, int column, const struct flat_rows *r,
			uint64_t *values, uint8_t *valid)
{
	const struct flat_memory *m = f->memory;

	for (size_t i = 0; i < r->count; i++) {
		const uint64_t *row = m->rows + (r->first + i) * m->row_values;

		values[i] = row[1 + column];
		valid[i] = !(row[0] >> column & 1);
	}
}

/* ---- values ---- */

static inline uint64_t row_of(const struct flat_rows *r, size_t i)
{
	return r->list ? r->list[i] : r->first + i;
}

#define READ(array)                                                                                \
	for (size_t i = 0; i < r->count; i++)                                                      \
	out[i] = (array)[row_of(r, i)]

/* Reads and widens values of a column. */
static void widen(const struct column_schema *c, const void *all, const struct flat_rows *r,
		  uint64_t *out)
{
	const uint8_t *u8 = all;
	const uint16_t *u16 = all;
	const uint32_t *u32 = all;
	const uint64_t *u64 = all;

	switch (c->width) {
	case 1:
		READ(u8);
		break;
	case 2:
		READ(u16);
		break;
	case 4:
		READ(u32);
		for (size_t i = 0; column_is_signed(c) && i < r->count; i++)
			out[i] = (uint64_t)(int64_t)(int32_t)out[i];
		break;
	default:
		READ(u64);
	}
}

/* Values of a column of the table, as they are stored. */
static void read_stored(const struct flat_table *f, int column, const struct flat_rows *r,
			uint64_t *values, uint8_t *valid)
{
	const struct column_schema *c = &f->schema->columns[column];
	const uint8_t *v = trace_valid(f->trace, f->schema->id, column);

	widen(c, trace_column(f->trace, f->schema->id, column), r, values);
	for (size_t i = 0; i < r->count; i++)
		valid[i] = (!v || v[row_of(r, i)]) &&
			   (c->type != COLUMN_TYPE_REF || (uint32_t)values[i] != TRACE_NO_ROW);
}

static void read_durations(const struct flat_table *f, const struct flat_rows *r, uint64_t *values,
			   uint8_t *valid)
{
	int end = f->schema->roles[ROLE_END];
	const uint64_t *ends = trace_u64(f->trace, f->schema->id, end);
	const uint8_t *v = trace_valid(f->trace, f->schema->id, end);

	read_stored(f, f->schema->roles[ROLE_START], r, values, valid);
	for (size_t i = 0; i < r->count; i++) {
		uint64_t row = row_of(r, i);

		valid[i] &= (!v || v[row]) && ends[row] >= values[i];
		values[i] = ends[row] - values[i];
	}
}

static void read_readings(const struct flat_table *f, const struct flat_column *c,
			  const struct flat_rows *r, uint64_t *values, uint8_t *valid)
{
	read_stored(f, c->column, r, values, valid);
	if (f->schema->id != TABLE_counter_sample)
		return;
	for (size_t i = 0; i < r->count; i++) {
		struct counter_value v = counter_value(f->trace, row_of(r, i));
		double real = counter_value_double(&v);

		memcpy(&values[i], &real, sizeof(real));
	}
}

/* What all rows of a process have. Its last row in table process has the job. */
static uint64_t of_process(const struct flat_table *f, enum flat_source source, size_t process,
			   bool *has)
{
	const struct trace_process *p = trace_process(f->trace, process);
	uint64_t row = trace_first_row(f->trace, TABLE_process, process + 1), value;
	bool missing = row == trace_first_row(f->trace, TABLE_process, process);

	*has = true;
	switch (source) {
	case FLAT_HOST:
		return process;
	case FLAT_PID:
		return p->pid;
	case FLAT_SESSION:
		return p->session;
	default:
		value = missing ? 0
				: trace_value(f->trace, TABLE_process,
					      source == FLAT_RANK ? COLUMN_process_rank
								  : COLUMN_process_job,
					      row - 1, &missing);
		*has = !missing;
		return value;
	}
}

static void read_process(const struct flat_table *f, enum flat_source source,
			 const struct flat_rows *r, uint64_t *values, uint8_t *valid)
{
	uint64_t from = 0, end = 0, value = 0;
	bool has = false;

	for (size_t i = 0; i < r->count; i++) {
		uint64_t row = row_of(r, i);

		if (row < from || row >= end) {
			size_t process = trace_row_process(f->trace, f->schema->id, row);

			from = trace_first_row(f->trace, f->schema->id, process);
			end = trace_first_row(f->trace, f->schema->id, process + 1);
			value = of_process(f, source, process, &has);
		}
		values[i] = value;
		valid[i] = has;
	}
}

static void read_given(const struct given_column *c, const struct flat_rows *r, uint64_t *values,
		       uint8_t *valid)
{
	for (size_t i = 0; i < r->count; i++) {
		values[i] = c->values.data[row_of(r, i)];
		valid[i] = c->kinds.data[row_of(r, i)] != GIVEN_NONE;
	}
}

size_t flat_read(const struct flat_table *f, const struct flat_column *c, const struct flat_rows *r,
		 uint64_t *values, uint8_t *valid)
{
	size_t present = 0;

	switch (c->source) {
	case FLAT_ROW:
		for (size_t i = 0; i < r->count; i++)
			values[i] = row_of(r, i);
		memset(valid, 1, r->count);
		break;
	case FLAT_STORED:
	case FLAT_NAME:
		read_stored(f, c->column, r, values, valid);
		break;
	case FLAT_DURATION:
		read_durations(f, r, values, valid);
		break;
	case FLAT_READING:
		read_readings(f, c, r, values, valid);
		break;
	case FLAT_GIVEN:
		read_given(&f->given->columns[c->column], r, values, valid);
		break;
	case FLAT_MEMORY:
		read_memory(f, c->column, r, values, valid);
		break;
	default:
		read_process(f, c->source, r, values, valid);
	}
	if (c->type == FLAT_TIME)
		for (size_t i = 0; i < r->count; i++)
			values[i] += (uint64_t)f->offset_ns;
	for (size_t i = 0; i < r->count; i++) {
		values[i] = valid[i] ? values[i] : 0;
		present += valid[i];
	}
	return present;
}

const char *flat_text(const struct flat_table *f, const struct flat_column *c, uint64_t value,
		      struct strbuf *room, size_t *length)
{
	const struct column_schema *schema =
		f->schema && c->column >= 0 && !f->given ? &f->schema->columns[c->column] : NULL;
	const char *text;

	if (f->given) {
		*length = f->given->texts.items[value].length;
		return f->given->texts.items[value].text;
	}
	if (f->memory) {
		*length = f->memory->texts->items[value].length;
		return f->memory->texts->items[value].text;
	}
	if (c->source == FLAT_HOST) {
		text = trace_process(f->trace, value)->host;
	} else if (c->source == FLAT_NAME) {
		const struct table_schema *s = schema_table(schema->ref);

		text = s->roles[ROLE_LABEL] >= 0
			       ? event_label(f->trace, s->id, value)
			       : trace_string(f->trace,
					      trace_u32(f->trace, s->id, label_of(s))[value]);
		if (schema->ref == TABLE_kernel_config) {
			strbuf_clear(room);
			kernel_name_text(text, true, room);
			*length = room->length;
			return strbuf_text(room);
		}
	} else if (schema && schema->type == COLUMN_TYPE_ENUM) {
		text = schema_value_name(schema, value);
		if (!text) {
			strbuf_clear(room);
			strbuf_addu(room, value);
			text = strbuf_text(room);
		}
	} else {
		*length = trace_string_length(f->trace, (uint32_t)value);
		return trace_string(f->trace, (uint32_t)value);
	}
	*length = strlen(text);
	return text;
}

/* ---- chunks ---- */

int flat_chunk_init(struct flat_chunk *c, const struct flat_table *f, struct error *e)
{
	bool good;

	*c = (struct flat_chunk){ .columns = f->columns.count };
	c->values = calloc(c->columns, sizeof(*c->values));
	c->valid = calloc(c->columns, sizeof(*c->valid));
	good = c->values && c->valid;
	for (size_t i = 0; i < c->columns && good; i++) {
		c->values[i] = calloc(FLAT_ROWS, sizeof(**c->values));
		c->valid[i] = malloc(FLAT_ROWS);
		good = c->values[i] && c->valid[i];
	}
	return good ? 0 : error_set(e, -ENOMEM, "out of memory");
}

int flat_chunk_next(struct flat_chunk *c, struct flat_table *f)
{
	int rc = f->taken ? flat_progress(f) : 0;

	if (rc < 0 || !flat_next(f, &c->rows.first, &c->rows.count))
		return rc;
	for (size_t i = 0; i < c->columns; i++)
		flat_read(f, &f->columns.data[i], &c->rows, c->values[i], c->valid[i]);
	return 1;
}

void flat_chunk_release(struct flat_chunk *c)
{
	for (size_t i = 0; i < c->columns; i++) {
		if (c->values)
			free(c->values[i]);
		if (c->valid)
			free(c->valid[i]);
	}
	free(c->values);
	free(c->valid);
}
