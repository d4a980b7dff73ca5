#include "schema/schema.h"

#include <string.h>

#define VALUE_ROW(list, name, value) { #name, value },
#define VALUE_LIST(list)                                                                           \
	static const struct enum_value values_##list[] = { ENUM_##list(VALUE_ROW, list) };
SCHEMA_ENUMS(VALUE_LIST)

/* These turn the argument `extra`, whose meaning depends on the type, into initializers. */
#define EXTRA_NONE(table, extra) .base = -1
#define EXTRA_TIME(table, extra) .base = BASE_##extra(table)
#define EXTRA_U8 EXTRA_NONE
#define EXTRA_U16 EXTRA_NONE
#define EXTRA_U32 EXTRA_NONE
#define EXTRA_U64 EXTRA_NONE
#define EXTRA_I32 EXTRA_NONE
#define EXTRA_I64 EXTRA_NONE
#define EXTRA_STRING EXTRA_NONE
#define EXTRA_BYTES EXTRA_NONE
#define EXTRA_REF(table, extra) .base = -1, .ref = TABLE_##extra
#define EXTRA_ENUM(table, extra)                                                                   \
	.base = -1, .values = values_##extra, .value_count = ARRAY_SIZE(values_##extra)

/* Only start_ns can be the base of a difference. */
#define BASE_NONE(table) (-1)
#define BASE_start_ns(table) COLUMN_##table##_start_ns

#define MAYBE true
#define ALWAYS false
#define WIDTH(ctype) (sizeof(ctype) == sizeof(struct bytes_value) ? 0 : sizeof(ctype))

