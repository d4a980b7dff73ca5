/*
 * One stack out of two: evaluations are at 0x1000 to 0x10ff and 0x3000 to 0x300f, anything else is
 * native.
 */
#include "support/cmocka_tests.h"

#include <stdio.h>
#include <string.h>

#include "stack/python/python_splice.h"

static const struct python_eval eval = { .count = 2,
					 .ranges = { { 0x1000, 0x1100 }, { 0x3000, 0x3010 } } };

/*
 * "n" a native frame, "e" an evaluation; Python: "a" a frame, "A" the outermost of its evaluation,
 * "-" an empty one.
 */
static const char *splice(const char *native, const char *python, bool native_complete,
			  bool python_complete, enum python_match *match)
{
	static char text[64];
	uint64_t addresses[32], out[32];
	struct python_frame frames[32] = { 0 };
	struct python_stacks in = { .native = addresses,
				    .native_count = (unsigned)strlen(native),
				    .native_complete = native_complete,
				    .python = frames,
				    .python_count = (unsigned)strlen(python),
				    .python_complete = python_complete };
	unsigned n;

	for (unsigned i = 0; i < in.native_count; i++)
		addresses[i] = native[i] == 'e' ? (i % 2 ? 0x3010 : 0x1001) : 0x2000 + i;
	for (unsigned i = 0; i < in.python_count; i++)
		frames[i] = (struct python_frame){ .code = python[i] != '-',
						   .id = (uint32_t)(python[i] | 0x20),
						   .last = i,
						   .entry = python[i] < 'a' };
	n = python_splice(&eval, &in, out, 32, match);
	for (unsigned i = 0; i < n; i++)
		text[i] = out[i] & FRAME_PYTHON                 ? (char)python_frame_code(out[i])
			  : out[i] >= 0x2000 && out[i] < 0x3000 ? 'n'
								: 'e';
	text[n] = 0;
	return text;
}

static void check(const char *native, const char *python, const char *stack,
		  enum python_match expected)
{
	enum python_match match;

	assert_string_equal(splice(native, python, true, true, &match), stack);
	assert_int_equal(match, expected);
}

static void test_exact(void **state)
{
	(void)state;
	check("nnn", "", "nnn", PYTHON_MATCH_NONE);
	check("nen", "A", "nan", PYTHON_MATCH_EXACT);
	check("nnenennn", "abCdE", "nnabcndennn", PYTHON_MATCH_EXACT);
	check("een", "AbC", "abcn", PYTHON_MATCH_EXACT);
	check("nenen", "-A", "nenan", PYTHON_MATCH_EXACT);
	check("nenenen", "aB-C", "nabnencn", PYTHON_MATCH_EXACT);
}

static void test_unsure(void **state)
{
	(void)state;
	check("nenen", "aB", "nabnen", PYTHON_MATCH_UNSURE);
	check("nenn", "aBcD", "nabcdnn", PYTHON_MATCH_UNSURE);
	check("nnn", "aB", "nnnab", PYTHON_MATCH_UNSURE);
	check("nen", "", "nen", PYTHON_MATCH_UNSURE);
}

static void test_cut(void **state)
{
	enum python_match match;

	(void)state;
	assert_string_equal(splice("nenn", "aBcD", false, true, &match), "nabnncd");
	assert_int_equal(match, PYTHON_MATCH_PARTIAL);
	/* A stack ends at the first evaluation that lacks frames. */
	assert_string_equal(splice("nenen", "aB", true, false, &match), "nabn");
	assert_int_equal(match, PYTHON_MATCH_PARTIAL);
	assert_string_equal(splice("nenen", "aBc", true, false, &match), "nabnc");
	assert_int_equal(match, PYTHON_MATCH_PARTIAL);
	assert_string_equal(splice("nenen", "aB", false, true, &match), "nabnen");
	assert_int_equal(match, PYTHON_MATCH_UNSURE);
	assert_string_equal(splice("nenn", "aBcD", true, false, &match), "nabcdnn");
	assert_int_equal(match, PYTHON_MATCH_UNSURE);
	assert_string_equal(splice("nn", "aB", false, true, &match), "nnab");
	assert_int_equal(match, PYTHON_MATCH_PARTIAL);
}

static void test_ends(void **state)
{
	struct python_stacks in = { .python_count = STACK_PYTHON_MAX, .python_complete = true };

	(void)state;
	assert_int_equal(python_splice_end(&in, stack_end_complete, 9, 9), stack_end_complete);
	assert_int_equal(python_splice_end(&in, stack_end_guessed, 9, 9), stack_end_guessed);
	assert_int_equal(python_splice_end(&in, stack_end_complete, 10, 9), stack_end_depth);
	in.python_complete = false;
	assert_int_equal(python_splice_end(&in, stack_end_complete, 9, 9), stack_end_depth);
	in.python_count--;
	assert_int_equal(python_splice_end(&in, stack_end_complete, 9, 9), stack_end_truncated);
	in.python_count = 0; /* nothing of them was merged */
	assert_int_equal(python_splice_end(&in, stack_end_partial, 9, 9), stack_end_partial);
}

static void test_room(void **state)
{
	uint64_t native[] = { 0x2000, 0x1001, 0x2001 }, out[5] = { [4] = 77 };
	struct python_frame python[] = { { .code = 1, .id = 0x7fffffff, .last = UINT32_MAX },
					 { .code = 1, .id = 1, .last = 2, .entry = true } };
	struct python_stacks in = { native, 3, true, python, 2, true };
	enum python_match match;

	(void)state;
	for (unsigned max = 0; max <= 4; max++) {
		memset(out, 0, sizeof(out));
		assert_int_equal(python_splice(&eval, &in, out, max, &match), 4);
		assert_int_equal(match, PYTHON_MATCH_EXACT);
		for (unsigned i = max; i < 5; i++)
			assert_int_equal(out[i], 0);
	}
	assert_int_equal(out[1], UINT64_MAX);
	assert_int_equal(python_frame_code(out[1]), 0x7fffffff);
	assert_int_equal(python_frame_last(out[1]), UINT32_MAX);
	assert_int_equal(out[2], FRAME_PYTHON | UINT64_C(1) << 32 | 2);
}

static void test_ranges(void **state)
{
	(void)state;
	assert_false(python_eval_has(&eval, 0x1000));
	assert_true(python_eval_has(&eval, 0x1001));
	assert_true(python_eval_has(&eval, 0x1100));
	assert_false(python_eval_has(&eval, 0x1101));
	assert_false(python_eval_has(&eval, 0x3000));
	assert_true(python_eval_has(&eval, 0x3001));
	assert_true(python_eval_has(&eval, 0x3010));
	assert_false(python_eval_has(&eval, 0x3011));
	assert_false(python_eval_has(&eval, 0));
	assert_true(python_eval_has(&eval, FRAME_INTERRUPTED | 0x1000));
	assert_false(python_eval_has(&eval, FRAME_INTERRUPTED | 0x1100));
	assert_false(python_eval_has(&(struct python_eval){ 0 }, 0x1001));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exact), cmocka_unit_test(test_unsure),
		cmocka_unit_test(test_cut),   cmocka_unit_test(test_ends),
		cmocka_unit_test(test_room),  cmocka_unit_test(test_ranges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
