/* dwarf_line.h: reads a line table of .debug_line, versions 2 to 5: source lines by address. */
#ifndef PITOT_SYMBOL_DWARF_LINE_H
#define PITOT_SYMBOL_DWARF_LINE_H

#include "base/strbuf.h"
#include "symbol/dwarf_file.h"

#define LINE_ROW_END UINT32_MAX /* value of `file`: the row ends a sequence */

struct line_row {
	uint64_t address;
	uint32_t line; /* 0: no line */
	uint32_t file; /* index of the file, as in the line program */
	/* number of its inlined call, from 1; 0: not inlined, or unknown */
	uint32_t inlined;
};

/* The call of an inlined function; only tables of device code have these. */
struct line_call {
	uint64_t function; /* offset of the function's name in .debug_str */
	uint32_t file, line; /* position of the call */
	uint32_t inlined; /* number of the call that contains this one, which is lower; 0: none */
};

struct line_file {
	const char *name; /* points into the section; NULL: unknown */
	uint64_t folder;
	uint64_t time_s, size_bytes; /* modification time and size; 0: unknown */
};

struct line_table {
	VEC(struct line_row) rows; /* sorted by address */
	VEC(struct line_file) files; /* indexed as in DWARF 5; version 4 counts from 1 */
	VEC(const char *) folders; /* 0 is the working directory of the compilation */
	VEC(struct line_call) calls; /* at index number - 1 */
	unsigned first_file; /* index of files.data[0] */
};

/* Reads a unit's table, at most *budget bytes, which it subtracts. Returns 0 or -ENOMEM. */
int line_table_read(struct line_table *t, const struct dwarf_unit *u, uint64_t *budget) MUST_USE;
void line_table_release(struct line_table *t);
/* Returns the row that covers an address, or NULL. */
const struct line_row *line_table_find(const struct line_table *t, uint64_t address);
/* Appends the path of a file, as far as its folders are known. Returns false: no such file. */
bool line_table_path(const struct line_table *t, const struct dwarf_unit *u, uint64_t file,
		     struct strbuf *out);

#endif
