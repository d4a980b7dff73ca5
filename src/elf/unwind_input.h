/* unwind_input.h: the call frame information of one module, in a file or in memory. */
#ifndef PITOT_ELF_UNWIND_INPUT_H
#define PITOT_ELF_UNWIND_INPUT_H

#include "elf/eh_frame.h"

struct unwind_input {
	struct eh_section section;
	/*
	 * Search table of .eh_frame_hdr: pairs of 32-bit start and FDE address, relative to
	 * header_address; NULL: the section is walked.
	 */
	const uint8_t *search;
	size_t search_count;
	uint64_t header_address;
	uint64_t base; /* lowest address of the module */
};

struct elf_file;

/*
 * Fills in *input from .eh_frame and its search table, also without section headers, or else from
 * .debug_frame. The file keeps the bytes. Only headers, section names and the first EH_HEADER_BYTES
 * of .eh_frame_hdr are read. For readers outside of the recorded process; the recorder reads its
 * modules by their segments. Returns 0, -ENOENT without call frame information, or E_FORMAT for
 * other machines than this one.
 */
int elf_unwind_input(const struct elf_file *f, struct unwind_input *input) MUST_USE;

/* Returns the end of the executable segments, as an ELF virtual address, or 0 if there are none. */
uint64_t elf_code_end(const struct elf_file *f);

#endif
