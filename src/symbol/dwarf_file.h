/*
 * dwarf_file.h: reads the units and entries of DWARF 4 and 5 (and of 2 and 3 where these agree with
 * 4) that describe code.
 *
 * Every byte may be hostile: reading ends with the unit, only a few references are followed, and
 * data that many units may share (abbreviations, range lists) is read from a budget of a few times
 * its size, so that no small file takes long. Malformed data yields no result rather than an error.
 */
#ifndef PITOT_SYMBOL_DWARF_FILE_H
#define PITOT_SYMBOL_DWARF_FILE_H

#include "base/map.h"
#include "base/vec.h"
#include "elf/elf_file.h"
#include "base/leb128.h"
#include "symbol/range_table.h"

/* The DWARF names that are used. */
enum {
	DW_TAG_class_type = 0x02,
	DW_TAG_lexical_block = 0x0b,
	DW_TAG_compile_unit = 0x11,
	DW_TAG_structure_type = 0x13,
	DW_TAG_union_type = 0x17,
	DW_TAG_inlined_subroutine = 0x1d,
	DW_TAG_subprogram = 0x2e,
	DW_TAG_namespace = 0x39,
	DW_TAG_partial_unit = 0x3c,
	DW_TAG_skeleton_unit = 0x4a,
	DW_AT_sibling = 0x01,
	DW_AT_name = 0x03,
	DW_AT_stmt_list = 0x10,
	DW_AT_low_pc = 0x11,
	DW_AT_high_pc = 0x12,
	DW_AT_comp_dir = 0x1b,
	DW_AT_abstract_origin = 0x31,
	DW_AT_specification = 0x47,
	DW_AT_ranges = 0x55,
	DW_AT_call_file = 0x58,
	DW_AT_call_line = 0x59,
	DW_AT_linkage_name = 0x6e,
	DW_AT_str_offsets_base = 0x72,
	DW_AT_addr_base = 0x73,
	DW_AT_rnglists_base = 0x74,
	DW_AT_dwo_name = 0x76,
	DW_AT_MIPS_linkage_name = 0x2007,
	DW_AT_GNU_dwo_name = 0x2130,
};

enum dwarf_class {
	DWARF_NONE, /* skipped, or of a form without use here */
	DWARF_CONSTANT,
	DWARF_ADDRESS,
	DWARF_ADDRESS_INDEX,
	DWARF_STRING, /* in `text` */
	DWARF_STRING_INDEX,
	DWARF_REFERENCE, /* offset in .debug_info of this file */
	DWARF_REFERENCE_ALT, /* offset in .debug_info of the supplementary file */
	DWARF_OFFSET, /* offset in another section */
	DWARF_RANGES_INDEX,
};

struct dwarf_value {
	enum dwarf_class class;
	uint64_t number;
	const char *text;
};

/* The attributes of an entry that tell where its code is. */
struct dwarf_extent {
	struct dwarf_value low, high, ranges;
};

/* The attributes of an entry that are used; class DWARF_NONE: absent. */
struct dwarf_facts {
	struct dwarf_extent extent;
	struct dwarf_value name, linkage_name, folder;
	struct dwarf_value origin, specification; /* other entries of the same function */
	struct dwarf_value call_file, call_line, sibling;
	struct dwarf_value lines, string_offsets, addresses, range_lists, split; /* only in units */
};

struct dwarf_attribute {
	uint32_t name, form;
	int64_t constant; /* value of DW_FORM_implicit_const */
};

struct dwarf_abbreviation {
	uint64_t code;
	uint32_t tag;
	bool has_children;
	uint32_t first, count; /* in dwarf_abbreviations.attributes */
};

struct dwarf_abbreviations {
	VEC(struct dwarf_abbreviation) items; /* sorted by code */
	VEC(struct dwarf_attribute) attributes;
};

