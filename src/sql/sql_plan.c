#include "sql/sql_plan.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- choosing ---- */

static const struct {
	uint8_t sqlite;
	enum sql_operator operator;
} operators[] = {
	{ SQLITE_INDEX_CONSTRAINT_EQ, SQL_EQUAL },
	{ SQLITE_INDEX_CONSTRAINT_LT, SQL_LESS },
	{ SQLITE_INDEX_CONSTRAINT_LE, SQL_LESS_EQUAL },
	{ SQLITE_INDEX_CONSTRAINT_GT, SQL_GREATER },
	{ SQLITE_INDEX_CONSTRAINT_GE, SQL_GREATER_EQUAL },
	{ SQLITE_INDEX_CONSTRAINT_LIKE, SQL_LIKE },
	{ SQLITE_INDEX_CONSTRAINT_GLOB, SQL_GLOB },
	{ SQLITE_INDEX_CONSTRAINT_ISNULL, SQL_NULL },
	{ SQLITE_INDEX_CONSTRAINT_ISNOTNULL, SQL_NOT_NULL },
};

static int operator_of(uint8_t sqlite)
{
	for (size_t i = 0; i < ARRAY_SIZE(operators); i++)
		if (operators[i].sqlite == sqlite)
			return (int)operators[i].operator;
	return -1;
}

static bool is_time_column(const struct sql_source *s, const struct sql_column *c)
{
	return c->kind == SQL_FLAT && c->flat->source == FLAT_STORED &&
	       c->flat->column == s->schema->time_column;
}

/* Whether values of a column can be compared here; those of others SQLite compares. */
static bool is_comparable(const struct sql_column *c, enum sql_operator operator)
{
	if (operator== SQL_NULL || operator== SQL_NOT_NULL)
		return true;
	if (operator== SQL_LIKE || operator== SQL_GLOB)
		return sql_is_text(c);
	return c->kind != SQL_FLAT || c->flat->type != FLAT_F64;
}

/* The share of the rows that a condition is likely to leave. */
static double share_of(const struct sql_source *s, const struct sql_column *c,
		       enum sql_operator operator, double rows)
{
	const struct column_schema *stored = NULL;
	double distinct = 20;

	if (operator== SQL_NULL || operator== SQL_NOT_NULL)
		return 0.5;
	if (operator!= SQL_EQUAL)
		return 0.25;
	if (c->kind == SQL_FLAT && c->flat->source == FLAT_STORED)
		stored = &s->schema->columns[c->flat->column];
	if (c->kind == SQL_CALL || is_time_column(s, c) ||
	    (stored && (!strcmp(stored->name, "correlation") || !strcmp(stored->name, "id"))))
		distinct = rows / 2;
	else if (stored && stored->ref)
		distinct = (double)trace_rows(s->trace, (enum table_id)stored->ref);
	return 1 / fmax(fmin(distinct, rows), 2);
}

/* Loads the times, which the statement needs anyway. */
static bool is_in_order(struct sql_source *s, size_t column)
{
	struct error ignored = { 0 };

	return trace_rows(s->trace, s->schema->id) && sql_load(s, column, &ignored) >= 0 &&
	       sql_times_fit(s, 0);
}

/*
 * Rows of one process of one recording are in order of time. Groups of a column come from its
 * index, if there is no better reason to read few rows. SQLite 3.40 takes their order for that of
 * an equal ORDER BY, so they have to be sorted.
 */
