#include "import/gpufl/import_record.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gpufl/gpufl_log.h"

/*
 * Keys of columns in the logs. Of several that a record has, that of the table's own batch counts,
 * and the last one in this order.
 */
static const struct {
	enum table_id table; /* 0: any */
	const char *column, *key;
} names[] = {
#define NONE(...)
#define FIELD(table, key, column) { TABLE_##table, #column, #key },
#define FIELDS(name, channel, version, type, table) GPUFL_##name(NONE, FIELD, FIELD, NONE, table)
	GPUFL_BATCHES(FIELDS)
	/* Batches have the first two by dt_ns and duration_ns. */
	{ 0, "start_ns", "start_ns" },
	{ 0, "end_ns", "end_ns" },
	{ 0, "time_ns", "start_ns" },
	/* kernel_detail */
	{ 0, "dynamic_shared_bytes", "dyn_shared_bytes" },
	{ 0, "static_shared_bytes", "static_shared" },
	{ 0, "static_shared_bytes", "static_shared_bytes" },
	{ 0, "local_bytes_per_thread", "local_bytes" },
	{ 0, "local_bytes_total", "local_mem_total_bytes" },
	{ 0, "executed_shared_bytes", "shared_mem_executed_bytes" },
	/* job_start's devices */
	{ 0, "compute_major", "compute_major" },
	{ 0, "compute_minor", "compute_minor" },
	{ 0, "multiprocessors", "multi_processor_count" },
	{ 0, "l2_bytes", "l2_cache_size_bytes" },
	{ 0, "warp_size", "warp_size" },
	{ 0, "registers_per_block", "regs_per_block" },
	{ 0, "shared_per_block_bytes", "shared_mem_per_block_bytes" },
	/* pitot_loss */
	{ 0, "reason", "reason" },
	{ 0, "count", "count" },
};

/* Columns in which 0 is a value; in others it stands for an unknown one. */
static const char *const zeros[] = { "bytes", "dynamic_shared_bytes", "static_shared_bytes",
				     "local_bytes_per_thread", "local_bytes_total" };

/* ---- members ---- */

/* Parses a JSON number, or any text. "64.0" is an integer, "64.5" is none. */
static void read_number(const char *text, struct record_field *f)
{
	char *end;

	f->is_negative = *text == '-';
	errno = 0;
	f->magnitude = strtoull(text + f->is_negative, &end, 10);
	f->is_integer = f->is_real =
		text[f->is_negative] >= '0' && text[f->is_negative] <= '9' && !*end && !errno;
	f->real = f->is_negative ? -(double)f->magnitude : (double)f->magnitude;
	if (f->is_integer)
		return;
	f->real = strtod(text, &end);
	f->is_real = end != text && !*end && isfinite(f->real);
	f->magnitude = f->is_real && fabs(f->real) < 0x1p64 ? (uint64_t)fabs(f->real) : 0;
	f->is_integer = f->is_real && (double)f->magnitude == fabs(f->real);
}

static void set_field(struct record *r, struct record_field *f, const struct json_members *m)
{
	f->kind = m->kind;
	f->text = r->texts.length;
	f->value = m->value;
	f->value_length = m->value_length;
	f->is_real = f->is_integer = false;
	if (m->kind == JSON_NUMBER || m->kind == JSON_STRING)
		read_number(strbuf_text(&m->text), f);
	if (m->kind == JSON_STRING)
		strbuf_add(&r->texts, strbuf_text(&m->text), m->text.length + 1);
}

/* Restarts a reader on another text; it retains its buffers. */
static void reset_reader(struct json_members *m, const char *text, size_t length, bool is_array)
{
	*m = (struct json_members){ .p = text,
				    .end = text + length,
				    .line = 1,
				    .is_array = is_array,
				    .key = m->key,
				    .text = m->text };
}

int record_read(struct record *r, const char *text, size_t length, struct error *e)
{
	struct json_members *m = &r->members;
	size_t before = r->count;
	bool same = true; /* same members as the record before, so its plan remains valid */
	int rc;

	reset_reader(m, text, length, false);
	r->count = 0;
	r->unusable = 0;
	strbuf_clear(&r->texts);
	while ((rc = json_members_next(m, e)) > 0) {
		struct record_field *f = &r->fields[r->count];

		if (r->count == RECORD_FIELDS || m->key.length >= RECORD_KEY_BYTES)
			continue;
		same = same && !strcmp(f->key, strbuf_text(&m->key));
		memcpy(f->key, strbuf_text(&m->key), m->key.length + 1);
		set_field(r, f, m);
		r->count++;
	}
	if (!same || r->count != before)
		r->planned = 0;
	return r->texts.failed ? error_set(e, -ENOMEM, "out of memory") : rc;
}

void record_release(struct record *r)
{
	strbuf_release(&r->texts);
	json_members_release(&r->members);
}

const struct record_field *record_find(const struct record *r, const char *key)
{
	for (size_t i = 0; i < r->count; i++)
		if (!strcmp(r->fields[i].key, key))
			return &r->fields[i];
	return NULL;
}

