#include "import/gpufl/import_record.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Keys of columns in the logs, for all tables; of several keys the last one present counts. */
static const struct {
	const char *column, *key;
} names[] = {
	{ "start_ns", "start_ns" },
	{ "end_ns", "end_ns" },
	{ "time_ns", "start_ns" },
	{ "queued_ns", "queued_ns" },
	{ "correlation", "corr_id" },
	{ "correlation", "true_corr_id" },
	{ "device", "device_id" },
	{ "context", "context_id" },
	{ "stream", "stream_id" },
	{ "graph", "graph_id" },
	{ "graph_node", "graph_node_id" },
	{ "bytes", "bytes" },
	{ "address", "address" },
	{ "event", "event_id" },
	{ "operation", "memory_op" },
	{ "kind", "copy_kind" },
	{ "kind", "sync_type" },
	{ "kind", "memory_kind" },
	{ "source_kind", "src_kind" },
	{ "destination_kind", "dst_kind" },
	/* kernel_config */
	{ "registers", "num_regs" },
	{ "dynamic_shared_bytes", "dyn_shared" },
	{ "dynamic_shared_bytes", "dyn_shared_bytes" },
	{ "static_shared_bytes", "static_shared" },
	{ "static_shared_bytes", "static_shared_bytes" },
	{ "local_bytes_per_thread", "local_bytes" },
	{ "local_bytes_total", "local_mem_total_bytes" },
	{ "executed_shared_bytes", "shared_mem_executed_bytes" },
	/* device */
	{ "compute_major", "compute_major" },
	{ "compute_minor", "compute_minor" },
	{ "multiprocessors", "multi_processor_count" },
	{ "l2_bytes", "l2_cache_size_bytes" },
	{ "warp_size", "warp_size" },
	{ "registers_per_block", "regs_per_block" },
	{ "shared_per_block_bytes", "shared_mem_per_block_bytes" },
	/* loss, pc_sample */
	{ "reason", "reason" },
	{ "count", "count" },
	{ "offset", "pc_offset" },
	{ "samples", "metric_value" },
};

/* ---- members ---- */

/* Parses a JSON number, or any text. */
static void read_number(const char *text, struct record_field *f)
{
	bool negative = *text == '-';
	char *end;

	errno = 0;
	f->number = (int64_t)strtoull(text + negative, &end, 10);
	if (text[negative] >= '0' && text[negative] <= '9' && !*end && !errno) {
		f->has_number = !negative || f->number >= 0;
		f->real = negative ? -(double)f->number : (double)(uint64_t)f->number;
		f->number = negative && f->has_number ? -f->number : f->number;
		return;
	}
	f->real = strtod(text, &end);
	f->has_number = end != text && !*end && isfinite(f->real);
	f->number = f->has_number && fabs(f->real) < 0x1p63 ? (int64_t)f->real : 0;
}

static void set_field(struct record *r, struct record_field *f, const struct json_members *m)
{
	f->kind = m->kind;
	f->text = r->texts.length;
	f->value = m->value;
	f->value_length = m->value_length;
	f->has_number = false;
	if (m->kind == JSON_NUMBER)
		read_number(strbuf_text(&m->text), f);
	else if (m->kind == JSON_STRING)
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

const char *record_text(const struct record *r, const char *key)
{
	const struct record_field *f = record_find(r, key);

	return f && f->kind == JSON_STRING ? r->texts.data + f->text : NULL;
}

static bool field_number(const struct record *r, const struct record_field *f, uint64_t *value)
{
	struct record_field of_text;

	if (f->kind == JSON_STRING) {
		read_number(r->texts.data + f->text, &of_text);
		f = &of_text;
	}
	*value = (uint64_t)f->number;
	return f->has_number && f->real >= 0;
}

bool record_u64(const struct record *r, const char *key, uint64_t *value)
{
	const struct record_field *f = record_find(r, key);

	return f && field_number(r, f, value);
}

uint64_t record_number(const struct record *r, const char *key, uint64_t most)
{
	uint64_t value;

	return record_u64(r, key, &value) && value <= most ? value : 0;
}

/* ---- rows ---- */

static void make_plan(struct record *r, const struct table_schema *table)
{
	r->planned = table->id;
	memset(r->plan, -1, sizeof(r->plan));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		int column = schema_column_by_name(table, names[i].column);
		const struct record_field *f = column < 0 ? NULL : record_find(r, names[i].key);

		if (f)
			r->plan[column] = (int8_t)(f - r->fields);
	}
}

