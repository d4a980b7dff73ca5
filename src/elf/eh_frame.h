/*
 * eh_frame.h: reads call frame information: .eh_frame (LSB 5.0, "Exception Frames") and
 * .debug_frame (DWARF 2 to 5, section 6.4 of the latter) of x86-64.
 *
 * The bytes are not trusted: every read is checked, time is linear in the section's size (the
 * instructions that a CIE repeats for each of its FDEs are limited), and nothing is allocated.
 */
#ifndef PITOT_ELF_EH_FRAME_H
#define PITOT_ELF_EH_FRAME_H

#include <stdbool.h>

#include "elf/unwind_rule.h"

/* Longer initial instructions than these do not occur; each FDE runs them again. */
#define CIE_INSTRUCTIONS_MAX 256
#define REMEMBERED_MAX 16

struct eh_section {
	const uint8_t *bytes;
	size_t size;
	uint64_t address; /* of bytes[0]; what "pc-relative" in it is relative to */
	uint64_t data_base; /* "data-relative": address of .eh_frame_hdr, else of .got; or 0 */
	bool debug; /* .debug_frame */
};

/* What an FDE inherits from its CIE. */
struct eh_cie {
	size_t offset; /* in the section: what identifies it */
	uint64_t code_align;
	int64_t data_align;
	uint64_t ra_register;
	uint8_t pointer_encoding;
	bool augmented; /* FDEs have augmentation data */
	bool signal;
	const uint8_t *instructions;
	size_t length;
};

struct eh_fde {
	uint64_t start, end; /* addresses; start < end */
	struct eh_cie cie;
	const uint8_t *instructions;
	size_t length;
};

/*
 * The entry at `offset`: 1 and *fde; 0 for an entry that is no FDE or that cannot be read; -1 at
 * the section's end (terminator, last byte, or a length that leads out of it). *next is the offset
 * of the entry after it unless -1 is returned. fde->cie is also a cache: pass the same struct again
 * (zeroed for the first call).
 */
int eh_frame_entry(const struct eh_section *s, size_t offset, struct eh_fde *fde, size_t *next);

/*
 * Called for each address from which on a rule holds, ascending, until the next or the FDE's end.
 */
typedef void eh_frame_row(void *context, uint64_t start, const struct unwind_rule *rule);

/*
 * Runs the FDE's instructions. What comes after an instruction that breaks the format is unknown.
 */
void eh_frame_rows(const struct eh_section *s, const struct eh_fde *fde, eh_frame_row *row,
		   void *context);

/* A decoded .eh_frame_hdr. */
struct eh_header {
	uint64_t frames; /* address of .eh_frame */
	/*
	 * The search table: pairs of 32-bit start and FDE address, relative to the header's; NULL:
	 * there is none.
	 */
	const uint8_t *pairs;
	size_t pair_count;
};

/*
 * Reads at most the first EH_HEADER_BYTES; `address` is where bytes[0] is loaded. false: the header
 * is invalid.
 */
#define EH_HEADER_BYTES 32u
bool eh_header_read(const uint8_t *bytes, size_t size, uint64_t address, struct eh_header *out);

/*
 * Reads a pointer that is encoded as `encoding` says (DW_EH_PE_*) at c, whose first byte is at
 * address `at`. false when it cannot be read, or is omitted.
 */
struct cursor;
bool eh_pointer(struct cursor *c, uint8_t encoding, uint64_t at, uint64_t data_base,
		uint64_t *value);

#define EH_PE_INDIRECT 0x80

#endif
