#include <elf.h>
#include <string.h>

#include "arch/elf_machine.h"

/*
 * An entry jumps through a slot of the global offset table: adrp x16, page of the slot; ldr x17,
 * [x16, offset]; and, with branch target identification, an instruction before them.
 */
static bool read_stub(const uint8_t *code, size_t size, uint64_t address, struct plt_stub *out)
{
	uint32_t words[3];
	const uint32_t *w = words;
	uint64_t pages;

	*out = (struct plt_stub){ 0 };
	if (size < sizeof(words))
		return false;
	memcpy(words, code, sizeof(words));
	if (*w == 0xd503245f) { /* bti c */
		w++;
		address += 4;
	}
	if ((w[0] & 0x9f00001f) != 0x90000010 || (w[1] & 0xffc003ff) != 0xf9400211)
		return false;
	/* 21 bits of pages: the lower two of them in bits 30 and 29 */
	pages = (w[0] >> 29 & 3) | (w[0] >> 5 & 0x7ffff) << 2;
	pages = (uint64_t)((int64_t)(pages << 43) >> 43);
	out->slot = (address & ~UINT64_C(4095)) + (pages << 12) + (w[1] >> 10 & 0xfff) * 8;
	return true;
}

const struct elf_machine elf_machine_aarch64 = {
	.number = EM_AARCH64,
	.absolute = R_AARCH64_ABS64,
	.glob_dat = R_AARCH64_GLOB_DAT,
	.jump_slot = R_AARCH64_JUMP_SLOT,
	.irelative = R_AARCH64_IRELATIVE,
	.read_stub = read_stub,
	.short_stub_bytes = 8, /* with branch target identification: entries have 24 bytes */
};
