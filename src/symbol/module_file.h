/*
 * module_file.h: finding a process's files: what was mapped, its map of JIT code; and proving that
 * they are those.
 */
#ifndef PITOT_SYMBOL_MODULE_FILE_H
#define PITOT_SYMBOL_MODULE_FILE_H

#include "base/strbuf.h"
#include "symbol/debug_files.h"
#include "symbol/perf_map.h"
#include "symbol/symbolizer.h"

/*
 * Opens the file of a module: at its path, in the process's root, among its mappings, the copy that
 * was kept of it, below the folders of debug files (if it has a build id), or the vdso of this very
 * process. 0, with where it was found appended to *path; or a negative code and the reason of the
 * candidate that came nearest.
 */
int module_file_open(const struct symbol_process *p, const struct symbol_module *m,
		     const struct debug_folders *folders, const struct file_copies *kept,
		     struct elf_file *out, struct strbuf *path, struct error *e) MUST_USE;

#define JIT_MAP_PATH_MAX 96

/*
 * Opens the map of a process of this machine. Anyone can write into /tmp, and process ids are used
 * again: a map is believed if it is the process's user's, ours or root's, and was written since the
 * process began and before its id was reused. 0, with its path; -ENOENT, -ENOMEM.
 */
int jit_map_open(const struct symbol_process *p, struct perf_map *map,
		 char path[JIT_MAP_PATH_MAX]) MUST_USE;

#endif
