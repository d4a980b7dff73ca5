/*
 * witness.c: what a process had done when it was killed: counts in the file that
 * PITOT_STANDIN_WITNESS names, which stay there however the process ends.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "standin_cupti.h"

static struct witness unread, *shared = &unread;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void map_file(void)
{
	const char *path = getenv("PITOT_STANDIN_WITNESS");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *p = fd < 0 ? MAP_FAILED
			 : mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p != MAP_FAILED)
		shared = p;
	if (fd >= 0)
		close(fd);
}

struct witness *standin_witness(void)
{
	pthread_once(&once, map_file);
	return shared;
}
