/*
 * columns.h: typed access to loaded columns by name: kernel_columns(t)->start_ns[row]. Generated
 * from schema/tables.h.
 *
 * A column is an array with one value per row, of the member's C type in struct row_<table>; column
 * `text` of table string is an array of string ids. The pointer is NULL while the column is not
 * loaded, or if the table is empty. valid.<column> has one byte per row, 0 where the value is
 * missing; it is NULL if no value is missing. The trace owns the struct and updates it on each
 * load.
 */
#ifndef PITOT_TRACE_COLUMNS_H
#define PITOT_TRACE_COLUMNS_H

#include "trace/trace.h"

#define COLUMNS_CTYPE_U8 uint8_t
#define COLUMNS_CTYPE_U16 uint16_t
#define COLUMNS_CTYPE_U32 uint32_t
#define COLUMNS_CTYPE_U64 uint64_t
#define COLUMNS_CTYPE_I32 int32_t
#define COLUMNS_CTYPE_I64 int64_t
#define COLUMNS_CTYPE_TIME uint64_t
#define COLUMNS_CTYPE_STRING uint32_t
#define COLUMNS_CTYPE_ENUM uint8_t
#define COLUMNS_CTYPE_REF uint32_t
#define COLUMNS_CTYPE_BYTES uint32_t

#define COLUMNS_VALUES(table, name, type, presence, extra, unit, doc)                              \
	const COLUMNS_CTYPE_##type *name;
#define COLUMNS_VALIDITY(table, name, type, presence, extra, unit, doc) const uint8_t *name;
#define COLUMNS_STRUCT(table, id, doc)                                                             \
	struct table##_columns {                                                                   \
		SCHEMA_##table(COLUMNS_VALUES, table)                                              \
		struct { SCHEMA_##table(COLUMNS_VALIDITY, table) } valid;                          \
	};
SCHEMA_TABLES(COLUMNS_STRUCT)

#define COLUMNS_MEMBER(table, id, doc) struct table##_columns table;
union table_columns {
	SCHEMA_TABLES(COLUMNS_MEMBER)
};

const union table_columns *trace_columns(const struct trace *t, enum table_id table);

#define COLUMNS_GET(table, id, doc)                                                                \
	static inline const struct table##_columns *table##_columns(const struct trace *t)         \
	{                                                                                          \
		return &trace_columns(t, TABLE_##table)->table;                                    \
	}
SCHEMA_TABLES(COLUMNS_GET)

/* Whether a row has a value; `valid` is the validity array of the column. */
static inline bool column_has(const uint8_t *valid, uint64_t row)
{
	return !valid || valid[row];
}

#endif