/* Marks the value of a member, unless that is missing. Returns false. */
static bool unusable(struct record *r, const struct record_field *f)
{
	_Static_assert(RECORD_FIELDS <= 64, "bits");
	if (f && f->kind != JSON_NULL)
		r->unusable |= UINT64_C(1) << (f - r->fields);
	return false;
}

const char *record_text(struct record *r, const char *key)
{
	const struct record_field *f = record_find(r, key);

	if (f && f->kind == JSON_STRING)
		return r->texts.data + f->text;
	unusable(r, f);
	return NULL;
}

static bool field_integer(struct record *r, const struct record_field *f, uint64_t most,
			  uint64_t *value)
{
	if (!f || !f->is_integer || (f->is_negative && f->magnitude) || f->magnitude > most)
		return unusable(r, f);
	*value = f->magnitude;
	return true;
}

bool record_integer(struct record *r, const char *key, uint64_t most, uint64_t *value)
{
	return field_integer(r, record_find(r, key), most, value);
}

uint64_t record_number(struct record *r, const char *key, uint64_t most)
{
	uint64_t value;

	return record_integer(r, key, most, &value) ? value : 0;
}

bool record_real(struct record *r, const char *key, double *value)
{
	const struct record_field *f = record_find(r, key);

	if (!f || !f->is_real)
		return unusable(r, f);
	*value = f->real;
	return true;
}

bool record_size(struct record *r, const char *key, uint32_t *size)
{
	const struct record_field *f = record_find(r, key);
	const char *text = record_text(r, key), *p = text;
	unsigned long long number;
	uint64_t read[3];
	char *end;

	if (!text || !*text || !strcmp(text, "(0,0,0)"))
		return false;
	for (size_t i = 0; i < 3; i++) {
		if (*p != (i ? ',' : '(') || p[1] < '0' || p[1] > '9')
			return unusable(r, f);
		number = strtoull(p + 1, &end, 10); /* ULLONG_MAX for what is larger */
		if (!number || number > UINT32_MAX)
			return unusable(r, f);
		read[i] = number;
		p = end;
	}
	if (strcmp(p, ")") != 0)
		return unusable(r, f);
	for (size_t i = 0; i < 3; i++)
		size[i] = (uint32_t)read[i];
	return true;
}

uint64_t record_time(const struct record *r, const char *key)
{
	const struct record_field *f = record_find(r, key);

	return f && f->is_integer && !f->is_negative && f->magnitude <= INT64_MAX ? f->magnitude
										  : 0;
}

/* ---- rows ---- */

static void make_plan(struct record *r, const struct table_schema *table)
{
	r->planned = table->id;
	r->zeros = 0;
	memset(r->plan, -1, sizeof(r->plan));
	for (size_t i = 0; i < ARRAY_SIZE(zeros); i++) {
		int column = schema_column_by_name(table, zeros[i]);

		r->zeros |= column < 0 ? 0 : UINT64_C(1) << column;
	}
	for (size_t n = 0; n < 2 * ARRAY_SIZE(names); n++) {
		size_t i = n % ARRAY_SIZE(names);
		bool own = names[i].table == table->id, is_turn = own == (n >= ARRAY_SIZE(names));
		int column = is_turn ? schema_column_by_name(table, names[i].column) : -1;
		const struct record_field *f = column < 0 ? NULL : record_find(r, names[i].key);

		if (f)
			r->plan[column] = (int8_t)(f - r->fields);
	}
}

/* Returns the number of a named value; CUPTI's names are the same. */
static bool enum_number(struct record *r, const struct record_field *f,
			const struct column_schema *c, uint64_t *value)
{
	uint64_t number;

	if (f->is_integer) {
		if (!field_integer(r, f, UINT8_MAX, &number) || !schema_value_name(c, number))
			return unusable(r, f);
		*value = number;
		return true;
	}
	if (f->kind != JSON_STRING)
		return unusable(r, f);
	for (size_t i = 0; i < c->value_count; i++) {
		if (strcasecmp(c->values[i].name, r->texts.data + f->text) != 0)
			continue;
		*value = c->values[i].value;
		return true;
	}
	return unusable(r, f);
}

/* Reads the column's member, if it has one. */
static bool column_number(struct record *r, const struct column_schema *c, int column,
			  uint64_t *value)
{
	const struct record_field *f = &r->fields[MAX(r->plan[column], 0)];

	if (r->plan[column] < 0 || c->type == COLUMN_TYPE_STRING)
		return false;
	if (c->type == COLUMN_TYPE_ENUM)
		return enum_number(r, f, c, value);
	return field_integer(r, f, UINT64_MAX >> (64 - 8 * c->width), value);
}

