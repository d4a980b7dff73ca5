/* program_report.c: `pitot report` of the program's own recording, by the program `pitot`. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "capture/program.h"

/* Beside the library, or as both are installed; else only the name, for PATH. */
static void find_program(char path[PATH_MAX])
{
	static const char *const places[] = { "pitot", "../bin/pitot", "../../bin/pitot" };
	Dl_info library;
	const char *slash;

	if (dladdr((void *)&program_report, &library) &&
	    (slash = strrchr(library.dli_fname, '/'))) {
		for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
			snprintf(path, PATH_MAX, "%.*s/%s", (int)(slash - library.dli_fname),
				 library.dli_fname, places[i]);
			if (access(path, X_OK) == 0)
				return;
		}
	}
	snprintf(path, PATH_MAX, "pitot");
}

/* Its standard error goes to `errors`, its standard output to a file where there is a path. */
static int spawn(const char *program, const char *directory, const char *path, int errors,
		 pid_t *pid)
{
	const char *const argv[] = { "pitot", "report", "--no-pager", "-q", directory, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t none, all;
	int err;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&files);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, errors, 2);
	if (path && *path)
		posix_spawn_file_actions_addopen(&files, 1, path, O_WRONLY | O_CREAT | O_TRUNC,
						 0644);
	err = posix_spawnp(pid, program, &files, &attributes, (char **)argv, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attributes);
	return err;
}

/* Where the program ignores the ends of its children, or waits for all of them itself, the status is not known: 0. */
static int wait_for(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return 0;
	return status;
}

int program_report(const char *directory, const char *path, struct error *e)
{
	_cleanup_close_ int errors = memfd_create("pitot report", MFD_CLOEXEC);
	char program[PATH_MAX], text[512] = "";
	sigset_t child, before;
	int err, status = 0;
	pid_t pid;

	if (errors < 0)
		return error_errno(e, errno, "cannot start `pitot report`");
	find_program(program);
	/* As system(3) does: this thread is not interrupted by the end of a child that it does not know. */
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &child, &before);
	err = spawn(program, directory, path, errors, &pid);
	if (!err)
		status = wait_for(pid);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err)
		return error_errno(
			e, err,
			"cannot run '%s'; install the program pitot beside libpitot.so or in "
			"PATH, or type: pitot report %s",
			program, directory);
	if (!status)
		return 0;
	if (pread(errors, text, sizeof(text) - 1, 0) < 0)
		text[0] = '\0';
	return error_set(e, -EIO, "`pitot report %s` failed: %.*s", directory,
			 (int)strcspn(text, "\n"), text);
}
