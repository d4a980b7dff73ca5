/*
 * elf_sections.h: the call frame information of an ELF file of x86-64 that is in memory as it is on
 * disk. For readers outside the recorded process; a process reads its own modules by their segments.
 */
#ifndef PITOT_ELF_ELF_SECTIONS_H
#define PITOT_ELF_ELF_SECTIONS_H

#include "elf/unwind_input.h"

/*
 * Fills in *input from .eh_frame, also without section headers, or .debug_frame where that is all;
 * the bytes stay the caller's. 0, -ENOENT when there is neither, or E_FORMAT.
 */
int elf_unwind_input(const void *bytes, size_t size, struct unwind_input *input) MUST_USE;

/*
 * Adds the search table of .eh_frame_hdr to what elf_unwind_input() has found, if there is one that belongs to it. Of the
 * header only the first EH_HEADER_BYTES are read.
 */
void elf_unwind_search(const void *bytes, size_t size, struct unwind_input *input);

/* End of the executable segments, as an ELF virtual address; 0: there are none. */
uint64_t elf_code_end(const void *bytes, size_t size);

#endif