uint64_t record_fill(struct record *r, enum table_id table, void *row)
{
	const struct table_schema *schema = schema_table(table);
	uint64_t missing = 0, found = 0;

	if (r->planned != table)
		make_plan(r, schema);
	memset(row, 0, schema->row_size);
	for (int i = 0; i < schema->column_count; i++) {
		const struct column_schema *c = &schema->columns[i];
		bool is_time = i == schema->roles[ROLE_START] || i == schema->roles[ROLE_END];
		uint64_t value = 0, before = r->unusable;
		bool known = column_number(r, c, i, &value);

		if (!known && (i == schema->roles[ROLE_STREAM] ||
			       (i == schema->roles[ROLE_CONTEXT] && r->unusable != before)))
			value = RECORD_NO_ID;
		if (is_time)
			r->unusable = before;
		memcpy((char *)row + c->row_offset, &value, c->width);
		found |= (uint64_t)known << i;
		missing |= (uint64_t)(c->maybe && (!known || (!value && !(r->zeros >> i & 1))))
			   << i;
	}
	memcpy(row, &missing, sizeof(missing));
	return found;
}

/* ---- lists and batches ---- */

void record_list_begin(struct record_list *l, const struct record *r, const char *key)
{
	const struct record_field *f = record_find(r, key);

	*l = (struct record_list){ .items = { .over = true } };
	if (f && f->kind == JSON_ARRAY)
		reset_reader(&l->items, f->value, f->value_length, true);
}

bool record_list_next(struct record_list *l)
{
	while (json_members_next(&l->items, NULL) > 0)
		if (l->items.kind == JSON_OBJECT &&
		    record_read(&l->item, l->items.value, l->items.value_length, NULL) == 0)
			return true;
	return false;
}

void record_list_end(struct record_list *l)
{
	json_members_release(&l->items);
	record_release(&l->item);
}

static int read_columns(struct batch *b, const struct record_field *f, struct error *e)
{
	_cleanup_members_ struct json_members m = JSON_ITEMS(f->value, f->value_length);
	int rc;

	while ((rc = json_members_next(&m, e)) > 0 && b->columns < RECORD_FIELDS - 2)
		snprintf(b->row.fields[b->columns++].key, RECORD_KEY_BYTES, "%s",
			 strbuf_text(&m.text));
	b->row.count = b->columns + 2;
	snprintf(b->row.fields[b->columns].key, RECORD_KEY_BYTES, "start_ns");
	snprintf(b->row.fields[b->columns + 1].key, RECORD_KEY_BYTES, "end_ns");
	return rc;
}

int batch_begin(struct batch *b, const struct record *r, struct error *e)
{
	const struct record_field *base = record_find(r, "base_time_ns");
	const struct record_field *columns = record_find(r, "columns");
	const struct record_field *rows = record_find(r, "rows");

	*b = (struct batch){ .base_ns = record_time(r, "base_time_ns") };
	b->has_base = b->base_ns || (base && base->is_integer && !base->magnitude);
	if (!columns || columns->kind != JSON_ARRAY || !rows || rows->kind != JSON_ARRAY)
		return error_set(e, E_FORMAT, "a batch without columns and rows");
	reset_reader(&b->rows, rows->value, rows->value_length, true);
	return read_columns(b, columns, e);
}

/* 0: unknown */
static void set_time(struct record_field *f, uint64_t time_ns)
{
	f->kind = time_ns ? JSON_NUMBER : JSON_NULL;
	f->is_integer = time_ns != 0;
	f->magnitude = time_ns;
}

/* Returns the sum of a time and a number, or 0 if it is no time or if one of them is missing. */
static uint64_t later(uint64_t time_ns, const struct record_field *f)
{
	uint64_t sum;

	if (!f || !f->is_integer ||
	    (f->is_negative ? __builtin_sub_overflow(time_ns, f->magnitude, &sum)
			    : __builtin_add_overflow(time_ns, f->magnitude, &sum)))
		return 0;
	return sum <= INT64_MAX ? sum : 0;
}

/* dt_ns, which can be negative, is relative to base_time_ns. Without duration_ns: no end. */
static void set_times(struct batch *b)
{
	uint64_t start_ns = later(b->base_ns, record_find(&b->row, "dt_ns"));
	uint64_t end_ns = later(start_ns, record_find(&b->row, "duration_ns"));

	set_time(&b->row.fields[b->columns], b->has_base ? start_ns : 0);
	set_time(&b->row.fields[b->columns + 1], b->has_base && end_ns >= start_ns ? end_ns : 0);
}

int batch_next(struct batch *b, struct error *e)
{
	struct record *r = &b->row;
	size_t i = 0;
	int rc;

	do { /* what is no row costs itself */
		if ((rc = json_members_next(&b->rows, e)) <= 0)
			return rc;
		b->damaged += b->rows.kind != JSON_ARRAY;
	} while (b->rows.kind != JSON_ARRAY);
	r->unusable = 0;
	strbuf_clear(&r->texts);
	reset_reader(&r->members, b->rows.value, b->rows.value_length, true);
	while ((rc = json_members_next(&r->members, NULL)) > 0)
		if (i < b->columns)
			set_field(r, &r->fields[i++], &r->members);
	for (; i < b->columns; i++) {
		r->fields[i].kind = JSON_NULL;
		r->fields[i].is_real = r->fields[i].is_integer = false;
	}
	b->damaged += rc < 0;
	set_times(b);
	return r->texts.failed ? error_set(e, -ENOMEM, "out of memory") : 1;
}

void batch_end(struct batch *b)
{
	json_members_release(&b->rows);
	record_release(&b->row);
}
