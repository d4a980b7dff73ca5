/* test_processor.c: tables and instructions of the processor on which the tests run. */
#include "support/cmocka_tests.h"

#include <string.h>

#include "arch/processor.h"
#include "base/compiler.h"

/* The interrupted registers are the same, read by a handler or out of the signal frame. */
static void test_registers_of_signal_frames(void **state)
{
	ucontext_t context = { 0 };
	uint64_t registers[REG_COUNT_];
#ifdef __x86_64__
	uint64_t *words = (uint64_t *)context.uc_mcontext.gregs;
#else
	uint64_t *words = (uint64_t *)context.uc_mcontext.regs;
#endif

	(void)state;
	for (unsigned i = 0; i < REG_COUNT_; i++)
		words[i] = 100 + i;
	arch_context_registers(&context, registers);
	for (unsigned i = 0; i < REG_COUNT_; i++) {
		assert_in_range(signal_registers[i], 0, REG_COUNT_ - 1);
		assert_int_equal(registers[signal_registers[i]], 100 + i);
	}
}

static const struct {
	uint8_t code[8];
	unsigned length;
	int distance;
} jumps[] = {
#ifdef __x86_64__
	{ { 0xe9, 0x10, 0, 0, 0 }, 5, 0x15 },
	{ { 0xe9, 0xf0, 0xff, 0xff, 0xff }, 5, -0xb },
	{ { 0x0f, 0x80, 0, 1, 0, 0 }, 6, 0x106 },
	{ { 0x0f, 0x8f, 0xfa, 0xff, 0xff, 0xff }, 6, 0 },
	{ { 0x0f, 0x90, 0, 1, 0, 0 }, 0, 0 }, /* sets a byte */
	{ { 0xe8, 0x10, 0, 0, 0 }, 0, 0 }, /* a call */
	{ { 0x90, 0x90, 0x90, 0x90, 0x90, 0x90 }, 0, 0 },
#else
	{ { 0x02, 0, 0, 0x14 }, 4, 8 },       { { 0xff, 0xff, 0xff, 0x17 }, 4, -4 },
	{ { 0x40, 0, 0, 0x54 }, 4, 8 },       { { 0x02, 0, 0, 0x94 }, 0, 0 }, /* a call */
	{ { 0x1f, 0x20, 0x03, 0xd5 }, 0, 0 },
#endif
};

static void test_jumps(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(jumps); i++) {
		_Alignas(8) uint8_t code[8];
		uintptr_t to = (uintptr_t)code;

		memcpy(code, jumps[i].code, sizeof(code));
		if (arch_jump(code, &to) != jumps[i].length ||
		    to - (uintptr_t)code != (uintptr_t)(intptr_t)jumps[i].distance)
			fail_msg("jump %zu", i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_registers_of_signal_frames),
		cmocka_unit_test(test_jumps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
