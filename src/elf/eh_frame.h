/*
 * eh_frame.h: reads call frame information of this processor: .eh_frame (LSB 5.0, "Exception
 * Frames") and .debug_frame (DWARF 2 to 5, section 6.4 of the latter).
 *
 * Input is untrusted: every read is checked, time is linear in the section's size (the length of
 * CIE instructions, which each FDE repeats, is limited), and nothing is allocated.
 */
#ifndef PITOT_ELF_EH_FRAME_H
#define PITOT_ELF_EH_FRAME_H

#include <stdbool.h>

#include "elf/unwind_rule.h"

/* Longest initial instructions of a CIE; each FDE executes them again. Longer ones do not occur. */
#define CIE_INSTRUCTIONS_MAX 256
#define REMEMBERED_MAX 16

struct eh_section {
	const uint8_t *bytes;
	size_t size;
	uint64_t address; /* address of bytes[0], to which "pc-relative" pointers are relative */
	uint64_t data_base; /* of "data-relative" pointers: .eh_frame_hdr, else .got; or 0 */
	bool debug; /* .debug_frame */
};

/* The part of an FDE that comes from its CIE. */
struct eh_cie {
	size_t offset; /* offset in the section, which identifies the CIE */
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
 * Reads the entry at `offset`. Returns 1 and *fde; 0 for an entry that is not an FDE or is invalid;
 * -1 at the section's end (terminator, last byte, or a length beyond the end). *next is the offset
 * of the next entry unless -1 is returned. fde->cie is also a cache: pass the same struct again,
 * zeroed for the first call.
 */
int eh_frame_entry(const struct eh_section *s, size_t offset, struct eh_fde *fde, size_t *next);

/*
 * Makes bytes of a section or search table available, before they are read. Returns false when they
 * are unavailable.
 */
typedef bool eh_load(void *context, const uint8_t *bytes, size_t size);
/*
 * Loads the FDE at `offset` of .eh_frame with its CIE, for eh_frame_entry(). Returns false when
 * they are unavailable, or no FDE is there.
 */
bool eh_frame_load(const struct eh_section *s, size_t offset, eh_load *load, void *context);

/* Called in ascending order for each address where a rule begins; a rule ends at the next one. */
typedef void eh_frame_row(void *context, uint64_t start, const struct unwind_rule *rule);

/* Executes the FDE's instructions. The rule after an invalid instruction is "unknown". */
void eh_frame_rows(const struct eh_section *s, const struct eh_fde *fde, eh_frame_row *row,
		   void *context);

/* A decoded .eh_frame_hdr. */
struct eh_header {
	uint64_t frames; /* address of .eh_frame */
	/*
	 * Search table: pairs of 32-bit start address and FDE address, relative to the header;
	 * NULL: none.
	 */
	const uint8_t *pairs;
	size_t pair_count;
};

/*
 * Reads at most the first EH_HEADER_BYTES. `address` is the address of bytes[0]. Returns false when
 * the header is invalid.
 */
#define EH_HEADER_BYTES 32u
bool eh_header_read(const uint8_t *bytes, size_t size, uint64_t address, struct eh_header *out);

#define EH_PE_INDIRECT 0x80

#endif
