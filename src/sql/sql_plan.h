/*
 * sql_plan.h: what SQLite's planner hands to a virtual table, as text: the columns that are used,
 * an order that the rows shall have, and conditions. And the values of the conditions.
 */
#ifndef PITOT_SQL_SQL_PLAN_H
#define PITOT_SQL_SQL_PLAN_H

#include "sql/sql_source.h"

#define SQL_CONDITIONS_MAX 32
#define SQL_ROWID 0xff /* in place of a column */
#define SQL_COLUMNS_MAX SQL_ROWID

enum sql_operator {
	SQL_EQUAL,
	SQL_LESS,
	SQL_LESS_EQUAL,
	SQL_GREATER,
	SQL_GREATER_EQUAL,
	SQL_LIKE,
	SQL_GLOB,
	SQL_NULL,
	SQL_NOT_NULL,
};

enum sql_order { SQL_ANY_ORDER, SQL_BY_TIME, SQL_GROUPED };

struct sql_condition {
	enum sql_operator operator;
	uint8_t column; /* or SQL_ROWID */
	bool nothing; /* holds for no row */
	bool any; /* the value is of another type: SQLite itself checks each row */
	int64_t number;
	char *text;
	size_t length;
	VEC(uint8_t) holds; /* of texts, by item: 0 not known, 1 no, 2 yes */
};

struct sql_plan {
	uint64_t used; /* columns, as bits; bit 63: also those from 63 on */
	enum sql_order order;
	uint8_t order_column; /* SQL_GROUPED */
	size_t count;
	struct sql_condition conditions[SQL_CONDITIONS_MAX];
};

/* xBestIndex: chooses what a table can do. An SQLite result. */
int sql_plan_choose(struct sql_source *sources, size_t count, sqlite3_index_info *info);
/* Reads what sql_plan_choose() wrote, and the values; release in any case. 0 or -ENOMEM. */
int sql_plan_read(struct sql_plan *p, const struct sql_source *s, const char *text, int count,
		  sqlite3_value **values) MUST_USE;
void sql_plan_release(struct sql_plan *p);

/* Whether a number meets a condition. */
bool sql_holds(const struct sql_condition *c, int64_t value);
/* Whether a text (item of sql.texts + 1) does; -ENOMEM. */
int sql_text_holds(struct sql_condition *c, const struct sql *sql, uint32_t item);

#endif
