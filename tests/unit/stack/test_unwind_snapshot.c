/* Code without rules, whose frames are found by frame pointers. */
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
static uint64_t words[WORDS], frames[8];
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
	struct stack_registers start = { .known = 1u << REG_RSP_ | 1u << REG_RBP_ | 1u << REG_RA_,
					 .interrupted = true };

	start.at[REG_RSP_] = STACK;
	start.at[REG_RBP_] = STACK + 8;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(goroutines_are_guessed_to_their_start),
		cmocka_unit_test(what_only_looks_like_it_is_truncated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
