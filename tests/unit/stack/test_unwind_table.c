/* The table compiler: random call frame information that is known beforehand, and wrong input. */
#include "stack/unwind_table.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/error.h"
#include "cfi_writer.h"
#include "failing_alloc.h"

#define ROWS_MAX 200u
#define TEXT UINT64_C(0x1000)

static uint64_t seed = 42;

static uint32_t pick(uint32_t below)
{
	seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint32_t)(seed >> 33) % below;
}

static struct unwind_input input_of(const struct cfi *c)
{
	return (struct unwind_input){
		.section = { .bytes = c->bytes, .size = c->size, .address = c->address },
		.bytes_max = SIZE_MAX
	};
}

static struct unwind_table *build(const struct cfi *c)
{
	struct unwind_input input = input_of(c);
	struct unwind_table *t = NULL;

	assert_int_equal(unwind_table_build(&input, &t), 0);
	return t;
}

/* --- random programs --- */

struct expectation {
	uint64_t address;
	struct unwind_rule rule;
};

static struct expectation expected[ROWS_MAX];
static unsigned expected_count;

static void write_advance(struct cfi *c, uint32_t delta)
{
	unsigned form = pick(3);

	if (delta < 64 && form == 0) {
		cfi_u8(c, 0x40 | delta);
	} else if (delta < 256 && form == 1) {
		cfi_u8(c, 2);
		cfi_u8(c, delta);
	} else if (delta < 65536) {
		cfi_u8(c, 3);
		cfi_u16(c, (uint16_t)delta);
	} else {
		cfi_u8(c, 4);
		cfi_u32(c, delta);
	}
}

static void write_cfa(struct cfi *c, struct unwind_rule *rule)
{
	uint8_t base = (uint8_t)pick(16);
	int32_t offset = (int32_t)(8 * pick(1u << (4 + pick(16))));

	switch (pick(5)) {
	case 0:
		cfi_u8(c, 0x0c);
		cfi_uleb(c, base);
		cfi_uleb(c, (uint32_t)offset);
		break;
	case 1:
		cfi_u8(c, 0x12);
		cfi_uleb(c, base);
		cfi_sleb(c, offset / 8);
		offset = -offset;
		break;
	case 2:
		if (rule->cfa == CFA_REGISTER) {
			cfi_u8(c, 0x0d);
			cfi_uleb(c, base);
			offset = rule->offset;
			break;
		}
		/* fall through */
	case 3:
		cfi_u8(c, 0x0f); /* *(base + offset) + 16 */
		{
			struct cfi e = { .size = 0 };

			cfi_u8(&e, 0x70 + base);
			cfi_sleb(&e, offset);
			cfi_u8(&e, 0x06);
			cfi_u8(&e, 0x23);
			cfi_uleb(&e, 16);
			cfi_uleb(c, e.size);
			memcpy(c->bytes + c->size, e.bytes, e.size);
			c->size += e.size;
		}
		rule->cfa = CFA_DEREF;
		rule->base = base;
		rule->index = REG_NONE_;
		rule->offset = offset;
		rule->extra = 16;
		return;
	default:
		if (rule->cfa != CFA_REGISTER) {
			cfi_u8(c, 0x0c);
			cfi_uleb(c, base);
		} else {
			cfi_u8(c, 0x0e);
			base = rule->base;
		}
		cfi_uleb(c, (uint32_t)offset);
	}
	rule->cfa = CFA_REGISTER;
	rule->base = base;
	rule->index = 0;
	rule->offset = offset;
	rule->extra = 0;
}

static void write_save(struct cfi *c, struct unwind_rule *rule)
{
	unsigned i = pick(SAVED_REGISTERS), slot = 2 + pick(1000);
	struct save_rule *save = &rule->saved[i];

	switch (pick(6)) {
	case 0:
		cfi_u8(c, 0x80 | saved_registers[i]);
		cfi_uleb(c, slot);
		*save = (struct save_rule){ SAVE_CFA, 0, 0, -8 * (int32_t)slot };
		break;
	case 1:
		cfi_u8(c, 0x05);
		cfi_uleb(c, saved_registers[i]);
		cfi_uleb(c, slot);
		*save = (struct save_rule){ SAVE_CFA, 0, 0, -8 * (int32_t)slot };
		break;
	case 2:
		cfi_u8(c, 0xc0 | saved_registers[i]);
		*save = (struct save_rule){ SAVE_SAME, 0, 0, 0 };
		break;
	case 3:
		cfi_u8(c, 0x14); /* val_offset */
		cfi_uleb(c, saved_registers[i]);
		cfi_uleb(c, slot);
		*save = (struct save_rule){ SAVE_VALUE, 0, 0, -8 * (int32_t)slot };
		break;
	case 4:
		cfi_u8(c, 0x10); /* expression: rbp - slot */
		cfi_uleb(c, saved_registers[i]);
		cfi_u8(c, 4);
		cfi_u8(c, 0x76);
		cfi_u8(c, 0x80 | (-(int)slot & 0x7f));
		cfi_u8(c, 0x80 | (-(int)slot >> 7 & 0x7f));
		cfi_u8(c, 0x7f);
		*save = (struct save_rule){ SAVE_MEMORY, REG_RBP_, 0, -(int32_t)slot };
		break;
	default:
		cfi_u8(c, 0x07);
		cfi_uleb(c, saved_registers[i]);
		*save = (struct save_rule){ SAVE_UNDEFINED, 0, 0, 0 };
	}
}

