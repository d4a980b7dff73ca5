/*
 * A program whose file is deleted or replaced while it runs: its own, or that of a library, which
 * is this file too. Arguments: the library or "-"; a file that replaces it.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

__attribute__((noinline)) void hot(void)
{
	struct timespec now;
	volatile long x = 0;

	do {
		for (int i = 0; i < 100000; i++)
			x += i;
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	} while (now.tv_sec == 0 && now.tv_nsec < 300000000);
}

int main(int count, char **arguments)
{
	const char *file = count > 1 && strcmp(arguments[1], "-") != 0 ? arguments[1] : NULL;
	void *library = file ? dlopen(file, RTLD_NOW) : NULL;
	void (*run)(void) = hot;

	if (file && !library)
		return puts(dlerror());
	if (library)
		*(void **)&run = dlsym(library, "hot");
	if (!file)
		file = arguments[0];
	if (unlink(file) < 0 || (count > 2 && rename(arguments[2], file) < 0))
		return 1;
	run();
	return 0;
}
