/*
 * elf_machine.h: what ELF files have of their processor, which need not be the one that reads them.
 */
#ifndef PITOT_ARCH_ELF_MACHINE_H
#define PITOT_ARCH_ELF_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An entry of a PLT: it jumps to the address in a slot, or pushes the number of a relocation. */
struct plt_stub {
	bool is_lazy;
	uint32_t number;
	uint64_t slot;
};

struct elf_machine {
	uint16_t number; /* e_machine */
	uint32_t absolute, glob_dat, jump_slot, irelative; /* types of relocations */
	/* Reads the entry at `address`, of `size` bytes. False: the code is no such entry. */
	bool (*read_stub)(const uint8_t *code, size_t size, uint64_t address, struct plt_stub *out);
	uint8_t short_stub_bytes; /* distance of places where stubs may be, if the file has none */
};

extern const struct elf_machine elf_machine_x86_64, elf_machine_aarch64;

/* Returns the machine of files with this e_machine, or NULL. */
const struct elf_machine *elf_machine_of(uint16_t number);

#endif
