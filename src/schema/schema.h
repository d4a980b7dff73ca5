/*
 * schema.h: the declarations of tables.h in C: ids, row structs, and descriptions for use at run
 * time.
 *
 * In a row struct, bit i of `missing` means that column i has no value; its member is then ignored.
 * A zeroed row has the value 0 in every column.
 */
#ifndef PITOT_SCHEMA_SCHEMA_H
#define PITOT_SCHEMA_SCHEMA_H

#include <stdbool.h>

#include "base/bytes.h"
#include "schema/tables.h"

/* A BYTES value. Borrowed; must be valid while the row is appended. */
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

/* TABLE_kernel and so on, from 1 to TABLE_MAX. */
#define SCHEMA_TABLE_ID(name, id, doc) TABLE_##name = id,
enum table_id { SCHEMA_TABLES(SCHEMA_TABLE_ID) TABLE_END };
#define TABLE_MAX (TABLE_END - 1)

/*
 * For each table: COLUMN_kernel_start_ns …, indexes of columns; COLUMNS_kernel, the number of
 * columns; struct row_kernel, a row as filled in by the recorder.
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

/* Indexes of the tables of GPU work: GPU_WORK_kernel …, in the order of table ids. */
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
#define SCHEMA_WORK_SHOWN(table)
#define SCHEMA_WORK(table, trait, ...) SCHEMA_WORK_##trait(table)
#define SCHEMA_WORK_OF(table, id, doc) TRAITS_##table(SCHEMA_WORK, table)
enum gpu_work { SCHEMA_TABLES(SCHEMA_WORK_OF) GPU_WORK_KINDS };

/* Enum values: copy_kind_HtoD and so on. */
#define SCHEMA_VALUE(list, name, value) list##_##name = value,
#define SCHEMA_ENUM(list) enum list { ENUM_##list(SCHEMA_VALUE, list) };
SCHEMA_ENUMS(SCHEMA_ENUM)

/* COLUMN_BITS(kernel, start_ns, end_ns): up to 16 columns */
#define COLUMN_BITS(table, ...)                                                                    \
	COLUMN_BITS_CHOOSE(__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, )   \
	(table, __VA_ARGS__)
#define COLUMN_BITS_CHOOSE(_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16,  \
			   count, ...)                                                             \
	COLUMN_BITS_##count
#define COLUMN_BIT(table, column) (UINT64_C(1) << COLUMN_##table##_##column)
#define COLUMN_BITS_1(table, a) COLUMN_BIT(table, a)
#define COLUMN_BITS_2(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_1(table, __VA_ARGS__))
#define COLUMN_BITS_3(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_2(table, __VA_ARGS__))
#define COLUMN_BITS_4(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_3(table, __VA_ARGS__))
#define COLUMN_BITS_5(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_4(table, __VA_ARGS__))
#define COLUMN_BITS_6(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_5(table, __VA_ARGS__))
#define COLUMN_BITS_7(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_6(table, __VA_ARGS__))
#define COLUMN_BITS_8(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_7(table, __VA_ARGS__))
#define COLUMN_BITS_9(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_8(table, __VA_ARGS__))
#define COLUMN_BITS_10(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_9(table, __VA_ARGS__))
#define COLUMN_BITS_11(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_10(table, __VA_ARGS__))
#define COLUMN_BITS_12(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_11(table, __VA_ARGS__))
#define COLUMN_BITS_13(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_12(table, __VA_ARGS__))
#define COLUMN_BITS_14(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_13(table, __VA_ARGS__))
#define COLUMN_BITS_15(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_14(table, __VA_ARGS__))
#define COLUMN_BITS_16(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_15(table, __VA_ARGS__))

