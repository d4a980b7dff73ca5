/*
 * Rows of rules from random call frame information that is known beforehand, and from wrong input.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "cfi_random.h"
#include "whole_table.h"

#define TEXT UINT64_C(0x1000)

static struct unwind_input input_of(const struct cfi *c)
{
	return (struct unwind_input){
		.section = { .bytes = c->bytes, .size = c->size, .address = c->address },
	};
}

static struct whole_table build(const struct cfi *c)
{
	struct unwind_input input = input_of(c);

	return whole_table_make(&input);
}

/* --- random programs --- */

static void check_rows(const struct whole_table *t)
{
	for (unsigned i = 0; i < expected_count; i++) {
		const struct unwind_rule *rule = whole_table_find(t, expected[i].address);

		if (memcmp(rule, &expected[i].rule, sizeof(*rule)) != 0)
			fail_msg("row %u at %#lx: cfa %u %u%+d, but must be %u %u%+d", i,
				 expected[i].address, rule->cfa, rule->base, rule->offset,
				 expected[i].rule.cfa, expected[i].rule.base,
				 expected[i].rule.offset);
		if (i) {
			rule = whole_table_find(t, expected[i].address - 1);
			assert_memory_equal(rule, &expected[i - 1].rule, sizeof(*rule));
		}
	}
}

static void random_programs(void **state)
{
	static struct cfi c;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		struct whole_table t;
		size_t cie;

		c.size = 0;
		c.address = pick(1u << 30);
		expected_count = 0;
		cie = cfi_cie(&c, "zR");
		for (unsigned f = 0; f < 5; f++)
			write_function(&c, cie, TEXT + f * 1000000 + pick(1000));
		t = build(&c);
		assert_int_equal(t.damaged, 0);
		check_rows(&t);
		whole_table_release(&t);
	}
}

/* --- wrong and unusual input --- */

static const struct unwind_rule *only_rule(struct cfi *c, uint64_t address, struct whole_table *t)
{
	cfi_close(c);
	*t = build(c);
	return whole_table_find(t, address);
}

static void begin(struct cfi *c, const char *augmentation)
{
	size_t cie;

	c->size = 0;
	c->address = 0x400;
	cie = cfi_cie(c, augmentation);
	cfi_fde(c, cie, TEXT, 100);
}

static void ends_of_stacks(void **state)
{
	static struct cfi c;
	struct whole_table t;

	(void)state;
	begin(&c, "zR");
	cfi_u8(&c, 0x07);
	cfi_uleb(&c, 16);
	assert_int_equal(only_rule(&c, TEXT, &t)->cfa, CFA_END);
	whole_table_release(&t);
	/* A return address that is said in an unknown way is no end. */
	begin(&c, "zR");
	cfi_u8(&c, 0x10);
	cfi_uleb(&c, 16);
	cfi_u8(&c, 1);
	cfi_u8(&c, 0x13);
	assert_int_equal(only_rule(&c, TEXT, &t)->cfa, CFA_UNKNOWN);
	whole_table_release(&t);
}

static void signal_frames(void **state)
{
	static struct cfi c;
	struct whole_table t;

	(void)state;
	begin(&c, "zRS");
	assert_int_equal(only_rule(&c, TEXT, &t)->interrupts, 1);
	whole_table_release(&t);
	begin(&c, "zRS");
	cfi_u8(&c, 0x0f);
	memcpy(c.bytes + c.size, "\x04\x77\xa0\x01\x06", 5); /* CFA = *(rsp + 160) */
	c.size += 5;
	memcpy(c.bytes + c.size, "\x10\x10\x03\x77\xa8\x01", 6); /* rip at rsp + 168 */
	c.size += 6;
	assert_int_equal(only_rule(&c, TEXT, &t)->cfa, CFA_SIGNAL);
	whole_table_release(&t);
}

static void plt(void **state)
{
	static const uint8_t expression[] = { 0x0f, 0x0b, 0x77, 0x08, 0x80, 0x00, 0x3f,
					      0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22 };
	static struct cfi c;
	struct whole_table t;
	const struct unwind_rule *rule;

	(void)state;
	begin(&c, "zR");
	memcpy(c.bytes + c.size, expression, sizeof(expression));
	c.size += sizeof(expression);
	rule = only_rule(&c, TEXT, &t);
	assert_int_equal(rule->cfa, CFA_PLT);
	assert_int_equal(rule->offset, 8);
	assert_int_equal(rule->extra, 11);
	whole_table_release(&t);
}

static void wrong_instructions_make_the_rest_unknown(void **state)
{
	static struct cfi c;
	struct whole_table t;

	(void)state;
	begin(&c, "zR");
	cfi_u8(&c, 0x40 | 10);
	cfi_u8(&c, 0x3f); /* no such instruction */
	assert_int_equal(only_rule(&c, TEXT + 9, &t)->cfa, CFA_REGISTER);
	assert_int_equal(whole_table_find(&t, TEXT + 10)->cfa, CFA_UNKNOWN);
	assert_int_equal(whole_table_find(&t, TEXT + 99)->cfa, CFA_UNKNOWN);
	assert_int_equal(whole_table_find(&t, TEXT + 100)->cfa, CFA_NONE);
	assert_int_equal(whole_table_find(&t, TEXT - 1)->cfa, CFA_NONE);
	assert_int_equal(whole_table_find(&t, UINT64_MAX)->cfa, CFA_NONE);
	whole_table_release(&t);
}

/*
 * DW_CFA_set_loc to an address: the rest of the function is unknown if that is before where it is,
 * or behind its end.
 */
