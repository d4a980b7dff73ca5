/* What holds of every table, column and trait that tables.h declares. */
#include "schema/schema.h"

#include <string.h>

#include "support/cmocka_tests.h"

static void test_names_lead_to_one_table_and_column_each(void **state)
{
	(void)state;
	for (uint32_t id = 1; id <= TABLE_MAX; id++) {
		const struct table_schema *t = schema_table(id);

		assert_int_equal(t->id, id);
		assert_ptr_equal(schema_table_by_name(t->name), t);
		assert_string_equal(schema_table_names[id - 1], t->name);
		for (int c = 0; c < t->column_count; c++)
			assert_int_equal(schema_column_by_name(t, t->columns[c].name), c);
		assert_int_equal(schema_column_by_name(t, "no such column"), -1);
	}
	assert_null(schema_table_names[TABLE_MAX]);
	assert_null(schema_table(0));
	assert_null(schema_table(TABLE_MAX + 1));
	assert_null(schema_table_by_name("no such table"));
}

static void test_tables_of_gpu_work_are_listed_once_in_order(void **state)
{
	size_t works = 0;

	(void)state;
	for (uint32_t id = 1; id <= TABLE_MAX; id++)
		if (schema_table(id)->gpu_work)
			assert_ptr_equal(schema_gpu_work[works++], schema_table(id));
	assert_int_equal(works, GPU_WORK_KINDS);
	assert_int_equal(schema_gpu_work[GPU_WORK_kernel]->id, TABLE_kernel);
	for (size_t i = 0; i < works; i++)
		for (int role = ROLE_START; role <= ROLE_STREAM; role++)
			assert_true(schema_gpu_work[i]->roles[role] >= 0);
}

/* The first TIME column is what blocks are sorted by; an event's start is it. */
static void test_times_are_where_their_roles_say(void **state)
{
	(void)state;
	for (uint32_t id = 1; id <= TABLE_MAX; id++) {
		const struct table_schema *t = schema_table(id);
		int first = -1;

		for (int c = 0; c < t->column_count && first < 0; c++)
			first = t->columns[c].type == COLUMN_TYPE_TIME ? c : -1;
		assert_int_equal(t->time_column, first);
		for (int role = 0; role < COLUMN_ROLES; role++)
			assert_in_range(t->roles[role] + 1, 0, t->column_count);
		if (t->roles[ROLE_START] >= 0)
			assert_int_equal(t->roles[ROLE_START], first);
		if (t->roles[ROLE_END] >= 0)
			assert_string_equal(t->columns[t->roles[ROLE_END]].name, "end_ns");
		assert_int_equal(t->launching_kinds != 0, t->roles[ROLE_CORRELATION] >= 0);
	}
}

/* Writers find a row of the used table by that column alone. */
static void test_used_tables_have_a_key_of_one_such_column(void **state)
{
	size_t users = 0;

	(void)state;
	for (uint32_t id = 1; id <= TABLE_MAX; id++) {
		const struct table_schema *t = schema_table(id);
		const struct table_schema *used = schema_table(t->used_table);

		assert_int_equal(t->user_column >= 0, used != NULL);
		assert_true(t->roles[ROLE_GRAPH_NODE] < 0 ||
			    t->roles[ROLE_GRAPH_NODE] == t->user_column);
		if (!used)
			continue;
		users++;
		assert_int_equal(used->repeated, REPEAT_LAST_USED);
		assert_int_equal(__builtin_popcountll(used->key), 1);
		assert_int_equal(used->columns[__builtin_ctzll(used->key)].width,
				 t->columns[t->user_column].width);
	}
	assert_int_equal(users, 4); /* of graph nodes: three kinds of work, and they themselves */
}

static void test_columns_describe_their_members(void **state)
{
	(void)state;
	for (uint32_t id = 1; id <= TABLE_MAX; id++) {
		const struct table_schema *t = schema_table(id);

		for (int c = 0; c < t->column_count; c++) {
			const struct column_schema *column = &t->columns[c];

			assert_non_null(schema_type_name(column->type));
			assert_in_range(column->row_offset, sizeof(uint64_t), t->row_size - 1);
			assert_int_equal(column->ref != 0, column->type == COLUMN_TYPE_REF);
			assert_int_equal(column->value_count != 0,
					 column->type == COLUMN_TYPE_ENUM);
			for (unsigned v = 0; v < column->value_count; v++)
				assert_ptr_equal(schema_value_name(column, column->values[v].value),
						 column->values[v].name);
			if (column->value_count)
				assert_null(schema_value_name(column, 255));
			if (column->base >= 0)
				assert_int_equal(t->columns[column->base].type, COLUMN_TYPE_TIME);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_lead_to_one_table_and_column_each),
		cmocka_unit_test(test_tables_of_gpu_work_are_listed_once_in_order),
		cmocka_unit_test(test_times_are_where_their_roles_say),
		cmocka_unit_test(test_used_tables_have_a_key_of_one_such_column),
		cmocka_unit_test(test_columns_describe_their_members),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
