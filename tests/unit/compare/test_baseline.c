#include "compare/baseline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "compare/comparison_print.h"
#include "unit/compare/made_runs.h"

#define MOST 8u
#define HEAD (sizeof(BASELINE_HEADER) - 1)

struct sides {
	struct measured_run runs[2 * MOST];
	size_t a, b;
};

static void make_sides(struct sides *s, size_t a, size_t b)
{
	*s = (struct sides){ .a = a, .b = b };
	for (size_t i = 0; i < a + b; i++) {
		make_run(&s->runs[i], i < a ? 1 : 1.03);
		s->runs[i].pid = 4711 + (uint32_t)i;
		s->runs[i].slow_steps = i;
		s->runs[i].clock_mhz = 1755.5 + (double)i / 3;
		for (uint32_t k = 0; k < 5; k++)
			assert_int_equal(
				vec_push(&s->runs[i].order,
					 ((struct kernel_launch){ 77 + k, 88 - k, 2 + k % 2 })),
				0);
		put(&s->runs[i], QUANTITY_kernel, "rare \"<&>\" \xff", i, 1.0 / 3);
	}
}

static void release_sides(struct sides *s)
{
	for (size_t i = 0; i < s->a + s->b; i++)
		measured_run_release(&s->runs[i]);
}

static void print(struct run_side a, struct run_side b, struct strbuf *out)
{
	struct comparison c;
	struct comparison_view v = { .comparison = &c, .out = out };

	assert_int_equal(comparison_init(&c, a, b, NULL), 0);
	comparison_print_json(&v);
	comparison_release(&c);
}

static void encode(const struct measured_run *runs, size_t count, struct strbuf *out)
{
	assert_int_equal(baseline_encode(runs, count, out, NULL), 0);
}

static int decode(const char *bytes, size_t length, struct measured_run *runs, size_t most,
		  size_t *count, struct error *e)
{
	/* of exactly the size, so that a sanitizer sees a read past the end */
	char *copy = malloc(length + !length);
	int rc;

	assert_non_null(copy);
	memcpy(copy, bytes, length);
	rc = baseline_decode(copy, length, runs, most, count, e);
	free(copy);
	return rc;
}

static void release(struct measured_run *runs, size_t count)
{
	for (size_t i = 0; i < count; i++)
		measured_run_release(&runs[i]);
}

/* What is read back compares as the original does, with few runs and with more. */
static void test_round_trip(void **state)
{
	(void)state;
	for (size_t count = 1; count <= MOST; count += 3) {
		struct measured_run read[MOST];
		struct strbuf bytes = STRBUF_INIT, again = STRBUF_INIT, text = STRBUF_INIT;
		struct strbuf other = STRBUF_INIT;
		struct sides s;
		size_t found;

		make_sides(&s, count, MOST);
		encode(s.runs, count, &bytes);
		assert_int_equal(decode(bytes.data, bytes.length, read, MOST, &found, NULL), 0);
		assert_int_equal(found, count);
		encode(read, count, &again);
		assert_int_equal(bytes.length, again.length);
		assert_memory_equal(bytes.data, again.data, bytes.length);
		print((struct run_side){ s.runs, count }, (struct run_side){ s.runs + count, MOST },
		      &text);
		print((struct run_side){ read, count }, (struct run_side){ s.runs + count, MOST },
		      &other);
		assert_string_equal(strbuf_text(&text), strbuf_text(&other));
		assert_string_equal(read[0].command, "train");
		assert_int_equal(read[0].order.count, 5);
		assert_int_equal(read[0].order.data[3].quantity, 3);
		assert_int_equal(read[0].order.data[3].shape, 80);
		assert_int_equal(read[0].order.data[3].scope, 85);
		assert_non_null(strstr(strbuf_text(&text), "1755.5"));
		release(read, found);
		release_sides(&s);
		strbuf_release(&bytes);
		strbuf_release(&again);
		strbuf_release(&text);
		strbuf_release(&other);
	}
}

