/*
 * dwarf_line.h: one line table of .debug_line, versions 2 to 5: which source line an instruction is
 * of.
 */
#ifndef PITOT_SYMBOL_DWARF_LINE_H
#define PITOT_SYMBOL_DWARF_LINE_H

#include "base/strbuf.h"
#include "symbol/dwarf_file.h"

#define LINE_ROW_END UINT32_MAX /* as a file: the row ends a sequence */

struct line_row {
	uint64_t address;
	uint32_t line; /* 0: of no line */
	uint32_t file; /* index as the program has it */
	/* number of its call, from 1 on; 0: of no inlined function, or not said here */
	uint32_t inlined;
};

/* The call of an inlined function, as only tables of device code have them. */
struct line_call {
	uint64_t function; /* offset of its name in .debug_str */
	uint32_t file, line; /* that call it */
	uint32_t inlined; /* the call that those are in, a lower number; 0: none */
};

struct line_file {
	const char *name; /* in the section; NULL: unknown */
	uint64_t folder;
	uint64_t time_s, size_bytes; /* of the file; 0: unknown */
};

struct line_table {
	VEC(struct line_row) rows; /* by address */
	VEC(struct line_file) files; /* by index as in DWARF 5; version 4 counts from 1 */
	VEC(const char *) folders; /* of which 0 is the compilation's own */
	VEC(struct line_call) calls; /* by number, less 1 */
	unsigned first_file; /* index of files.data[0] */
};

/* Reads the table of a unit, from *budget bytes at most, and takes them from it. 0 or -ENOMEM. */
int line_table_read(struct line_table *t, const struct dwarf_unit *u, uint64_t *budget) MUST_USE;
void line_table_release(struct line_table *t);
/* The row that covers an address, or NULL. */
const struct line_row *line_table_find(const struct line_table *t, uint64_t address);
/* Appends the path of a file, with folders as far as they are known. False: no such file. */
bool line_table_path(const struct line_table *t, const struct dwarf_unit *u, uint64_t file,
		     struct strbuf *out);

#endif