static enum sql_order order_of(struct sql_source *s, size_t count, const sqlite3_index_info *info,
			       bool is_narrow)
{
	const struct sqlite3_index_orderby *by = info->aOrderBy;
	int distinct = sqlite3_vtab_distinct((sqlite3_index_info *)info);
	const struct sql_column *c;

	if (count != 1 || info->nOrderBy != 1 || by->iColumn < 0)
		return SQL_ANY_ORDER;
	c = &s->columns.data[by->iColumn];
	if (is_time_column(s, c) && !by->desc && trace_process_count(s->trace) == 1)
		return is_in_order(s, (size_t)by->iColumn) ? SQL_BY_TIME : SQL_ANY_ORDER;
	if ((distinct != 1 && distinct != 2) || by->desc || is_narrow ||
	    (c->kind == SQL_FLAT && c->flat->type == FLAT_F64))
		return SQL_ANY_ORDER;
	return SQL_GROUPED;
}

int sql_plan_choose(struct sql_source *sources, size_t count, sqlite3_index_info *info)
{
	struct sql_source *s = &sources[0];
	double all = 1, rows;
	bool is_narrow = false;
	int arguments = 0;
	char text[32 + 4 * SQL_CONDITIONS_MAX], column[8];
	size_t length;
	enum sql_order order;

	for (size_t i = 0; i < count; i++)
		all += (double)trace_rows(sources[i].trace, s->schema->id);
	rows = all;
	length = (size_t)snprintf(text, sizeof(text), "%016llx---",
				  (unsigned long long)info->colUsed);
	for (int i = 0; i < info->nConstraint && arguments < SQL_CONDITIONS_MAX; i++) {
		const struct sqlite3_index_constraint *x = &info->aConstraint[i];
		int operator= operator_of(x->op);
		bool rowid = x->iColumn < 0;
		const struct sql_column *c = rowid ? NULL : &s->columns.data[x->iColumn];

		if (!x->usable || operator<0 ||(rowid &&operator!= SQL_EQUAL) ||
		    (c && !is_comparable(c, (enum sql_operator) operator)) ||
		    strcmp(sqlite3_vtab_collation(info, i), "BINARY") != 0)
			continue;
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%x%02x", operator,
					   rowid ? SQL_ROWID : (unsigned)x->iColumn);
		info->aConstraintUsage[i].argvIndex = ++arguments;
		/* Patterns are matched here as SQLite does it, once for each distinct text. */
		info->aConstraintUsage[i].omit = operator== SQL_LIKE || operator== SQL_GLOB;
		if (rowid ||
		    (c->kind == SQL_FLAT && c->flat->source == FLAT_ROW && operator== SQL_EQUAL))
			rows = (double)count;
		else
			rows *= share_of(s, c, (enum sql_operator) operator, all);
		is_narrow |= rowid || is_time_column(s, c) ||
			     (c->kind == SQL_FLAT && c->flat->source == FLAT_ROW);
	}
	order = order_of(s, count, info, is_narrow);
	snprintf(column, sizeof(column), "%c%02x", "-tg"[order],
		 order == SQL_GROUPED ? (unsigned)info->aOrderBy[0].iColumn : 0);
	memcpy(text + 16, column, 3);
	info->orderByConsumed = order != SQL_ANY_ORDER;
	info->estimatedRows = (sqlite3_int64)fmax(rows, 1);
	info->estimatedCost = 10 + fmax(rows, 1);
	info->idxStr = sqlite3_mprintf("%s", text);
	info->needToFreeIdxStr = 1;
	return info->idxStr ? SQLITE_OK : SQLITE_NOMEM;
}

/* ---- reading ---- */

/* Turns a real limit into an integer one, so that the same integers are on its sides. */
static void set_real(struct sql_condition *c, double real)
{
	bool up = c->operator== SQL_LESS || c->operator== SQL_GREATER_EQUAL;
	double whole = up ? ceil(real) : floor(real);

	if (isnan(real) || fabs(whole) > 9e18) {
		c->any = true;
	} else {
		c->number = (int64_t)whole;
		c->nothing = c->operator== SQL_EQUAL && whole != real;
	}
}

