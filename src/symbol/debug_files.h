/*
 * debug_files.h: finds the separate debug file of a stripped file.
 *
 * Each folder is searched as GDB searches /usr/lib/debug: by build id (.build-id/ab/cdef.debug),
 * then by the name in .gnu_debuglink: beside the file, in .debug beside it, and below the folder at
 * the file's own path. Then the cache of debuginfod's client is searched, finally its servers are
 * asked. A file with another build id, or without one and with another checksum, is never used.
 */
#ifndef PITOT_SYMBOL_DEBUG_FILES_H
#define PITOT_SYMBOL_DEBUG_FILES_H

#include "base/error.h"
#include "base/strbuf.h"
#include "elf/elf_file.h"

/*
 * Fetches debug files by build id from the servers in $DEBUGINFOD_URLS, through elfutils'
 * libdebuginfod, which is opened at run time and caches what it has fetched.
 */
struct debuginfod;

/* Returns 0; E_UNSUPPORTED without a server or the library, with the way out in e; -ENOMEM. */
int debuginfod_open(struct debuginfod **out, struct error *e) MUST_USE;
void debuginfod_free(struct debuginfod *d);
/*
 * Fetches the debug file of a build id (hexadecimal). Returns 0 and appends the path of the cached
 * file; -ENOENT when no server has it; -ENOMEM. After two consecutive requests without an answer,
 * no more requests are made.
 */
int debuginfod_fetch(struct debuginfod *d, const char *build_id, struct strbuf *path) MUST_USE;
/* Returns why the last request failed, unless the file was missing; "": no request failed. */
const char *debuginfod_problem(const struct debuginfod *d);

struct debug_folders {
	const char *const *folders;
	size_t count;
	const char *root; /* "" or the root of the process's file system: /proc/PID/root */
	struct debuginfod *servers; /* NULL: none */
};

/*
 * Opens the debug file of `f`, whose path is `path`, and appends the debug file's path to *found.
 * Returns 0; -ENOENT when there is none that can be used (if e is set, one was found, and e says
 * why it is unusable); -ENOMEM.
 */
int debug_file_open(const struct debug_folders *d, const struct elf_file *f, const char *path,
		    struct elf_file *out, struct strbuf *found, struct error *e) MUST_USE;
/* Like debug_file_open(), for a file of which only the build id (hexadecimal) is known. */
int debug_file_open_by_id(const struct debug_folders *d, const char *build_id, struct elf_file *out,
			  struct strbuf *found, struct error *e) MUST_USE;
/*
 * Opens the supplementary file that `f` (whose path is `path`) shares with others
 * (.gnu_debugaltlink). -ENOENT: none.
 */
int debug_file_open_alt(const struct debug_folders *d, const struct elf_file *f, const char *path,
			struct elf_file *out, struct error *e) MUST_USE;

#endif