static void write_function(struct cfi *c, size_t cie, uint64_t start)
{
	struct unwind_rule initial = {
		.cfa = CFA_REGISTER, .base = REG_RSP_, .offset = 8, .ra = { SAVE_CFA, 0, 0, -8 }
	};
	struct unwind_rule rule = initial, kept = initial;
	uint32_t length = 100000, at = 0;
	bool remembered = false;

	cfi_fde(c, cie, start, length);
	for (unsigned n = 1 + pick(15); n--;) {
		expected[expected_count++] = (struct expectation){ start + at, rule };
		at += 1 + pick(1u << (1 + pick(12)));
		write_advance(c, at - (uint32_t)(expected[expected_count - 1].address - start));
		for (unsigned k = pick(4); k--;)
			write_save(c, &rule);
		if (pick(3))
			write_cfa(c, &rule);
		if (!remembered && pick(4) == 0) {
			cfi_u8(c, 0x0a);
			kept = rule;
			remembered = true;
		} else if (remembered && pick(3) == 0) {
			cfi_u8(c, 0x0b);
			rule = kept;
			remembered = false;
		}
		cfi_u8(c, 0x2e); /* GNU_args_size says nothing about registers */
		cfi_uleb(c, pick(1000));
	}
	expected[expected_count++] = (struct expectation){ start + at, rule };
	expected[expected_count++] = (struct expectation){ start + length, { .cfa = CFA_NONE } };
	cfi_close(c);
}

static void check_rows(const struct unwind_table *t)
{
	for (unsigned i = 0; i < expected_count; i++) {
		const struct unwind_rule *rule = unwind_table_find(t, expected[i].address);

		if (memcmp(rule, &expected[i].rule, sizeof(*rule)) != 0)
			fail_msg("row %u at %#lx: cfa %u %u%+d, but must be %u %u%+d", i,
				 expected[i].address, rule->cfa, rule->base, rule->offset,
				 expected[i].rule.cfa, expected[i].rule.base,
				 expected[i].rule.offset);
		if (i) {
			rule = unwind_table_find(t, expected[i].address - 1);
			assert_memory_equal(rule, &expected[i - 1].rule, sizeof(*rule));
		}
	}
}

static void random_programs(void **state)
{
	static struct cfi c;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		struct unwind_table *t;
		size_t cie;

		c.size = 0;
		c.address = pick(1u << 30);
		expected_count = 0;
		cie = cfi_cie(&c, "zR");
		for (unsigned f = 0; f < 5; f++)
			write_function(&c, cie, TEXT + f * 1000000 + pick(1000));
		t = build(&c);
		assert_int_equal(t->damaged, 0);
		check_rows(t);
		unwind_table_free(t);
	}
}

/* --- wrong and unusual input --- */

static const struct unwind_rule *only_rule(struct cfi *c, uint64_t address, struct unwind_table **t)
{
	cfi_close(c);
	*t = build(c);
	return unwind_table_find(*t, address);
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
	struct unwind_table *t;

	(void)state;
	begin(&c, "zR");
	cfi_u8(&c, 0x07);
	cfi_uleb(&c, 16);
	assert_int_equal(only_rule(&c, TEXT, &t)->cfa, CFA_END);
	unwind_table_free(t);
	/* A return address that is said in an unknown way is no end. */
	begin(&c, "zR");
	cfi_u8(&c, 0x10);
	cfi_uleb(&c, 16);
	cfi_u8(&c, 1);
	cfi_u8(&c, 0x13);
	assert_int_equal(only_rule(&c, TEXT, &t)->cfa, CFA_UNKNOWN);
	unwind_table_free(t);
}

static void signal_frames(void **state)
{
	static struct cfi c;
	struct unwind_table *t;

	(void)state;
	begin(&c, "zRS");
	assert_int_equal(only_rule(&c, TEXT, &t)->interrupts, 1);
	unwind_table_free(t);
	begin(&c, "zRS");
	cfi_u8(&c, 0x0f);
	memcpy(c.bytes + c.size, "\x04\x77\xa0\x01\x06", 5); /* CFA = *(rsp + 160) */
	c.size += 5;
	memcpy(c.bytes + c.size, "\x10\x10\x03\x77\xa8\x01", 6); /* rip at rsp + 168 */
	c.size += 6;
	assert_int_equal(only_rule(&c, TEXT, &t)->cfa, CFA_SIGNAL);
	unwind_table_free(t);
}

