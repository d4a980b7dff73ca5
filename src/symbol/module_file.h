/*
 * module_file.h: finds the files of a process (the file of a module, the map of JIT-compiled code)
 * and verifies that they are the right ones.
 */
#ifndef PITOT_SYMBOL_MODULE_FILE_H
#define PITOT_SYMBOL_MODULE_FILE_H

#include "base/strbuf.h"
#include "symbol/debug_files.h"
#include "symbol/perf_map.h"
#include "symbol/file_copies.h"
#include "symbol/symbol_module.h"

/*
 * Opens the file of a module. Tries its path, the process's root, the process's mappings, the copy
 * that was made of it, the folders of debug files (if it has a build id); for the vdso, that of our
 * own process. Returns 0 and appends the path at which it was found; or a negative code, with the
 * reason for the best candidate in e.
 */
int module_file_open(const struct symbol_process *p, const struct symbol_module *m,
		     const struct debug_folders *folders, const struct file_copies *copies,
		     struct elf_file *out, struct strbuf *path, struct error *e) MUST_USE;

#define JIT_MAP_PATH_MAX 96

/*
 * Opens the JIT map of a process on this machine. Anyone can write into /tmp, and process ids are
 * reused: a map is trusted if it belongs to the process's user, us or root, and was written after
 * the process began and before its id was reused. Returns 0, with the path; -ENOENT; -ENOMEM.
 */
int jit_map_open(const struct symbol_process *p, struct perf_map *map,
		 char path[JIT_MAP_PATH_MAX]) MUST_USE;

#endif
