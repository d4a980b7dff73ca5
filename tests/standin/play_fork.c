/* Forks while playing, with libraries that are loaded and unloaded. */
#include "play.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/vec.h"

#define CHILD_TICKS 60000 /* of a millisecond; children end much sooner */
#define STATUS_HUNG 3

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static VEC(char *) modules;

static void find_modules(const char *folder)
{
	DIR *d = opendir(folder);
	struct dirent *entry;
	char *path;

	while (d && (entry = readdir(d)))
		if (strstr(entry->d_name, ".so") &&
		    (asprintf(&path, "%s/%s", folder, entry->d_name) < 0 ||
		     vec_push(&modules, path) < 0))
			abort();
	if (d)
		closedir(d);
}

/*
 * Loads all libraries first, so that reading them takes time; then unloads and loads one at a time.
 */
static void churn(const char *folder)
{
	static void **loaded;
	static size_t next;

	if (!folder)
		return;
	if (!loaded) {
		find_modules(folder);
		loaded = calloc(modules.count + 1, sizeof(*loaded));
		for (size_t i = 0; loaded && i < modules.count; i++)
			loaded[i] = dlopen(modules.data[i], RTLD_NOW);
	}
	if (!loaded || !modules.count)
		return;
	if (loaded[next])
		dlclose(loaded[next]);
	loaded[next] = dlopen(modules.data[next], RTLD_NOW);
	next = (next + 1) % modules.count;
}

static void wait_for(pid_t child)
{
	for (int i = 0; i < CHILD_TICKS; i++) {
		int status;

		if (waitpid(child, &status, WNOHANG) == child) {
			if (!WIFEXITED(status) || WEXITSTATUS(status)) {
				fprintf(stderr, "tape-play: a child ended with status 0x%x\n",
					status);
				_exit(1);
			}
			return;
		}
		usleep(1000);
	}
	fprintf(stderr, "tape-play: child %d does not end\n", (int)child);
	kill(child, SIGKILL);
	_exit(STATUS_HUNG);
}

void play_fork(const char *folder)
{
	pid_t child;

	pthread_mutex_lock(&lock);
	churn(folder);
	child = fork();
	if (child == 0) {
		churn(folder);
		_exit(0);
	}
	if (child < 0) {
		fprintf(stderr, "tape-play: cannot fork: %s\n", strerror(errno));
		_exit(1);
	}
	wait_for(child);
	pthread_mutex_unlock(&lock);
}
