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

#include "base/error.h"
#include "base/strbuf.h"
#include "elf/elf_file.h"

/*
 * Debug files from the servers in $DEBUGINFOD_URLS, by build id, through elfutils'
 * libdebuginfod, which is opened at run time and keeps what it fetched in its cache.
 */
struct debuginfod;

/* 0 and *out; E_UNSUPPORTED without a server or the library, and e says what to do; -ENOMEM. */
int debuginfod_open(struct debuginfod **out, struct error *e) MUST_USE;
void debuginfod_free(struct debuginfod *d);
/*
 * Fetches the debug file of a build id (hexadecimal). 0, with the path of the cached file appended
 * to *path; -ENOENT when no server has it; -ENOMEM. After two requests in a row without an answer
 * no further request is made.
 */
int debuginfod_fetch(struct debuginfod *d, const char *build_id, struct strbuf *path) MUST_USE;
/* The cause of the last request that failed, a missing file excluded; "": no request failed. */
const char *debuginfod_problem(const struct debuginfod *d);

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
