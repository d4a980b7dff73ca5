/*
 * Stacks in memory that a test makes: rules of each kind, and code without any, whose frames are
 * found by frame pointers.
 */
#include "stack/unwind/unwind_snapshot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include "support/cmocka_tests.h"

#define CODE UINT64_C(0x400000)
#define STACK UINT64_C(0x7f0000000000)
#define WORDS 16u

/* A goroutine: its first function returns to where a call begins, and rbp was 0 before it. */
static const uint8_t code_bytes[64] = {
	[0] = 0xe8, [16] = 0xe8, [32] = 0x90, 0xe8, 0, 0, 0, 0, 0x90,
};
static uint64_t words[WORDS], frames[64];
static unsigned count;

static bool load(void *context, uint64_t address, uint64_t *value)
{
	(void)context;
	if (address < STACK || address - STACK >= sizeof(words))
		return false;
	*value = words[(address - STACK) / 8];
	return true;
}

static const struct unwind_rule *rule(void *context, uint64_t frame, bool *known)
{
	static const struct unwind_rule none = { .cfa = CFA_NONE };

	(void)context;
	(void)frame;
	*known = true;
	return &none;
}

static unsigned code(void *context, uint64_t end, uint8_t *bytes, unsigned size)
{
	uint64_t offset = end - CODE;

	(void)context;
	size = (unsigned)MIN(offset, (uint64_t)size);
	if (offset > sizeof(code_bytes))
		return 0;
	memcpy(bytes, code_bytes + offset - size, size);
	return size;
}

static bool store(void *context, uint64_t frame)
{
	(void)context;
	if (count == ARRAY_SIZE(frames))
		return false;
	frames[count++] = frame;
	return true;
}

static enum stack_end walk(uint64_t outermost_rbp, uint64_t outermost_return)
{
	static const struct frame_source source = { NULL, load, rule, code, store };
	struct stack_registers start = { .known = 1u << REG_SP_ | 1u << REG_FP_ | 1u << REG_RA_,
					 .interrupted = true };

	start.at[REG_SP_] = STACK;
	start.at[REG_FP_] = STACK + 8;
	start.at[REG_RA_] = CODE + 10;
	words[1] = STACK + 40;
	words[2] = CODE + 5;
	words[5] = outermost_rbp;
	words[6] = outermost_return;
	count = 0;
	return unwind_snapshot(&source, &start);
}

static void goroutines_are_guessed_to_their_start(void **state)
{
	(void)state;
	assert_int_equal(walk(0, CODE + 33), stack_end_guessed);
	assert_int_equal(count, 2);
	assert_int_equal(frames[1], CODE + 5);
}

static void what_only_looks_like_it_is_truncated(void **state)
{
	(void)state;
	assert_int_equal(walk(8, CODE + 33), stack_end_truncated);
	assert_int_equal(walk(0, CODE + 34), stack_end_truncated);
	assert_int_equal(walk(0, CODE + 63), stack_end_truncated);
	assert_int_equal(walk(0, CODE + 21), stack_end_truncated);
	assert_int_equal(count, 3);
}

/* A rule for each return address: that of CODE + n is number n - 1. */
static const struct unwind_rule *rules;

static const struct unwind_rule *rule_by_number(void *context, uint64_t frame, bool *known)
{
	(void)context;
	*known = true;
	return &rules[(frame & ~FRAME_INTERRUPTED) - CODE - 1];
}

static enum stack_end walk_rules(const struct unwind_rule *by_number, struct stack_registers start)
{
	static const struct frame_source source = { NULL, load, rule_by_number, code, store };

	rules = by_number;
	start.at[REG_SP_] = STACK;
	start.at[REG_RA_] = CODE + 1;
	start.known |= 1u << REG_SP_ | 1u << REG_RA_;
	count = 0;
	return unwind_snapshot(&source, &start);
}

#define AT_CFA(n)                                                                                  \
	{                                                                                          \
		.kind = SAVE_CFA, .offset = (n)                                                    \
	}

/*
 * Where the caller's registers are: each kind of place for one of them, which then is where the
 * next frame's return address is.
 */
static void registers_of_the_caller(void **state)
{
	static const struct {
		struct save_rule save;
		bool found;
	} places[] = {
		{ { .kind = SAVE_SAME }, true },
		{ { .kind = SAVE_CFA, .offset = 8 }, true },
		{ { .kind = SAVE_MEMORY, .base = REG_RDX_, .offset = 8 }, true },
		{ { .kind = SAVE_VALUE, .offset = 56 }, true },
		{ { .kind = SAVE_COPY, .base = REG_RDX_, .offset = 48 }, true },
		{ { .kind = SAVE_MEMORY, .base = REG_RCX_ }, false },
		{ { .kind = SAVE_COPY, .base = REG_RCX_ }, false },
		{ { .kind = SAVE_UNDEFINED }, false },
		{ { .kind = SAVE_LOST }, false },
	};
	struct stack_registers start = { .known = 1u << REG_RDX_ | 1u << REG_RBX_ };

	(void)state;
	start.at[REG_RDX_] = STACK + 16;
	start.at[REG_RBX_] = STACK + 64;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		struct unwind_rule by_number[] = {
			{ .cfa = CFA_REGISTER, .base = REG_SP_, .offset = 8, .ra = AT_CFA(-8) },
			{ .cfa = CFA_REGISTER, .base = REG_RBX_, .offset = 8, .ra = AT_CFA(-8) },
			{ .cfa = CFA_END },
		};

		for (unsigned k = 0; k < SAVED_REGISTERS; k++)
			by_number[0].saved[k].kind = SAVE_LOST;
		by_number[0].saved[1] = places[i].save; /* rbx */
		memset(words, 0, sizeof(words));
		words[0] = CODE + 2;
		words[2] = words[3] = STACK + 64; /* what rbx is, in memory */
		words[8] = CODE + 3;
		assert_int_equal(walk_rules(by_number, start),
				 places[i].found ? stack_end_complete : stack_end_truncated);
		assert_int_equal(count, places[i].found ? 3 : 2);
		assert_int_equal(frames[count - 1], CODE + count);
	}
}

/*
 * To a lower address is to another stack: a program may do so a few times; more often is a circle.
 */
static void switches_of_stacks(void **state)
{
	struct unwind_rule by_number[] = {
		{ .cfa = CFA_REGISTER, .base = REG_SP_, .offset = 16, .ra = AT_CFA(-8) },
		{ .cfa = CFA_DEREF, .base = REG_SP_, .index = REG_NONE_, .ra = AT_CFA(24) },
		{ .cfa = CFA_END },
	};
	struct stack_registers start = { 0 };

	(void)state;
	memset(words, 0, sizeof(words));
	words[1] = CODE + 2;
	words[2] = STACK;
	words[3] = CODE + 3;
	assert_int_equal(walk_rules(by_number, start), stack_end_complete);
	assert_int_equal(count, 3);
	words[3] = CODE + 1;
	assert_int_equal(walk_rules(by_number, start), stack_end_truncated);
	assert_in_range(count, 30, 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(goroutines_are_guessed_to_their_start),
		cmocka_unit_test(what_only_looks_like_it_is_truncated),
		cmocka_unit_test(registers_of_the_caller),
		cmocka_unit_test(switches_of_stacks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
