/* Readings of counters: whole numbers with decimals, reals, and what an older recorder wrote. */
#include "trace_fixture.h"

#include <math.h>

#include "trace/counter_value.h"

static void append(struct maker *m, uint64_t time_ns, uint32_t counter, int64_t value)
{
	writer_append(m->writer, TABLE_counter_sample,
		      &(struct row_counter_sample){
			      .time_ns = time_ns, .counter = counter, .value = value });
}

static void assert_value(struct trace *t, uint64_t row, double expected, const char *text)
{
	_cleanup_strbuf_ struct strbuf s = STRBUF_INIT;
	struct counter_value v = counter_value(t, row);
	struct json j = JSON_INIT(&s);

	counter_value_json(&v, &j);
	assert_string_equal(strbuf_text(&s), text);
	assert_true(counter_value_double(&v) == expected);
}

static void reads_whole_numbers_and_reals(void **state)
{
	struct maker *m = maker_begin(*state, 100, 1000, "./a");
	struct row_counter whole = { .id = 1, .name = maker_string(m, "power"), .decimals = 3 },
			   real = { .id = 1024,
				    .name = maker_string(m, "loss"),
				    .decimals = 2, /* means nothing */
				    .reading = counter_reading_real },
			   old = { .id = 2, .name = maker_string(m, "old"), .decimals = 200 };
	double value = 0.1;
	struct trace *t;
	int64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	ROW_MISSING(&old, counter, reading);
	writer_append(m->writer, TABLE_counter, &whole);
	writer_append(m->writer, TABLE_counter, &real);
	writer_append(m->writer, TABLE_counter, &old);
	append(m, 20, 1, -1500);
	append(m, 21, 1024, bits);
	append(m, 22, 2, 1000000000000000000);
	append(m, 23, 77, -7);
	value = INFINITY;
	memcpy(&bits, &value, sizeof(bits));
	append(m, 24, 1024, bits);
	maker_close(m, 5000);
	t = open_recording(*state);
	load(t, TABLE_counter, COUNTER_VALUE_COLUMNS);
	load(t, TABLE_counter_sample, COLUMN_BITS(counter_sample, counter, value));
	assert_value(t, 0, -1.5, "-1.500");
	assert_value(t, 1, 0.1, "0.1");
	assert_value(t, 2, 1, "1.000000000000000000");
	assert_value(t, 3, -7, "-7");
	assert_value(t, 4, INFINITY, "null");
	trace_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(reads_whole_numbers_and_reals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