#define COLUMN_ROW(table, name_, type_, presence, extra, unit_, doc)                               \
	{ .name = #name_,                                                                          \
	  .unit = unit_,                                                                           \
	  .meaning = doc,                                                                          \
	  .type = COLUMN_TYPE_##type_,                                                             \
	  .maybe = presence,                                                                       \
	  .width = WIDTH(SCHEMA_CTYPE_##type_),                                                    \
	  .row_offset = offsetof(struct row_##table, name_),                                       \
	  EXTRA_##type_(table, extra) },
#define COLUMN_LIST(table, id, doc)                                                                \
	static const struct column_schema columns_##table[] = { SCHEMA_##table(COLUMN_ROW,         \
									       table) };           \
	_Static_assert(COLUMNS_##table <= 64, "the mask of missing values has 64 bits");
SCHEMA_TABLES(COLUMN_LIST)

/*
 * Traits as initializers. Column indexes are stored plus 1, so that 0 means none; derive()
 * subtracts 1.
 */
#define ROLE(role, table, column) .roles[ROLE_##role] = COLUMN_##table##_##column + 1
#define BITS(prefix, a, b, ...) (UINT64_C(1) << prefix##a | UINT64_C(1) << prefix##b)
/* Bits of one or two names; a third argument is ignored. */
#define BITS_OF(prefix, ...) BITS(prefix, __VA_ARGS__, __VA_ARGS__, )

/* Of one to three names. */
#define BITS3(prefix, a, b, c, ...) (BITS(prefix, a, b) | UINT64_C(1) << prefix##c)
#define BITS3_OF(prefix, ...) BITS3(prefix, __VA_ARGS__, __VA_ARGS__, __VA_ARGS__, )

#define TRAIT_SPAN(table) ROLE(START, table, start_ns), ROLE(END, table, end_ns),
#define TRAIT_MOMENT(table, column) ROLE(START, table, column),
#define TRAIT_GPU_WORK(table)                                                                      \
	.gpu_work = true, TRAIT_SPAN(table) TRAIT_HAS_device(table) TRAIT_HAS(table, context)      \
				  TRAIT_HAS(table, stream)
#define TRAIT_HAS(table, column) TRAIT_HAS_##column(table)
#define TRAIT_HAS_device(table) ROLE(DEVICE, table, device),
#define TRAIT_HAS_context(table) ROLE(CONTEXT, table, context),
#define TRAIT_HAS_stream(table) ROLE(STREAM, table, stream),
#define TRAIT_HAS_graph(table) ROLE(GRAPH, table, graph),
#define TRAIT_HAS_graph_node(table)                                                                \
	ROLE(GRAPH_NODE, table, graph_node), TRAIT_USES(table, graph_node, graph_node)
#define TRAIT_LABEL(table, column) ROLE(LABEL, table, column),
#define TRAIT_LAUNCHED_BY(table, ...)                                                              \
	ROLE(CORRELATION, table, correlation), .launching_kinds = BITS_OF(api_kind_, __VA_ARGS__),
#define TRAIT_SHOWN(table, ...) .shown = BITS3_OF(COLUMN_##table##_, __VA_ARGS__),
#define TRAIT_INTERNED(table) .repeated = REPEAT_INTERNED,
#define TRAIT_LAST(table) .repeated = REPEAT_LAST,
#define TRAIT_LAST_OF(table, ...)                                                                  \
	.repeated = REPEAT_LAST, .key = BITS_OF(COLUMN_##table##_, __VA_ARGS__),
#define TRAIT_LAST_USED(table, ...)                                                                \
	.repeated = REPEAT_LAST_USED, .key = BITS_OF(COLUMN_##table##_, __VA_ARGS__),
#define TRAIT_USES(table, column, used)                                                            \
	.user_column = COLUMN_##table##_##column + 1, .used_table = TABLE_##used,

#define TRAIT(table, trait, ...) TRAIT_##trait(table, ##__VA_ARGS__)
#define TABLE_ROW(table, id_, doc)                                                                 \
	[id_] = { .name = #table,                                                                  \
		  .meaning = doc,                                                                  \
		  .id = id_,                                                                       \
		  .column_count = COLUMNS_##table,                                                 \
		  .row_size = sizeof(struct row_##table),                                          \
		  TRAITS_##table(TRAIT, table).columns = columns_##table },
static struct table_schema tables[] = { SCHEMA_TABLES(TABLE_ROW) };

_Static_assert(ARRAY_SIZE(tables) == TABLE_MAX + 1, "ids of tables are contiguous");

const struct table_schema *schema_gpu_work[GPU_WORK_KINDS];

/* Computes derived members; from then on the tables are constant, also in libpitot.so. */
__attribute__((constructor(200))) static void derive(void)
{
	size_t works = 0;

	for (size_t t = 1; t <= TABLE_MAX; t++) {
		if (tables[t].gpu_work)
			schema_gpu_work[works++] = &tables[t];
		for (int role = 0; role < COLUMN_ROLES; role++)
			tables[t].roles[role]--;
		tables[t].user_column--;
		tables[t].time_column = -1;
		for (int c = tables[t].column_count - 1; c >= 0; c--) {
			const struct column_schema *column = &tables[t].columns[c];

			if (column->type == COLUMN_TYPE_TIME)
				tables[t].time_column = (int8_t)c;
			tables[t].texts |= (uint64_t)(column->type == COLUMN_TYPE_STRING) << c;
			tables[t].refs |= (uint64_t)(column->type == COLUMN_TYPE_REF) << c;
			tables[t].maybe |= (uint64_t)column->maybe << c;
		}
	}
}

#define TABLE_NAME(name, id, doc) #name,
const char *const schema_table_names[] = { SCHEMA_TABLES(TABLE_NAME) NULL };

const struct table_schema *schema_table(uint32_t id)
{
	return id >= 1 && id <= TABLE_MAX ? &tables[id] : NULL;
}

const struct table_schema *schema_table_by_name(const char *name)
{
	for (uint32_t id = 1; id <= TABLE_MAX; id++)
		if (strcmp(tables[id].name, name) == 0)
			return &tables[id];
	return NULL;
}

int schema_column_by_name(const struct table_schema *table, const char *name)
{
	for (int i = 0; i < table->column_count; i++)
		if (strcmp(table->columns[i].name, name) == 0)
			return i;
	return -1;
}

uint64_t schema_missing(enum table_id table)
{
	return schema_table(table)->maybe;
}

const char *schema_value_name(const struct column_schema *column, uint64_t value)
{
	for (unsigned i = 0; i < column->value_count; i++)
		if (column->values[i].value == value)
			return column->values[i].name;
	return NULL;
}

const char *feature_name(enum feature feature)
{
	return schema_value_name(&columns_capability[COLUMN_capability_name], feature);
}

enum feature feature_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(values_feature); i++)
		if (strcmp(values_feature[i].name, name) == 0)
			return (enum feature)values_feature[i].value;
	return feature_other;
}

const char *schema_type_name(enum column_type type)
{
	static const char *const names[] = {
		[COLUMN_TYPE_U8] = "u8",       [COLUMN_TYPE_U16] = "u16",
		[COLUMN_TYPE_U32] = "u32",     [COLUMN_TYPE_U64] = "u64",
		[COLUMN_TYPE_I32] = "i32",     [COLUMN_TYPE_I64] = "i64",
		[COLUMN_TYPE_TIME] = "time",   [COLUMN_TYPE_STRING] = "string",
		[COLUMN_TYPE_ENUM] = "enum",   [COLUMN_TYPE_REF] = "ref",
		[COLUMN_TYPE_BYTES] = "bytes",
	};

	return names[type];
}
