#include <elf.h>
#include <string.h>

#include "arch/elf_machine.h"

/*
 * An entry jumps through a slot of the global offset table: jmp *disp32(%rip). The lazy entries of
 * a PLT with .plt.sec have no such jump: they push the number of the relocation.
 */
static bool read_stub(const uint8_t *code, size_t size, uint64_t address, struct plt_stub *out)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	size_t at = size >= 4 && memcmp(code, endbr64, 4) == 0 ? 4 : 0;
	int32_t distance;

	*out = (struct plt_stub){ 0 };
	if (at + 5 <= size && code[at] == 0x68) { /* push imm32 */
		memcpy(&out->number, code + at + 1, sizeof(out->number));
		return out->is_lazy = true;
	}
	at += at < size && code[at] == 0xf2; /* bnd */
	if (at + 6 > size || code[at] != 0xff || code[at + 1] != 0x25)
		return false;
	memcpy(&distance, code + at + 2, sizeof(distance));
	out->slot = address + at + 6 + (uint64_t)(int64_t)distance;
	return true;
}

const struct elf_machine elf_machine_x86_64 = {
	.number = EM_X86_64,
	.absolute = R_X86_64_64,
	.glob_dat = R_X86_64_GLOB_DAT,
	.jump_slot = R_X86_64_JUMP_SLOT,
	.irelative = R_X86_64_IRELATIVE,
	.read_stub = read_stub,
	.short_stub_bytes = 8, /* of static programs */
};
