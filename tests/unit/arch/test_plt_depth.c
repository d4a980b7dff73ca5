/* test_plt_depth.c: what a PLT has pushed at each of its instructions, by linker. */
#include "support/cmocka_tests.h"

#include "arch/processor.h"
#include "base/compiler.h"

struct step {
	const char *code; /* 6 bytes before the instruction, and 8 from it on */
	int depth;
};

#ifdef __x86_64__
#define ENDBR "\xf3\x0f\x1e\xfa"
#define JMP "\xff\x25\x01\x02\x03\x04"
#define PUSH_LINK "\xff\x35\x01\x02\x03\x04"
#define NONE "\xcc\xcc\xcc\xcc\xcc\xcc"
static const struct step steps[] = {
	{ NONE PUSH_LINK "\xff\x25", 1 }, /* the first entry of bfd and lld */
	{ PUSH_LINK JMP "\xcc\xcc", 2 },
	{ NONE JMP "\x68\x00", 0 }, /* entries: jmp, push, jmp */
	{ JMP "\x68\x07\x00\x00\x00\xe9\x00\x00", 0 },
	{ "\x01\x68\x07\x00\x00\x00\xe9\x00\x00\x00\x00\xcc\xcc\xcc", 1 },
	{ NONE ENDBR "\x68\x07\x00\x00", 0 }, /* with -z ibtplt */
	{ NONE ENDBR "\xf2\xff\x25\x01", 0 },
	{ NONE ENDBR "\x41\x53\xff\x35", 0 }, /* the first entry of mold */
	{ "\xcc\xcc" ENDBR "\x41\x53" PUSH_LINK, 0 },
	{ ENDBR "\x41\x53" PUSH_LINK "\xff\x25", 1 },
	{ NONE ENDBR "\x41\xbb\x07\x00", 0 }, /* its entries */
	{ "\xcc\xcc" ENDBR "\x41\xbb\x07\x00\x00\x00\xff\x25", 0 },
	{ "\x41\xbb\x07\x00\x00\x00" JMP "\xcc\xcc", 0 },
	{ NONE "\x48\x89\xe5\x5d\xc3\x90\x90\x90", -1 }, /* none of a PLT */
	{ NONE "\x41\x54\x41\x55\x90\x90\x90\x90", -1 },
};
#else
static const struct step steps[] = { { "\0\0\0\0\0\0\0\0\0\0\0\0\0\0", -1 } };
#endif

static void test_depth(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
		if (arch_plt_depth((const uint8_t *)steps[i].code) != steps[i].depth)
			fail_msg("step %zu: %d instead of %d", i,
				 arch_plt_depth((const uint8_t *)steps[i].code), steps[i].depth);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_depth) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