/* Mark values of a row as missing, or one as not: ROW_MISSING(&row, kernel, start_ns, end_ns). */
#define ROW_MISSING(row, table, ...) ((row)->missing |= COLUMN_BITS(table, __VA_ARGS__))
#define ROW_PRESENT(row, table, column)                                                            \
	((row)->missing &= ~(UINT64_C(1) << COLUMN_##table##_##column))
/* Sets a column that schema_missing() has left out; the one below only if it is not 0. */
#define ROW_SET(row, table, column, value)                                                         \
	((row)->column = (value), ROW_PRESENT(row, table, column))
#define ROW_SET_IF(row, table, column, value)                                                      \
	do {                                                                                       \
		(row)->column = (value);                                                           \
		if ((row)->column)                                                                 \
			ROW_PRESENT(row, table, column);                                           \
	} while (0)
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
	const char *unit; /* "" when there is none */
	const char *meaning;
	enum column_type type;
	uint8_t width; /* bytes per value of a decoded column: 1, 2, 4, 8; 0 for BYTES */
	uint16_t row_offset; /* offset in struct row_<table> */
	bool maybe; /* values can be missing */
	/* TIME: index of the column from which the difference is stored, or -1 */
	int8_t base;
	uint8_t ref; /* REF: table referred to, else 0 */
	uint8_t value_count;
	const struct enum_value *values; /* ENUM: named values, else NULL */
};

static inline bool column_is_signed(const struct column_schema *column)
{
	return column->type == COLUMN_TYPE_I32 || column->type == COLUMN_TYPE_I64;
}

/* Meaning of a column, independent of its table. */
enum column_role {
	ROLE_START, /* start of a span, or time of a moment */
	ROLE_END,
	ROLE_DEVICE,
	ROLE_CONTEXT,
	ROLE_STREAM,
	ROLE_CORRELATION, /* correlation id of the call that caused the row */
	ROLE_GRAPH,
	ROLE_GRAPH_NODE,
	ROLE_LABEL,
	COLUMN_ROLES,
};

/* How the writer repeats rows in later segments; see the traits of the same names. */
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
	uint8_t column_count; /* at most 64 */
	/* first TIME column, or -1; blocks are sorted by it, and their time span is its range */
	int8_t time_column;
	bool gpu_work;
	uint64_t shown;	/* columns that exports show, as bits */
	uint64_t texts, refs; /* columns of types STRING and REF, as bits */
	uint64_t maybe; /* columns that can be missing, as bits */
	enum table_repeat repeated; /* if not NEVER, equal rows of a session are one row */
	/* REPEAT_LAST, REPEAT_LAST_USED: key columns, as bits; 0: only one row is repeated */
	uint64_t key;
	/* column with the key of a row of used_table, which is REPEAT_LAST_USED; or -1 */
	int8_t user_column;
	uint8_t used_table;
	/* kinds of calls that cause rows, as bits of enum api_kind; 0: none */
	uint32_t launching_kinds;
	int8_t roles[COLUMN_ROLES]; /* index of the column, or -1 */
	uint16_t row_size; /* sizeof(struct row_<table>) */
	const struct column_schema *columns;
};

/* Whether a row has a value in a column; false for column -1. */
static inline bool row_has(const void *row, int column)
{
	uint64_t missing;

	memcpy(&missing, row, sizeof(missing));
	return column >= 0 && !(missing >> column & 1);
}

/* Returns the value of a column of integers, not sign-extended; 0 if it is missing. */
static inline uint64_t row_value(const struct table_schema *table, const void *row, int column)
{
	const uint8_t *member = (const uint8_t *)row;

	if (!row_has(row, column))
		return 0;
	member += table->columns[column].row_offset;
	switch (table->columns[column].width) {
	case 1:
		return *member;
	case 2:
		return load_u16(member);
	case 4:
		return load_u32(member);
	default:
		return load_u64(member);
	}
}

/* Sets a column of integers; the value keeps the bits that fit. */
static inline void row_set(const struct table_schema *table, void *row, int column, uint64_t value)
{
	const struct column_schema *c = &table->columns[column];
	uint64_t missing;

	memcpy((char *)row + c->row_offset, &value, c->width); /* little-endian */
	memcpy(&missing, row, sizeof(missing));
	missing &= ~(UINT64_C(1) << column);
	memcpy(row, &missing, sizeof(missing));
}

/* Returns the description of a table, or NULL for an unknown id or name. Static storage. */
const struct table_schema *schema_table(uint32_t id);
const struct table_schema *schema_table_by_name(const char *name);
extern const char *const schema_table_names[]; /* in order of ids, NULL-terminated */
extern const struct table_schema *schema_gpu_work[GPU_WORK_KINDS];
/* Returns the index of a column, or -1. */
int schema_column_by_name(const struct table_schema *table, const char *name);
/* Returns the columns that can be missing, as bits: `missing` of a row that is unknown. */
uint64_t schema_missing(enum table_id table);
/* Returns the name of an enum value, or NULL when the value has none. */
const char *schema_value_name(const struct column_schema *column, uint64_t value);
/* The name of a feature in table capability, or NULL. */
const char *feature_name(enum feature feature);
/* The feature with that name, or feature_other. */
enum feature feature_find(const char *name);
/* Returns "u32", "time", "string" … */
const char *schema_type_name(enum column_type type);

/*
 * Memory that a framework's allocator hands out lies within its segments, and these within memory
 * of the driver, at the same addresses. Returns a number for each layer; 0: the driver's.
 */
static inline unsigned memory_layer(uint8_t kind)
{
	switch (kind) {
	case memory_kind_allocator_segment:
		return 1;
	case memory_kind_allocator_block:
		return 2;
	case memory_kind_allocator_request:
		return 3;
	default:
		return 0;
	}
}

#endif
