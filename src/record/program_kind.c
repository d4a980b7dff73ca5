#include "record/program_kind.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/io.h"
#include "base/path.h"

#define SCRIPTS_MAX 4 /* that are each other's interpreters */
#define HEAD_BYTES 4096
#define LOADER "ld-linux-x86-64"

/* Where execvp would find it. */
static bool find(const char *command, char path[PATH_MAX])
{
	const char *folder = getenv("PATH"), *end;

	if (strchr(command, '/'))
		return snprintf(path, PATH_MAX, "%s", command) < PATH_MAX;
	for (; folder; folder = *end ? end + 1 : NULL) {
		end = strchrnul(folder, ':');
		if (snprintf(path, PATH_MAX, "%.*s%s%s", (int)(end - folder), folder,
			     end > folder ? "/" : "", command) < PATH_MAX &&
		    access(path, X_OK) == 0)
			return true;
	}
	return false;
}

/* The first bytes of a file, with a NUL behind them; their number, or 0. */
static size_t read_head(const char *path, char head[HEAD_BYTES + 1])
{
	int fd = io_above_standard(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
	ssize_t n;

	if (fd < 0)
		return 0;
	n = read(fd, head, HEAD_BYTES);
	close(fd);
	head[MAX(n, 0)] = '\0';
	return (size_t)MAX(n, 0);
}

/* "#!/usr/bin/env -S python3 -u": what runs the script, or NULL. Changes the text. */
static char *interpreter_of(char *head)
{
	char *rest = NULL, *word;

	head[strcspn(head, "\n")] = '\0';
	word = strtok_r(head + 2, " \t", &rest);
	if (!word || strcmp(base_name(word), "env") != 0)
		return word;
	do
		word = strtok_r(NULL, " \t", &rest);
	while (word && (word[0] == '-' || strchr(word, '=')));
	return word;
}

/* python, python3, python3.13t; not pythonw, pypy. */
static bool is_name(const char *path)
{
	char real[PATH_MAX];
	const char *name;

	if (!realpath(path, real))
		return false;
	name = base_name(real);
	return strncmp(name, "python", 6) == 0 && !isalpha((unsigned char)name[6]);
}

/* What loads a program's libraries. */
enum loader {
	LOADER_NONE, /* it is static, or no program that we know */
	LOADER_OURS, /* what loads the recorder, too */
	LOADER_OTHER, /* another C library's, or for another processor */
};

static enum loader loader_of(const char *head, size_t size)
{
	Elf64_Ehdr file;
	Elf64_Phdr segment;

	if (size < sizeof(file))
		return LOADER_NONE;
	memcpy(&file, head, sizeof(file));
	if (memcmp(file.e_ident, ELFMAG, SELFMAG) != 0)
		return LOADER_NONE;
	if (file.e_ident[EI_CLASS] != ELFCLASS64 || file.e_machine != EM_X86_64)
		return LOADER_OTHER;
	for (unsigned i = 0; i < file.e_phnum && file.e_phentsize == sizeof(segment); i++) {
		size_t at = i * sizeof(segment);

		if (file.e_phoff > size || size - file.e_phoff < at + sizeof(segment))
			return LOADER_NONE;
		memcpy(&segment, head + file.e_phoff + at, sizeof(segment));
		if (segment.p_type == PT_INTERP)
			return segment.p_offset < size && strstr(head + segment.p_offset, LOADER)
				       ? LOADER_OURS
				       : LOADER_OTHER;
	}
	return LOADER_NONE;
}

static bool is_program(const char *word)
{
	char path[PATH_MAX];
	struct stat st;

	return word[0] != '-' && !strchr(word, '=') && find(word, path) && stat(path, &st) == 0 &&
	       S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* Programs that do nothing but start the one that their arguments name. */
static bool is_launcher(const char *command)
{
	static const char *const names[] = { "chrt",   "env",     "ionice",  "nice",
					     "nohup",  "numactl", "prlimit", "setsid",
					     "stdbuf", "taskset", "time",    "timeout" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(base_name(command), names[i]) == 0)
			return true;
	return false;
}

/* The program that a command is, or that its first line names; and what loads it. */
static bool find_program(const char *command, char path[PATH_MAX], enum loader *loader)
{
	char head[HEAD_BYTES + 1];

	for (int i = 0; command && i < SCRIPTS_MAX; i++) {
		size_t size;

		if (!find(command, path))
			return false;
		size = read_head(path, head);
		*loader = loader_of(head, size);
		if (size < 2 || memcmp(head, "#!", 2) != 0)
			return true;
		command = interpreter_of(head);
	}
	return false;
}

static bool runs_python(const char *command)
{
	char path[PATH_MAX];
	enum loader loader;

	return find_program(command, path, &loader) && loader == LOADER_OURS && is_name(path);
}

bool program_has_other_loader(const char *command)
{
	char path[PATH_MAX];
	enum loader loader;

	return find_program(command, path, &loader) && loader == LOADER_OTHER;
}

bool program_is_python(char **command)
{
	if (is_launcher(*command))
		do
			command++;
		while (*command && !is_program(*command));
	return *command &&
	       (is_launcher(*command) ? program_is_python(command) : runs_python(*command));
}
