/*
 * program_file.h: what a file that is to be executed is, before it is: which program, and which
 * dynamic loader it asks for. For `pitot record`, and for the library that it preloads
 * (src/preload), there also between vfork and exec: all of this is async-signal-safe, allocates
 * nothing and writes to its arguments only. That is why it reads the two headers that it needs by
 * itself, and not by elf/elf_file.h, which allocates.
 */
#ifndef PITOT_BASE_PROGRAM_FILE_H
#define PITOT_BASE_PROGRAM_FILE_H

#include <limits.h>
#include <stdbool.h>

struct program_file {
	char name[256]; /* base name of the file, links followed: "python3.13" */
	/* path of the dynamic loader; "" when the program is static, or for another processor */
	char loader[256];
	bool is_foreign; /* an ELF file that is not for 64-bit x86 */
};

/*
 * The program that `path` is, or that the first line of the script names. 0, or a negative errno;
 * -EPERM when it runs with other rights than its caller's (setuid, setgid): the loader preloads
 * nothing there.
 */
int program_file_read(const char *path, struct program_file *out);

/*
 * The file that execvp would execute: `path` has PATH_MAX bytes. 0; -ENOENT, or -EACCES, -EISDIR, …
 */
int program_file_find(const char *command, char *path);

/* By its name: python, python3, python3.13t; not pythonw, pypy. */
bool program_file_is_python(const struct program_file *file);
/*
 * Programs that exist to start others, which may be a Python: shells, `env`, `timeout`, `xargs` and
 * the like.
 */
bool program_file_starts_others(const struct program_file *file);

#endif