static int set_value(struct sql_condition *c, bool is_text, sqlite3_value *value)
{
	int type = sqlite3_value_type(value);

	if (c->operator== SQL_NULL || c->operator== SQL_NOT_NULL)
		return 0;
	if (type == SQLITE_NULL) {
		c->nothing = true; /* compares with nothing */
	} else if (is_text &&
		   (type == SQLITE_TEXT || c->operator== SQL_LIKE || c->operator== SQL_GLOB)) {
		const char *text = (const char *)sqlite3_value_text(value);

		c->length = (size_t)sqlite3_value_bytes(value);
		c->text = text ? malloc(c->length + 1) : NULL;
		if (!c->text)
			return -ENOMEM;
		memcpy(c->text, text, c->length + 1);
	} else if (!is_text && type == SQLITE_INTEGER) {
		c->number = sqlite3_value_int64(value);
	} else if (!is_text && type == SQLITE_FLOAT) {
		set_real(c, sqlite3_value_double(value));
	} else {
		c->any = true;
	}
	return 0;
}

static unsigned hex(const char *text, size_t digits)
{
	char part[3] = { 0 };

	memcpy(part, text, digits);
	return (unsigned)strtoul(part, NULL, 16);
}

int sql_plan_read(struct sql_plan *p, const struct sql_source *s, const char *text, int count,
		  sqlite3_value **values)
{
	char used[17] = { 0 };
	int rc = 0;

	memcpy(used, text, 16);
	*p = (struct sql_plan){ .used = strtoull(used, NULL, 16), .count = (size_t)count };
	p->order = text[16] == 'g' ? SQL_GROUPED : text[16] == 't' ? SQL_BY_TIME : SQL_ANY_ORDER;
	p->order_column = p->order == SQL_GROUPED ? (uint8_t)hex(text + 17, 2) : 0;
	text += 19;
	for (int i = 0; i < count && rc >= 0; i++, text += 3) {
		struct sql_condition *c = &p->conditions[i];

		c->operator=(enum sql_operator) hex(text, 1);
		c->column = (uint8_t)hex(text + 1, 2);
		rc = set_value(c,
			       c->column != SQL_ROWID && sql_is_text(&s->columns.data[c->column]),
			       values[i]);
	}
	return rc;
}

void sql_plan_release(struct sql_plan *p)
{
	for (size_t i = 0; i < p->count; i++) {
		free(p->conditions[i].text);
		vec_release(&p->conditions[i].holds);
	}
	p->count = 0;
}

/* ---- comparing ---- */

static bool in_order(enum sql_operator operator, int order)
{
	switch (operator) {
	case SQL_EQUAL:
		return order == 0;
	case SQL_LESS:
		return order < 0;
	case SQL_LESS_EQUAL:
		return order <= 0;
	case SQL_GREATER:
		return order > 0;
	default:
		return order >= 0;
	}
}

bool sql_holds(const struct sql_condition *c, int64_t value)
{
	return in_order(c->operator,(value > c->number) - (value < c->number));
}

static bool text_holds(const struct sql_condition *c, const struct interned *t)
{
	int order;

	if (c->operator== SQL_LIKE)
		return sqlite3_strlike(c->text, t->text, 0) == 0;
	if (c->operator== SQL_GLOB)
		return sqlite3_strglob(c->text, t->text) == 0;
	order = memcmp(t->text, c->text, MIN((size_t)t->length, c->length));
	return in_order(c->operator,
			order ? order : (t->length > c->length) - (t->length < c->length));
}

int sql_text_holds(struct sql_condition *c, const struct sql *sql, uint32_t item)
{
	size_t count = c->holds.count;

	if (item >= count) {
		if (vec_reserve(&c->holds, item + 1 - count) < 0)
			return -ENOMEM;
		memset(c->holds.data + count, 0, item + 1 - count);
		c->holds.count = item + 1;
	}
	if (!c->holds.data[item])
		c->holds.data[item] = 1 + text_holds(c, &sql->texts.items[item - 1]);
	return c->holds.data[item] == 2;
}
