/*
 * A library that does what libpitot.so does when it is loaded and prepared: allocates, opens files,
 * starts a thread.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *kept[64];

static void work(void)
{
	char line[256];
	FILE *file = fopen("/proc/self/maps", "r");

	for (unsigned i = 0; i < 64; i++) {
		free(kept[i]);
		kept[i] = malloc(16u << i % 16);
		if (kept[i])
			memset(kept[i], 1, 16);
	}
	while (file && fgets(line, sizeof(line), file))
		;
	if (file)
		fclose(file);
}

__attribute__((constructor)) static void loaded(void)
{
	work();
}

static void *thread(void *fd)
{
	work();
	(void)!write((int)(long)fd, "t", 1);
	return NULL;
}

__attribute__((visibility("default"))) int pitot_idle(void);
int pitot_idle(void)
{
	const char *fd = getenv("INJECTED_FD");
	pthread_t t;

	work();
	if (getenv("INJECTEE_IS_OFF"))
		return 0;
	if (getenv("INJECTEE_CRASHES"))
		__builtin_trap();
	if (getenv("INJECTEE_STOPS"))
		raise(SIGSTOP);
	if (pthread_create(&t, NULL, thread, (void *)(long)(fd ? atoi(fd) : -1)) != 0)
		return -11;
	pthread_detach(t);
	return 1;
}
