/*
 * program_file.h: finds out what an executable file is before it is executed: which program, and
 * which dynamic loader it requests. Used by `pitot record`, and by the preloaded library
 * (src/preload) between vfork and exec as well: all functions are async-signal-safe, allocate
 * nothing and write to their arguments only. That is why the two ELF headers are read here and not
 * with elf/elf_file.h, which allocates.
 */
#ifndef PITOT_BASE_PROGRAM_FILE_H
#define PITOT_BASE_PROGRAM_FILE_H

#include <limits.h>
#include <stdbool.h>

struct program_file {
	char name[256]; /* base name after following links: "python3.13" */
	/* path of the dynamic loader; "" for static programs and for other processors */
	char loader[256];
	bool is_foreign; /* an ELF file for another processor */
};

/*
 * Reads the program `path`, or the interpreter in the first line of a script. Returns 0 or a
 * negative errno; -EPERM for setuid and setgid programs, where the loader ignores LD_PRELOAD.
 */
int program_file_read(const char *path, struct program_file *out);

/* Finds the file that execvp would execute. `path` has PATH_MAX bytes. 0, -ENOENT, -EACCES, … */
int program_file_find(const char *command, char *path);

/*
 * Finds a program of our own in the absolute folders of PATH; others, which depend on the working
 * folder, are left out. The same results.
 */
int program_file_find_own(const char *name, char *path);

/* Whether the name is that of a CPython: python, python3, python3.13t; not pythonw, pypy. */
bool program_file_is_python(const struct program_file *file);
/*
 * Whether the program is known to start other programs, which may be a Python: shells, `env`,
 * `timeout`, `xargs` and the like.
 */
bool program_file_starts_others(const struct program_file *file);

#endif