static void locations_go_forwards_only(void **state)
{
	static const struct {
		uint64_t to;
		enum cfa_kind then;
	} cases[] = { { TEXT + 10, CFA_REGISTER },
		      { TEXT + 99, CFA_REGISTER },
		      { TEXT + 9, CFA_UNKNOWN },
		      { TEXT - 1, CFA_UNKNOWN },
		      { TEXT + 101, CFA_UNKNOWN } };
	static struct cfi c;
	struct whole_table t;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		begin(&c, "zR");
		cfi_u8(&c, 0x40 | 10);
		cfi_u8(&c, 0x01);
		cfi_u32(&c, (uint32_t)(cases[i].to - (c.address + c.size)));
		assert_int_equal(only_rule(&c, TEXT + 9, &t)->cfa, CFA_REGISTER);
		assert_int_equal(whole_table_find(&t, TEXT + 99)->cfa, cases[i].then);
		whole_table_release(&t);
	}
}

/* CFA = rsp + 16 by an expression with a DW_OP_nop, first, between and last. */
static void expressions_with_nop(void **state)
{
	static const char *const expressions[] = { "\x77\x10\x96", "\x96\x77\x10",
						   "\x77\x08\x96\x38\x22" };
	static struct cfi c;
	struct whole_table t;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(expressions); i++) {
		const struct unwind_rule *rule;
		size_t length = strlen(expressions[i]);

		begin(&c, "zR");
		cfi_u8(&c, 0x0f);
		cfi_uleb(&c, length);
		memcpy(c.bytes + c.size, expressions[i], length);
		c.size += length;
		rule = only_rule(&c, TEXT, &t);
		assert_int_equal(rule->cfa, CFA_REGISTER);
		assert_int_equal(rule->base, REG_SP_);
		assert_int_equal(rule->offset, 16);
		whole_table_release(&t);
	}
}

/* CFA = *(rsp + 8 * rax + 16) */
static void expressions_with_a_scaled_index(void **state)
{
	static const char expression[] = "\x77\x10\x70\x00\x38\x1e\x22\x06";
	static struct cfi c;
	const struct unwind_rule *rule;
	struct whole_table t;

	(void)state;
	begin(&c, "zR");
	cfi_u8(&c, 0x0f);
	cfi_uleb(&c, sizeof(expression) - 1);
	memcpy(c.bytes + c.size, expression, sizeof(expression) - 1);
	c.size += sizeof(expression) - 1;
	rule = only_rule(&c, TEXT, &t);
	assert_int_equal(rule->cfa, CFA_DEREF);
	assert_int_equal(rule->base, REG_SP_);
	assert_int_equal(rule->index, 0);
	assert_int_equal(rule->offset, 16);
	whole_table_release(&t);
}

/* A register whose place is too far away for a rule is unknown, and no other place. */
static void places_that_are_too_far(void **state)
{
	static struct cfi c;
	struct whole_table t;

	(void)state;
	for (int far = 0; far < 2; far++) {
		begin(&c, "zR");
		cfi_u8(&c, 0x11);
		cfi_uleb(&c, 6); /* rbp */
		cfi_sleb(&c, far ? INT64_C(1) << 30 : 2); /* times -8 */
		assert_int_equal(only_rule(&c, TEXT, &t)->saved[0].kind,
				 far ? SAVE_LOST : SAVE_CFA);
		whole_table_release(&t);
	}
}

static void unknown_augmentation_is_left_out(void **state)
{
	static struct cfi c;
	struct whole_table t;

	(void)state;
	begin(&c, "eh");
	assert_int_equal(only_rule(&c, TEXT, &t)->cfa, CFA_NONE);
	whole_table_release(&t);
}

static void overlapping_functions_keep_the_first(void **state)
{
	static struct cfi c;
	struct whole_table t;

	(void)state;
	begin(&c, "zR");
	cfi_close(&c);
	cfi_fde(&c, 0, TEXT + 50, 100);
	cfi_u8(&c, 0x0e);
	cfi_uleb(&c, 64);
	assert_int_equal(only_rule(&c, TEXT + 60, &t)->offset, 8);
	assert_int_equal(t.damaged, 1);
	assert_int_equal(whole_table_find(&t, TEXT + 120)->cfa, CFA_NONE);
	whole_table_release(&t);
}

static void every_truncation_and_flip(void **state)
{
	static struct cfi c, damaged;
	struct whole_table t;
	size_t cie;

	(void)state;
	c.size = 0;
	c.address = 0x400;
	expected_count = 0;
	cie = cfi_cie(&c, "zR");
	write_function(&c, cie, TEXT);
	for (size_t size = 0; size < c.size; size++) {
		damaged = c;
		damaged.size = size;
		t = build(&damaged);
		whole_table_release(&t);
	}
	for (size_t i = 0; i < c.size * 8; i++) {
		damaged = c;
		damaged.bytes[i / 8] ^= (uint8_t)(1u << i % 8);
		t = build(&damaged);
		for (unsigned k = 0; k < expected_count; k++)
			(void)whole_table_find(&t, expected[k].address);
		whole_table_release(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_programs),
		cmocka_unit_test(ends_of_stacks),
		cmocka_unit_test(signal_frames),
		cmocka_unit_test(plt),
		cmocka_unit_test(wrong_instructions_make_the_rest_unknown),
		cmocka_unit_test(locations_go_forwards_only),
		cmocka_unit_test(expressions_with_nop),
		cmocka_unit_test(expressions_with_a_scaled_index),
		cmocka_unit_test(places_that_are_too_far),
		cmocka_unit_test(unknown_augmentation_is_left_out),
		cmocka_unit_test(overlapping_functions_keep_the_first),
		cmocka_unit_test(every_truncation_and_flip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
