/*
 * lines.h: source file, line and inlined functions of an address, from DWARF.
 *
 * Opening reads the header of each unit. A unit is read when the first address in it is looked up,
 * and stays in memory. Not safe for concurrent use.
 */
#ifndef PITOT_SYMBOL_LINES_H
#define PITOT_SYMBOL_LINES_H

#include "elf/elf_file.h"

#define SOURCE_FRAMES_MAX 64 /* inlined more deeply: the innermost are kept */

/* Texts belong to the lines or to the file, until lines_free. */
struct source_frame {
	const char *function; /* linkage name if it has one; NULL: unknown */
	const char *file; /* NULL: unknown */
	uint32_t line; /* 0: unknown */
};

struct lines;

/*
 * Opens the DWARF of `debug`, which is about the code of `code` (often the same file). `alt` is the
 * file that several share (.gnu_debugaltlink), or NULL. All must outlive it. 0 and *out, NULL where
 * there is no DWARF; or -ENOMEM.
 */
int lines_open(const struct elf_file *debug, const struct elf_file *code,
	       const struct elf_file *alt, struct lines **out) MUST_USE;
void lines_free(struct lines *l);
/*
 * What is known of an address: the function first, then those inlined, innermost last. Returns the
 * number of frames (0: nothing is known), or -ENOMEM.
 */
int lines_find(struct lines *l, uint64_t address, struct source_frame frames[SOURCE_FRAMES_MAX]);
/*
 * Number of units whose functions and inlined calls are in separate files (split DWARF), which are
 * not read.
 */
size_t lines_split_units(const struct lines *l);

#endif