struct dwarf_unit {
	const struct dwarf_file *file;
	uint64_t offset, end; /* in .debug_info */
	uint64_t entries; /* offset of the first entry */
	uint64_t abbreviations_offset;
	uint16_t version;
	uint8_t address_size, offset_size;
	bool is_code; /* a unit of a kind that can have code */
	bool is_split; /* everything except its lines is in another file */
	bool has_lines;
	uint64_t lines_offset; /* in .debug_line */
	uint64_t base; /* address to which ranges are relative */
	uint64_t string_offsets, addresses, range_lists; /* bases in their sections */
	const char *folder; /* working directory of the compilation; NULL: unknown */
	const char *name; /* name of the source file; NULL: unknown */
	struct dwarf_abbreviations *abbreviations; /* NULL until needed */
};

struct dwarf_file {
	/* the file that contains the code; NULL: code that is in no ELF file */
	const struct elf_file *code;
	struct elf_bytes info, abbrev, str, line, line_str, str_offsets, addr, ranges, rnglists;
	struct dwarf_file *alt; /* supplementary file, or NULL; owned */
	VEC(struct dwarf_unit) units; /* sorted by offset */
	struct map tables; /* offset in .debug_abbrev -> struct dwarf_abbreviations * */
	uint64_t abbrev_budget, ranges_budget; /* bytes that may still be read */
};

/* An entry (DIE) during a walk. */
struct dwarf_entry {
	const struct dwarf_unit *unit;
	uint64_t offset;
	const struct dwarf_abbreviation *abbreviation; /* NULL: end of a list of siblings */
	struct cursor cursor; /* at the attributes */
};

/*
 * Lists the units of a file. Takes ownership of alt (may be NULL). `code` is the file with the
 * code. The sections of `f` must outlive the struct. Returns 0 or -ENOMEM.
 */
int dwarf_open(struct dwarf_file *d, const struct elf_file *f, const struct elf_file *code,
	       struct dwarf_file *alt) MUST_USE;
void dwarf_release(struct dwarf_file *d);

/* Reads the first entry of a unit: lines, names, bases. Returns false if it cannot be read. */
bool dwarf_unit_read(struct dwarf_file *d, struct dwarf_unit *u, struct dwarf_extent *extent);
/* Reads the entry at an offset of a unit that was read; false at its end or if it is malformed. */
bool dwarf_entry_at(const struct dwarf_unit *u, uint64_t offset, struct dwarf_entry *entry);
/* Reads all attributes of an entry, and moves its cursor to the next one. */
void dwarf_read_facts(struct dwarf_entry *entry, struct dwarf_facts *facts);
/* Reads one attribute, and advances the cursor. */
struct dwarf_value dwarf_read(const struct dwarf_unit *u, struct cursor *c,
			      const struct dwarf_attribute *attribute);
/* Reads a value of a form, as in line tables. */
struct dwarf_value dwarf_read_form(const struct dwarf_unit *u, struct cursor *c, uint32_t form);

/* Returns the text of a value; NULL: it is no string. */
const char *dwarf_text(const struct dwarf_unit *u, struct dwarf_value v);
/* Returns the address of a value; false: it is no address. */
bool dwarf_address(const struct dwarf_unit *u, struct dwarf_value v, uint64_t *address);

/* Adds the code ranges to a table, with this order and value. Returns 0 or -ENOMEM. */
int dwarf_add_ranges(struct dwarf_file *d, const struct dwarf_unit *u, const struct dwarf_extent *p,
		     uint32_t order, uint32_t value, struct range_table *to) MUST_USE;

struct dwarf_name {
	const char *text; /* NULL: none */
	bool is_linkage;
	uint64_t entry; /* the entry that has the name, if it is no linkage name */
	const struct dwarf_unit *unit;
};

/* Returns the linkage name, or else the name, of the function that an entry is or refers to. */
struct dwarf_name dwarf_function_name(struct dwarf_file *d, struct dwarf_value reference);

#endif
