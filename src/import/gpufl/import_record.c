#include "import/gpufl/import_record.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* ---- records ---- */

int record_read(struct record *r, const char *text, size_t length, struct error *e)
{
	struct json_members *m = &r->members;
	int rc;

	*m = (struct json_members){
		.p = text, .end = text + length, .line = 1, .key = m->key, .text = m->text
	};
	r->count = 0;
	strbuf_clear(&r->texts);
	while ((rc = json_members_next(m, e)) > 0) {
		struct record_field *f = &r->fields[r->count];

		if (r->count == RECORD_FIELDS || m->key.length >= RECORD_KEY_BYTES)
			continue;
		*f = (struct record_field){ .kind = m->kind,
					    .text = r->texts.length,
					    .value = m->value,
					    .value_length = m->value_length };
		memcpy(f->key, strbuf_text(&m->key), m->key.length);
		strbuf_add(&r->texts, strbuf_text(&m->text), m->text.length + 1);
		r->count++;
	}
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

/* A JSON number, or what strtod makes of any text. */
static struct cell read_number(const char *text)
{
	struct cell c = { 0 };
	const char *digits = text + (*text == '-');
	char *end;

	errno = 0;
	c.value = (int64_t)strtoull(digits, &end, 10);
	if (end != digits && !*end && !errno && *digits >= '0' && *digits <= '9') {
		c.value = digits == text ? c.value : (int64_t)(0 - (uint64_t)c.value);
		c.real = digits == text ? (double)(uint64_t)c.value : (double)c.value;
		c.known = digits == text || c.value <= 0;
		return c;
	}
	c.real = strtod(text, &end);
	c.known = end != text && !*end && isfinite(c.real);
	c.value = c.known && fabs(c.real) < 0x1p63 ? (int64_t)c.real : 0;
	return c;
}

bool record_u64(const struct record *r, const char *key, uint64_t *value)
{
	const struct record_field *f = record_find(r, key);
	struct cell c;

	if (!f || (f->kind != JSON_NUMBER && f->kind != JSON_STRING))
		return false;
	c = read_number(r->texts.data + f->text);
	if (!c.known || c.real < 0)
		return false;
	*value = (uint64_t)c.value;
	return true;
}

uint64_t record_number(const struct record *r, const char *key)
{
	uint64_t value;

	return record_u64(r, key, &value) ? value : 0;
}

uint32_t record_u32(const struct record *r, const char *key)
{
	return (uint32_t)MIN(record_number(r, key), UINT32_MAX);
}

/* ---- batches ---- */

static int read_columns(struct batch *b, const struct record_field *f, const char *const *names,
			struct error *e)
{
	struct json_members m = JSON_ITEMS(f->value, f->value_length);
	int rc;

	while ((rc = json_members_next(&m, e)) > 0 && b->column_count < BATCH_COLUMNS) {
		int8_t *place = &b->places[b->column_count++];

		*place = -1;
		for (size_t i = 0; i < b->name_count && m.kind == JSON_STRING; i++)
			if (!strcmp(strbuf_text(&m.text), names[i]))
				*place = (int8_t)i;
	}
	json_members_release(&m);
	return rc;
}

int batch_begin(struct batch *b, const struct record *r, const char *const *names, size_t count,
		struct cell *cells, struct error *e)
{
	const struct record_field *columns = record_find(r, "columns");
	const struct record_field *rows = record_find(r, "rows");

	*b = (struct batch){ .name_count = count, .cells = cells };
	if (!columns || columns->kind != JSON_ARRAY || !rows || rows->kind != JSON_ARRAY)
		return error_set(e, E_FORMAT, "a batch without columns and rows");
	b->rows = (struct json_members)JSON_ITEMS(rows->value, rows->value_length);
	return read_columns(b, columns, names, e);
}

int batch_next(struct batch *b, struct error *e)
{
	struct json_members *row = &b->row;
	int rc = json_members_next(&b->rows, e);

	if (rc <= 0)
		return rc;
	memset(b->cells, 0, b->name_count * sizeof(*b->cells));
	*row = (struct json_members){ .p = b->rows.value,
				      .end = b->rows.value + b->rows.value_length,
				      .line = 1,
				      .is_array = true,
				      .key = row->key,
				      .text = row->text };
	for (size_t i = 0; (rc = json_members_next(row, e)) > 0; i++)
		if (i < b->column_count && b->places[i] >= 0 && row->kind == JSON_NUMBER)
			b->cells[b->places[i]] = read_number(strbuf_text(&row->text));
	return rc < 0 ? rc : 1;
}

void batch_end(struct batch *b)
{
	json_members_release(&b->rows);
	json_members_release(&b->row);
}
