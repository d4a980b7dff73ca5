/*
 * debug_files.h: where the symbols of a stripped file are.
 *
 * Each folder is looked through as GDB does with /usr/lib/debug: by build id
 * (.build-id/ab/cdef.debug), then by the name in .gnu_debuglink: beside the file, in .debug beside
 * it, and below the folder at the file's own path. Then the cache of debuginfod's client is
 * searched, and last its servers. A file with another build id, or without one and with another
 * checksum, is never used.
 */
#ifndef PITOT_SYMBOL_DEBUG_FILES_H
#define PITOT_SYMBOL_DEBUG_FILES_H

#include "base/strbuf.h"
#include "symbol/debuginfod.h"
#include "elf/elf_file.h"

struct debug_folders {
	const char *const *folders;
	size_t count;
	const char *root; /* "" or the root of the process's file system: /proc/PID/root */
	struct debuginfod *servers; /* NULL: none */
};

/*
 * The separate symbols of `f`, whose path is `path`. 0 with *out, and its path appended to *found;
 * -ENOENT when there are none that can be used (if e is set, one was there, and why not); -ENOMEM.
 */
int debug_file_open(const struct debug_folders *d, const struct elf_file *f, const char *path,
		    struct elf_file *out, struct strbuf *found, struct error *e) MUST_USE;
/* The same for a file that is known by its build id (hexadecimal) only. */
int debug_file_open_by_id(const struct debug_folders *d, const char *build_id, struct elf_file *out,
			  struct strbuf *found, struct error *e) MUST_USE;
/*
 * The file that `f` (whose path is `path`) shares with others (.gnu_debugaltlink). -ENOENT: none.
 */
int debug_file_open_alt(const struct debug_folders *d, const struct elf_file *f, const char *path,
			struct elf_file *out, struct error *e) MUST_USE;

#endif
