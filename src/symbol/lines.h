/*
 * lines.h: maps addresses to source files, lines and inlined functions, from DWARF.
 *
 * Opening reads the header of each unit. A unit is read when the first address in it is looked up,
 * and remains in memory. Not safe for concurrent use.
 */
#ifndef PITOT_SYMBOL_LINES_H
#define PITOT_SYMBOL_LINES_H

#include "elf/elf_file.h"

#define SOURCE_FRAMES_MAX 64 /* of deeper inlining, the innermost frames are returned */

/* Texts are owned by the lines or the file, and valid until lines_free(). */
struct source_frame {
	const char *function; /* linkage name if it has one; NULL: unknown */
	const char *file; /* NULL: unknown */
	uint32_t line; /* 0: unknown */
};

struct lines;

/*
 * Opens the DWARF in `debug` that describes the code in `code` (often the same file). `alt` is the
 * supplementary file (.gnu_debugaltlink), or NULL. All must outlive the result. Returns 0, with
 * *out NULL if there is no DWARF; or -ENOMEM.
 */
int lines_open(const struct elf_file *debug, const struct elf_file *code,
	       const struct elf_file *alt, struct lines **out) MUST_USE;
void lines_free(struct lines *l);
/*
 * Finds the source frames of an address: its function first, then the inlined functions, innermost
 * last. Returns the number of frames (0: unknown), or -ENOMEM.
 */
int lines_find(struct lines *l, uint64_t address, struct source_frame frames[SOURCE_FRAMES_MAX]);
/*
 * Number of units whose functions and inlined calls are in separate files (split DWARF), which are
 * not read.
 */
size_t lines_split_units(const struct lines *l);

#endif
