#include "export/tables/flat_given.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

int flat_given_init(struct flat_given *g, const char *name, size_t columns)
{
	*g = (struct flat_given){ .schema = { .name = name }, .column_count = columns };
	interner_init(&g->rows.texts);
	g->rows.columns = calloc(columns + 1, sizeof(*g->rows.columns));
	return g->rows.columns ? 0 : -ENOMEM;
}

void flat_given_release(struct flat_given *g)
{
	for (size_t i = 0; i < g->column_count && g->rows.columns; i++) {
		vec_release(&g->rows.columns[i].values);
		vec_release(&g->rows.columns[i].kinds);
	}
	free(g->rows.columns);
	interner_release(&g->rows.texts);
	flat_table_release(&g->table);
}

/* --- names --- */

static bool has_name(const struct flat_given *g, const char *name)
{
	for (size_t i = 0; i < g->table.columns.count; i++)
		if (!strcmp(g->table.columns.data[i].name, name))
			return true;
	return false;
}

/* Bytes of whole characters, at most `most`. */
static size_t prefix(const char *text, size_t length, size_t most)
{
	while (length > most)
		do
			length--;
		while (length && ((uint8_t)text[length] & 0xc0) == 0x80);
	return length;
}

int flat_given_name(struct flat_given *g, size_t column, const char *name)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct flat_column c = {
		.source = FLAT_GIVEN, .column = (int)column, .maybe = true, .meaning = ""
	};
	char end[24] = "";

	if (*name)
		strbuf_add_utf8(&text, name, strlen(name));
	else
		strbuf_addf(&text, "column_%zu", column + 1);
	if (text.failed)
		return -ENOMEM;
	for (size_t number = 2;; number++) {
		size_t room = sizeof(c.name) - 1 - strlen(end);

		snprintf(c.name, sizeof(c.name), "%.*s%s",
			 (int)prefix(text.data, text.length, room), text.data, end);
		if (!has_name(g, c.name))
			return vec_push(&g->table.columns, c);
		snprintf(end, sizeof(end), "_%zu", number);
	}
}

/* --- values --- */

int flat_given_number(struct flat_given *g, size_t column, enum given_kind kind, uint64_t bits)
{
	struct given_column *c = &g->rows.columns[column];

	if (c->values.count * 9 * g->column_count + g->rows.texts.bytes > FLAT_GIVEN_BYTES_MAX)
		return E_LIMIT;
	return vec_push(&c->values, bits) < 0 || vec_push(&c->kinds, (uint8_t)kind) < 0 ? -ENOMEM
											: 0;
}

int flat_given_text(struct flat_given *g, size_t column, const char *text, size_t length)
{
	int64_t id = interner_add(&g->rows.texts, text, length, NULL);

	return id < 0 ? -ENOMEM : flat_given_number(g, column, GIVEN_TEXT, (uint64_t)id);
}

static double real_of(uint64_t bits)
{
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static bool is_exact(uint64_t bits)
{
	int64_t value = (int64_t)bits;

	return value >= -(INT64_C(1) << 53) && value <= INT64_C(1) << 53;
}

static enum flat_type type_of(const struct given_column *c)
{
	bool has_real = false, has_integer = false, has_large = false;

	for (size_t i = 0; i < c->kinds.count; i++) {
		if (c->kinds.data[i] == GIVEN_TEXT)
			return FLAT_TEXT;
		has_real |= c->kinds.data[i] == GIVEN_REAL;
		has_integer |= c->kinds.data[i] == GIVEN_INTEGER;
		has_large |= c->kinds.data[i] == GIVEN_INTEGER && !is_exact(c->values.data[i]);
	}
	if (has_real)
		return has_large ? FLAT_TEXT : FLAT_F64;
	return has_integer ? FLAT_I64 : FLAT_TEXT;
}

static int to_text(struct flat_given *g, uint8_t kind, uint64_t *bits)
{
	char text[JSON_DOUBLE_BYTES];
	int64_t id;

	if (kind == GIVEN_REAL)
		json_double_text(text, real_of(*bits));
	else
		snprintf(text, sizeof(text), "%lld", (long long)*bits);
	id = interner_add(&g->rows.texts, text, strlen(text), NULL);
	*bits = (uint64_t)id;
	return id < 0 ? -ENOMEM : 0;
}

static int convert(struct flat_given *g, struct given_column *c, enum flat_type type)
{
	int rc = 0;

	for (size_t i = 0; i < c->kinds.count && rc == 0; i++) {
		uint8_t kind = c->kinds.data[i];
		double value = (double)(int64_t)c->values.data[i];

		if (type == FLAT_TEXT && (kind == GIVEN_INTEGER || kind == GIVEN_REAL))
			rc = to_text(g, kind, &c->values.data[i]);
		else if (type == FLAT_F64 && kind == GIVEN_INTEGER)
			memcpy(&c->values.data[i], &value, sizeof(value));
	}
	return rc;
}

int flat_given_finish(struct flat_given *g)
{
	int rc = 0;

	g->table.given = &g->rows;
	g->table.schema = &g->schema;
	g->table.rows = g->column_count ? g->rows.columns[0].values.count : 0;
	for (size_t i = 0; i < g->column_count && rc == 0; i++) {
		enum flat_type type = type_of(&g->rows.columns[i]);

		g->table.columns.data[i].type = type;
		rc = convert(g, &g->rows.columns[i], type);
	}
	return rc;
}