/* Every cut and every flipped bit is refused, the head's as another version. */
static void test_damage(void **state)
{
	struct measured_run read[MOST];
	struct strbuf bytes = STRBUF_INIT;
	struct sides s;
	size_t found;

	(void)state;
	make_sides(&s, 2, 0);
	encode(s.runs, 2, &bytes);
	for (size_t length = 0; length < bytes.length; length++) {
		assert_int_equal(decode(bytes.data, length, read, MOST, &found, NULL), E_FORMAT);
		release(read, found);
	}
	for (size_t bit = 0; bit < bytes.length * 8; bit++) {
		int rc;

		bytes.data[bit / 8] ^= (char)(1 << bit % 8);
		rc = decode(bytes.data, bytes.length, read, MOST, &found, NULL);
		release(read, found);
		bytes.data[bit / 8] ^= (char)(1 << bit % 8);
		if (rc != E_FORMAT && (rc != E_VERSION || bit / 8 >= HEAD))
			fail_msg("bit %zu: %d", bit, rc);
	}
	strbuf_addc(&bytes, '\0');
	assert_int_equal(decode(bytes.data, bytes.length, read, MOST, &found, NULL), E_FORMAT);
	release(read, found);
	strbuf_release(&bytes);
	release_sides(&s);
}

/* Sets the checksum of what follows the head. */
static void seal(struct strbuf *bytes)
{
	store_u32(bytes->data + HEAD, crc32c(0, bytes->data + HEAD + 4, bytes->length - HEAD - 4));
}

/* Each byte of the runs is set to others, with a checksum that fits: no crash, and no huge run. */
static void test_impossible_values(void **state)
{
	static const uint8_t values[] = { 0, 1, 7, 0x7f, 0x80, 0xfe, 0xff };
	struct strbuf bytes = STRBUF_INIT;
	struct sides s;
	unsigned refused = 0;

	(void)state;
	make_sides(&s, 1, 0);
	encode(s.runs, 1, &bytes);
	for (size_t at = HEAD + 4; at < bytes.length; at++) {
		char before = bytes.data[at];

		for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
			struct measured_run read[MOST];
			size_t found;

			bytes.data[at] = (char)values[i];
			seal(&bytes);
			if (decode(bytes.data, bytes.length, read, MOST, &found, NULL) < 0)
				refused++;
			else
				assert_int_equal(found, 1);
			release(read, found);
		}
		bytes.data[at] = before;
	}
	assert_true(refused > bytes.length / 8);
	strbuf_release(&bytes);
	release_sides(&s);
}

static void add_numbers(struct strbuf *out, const uint64_t *numbers, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint8_t bytes[VARINT_MAX];

		strbuf_add(out, bytes, varint_put(bytes, numbers[i]));
	}
}

/* A run with so many steps and quantities, of which none has a value. */
static int decode_counts(uint64_t runs, uint64_t steps, unsigned quantities, struct error *e)
{
	static struct measured_run read[MOST];
	struct strbuf bytes = STRBUF_INIT;
	size_t found;
	int rc;

	strbuf_adds(&bytes, BASELINE_HEADER "crc.");
	add_numbers(&bytes, &runs, 1);
	add_numbers(&bytes, (uint64_t[4 + RUN_FACT_COUNT]){ 0 }, 4 + RUN_FACT_COUNT);
	add_numbers(&bytes, (uint64_t[]){ 1, steps, 0 }, 3);
	strbuf_add(&bytes, (char[8]){ 0 }, 8);
	add_numbers(&bytes, (uint64_t[]){ quantities }, 1);
	for (unsigned i = 0; i < quantities; i++) {
		strbuf_addc(&bytes, QUANTITY_kernel);
		strbuf_addf(&bytes, "\x04%04u", i);
		strbuf_add(&bytes, (char[17]){ 0 }, 17);
	}
	strbuf_addc(&bytes, '\0');
	seal(&bytes);
	rc = decode(bytes.data, bytes.length, read, MOST, &found, e);
	release(read, found);
	strbuf_release(&bytes);
	return rc;
}

static void test_huge_counts(void **state)
{
	struct error e = { 0 };

	(void)state;
	assert_int_equal(decode_counts(1, 1000, 3, &e), 0);
	assert_int_equal(decode_counts(1, BASELINE_STEPS_MAX + 1, 1, &e), E_FORMAT);
	assert_int_equal(decode_counts(1, UINT64_MAX, 1, &e), E_FORMAT);
	assert_int_equal(decode_counts(1, BASELINE_VALUES_MAX / 1000, 1001, &e), E_FORMAT);
	assert_int_equal(decode_counts(2, 1000, 3, &e), E_FORMAT);
	assert_int_equal(decode_counts(0, 1000, 3, &e), E_FORMAT);
	assert_int_equal(decode_counts(MOST + 1, 1000, 3, &e), E_LIMIT);
	assert_string_equal(e.text, "it has 9 runs, and at most 8 can be compared");
}

