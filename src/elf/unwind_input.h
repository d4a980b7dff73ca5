/*
 * unwind_input.h: the call frame information of one module, as it lies in a file or in memory.
 */
#ifndef PITOT_ELF_UNWIND_INPUT_H
#define PITOT_ELF_UNWIND_INPUT_H

#include "elf/eh_frame.h"

struct unwind_input {
	struct eh_section section;
	/* The binary search table of .eh_frame_hdr: pairs of 32-bit start and FDE address, relative
	 * to `header_address`; NULL: the section is walked instead. */
	const uint8_t *search;
	size_t search_count;
	uint64_t header_address;
	uint64_t base; /* lowest address of the module */
};

struct elf_file;

/*
 * Fills in *input from .eh_frame with its search table, also without section headers, or
 * .debug_frame where that is all; the bytes stay the file's. Of the file only headers, names of
 * sections and the first EH_HEADER_BYTES of .eh_frame_hdr are read. For readers outside of the
 * recorded process, which reads its own modules by their segments. 0, -ENOENT when there is
 * neither, or E_FORMAT when the file is not one of x86-64.
 */
int elf_unwind_input(const struct elf_file *f, struct unwind_input *input) MUST_USE;

/* End of the executable segments, as an ELF virtual address; 0: there are none. */
uint64_t elf_code_end(const struct elf_file *f);

#endif
