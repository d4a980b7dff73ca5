/* What ELF files of each processor have, read on whichever this is. */
#include "arch/elf_machine.h"

#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define STUB_MAX 16u

static const struct stub_case {
	const char *name;
	uint16_t machine;
	uint64_t address;
	size_t size;
	uint8_t code[STUB_MAX];
	struct plt_stub stub; /* all zero: the code is none */
} cases[] = {
	{ "jmp *0x2fe2(%rip)",
	  EM_X86_64,
	  0x1020,
	  16,
	  { 0xff, 0x25, 0xe2, 0x2f },
	  { .slot = 0x4008 } },
	{ "jmp *-0x20(%rip)",
	  EM_X86_64,
	  0x5000,
	  6,
	  { 0xff, 0x25, 0xe0, 0xff, 0xff, 0xff },
	  { .slot = 0x4fe6 } },
	{ "endbr64; bnd jmp",
	  EM_X86_64,
	  0x1000,
	  16,
	  { 0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0x05 },
	  { .slot = 0x1010 } },
	{ "push $7", EM_X86_64, 0x1000, 16, { 0x68, 7 }, { .is_lazy = true, .number = 7 } },
	{ "a jump that is cut", EM_X86_64, 0x1000, 5, { 0xff, 0x25 }, { 0 } },
	{ "nop", EM_X86_64, 0x1000, 16, { 0x90 }, { 0 } },
	/* As linked: memcpy of a library. */
	{ "adrp, ldr",
	  EM_AARCH64,
	  0x1ac60,
	  16,
	  { 0x30, 0x0b, 0x00, 0xb0, 0x11, 0x2e, 0x43, 0xf9, 0x10, 0x62, 0x19, 0x91 },
	  { .slot = 0x17f658 } },
	{ "adrp of a page before",
	  EM_AARCH64,
	  0x5ff0,
	  16,
	  { 0xf0, 0xff, 0xff, 0xf0, 0x11, 0x06, 0x40, 0xf9 },
	  { .slot = 0x4008 } },
	{ "bti c; adrp, ldr",
	  EM_AARCH64,
	  0x1ac5c,
	  16,
	  { 0x5f, 0x24, 0x03, 0xd5, 0x30, 0x0b, 0x00, 0xb0, 0x11, 0x2e, 0x43, 0xf9 },
	  { .slot = 0x17f658 } },
	{ "an entry that is cut",
	  EM_AARCH64,
	  0x1ac60,
	  8,
	  { 0x30, 0x0b, 0x00, 0xb0, 0x11, 0x2e, 0x43, 0xf9 },
	  { 0 } },
	{ "the first entry",
	  EM_AARCH64,
	  0x1ac40,
	  16,
	  { 0xf0, 0x7b, 0xbf, 0xa9, 0x30, 0x0b, 0x00, 0xb0, 0x11, 0x2a, 0x43, 0xf9 },
	  { 0 } },
};

static void stubs(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct stub_case *c = &cases[i];
		bool wanted = c->stub.is_lazy || c->stub.slot;
		struct plt_stub stub;

		if (elf_machine_of(c->machine)->read_stub(c->code, c->size, c->address, &stub) !=
		    wanted)
			fail_msg("%s: must%s be one", c->name, wanted ? "" : " not");
		if (wanted && (stub.is_lazy != c->stub.is_lazy || stub.number != c->stub.number ||
			       stub.slot != c->stub.slot))
			fail_msg("%s: %u %u %#lx", c->name, stub.is_lazy, stub.number, stub.slot);
	}
}

static void machines(void **state)
{
	(void)state;
	assert_int_equal(elf_machine_of(EM_X86_64)->jump_slot, R_X86_64_JUMP_SLOT);
	assert_int_equal(elf_machine_of(EM_AARCH64)->jump_slot, R_AARCH64_JUMP_SLOT);
	assert_null(elf_machine_of(EM_386));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stubs),
		cmocka_unit_test(machines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