/* Values of which no sum could be made, and steps behind the last one. */
static void test_values_that_cannot_be(void **state)
{
	static const double values[] = { -1, -1e-300, NAN, INFINITY, 1e31 };
	struct measured_run read[MOST];
	struct strbuf bytes = STRBUF_INIT;
	struct sides s;
	size_t found;

	(void)state;
	for (size_t i = 0; i < 3 * ARRAY_SIZE(values); i++) {
		double value = values[i / 3];

		make_sides(&s, 1, 0);
		if (i % 3 == 0)
			s.runs[0].clock_mhz = value;
		else if (i % 3 == 1)
			s.runs[0].quantities.data[1].value = value;
		else
			s.runs[0].quantities.data[0].steps[s.runs[0].step_count - 1] = value;
		strbuf_clear(&bytes);
		encode(s.runs, 1, &bytes);
		assert_int_equal(decode(bytes.data, bytes.length, read, MOST, &found, NULL),
				 E_FORMAT);
		release(read, found);
		release_sides(&s);
	}
	strbuf_release(&bytes);
}

/* A quantity of ten steps whose only value, if it is there, comes after so many zeros. */
static int decode_step(uint64_t zeros, bool is_there)
{
	struct measured_run read[MOST];
	struct strbuf bytes = STRBUF_INIT;
	double one = 1;
	size_t found;
	int rc;

	strbuf_adds(&bytes, BASELINE_HEADER "crc.");
	add_numbers(&bytes, (uint64_t[5 + RUN_FACT_COUNT]){ 1 }, 5 + RUN_FACT_COUNT);
	add_numbers(&bytes, (uint64_t[]){ 1, 10, 0 }, 3);
	strbuf_add(&bytes, (char[8]){ 0 }, 8);
	add_numbers(&bytes, (uint64_t[]){ 1 }, 1);
	strbuf_addc(&bytes, QUANTITY_kernel);
	strbuf_add(&bytes, (char[17]){ 0 }, 17);
	add_numbers(&bytes, (uint64_t[]){ 1, zeros }, 2);
	strbuf_add(&bytes, &one, is_there ? sizeof(one) : 0);
	strbuf_addc(&bytes, '\0');
	seal(&bytes);
	rc = decode(bytes.data, bytes.length, read, MOST, &found, NULL);
	if (rc == 0)
		assert_true(read[0].quantities.data[0].steps[zeros] == 1);
	release(read, found);
	strbuf_release(&bytes);
	return rc;
}

static void test_a_step_behind_the_last(void **state)
{
	(void)state;
	assert_int_equal(decode_step(0, true), 0);
	assert_int_equal(decode_step(9, true), 0);
	assert_int_equal(decode_step(9, false), E_FORMAT);
	for (uint64_t zeros = 10; zeros < 12; zeros++) {
		assert_int_equal(decode_step(zeros, true), E_FORMAT);
		assert_int_equal(decode_step(zeros, false), E_FORMAT);
	}
}

/* What could not be read back is not saved. */
static void test_too_much(void **state)
{
	struct strbuf bytes = STRBUF_INIT;
	struct error e = { 0 };
	struct sides s;

	(void)state;
	make_sides(&s, 1, 0);
	s.runs[0].slow_steps = BASELINE_STEPS_MAX + 1;
	assert_int_equal(baseline_encode(s.runs, 1, &bytes, &e), E_LIMIT);
	assert_non_null(strstr(e.text, "save fewer or shorter recordings"));
	strbuf_release(&bytes);
	release_sides(&s);
}

static void test_names(void **state)
{
	static const char *const good[] = { "main", "a", "v1.0_rc-2+x@y=z", "9" };
	static const char *const bad[] = { "",   ".", "..",      ".x", "-x",   "a/b", "a b", "a\nb",
					   "/x", "ä", "../main", "x*", "\x01", "a:b", "a\\b" };
	char text[BASELINE_NAME_MAX + 2];
	struct error e = { 0 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_int_equal(baseline_check_name(good[i], NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(baseline_check_name(bad[i], &e), E_USAGE);
	memset(text, 'x', sizeof(text));
	text[BASELINE_NAME_MAX] = '\0';
	assert_int_equal(baseline_check_name(text, NULL), 0);
	text[BASELINE_NAME_MAX] = 'x';
	text[BASELINE_NAME_MAX + 1] = '\0';
	assert_int_equal(baseline_check_name(text, NULL), E_USAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_impossible_values),
		cmocka_unit_test(test_huge_counts),
		cmocka_unit_test(test_too_much),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_values_that_cannot_be),
		cmocka_unit_test(test_a_step_behind_the_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
