/*
 * schema.h: what tables.h declares, as C: ids, row structs, and descriptions to walk over at run
 * time.
 *
 * A row struct starts with `missing`: bit i set means that column i has no value; the member is
 * then ignored. A zeroed row has every value present and 0.
 */
#ifndef PITOT_SCHEMA_SCHEMA_H
#define PITOT_SCHEMA_SCHEMA_H

#include <stdbool.h>

#include "base/compiler.h"
#include "schema/tables.h"

/* A BYTES value: borrowed, valid while the row is being appended. */
struct bytes_value {
	const void *data;
	uint32_t length;
};

#define SCHEMA_CTYPE_U8 uint8_t
#define SCHEMA_CTYPE_U16 uint16_t
#define SCHEMA_CTYPE_U32 uint32_t
#define SCHEMA_CTYPE_U64 uint64_t
#define SCHEMA_CTYPE_I32 int32_t
#define SCHEMA_CTYPE_I64 int64_t
#define SCHEMA_CTYPE_TIME uint64_t
#define SCHEMA_CTYPE_STRING uint32_t
#define SCHEMA_CTYPE_ENUM uint8_t
#define SCHEMA_CTYPE_REF uint32_t
#define SCHEMA_CTYPE_BYTES struct bytes_value

/* TABLE_kernel and so on. Ids go from 1 to TABLE_MAX. */
#define SCHEMA_TABLE_ID(name, id, doc) TABLE_##name = id,
enum table_id { SCHEMA_TABLES(SCHEMA_TABLE_ID) TABLE_END };
#define TABLE_MAX (TABLE_END - 1)

/*
 * For each table: COLUMN_kernel_start_ns …, the index of a column; COLUMNS_kernel, their number;
 * and struct row_kernel, one row as the recorder fills it in.
 */
#define SCHEMA_COLUMN_ID(table, name, type, presence, extra, unit, doc) COLUMN_##table##_##name,
#define SCHEMA_MEMBER(table, name, type, presence, extra, unit, doc) SCHEMA_CTYPE_##type name;
#define SCHEMA_ROW(table, id, doc)                                                                 \
	enum { SCHEMA_##table(SCHEMA_COLUMN_ID, table) COLUMNS_##table };                          \
	struct row_##table {                                                                       \
		uint64_t missing;                                                                  \
		SCHEMA_##table(SCHEMA_MEMBER, table)                                               \
	};
SCHEMA_TABLES(SCHEMA_ROW)

/*
 * The tables of GPU work, counted: GPU_WORK_kernel … in the order of their ids, and their number.
 */
#define SCHEMA_WORK_GPU_WORK(table) GPU_WORK_##table,
#define SCHEMA_WORK_SPAN(table)
#define SCHEMA_WORK_MOMENT(table)
#define SCHEMA_WORK_HAS(table)
#define SCHEMA_WORK_LABEL(table)
#define SCHEMA_WORK_LAUNCHED_BY(table)
#define SCHEMA_WORK_INTERNED(table)
#define SCHEMA_WORK_LAST_OF(table)
#define SCHEMA_WORK_LAST(table)
#define SCHEMA_WORK_LAST_USED(table)
#define SCHEMA_WORK_USES(table)
#define SCHEMA_WORK(table, trait, ...) SCHEMA_WORK_##trait(table)
#define SCHEMA_WORK_OF(table, id, doc) TRAITS_##table(SCHEMA_WORK, table)
enum gpu_work { SCHEMA_TABLES(SCHEMA_WORK_OF) GPU_WORK_KINDS };

/* The values of enums: copy_kind_HtoD and so on. */
#define SCHEMA_VALUE(list, name, value) list##_##name = value,
#define SCHEMA_ENUM(list) enum list { ENUM_##list(SCHEMA_VALUE, list) };
SCHEMA_ENUMS(SCHEMA_ENUM)

/* Marks a value of a row as missing: ROW_MISSING(&row, kernel, end_ns). */
#define ROW_MISSING(row, table, column) ((row)->missing |= UINT64_C(1) << COLUMN_##table##_##column)
#define ROW_MISSING_IF(row, table, column, condition)                                              \
	((row)->missing |= (uint64_t)((condition) != 0) << COLUMN_##table##_##column)

enum column_type {
	COLUMN_TYPE_U8,
	COLUMN_TYPE_U16,
	COLUMN_TYPE_U32,
	COLUMN_TYPE_U64,
	COLUMN_TYPE_I32,
	COLUMN_TYPE_I64,
	COLUMN_TYPE_TIME,
	COLUMN_TYPE_STRING,
	COLUMN_TYPE_ENUM,
	COLUMN_TYPE_REF,
	COLUMN_TYPE_BYTES,
};

struct enum_value {
	const char *name;
	uint8_t value;
};

struct column_schema {
	const char *name;
	const char *unit;	/* "" when there is none */
	const char *meaning;
	enum column_type type;
	uint8_t width;		/* bytes of a value in a decoded column: 1, 2, 4, 8; 0 for BYTES */
	uint16_t row_offset;	/* of the member in struct row_<table> */
	bool maybe;		/* values can be missing */
	/* TIME: index of the column that it is stored as a difference to, or -1 */
	int8_t base;
	uint8_t ref;		/* REF: table referred to, else 0 */
	uint8_t value_count;
	const struct enum_value *values;	/* ENUM: named values, else NULL */
};

/* What a column means in any table that has such a column. */
enum column_role {
	ROLE_START,		/* of events; the time of those that do not last */
	ROLE_END,
	ROLE_DEVICE,
	ROLE_CONTEXT,
	ROLE_STREAM,
	ROLE_CORRELATION,	/* of the call that caused the row */
	ROLE_GRAPH,
	ROLE_GRAPH_NODE,
	ROLE_LABEL,
	COLUMN_ROLES,
};

/* How writers repeat rows from segment to segment: traits of the same names. */
enum table_repeat {
	REPEAT_NEVER,
	REPEAT_INTERNED,
	REPEAT_LAST,
	REPEAT_LAST_USED,
};

struct table_schema {
	const char *name;
	const char *meaning;
	enum table_id id;
	uint8_t column_count;	/* at most 64 */
	/* first TIME column, or -1: what blocks are sorted by and their time span is of */
	int8_t time_column;
	bool gpu_work;
	enum table_repeat repeated;	/* unless never, equal rows of a session are one */
	/*
	 * REPEAT_LAST, REPEAT_LAST_USED: the columns of the key, as bits; 0: only one row is
	 * repeated
	 */
	uint64_t key;
	/* has the key of a row of used_table, which is REPEAT_LAST_USED; or -1 */
	int8_t user_column;
	uint8_t used_table;
	/* of the calls that cause rows: bits of enum api_kind; 0: none do */
	uint32_t launching_kinds;
	int8_t roles[COLUMN_ROLES];	/* index of the column, or -1 */
	uint16_t row_size;	/* sizeof(struct row_<table>) */
	const struct column_schema *columns;
};

/* Description of a table, or NULL for an id or name that is not ours. Static storage. */
const struct table_schema *schema_table(uint32_t id);
const struct table_schema *schema_table_by_name(const char *name);
extern const char *const schema_table_names[]; /* in order of their ids; ends with NULL */
extern const struct table_schema *schema_gpu_work[GPU_WORK_KINDS];
/* Index of a column by name, or -1. */
int schema_column_by_name(const struct table_schema *table, const char *name);
/* Name of an enum value, or NULL when that value has none. */
const char *schema_value_name(const struct column_schema *column, uint64_t value);
/* "u32", "time", "string" … */
const char *schema_type_name(enum column_type type);

#endif
