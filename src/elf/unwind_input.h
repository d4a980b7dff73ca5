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

#endif