static void plt(void **state)
{
	static const uint8_t expression[] = { 0x0f, 0x0b, 0x77, 0x08, 0x80, 0x00, 0x3f,
					      0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22 };
	static struct cfi c;
	struct unwind_table *t;
	const struct unwind_rule *rule;

	(void)state;
	begin(&c, "zR");
	memcpy(c.bytes + c.size, expression, sizeof(expression));
	c.size += sizeof(expression);
	rule = only_rule(&c, TEXT, &t);
	assert_int_equal(rule->cfa, CFA_PLT);
	assert_int_equal(rule->offset, 8);
	assert_int_equal(rule->extra, 11);
	unwind_table_free(t);
}

static void wrong_instructions_make_the_rest_unknown(void **state)
{
	static struct cfi c;
	struct unwind_table *t;

	(void)state;
	begin(&c, "zR");
	cfi_u8(&c, 0x40 | 10);
	cfi_u8(&c, 0x3f); /* no such instruction */
	assert_int_equal(only_rule(&c, TEXT + 9, &t)->cfa, CFA_REGISTER);
	assert_int_equal(unwind_table_find(t, TEXT + 10)->cfa, CFA_UNKNOWN);
	assert_int_equal(unwind_table_find(t, TEXT + 99)->cfa, CFA_UNKNOWN);
	assert_int_equal(unwind_table_find(t, TEXT + 100)->cfa, CFA_NONE);
	assert_int_equal(unwind_table_find(t, TEXT - 1)->cfa, CFA_NONE);
	assert_int_equal(unwind_table_find(t, UINT64_MAX)->cfa, CFA_NONE);
	unwind_table_free(t);
}

static void unknown_augmentation_is_left_out(void **state)
{
	static struct cfi c;
	struct unwind_table *t;

	(void)state;
	begin(&c, "eh");
	assert_int_equal(only_rule(&c, TEXT, &t)->cfa, CFA_NONE);
	unwind_table_free(t);
}

static void overlapping_functions_keep_the_first(void **state)
{
	static struct cfi c;
	struct unwind_table *t;

	(void)state;
	begin(&c, "zR");
	cfi_close(&c);
	cfi_fde(&c, 0, TEXT + 50, 100);
	cfi_u8(&c, 0x0e);
	cfi_uleb(&c, 64);
	assert_int_equal(only_rule(&c, TEXT + 60, &t)->offset, 8);
	assert_int_equal(t->damaged, 1);
	assert_int_equal(unwind_table_find(t, TEXT + 120)->cfa, CFA_NONE);
	unwind_table_free(t);
}

static void every_truncation_and_flip(void **state)
{
	static struct cfi c, damaged;
	struct unwind_table *t;
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
		unwind_table_free(build(&damaged));
	}
	for (size_t i = 0; i < c.size * 8; i++) {
		damaged = c;
		damaged.bytes[i / 8] ^= (uint8_t)(1u << i % 8);
		t = build(&damaged);
		for (unsigned k = 0; k < expected_count; k++)
			(void)unwind_table_find(t, expected[k].address);
		unwind_table_free(t);
	}
}

static void ceilings_and_lack_of_memory(void **state)
{
	static struct cfi c;
	struct unwind_input input;
	struct unwind_table *t = NULL;
	unsigned failures = 0;
	size_t cie;

	(void)state;
	c.size = 0;
	c.address = 0x400;
	expected_count = 0;
	cie = cfi_cie(&c, "zR");
	for (unsigned f = 0; f < 5; f++)
		write_function(&c, cie, TEXT + f * 1000000);
	input = input_of(&c);
	input.bytes_max = 1000;
	assert_int_equal(unwind_table_build(&input, &t), E_LIMIT);
	input.bytes_max = SIZE_MAX;
	FOR_EACH_FAILURE(n)
	{
		int r = unwind_table_build(&input, &t);

		failures += r < 0;
		assert_true(r == 0 || r == -ENOMEM);
		if (r == 0) {
			check_rows(t);
			unwind_table_free(t);
		}
	}
	assert_true(failures > 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_programs),
		cmocka_unit_test(ends_of_stacks),
		cmocka_unit_test(signal_frames),
		cmocka_unit_test(plt),
		cmocka_unit_test(wrong_instructions_make_the_rest_unknown),
		cmocka_unit_test(unknown_augmentation_is_left_out),
		cmocka_unit_test(overlapping_functions_keep_the_first),
		cmocka_unit_test(every_truncation_and_flip),
		cmocka_unit_test(ceilings_and_lack_of_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
