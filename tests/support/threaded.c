/*
 * Detects tests that start threads: creates an empty file named after the test in the folder
 * $PITOT_THREADED. tools/run-tests builds those tests with ThreadSanitizer.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

typedef void *routine(void *argument);
typedef int create(pthread_t *thread, const pthread_attr_t *attributes, routine *start,
		   void *argument);

static void say_so(const char *folder)
{
	static const char refused[] = "threaded.c: nothing can be made in $PITOT_THREADED\n";
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", folder, program_invocation_short_name);
	if (mknod(path, S_IFREG | 0600, 0) == 0 || errno == EEXIST)
		return;
	(void)!write(STDERR_FILENO, refused, sizeof(refused) - 1);
	abort();
}

/* Interposes pthread_create of the sanitizers and the C library. */
__attribute__((visibility("default"))) int
pthread_create(pthread_t *thread, const pthread_attr_t *attributes, routine *start, void *argument)
{
	create *next = (create *)dlsym(RTLD_NEXT, "pthread_create");
	const char *folder = getenv("PITOT_THREADED");
	int error = errno;

	if (folder)
		say_so(folder);
	errno = error;
	return next(thread, attributes, start, argument);
}
