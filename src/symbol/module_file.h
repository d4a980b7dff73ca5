/* module_file.h: finding the file that was mapped, and proving that it is that one. */
#ifndef PITOT_SYMBOL_MODULE_FILE_H
#define PITOT_SYMBOL_MODULE_FILE_H

#include "base/strbuf.h"
#include "symbol/debug_files.h"
#include "symbol/symbolizer.h"

/*
 * Opens the file of a module: at its path, in the process's root, among its mappings, the copy that
 * was kept of it, below the folders of debug files (if it has a build id), or the vdso of this very
 * process. 0, with where it
 * was found appended to *path; or a negative code and the reason of the candidate that came
 * nearest.
 */
int module_file_open(const struct symbol_process *p, const struct symbol_module *m,
		     const struct debug_folders *folders, const struct file_copies *kept,
		     struct elf_file *out, struct strbuf *path, struct error *e) MUST_USE;

#endif