/* Returns the number of a named value; CUPTI's names are the same. */
static bool enum_number(const struct record *r, const struct record_field *f,
			const struct column_schema *c, uint64_t *value)
{
	if (f->kind != JSON_STRING)
		return field_number(r, f, value) && schema_value_name(c, *value);
	for (size_t i = 0; i < c->value_count; i++) {
		*value = c->values[i].value;
		if (!strcasecmp(c->values[i].name, r->texts.data + f->text))
			return true;
	}
	return false;
}

uint64_t record_fill(struct record *r, enum table_id table, void *row)
{
	const struct table_schema *schema = schema_table(table);
	uint64_t missing = 0, found = 0, value;

	if (r->planned != table)
		make_plan(r, schema);
	memset(row, 0, schema->row_size);
	for (int i = 0; i < schema->column_count; i++) {
		const struct column_schema *c = &schema->columns[i];
		const struct record_field *f = &r->fields[MAX(r->plan[i], 0)];
		bool known = r->plan[i] >= 0 && c->type != COLUMN_TYPE_STRING;

		if (known && c->type == COLUMN_TYPE_ENUM)
			known = enum_number(r, f, c, &value);
		else if (known)
			known = field_number(r, f, &value) &&
				value <= UINT64_MAX >> (64 - 8 * c->width);
		if (known)
			memcpy((char *)row + c->row_offset, &value, c->width);
		found |= (uint64_t)known << i;
		missing |= (uint64_t)(c->maybe && (!known || !value)) << i;
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
	struct json_members m = JSON_ITEMS(f->value, f->value_length);
	int rc;

	while ((rc = json_members_next(&m, e)) > 0 && b->columns < RECORD_FIELDS - 2)
		snprintf(b->row.fields[b->columns++].key, RECORD_KEY_BYTES, "%s",
			 strbuf_text(&m.text));
	json_members_release(&m);
	b->row.count = b->columns + 2;
	snprintf(b->row.fields[b->columns].key, RECORD_KEY_BYTES, "start_ns");
	snprintf(b->row.fields[b->columns + 1].key, RECORD_KEY_BYTES, "end_ns");
	return rc;
}

int batch_begin(struct batch *b, const struct record *r, struct error *e)
{
	const struct record_field *columns = record_find(r, "columns");
	const struct record_field *rows = record_find(r, "rows");

	*b = (struct batch){ .base_ns = record_number(r, "base_time_ns", INT64_MAX) };
	if (!columns || columns->kind != JSON_ARRAY || !rows || rows->kind != JSON_ARRAY)
		return error_set(e, E_FORMAT, "a batch without columns and rows");
	reset_reader(&b->rows, rows->value, rows->value_length, true);
	return read_columns(b, columns, e);
}

/* 0: unknown */
static void set_time(struct record_field *f, uint64_t time_ns)
{
	f->kind = JSON_NUMBER;
	f->has_number = time_ns <= INT64_MAX;
	f->number = (int64_t)time_ns;
	f->real = (double)time_ns;
}

static void set_times(struct batch *b)
{
	const struct record_field *dt = record_find(&b->row, "dt_ns");
	uint64_t start_ns = 0, end_ns = 0;

	if (dt && dt->has_number)
		start_ns = b->base_ns + (uint64_t)dt->number;
	if (start_ns)
		end_ns = start_ns + record_number(&b->row, "duration_ns", INT64_MAX);
	set_time(&b->row.fields[b->columns], start_ns);
	set_time(&b->row.fields[b->columns + 1], end_ns);
}

int batch_next(struct batch *b, struct error *e)
{
	struct record *r = &b->row;
	size_t i = 0;
	int rc = json_members_next(&b->rows, e);

	if (rc <= 0)
		return rc;
	strbuf_clear(&r->texts);
	reset_reader(&r->members, b->rows.value, b->rows.value_length, true);
	while ((rc = json_members_next(&r->members, e)) > 0)
		if (i < b->columns)
			set_field(r, &r->fields[i++], &r->members);
	for (; i < b->columns; i++) {
		r->fields[i].kind = JSON_NULL;
		r->fields[i].has_number = false;
	}
	set_times(b);
	return rc < 0 ? rc : r->texts.failed ? error_set(e, -ENOMEM, "out of memory") : 1;
}

void batch_end(struct batch *b)
{
	json_members_release(&b->rows);
	record_release(&b->row);
}
