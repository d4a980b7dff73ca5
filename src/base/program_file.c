#include "base/program_file.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arch/processor.h"
#include "base/compiler.h"
#include "base/path.h"

#define SCRIPTS_MAX 4 /* longest chain of scripts that are interpreters of scripts */
#define HEAD_BYTES 512 /* of a script; the kernel reads at least 256 */
#define SEGMENTS_MAX 64u

/* Reads exactly `size` bytes. */
static bool read_at(int fd, void *buffer, size_t size, uint64_t offset)
{
	return offset <= INT64_MAX && pread(fd, buffer, size, (off_t)offset) == (ssize_t)size;
}

/* Reads the interpreter's path without arguments: "/usr/bin/env" of "#!/usr/bin/env -S python3". */
static bool read_interpreter(int fd, char path[PATH_MAX])
{
	char head[HEAD_BYTES + 1], *word;
	ssize_t n = pread(fd, head, HEAD_BYTES, 0);

	if (n < 2 || head[0] != '#' || head[1] != '!')
		return false;
	head[n] = '\0';
	word = head + 2 + strspn(head + 2, " \t");
	word[strcspn(word, " \t\n")] = '\0';
	memcpy(path, word, strlen(word) + 1);
	return true;
}

static void read_loader(int fd, const Elf64_Ehdr *file, struct program_file *out)
{
	Elf64_Phdr segment;

	for (unsigned i = 0; i < MIN(file->e_phnum, SEGMENTS_MAX); i++) {
		if (!read_at(fd, &segment, sizeof(segment), file->e_phoff + i * sizeof(segment)))
			return;
		if (segment.p_type != PT_INTERP)
			continue;
		if (segment.p_filesz >= sizeof(out->loader) ||
		    !read_at(fd, out->loader, segment.p_filesz, segment.p_offset))
			out->loader[0] = '\0';
		out->loader[MIN(segment.p_filesz, sizeof(out->loader) - 1)] = '\0';
		return;
	}
}

static int read_elf(int fd, struct program_file *out)
{
	Elf64_Ehdr file;

	if (!read_at(fd, &file, sizeof(file), 0) || memcmp(file.e_ident, ELFMAG, SELFMAG) != 0)
		return -ENOEXEC;
	out->is_foreign =
		file.e_ident[EI_CLASS] != ELFCLASS64 || file.e_machine != ARCH_MACHINE_NUMBER;
	if (!out->is_foreign && file.e_phentsize == sizeof(Elf64_Phdr))
		read_loader(fd, &file, out);
	return 0;
}

/* Reads the base name of the open file with links resolved, or of `path` without /proc. */
static void read_name(int fd, const char *path, struct program_file *out)
{
	char link[32], target[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, target, sizeof(target) - 1);
	target[MAX(n, 0)] = '\0';
	path = base_name(n > 0 ? target : path);
	memcpy(out->name, path, MIN(strlen(path) + 1, sizeof(out->name)));
	out->name[sizeof(out->name) - 1] = '\0';
}

/* Returns 1 when the file is a script, and `path` is now its interpreter. */
static int read_one(char path[PATH_MAX], struct program_file *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc;
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		rc = -EACCES;
	} else if (read_interpreter(fd, path)) {
		rc = 1;
	} else if (st.st_mode & (S_ISUID | S_ISGID)) {
		rc = -EPERM;
	} else {
		read_name(fd, path, out);
		rc = read_elf(fd, out);
	}
	close(fd);
	return rc;
}

int program_file_read(const char *path, struct program_file *out)
{
	char buffer[PATH_MAX];
	int rc = 1;

	*out = (struct program_file){ .is_foreign = false };
	if (strlen(path) >= sizeof(buffer))
		return -ENAMETOOLONG;
	memcpy(buffer, path, strlen(path) + 1);
	for (int i = 0; i <= SCRIPTS_MAX && rc == 1; i++)
		rc = read_one(buffer, out);
	return rc == 1 ? -ELOOP : rc;
}

static int check_executable(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	return access(path, X_OK) < 0 ? -errno : 0;
}

static int search_path(const char *command, bool absolute, char *path)
{
	const char *folder = getenv("PATH"), *end;
	size_t length = strlen(command);
	int rc = -ENOENT;

	if (!folder)
		folder = "/bin:/usr/bin";
	for (; folder; folder = *end ? end + 1 : NULL) {
		size_t size;
		int found;

		end = strchrnul(folder, ':');
		size = (size_t)(end - folder);
		if (size + length + 2 > PATH_MAX || (absolute && *folder != '/'))
			continue;
		memcpy(path, folder, size);
		if (size)
			path[size++] = '/';
		memcpy(path + size, command, length + 1);
		found = check_executable(path);
		if (found == 0)
			return 0;
		if (found == -EACCES)
			rc = found;
	}
	return rc;
}

int program_file_find(const char *command, char *path)
{
	size_t length = strlen(command);

	if (length >= PATH_MAX || !*command)
		return -ENOENT;
	if (!strchr(command, '/'))
		return search_path(command, false, path);
	memcpy(path, command, length + 1);
	return check_executable(path);
}

int program_file_find_own(const char *name, char *path)
{
	return search_path(name, true, path);
}

bool program_file_is_python(const struct program_file *file)
{
	return strncmp(file->name, "python", 6) == 0 && !isalpha((unsigned char)file->name[6]);
}

bool program_file_starts_others(const struct program_file *file)
{
	static const char *const names[] = {
		"ash",     "bash",    "busybox", "chrt",   "dash", "env",   "fish",    "ionice",
		"ksh",     "make",    "mpiexec", "mpirun", "nice", "nohup", "numactl", "orterun",
		"prlimit", "prterun", "setpriv", "setsid", "sh",   "srun",  "stdbuf",  "taskset",
		"time",    "timeout", "uv",      "xargs",  "zsh",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(file->name, names[i]) == 0)
			return true;
	return false;
}
