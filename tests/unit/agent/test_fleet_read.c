/* Rows of a lake are read as they were written. */
#include "agent/fleet_read.h"

#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "support/cmocka_tests.h"
#include "support/temp_folder.h"

static uint64_t next_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
	return *state >> 11;
}

/* Values of all sizes: small steps, leaps over 2^32, and the ends of the range. */
static uint64_t any_value(const struct fleet_column *c, struct fleet_rows *rows, uint64_t *state)
{
	static const uint64_t ends[] = { 0, 1, INT64_MAX, UINT64_MAX, UINT32_MAX };
	uint64_t kind = next_random(state) % 8;
	char text[32];

	if (c->type == FLAT_TEXT) {
		snprintf(text, sizeof(text), "text %u", (unsigned)(next_random(state) % 300));
		return fleet_text(rows, kind ? text : "");
	}
	if (c->type == FLAT_I32)
		return (uint64_t)(int32_t)next_random(state);
	if (c->type == FLAT_U32)
		return (uint32_t)next_random(state);
	return kind == 0   ? ends[next_random(state) % ARRAY_SIZE(ends)]
	       : kind == 1 ? next_random(state) << 11
			   : 1000000 + next_random(state) % 100;
}

static void fill(struct fleet_rows *rows, enum fleet_table table, size_t count, uint64_t *state)
{
	const struct fleet_schema *schema = &fleet_schemas[table];
	uint64_t row[64];

	for (size_t i = 0; i < count; i++) {
		row[0] = 0;
		for (size_t c = 0; c < schema->column_count; c++) {
			bool is_missing = schema->columns[c].maybe && next_random(state) % 3 == 0;

			row[0] |= (uint64_t)is_missing << c;
			row[1 + c] = is_missing ? 0 : any_value(&schema->columns[c], rows, state);
		}
		fleet_append(rows, table, row);
	}
	assert_false(rows->failed);
}

static void write_and_load(const struct fleet_rows *rows, enum fleet_table table,
			   struct strbuf *out)
{
	char *folder = temp_folder_make();
	const char *path = temp_file(folder, "x.parquet");
	struct error e = { 0 };

	if (fleet_write(table, rows->values[table].data, fleet_row_count(rows, table), &rows->texts,
			path, NULL, &e) < 0)
		fail_msg("%s", e.text);
	assert_return_code(io_read_file(path, (size_t)1 << 30, out), 0);
	temp_folder_remove(folder);
}

static void check_equal(const struct fleet_rows *a, const struct fleet_rows *b,
			enum fleet_table table)
{
	const struct fleet_schema *schema = &fleet_schemas[table];
	const uint64_t *left = a->values[table].data, *right = b->values[table].data;

	assert_int_equal(a->values[table].count, b->values[table].count);
	for (size_t i = 0; i < fleet_row_count(a, table); i++) {
		assert_int_equal(left[0], right[0]);
		for (size_t c = 0; c < schema->column_count; c++) {
			if (left[0] >> c & 1)
				continue;
			if (schema->columns[c].type == FLAT_TEXT)
				assert_string_equal(a->texts.items[left[1 + c]].text,
						    b->texts.items[right[1 + c]].text);
			else
				assert_int_equal(left[1 + c], right[1 + c]);
		}
		left += 1 + schema->column_count;
		right += 1 + schema->column_count;
	}
}

static void rows_come_back(void **state)
{
	static const size_t counts[] = { 0, 1, 7, 129, 1000, FLAT_ROWS + 1 };
	uint64_t seed = 34;

	(void)state;
	for (enum fleet_table t = 0; t < FLEET_TABLE_COUNT; t++)
		for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
			_cleanup_strbuf_ struct strbuf bytes = STRBUF_INIT;
			struct fleet_rows rows, again;
			struct error e = { 0 };

			fleet_rows_init(&rows);
			fleet_rows_init(&again);
			fill(&rows, t, counts[i], &seed);
			write_and_load(&rows, t, &bytes);
			if (fleet_read(&again, t, bytes.data, bytes.length, &e) < 0)
				fail_msg("%s of %zu: %s", fleet_schemas[t].name, counts[i], e.text);
			check_equal(&rows, &again, t);
			fleet_rows_release(&rows);
			fleet_rows_release(&again);
		}
}

/* All rows of a file or none; a byte that is wrong is an error or another value, never a crash. */
static void damaged_files(void **state)
{
	_cleanup_strbuf_ struct strbuf bytes = STRBUF_INIT;
	struct fleet_rows rows, again;
	uint64_t seed = 7;
	size_t refused = 0;

	(void)state;
	fleet_rows_init(&rows);
	fleet_rows_init(&again);
	fill(&rows, FLEET_step, 300, &seed);
	write_and_load(&rows, FLEET_step, &bytes);
	assert_true(fleet_read(&again, FLEET_loss, bytes.data, bytes.length, NULL) < 0);
	for (size_t length = 0; length < bytes.length; length += 7)
		assert_true(fleet_read(&again, FLEET_step, bytes.data, length, NULL) < 0);
	assert_int_equal(fleet_row_count(&again, FLEET_step), 0);
	for (size_t at = 0; at < bytes.length; at += 3) {
		bytes.data[at] ^= 0x55;
		fleet_rows_clear(&again);
		refused += fleet_read(&again, FLEET_step, bytes.data, bytes.length, NULL) < 0;
		bytes.data[at] ^= 0x55;
	}
	assert_true(refused > bytes.length / 30);
	fleet_rows_release(&rows);
	fleet_rows_release(&again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_come_back),
		cmocka_unit_test(damaged_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
