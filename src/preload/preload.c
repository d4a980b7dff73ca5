/*
 * preload.c: libpitot-preload.so, which loads libpitot.so into those programs below a command that
 * can be sampled from inside, and into no others.
 *
 * LD_PRELOAD is inherited by everything that a program starts, and a loader that cannot use the
 * library prints a line (32-bit loaders) or ends its program (musl). Therefore the variable is not
 * inherited: this library, which `pitot record` preloads into the command, removes itself from the
 * environment before main() runs. It wraps the exec functions, and adds itself to the environment
 * of the new program only if that program's dynamic loader is the same file as its own, so that the
 * same C library loads it; if the library is readable where the program runs (a container may not
 * have it); and if the program is to be recorded: any program with preload=all in PITOT_OPTIONS,
 * Python and programs that may start one with preload=python.
 *
 * The wrappers also run between vfork and exec: they allocate on the stack only, write no variable
 * and call only async-signal-safe functions. Functions that are not wrapped (system, popen) start
 * their program without the library.
 */
#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/path.h"
#include "base/program_file.h"

#define LIBRARY "libpitot.so"
#define VARIABLE "LD_PRELOAD="
#define ROOM_MAX (256u << 10) /* bytes on the stack for a changed environment */

typedef int exec_function(const char *path, char *const argv[], char *const envp[]);
typedef int spawn_function(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
			   const posix_spawnattr_t *attributes, char *const argv[],
			   char *const envp[]);

/* Written by the constructor only. */
static struct {
	bool active, all;
	char path[PATH_MAX]; /* of this library */
	dev_t loader_device; /* of the dynamic loader */
	ino_t loader_inode;
} self;

/* The wrapped functions: the C library's, or those of another preloaded library. */
struct functions {
	exec_function *execve, *execvpe;
	int (*fexecve)(int fd, char *const argv[], char *const envp[]);
	spawn_function *spawn, *spawnp;
};

static const struct functions *real(void)
{
	static struct functions next;

	if (next.spawnp) /* set by the constructor, unless another library's earlier one calls */
		return &next;
	*(void **)&next.execve = dlsym(RTLD_NEXT, "execve");
	*(void **)&next.fexecve = dlsym(RTLD_NEXT, "fexecve");
	*(void **)&next.execvpe = dlsym(RTLD_NEXT, "execvpe");
	*(void **)&next.spawn = dlsym(RTLD_NEXT, "posix_spawn");
	*(void **)&next.spawnp = dlsym(RTLD_NEXT, "posix_spawnp");
	return &next;
}

/* --- programs to preload into --- */

static const char *find_variable(char *const envp[], const char *name)
{
	size_t length = strlen(name);

	for (; envp && *envp; envp++)
		if (strncmp(*envp, name, length) == 0)
			return *envp + length;
	return NULL;
}

static bool can_preload(const char *path)
{
	struct program_file file;
	struct stat st;

	if (program_file_read(path, &file) < 0 || !file.loader[0])
		return false;
	if (!self.all && !program_file_is_python(&file) && !program_file_starts_others(&file))
		return false;
	return stat(file.loader, &st) == 0 && st.st_dev == self.loader_device &&
	       st.st_ino == self.loader_inode && access(self.path, R_OK) == 0;
}

/* Returns the size of an environment with this library; 0: the program gets its own unchanged. */
static size_t environment_size(const char *path, char *const envp[])
{
	const char *others = find_variable(envp, VARIABLE);
	int saved = errno;
	size_t count = 2, size;
	bool preloads = self.active && find_variable(envp, "PITOT_RECORDING=") && can_preload(path);

	errno = saved;
	for (char *const *p = envp; preloads && *p; p++)
		count++;
	size = count * sizeof(*envp) + strlen(VARIABLE) + strlen(self.path) + 1 +
	       (others ? strlen(others) : 0) + 1;
	return preloads && size <= ROOM_MAX ? size : 0;
}

static char *const *add_preload(void *room, char *const envp[])
{
	char **out = room, *text;
	const char *others = find_variable(envp, VARIABLE);
	size_t count = 0;

	for (char *const *p = envp; *p; p++)
		if (strncmp(*p, VARIABLE, strlen(VARIABLE)) != 0)
			out[count++] = *p;
	text = (char *)(out + count + 2);
	out[count++] = text;
	out[count] = NULL;
	text = stpcpy(stpcpy(text, VARIABLE), self.path);
	if (others && *others) {
		*text++ = ':';
		stpcpy(text, others);
	}
	return out;
}

/* The environment for a program; valid until the function that uses the macro returns. */
#define ENVIRONMENT(path, envp)                                                                    \
	({                                                                                         \
		size_t size_ = environment_size(path, envp);                                       \
		size_ ? add_preload(alloca(size_), envp) : (char *const *)(envp);                  \
	})

/* The same for a command that is searched in PATH. */
#define ENVIRONMENT_OF_COMMAND(command, envp)                                                      \
	({                                                                                         \
		char path_[PATH_MAX];                                                              \
		program_file_find(command, path_) < 0 ? (char *const *)(envp)                      \
						      : ENVIRONMENT(path_, envp);                  \
	})

/* Builds argv from the variable arguments of a function; `first` is the argument before them. */
#define COLLECT(argv, first, list)                                                                 \
	do {                                                                                       \
		va_list count_list_;                                                               \
		size_t count_ = 1;                                                                 \
		va_copy(count_list_, list);                                                        \
		while (va_arg(count_list_, const char *))                                          \
			count_++;                                                                  \
		va_end(count_list_);                                                               \
		(argv) = alloca((count_ + 1) * sizeof(char *));                                    \
		(argv)[0] = (char *)(uintptr_t)(first);                                            \
		for (size_t i_ = 1; i_ <= count_; i_++)                                            \
			(argv)[i_] = va_arg(list, char *);                                         \
	} while (0)

EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
	char *const *with = ENVIRONMENT(path, envp);

	return real()->execve(path, argv, with);
}

/* The descriptor's file may have no path. */
EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
	char path[] = "/proc/self/fd/\0\0\0\0\0\0\0\0\0\0", *end = path + strlen(path);
	char *const *with;
	int digits = 1;

	for (int rest = fd; rest >= 10; rest /= 10)
		digits++;
	for (int rest = fd; digits-- > 0; rest /= 10)
		end[digits] = (char)('0' + rest % 10);
	with = fd >= 0 ? ENVIRONMENT(path, envp) : envp;
	return real()->fexecve(fd, argv, with);
}

EXPORT int execv(const char *path, char *const argv[])
{
	char *const *with = ENVIRONMENT(path, environ);

	return real()->execve(path, argv, with);
}

EXPORT int execvpe(const char *command, char *const argv[], char *const envp[])
{
	char *const *with = ENVIRONMENT_OF_COMMAND(command, envp);

	return real()->execvpe(command, argv, with);
}

EXPORT int execvp(const char *command, char *const argv[])
{
	char *const *with = ENVIRONMENT_OF_COMMAND(command, environ);

	return real()->execvpe(command, argv, with);
}

EXPORT int execl(const char *path, const char *argument, ...)
{
	char *const *with = ENVIRONMENT(path, environ);
	char **argv;
	va_list list;

	va_start(list, argument);
	COLLECT(argv, argument, list);
	va_end(list);
	return real()->execve(path, argv, with);
}

EXPORT int execlp(const char *command, const char *argument, ...)
{
	char *const *with = ENVIRONMENT_OF_COMMAND(command, environ);
	char **argv;
	va_list list;

	va_start(list, argument);
	COLLECT(argv, argument, list);
	va_end(list);
	return real()->execvpe(command, argv, with);
}

EXPORT int execle(const char *path, const char *argument, ...)
{
	char **argv, *const *envp;
	va_list list;

	va_start(list, argument);
	COLLECT(argv, argument, list);
	envp = va_arg(list, char *const *);
	va_end(list);
	envp = ENVIRONMENT(path, envp);
	return real()->execve(path, argv, envp);
}

/* Whether the caller would find the same program: actions may change the folder first. */
static bool is_found_from_here(const char *path, const posix_spawn_file_actions_t *actions)
{
	return !actions || path[0] == '/';
}

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		       const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
	char *const *with = envp;

	if (is_found_from_here(path, actions))
		with = ENVIRONMENT(path, envp);
	return real()->spawn(pid, path, actions, attributes, argv, with);
}

EXPORT int posix_spawnp(pid_t *pid, const char *command, const posix_spawn_file_actions_t *actions,
			const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
	char *const *with = envp;
	char path[PATH_MAX];

	if (program_file_find(command, path) == 0 && is_found_from_here(path, actions))
		with = ENVIRONMENT(path, envp);
	return real()->spawnp(pid, command, actions, attributes, argv, with);
}

/* --- this program --- */

/*
 * Removes this library from LD_PRELOAD, in place: main() gets the same array, and some programs
 * (bash) have their own getenv and setenv. Returns false if LD_PRELOAD does not begin with it.
 */
static bool remove_from_environment(void)
{
	char **entry = environ, *others;
	size_t length = strlen(self.path);

	while (entry && *entry && strncmp(*entry, VARIABLE, strlen(VARIABLE)) != 0)
		entry++;
	if (!entry || !*entry)
		return false;
	others = *entry + strlen(VARIABLE);
	if (strncmp(others, self.path, length) != 0 || (others[length] && others[length] != ':'))
		return false;
	others += length + (others[length] == ':');
	if (*others) {
		*entry = memcpy(others - strlen(VARIABLE), VARIABLE, strlen(VARIABLE));
		return true;
	}
	for (; *entry; entry++)
		entry[0] = entry[1];
	return true;
}

static bool find_loader(void)
{
	const void *base = (const void *)getauxval(AT_BASE);
	struct stat st;
	Dl_info loader;

	if (!base || !dladdr(base, &loader) || !loader.dli_fname || stat(loader.dli_fname, &st) < 0)
		return false;
	self.loader_device = st.st_dev;
	self.loader_inode = st.st_ino;
	return true;
}

/* Loads the recorder beside this library, which starts by itself. */
static void load_recorder(void)
{
	char path[PATH_MAX], *name;

	/* LD_PRELOAD may name a link. */
	if (!realpath(self.path, path))
		return;
	name = path + (base_name(path) - path);
	if ((size_t)(name - path) + sizeof(LIBRARY) > sizeof(path))
		return;
	memcpy(name, LIBRARY, sizeof(LIBRARY));
	dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

__attribute__((constructor)) static void begin(void)
{
	const char *options = find_variable(environ, "PITOT_OPTIONS=");
	Dl_info own;

	real();
	if (!dladdr((void *)(uintptr_t)begin, &own) || !own.dli_fname || own.dli_fname[0] != '/' ||
	    strlen(own.dli_fname) >= sizeof(self.path))
		return;
	stpcpy(self.path, own.dli_fname);
	if (!remove_from_environment() || !options || !find_variable(environ, "PITOT_RECORDING=") ||
	    !find_loader())
		return;
	self.all = strstr(options, "preload=all") != NULL;
	self.active = true;
	if (self.all || dlsym(RTLD_DEFAULT, "Py_Initialize"))
		load_recorder();
}
