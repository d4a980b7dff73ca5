#include "symbol/debug_files.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libdebuginfod.so.1"
#define URLS "DEBUGINFOD_URLS"
#define FAILURES_MAX 2 /* each request without an answer takes a minute and a half */

struct debuginfod {
	void *client; /* handle of the library */
	void (*end)(void *client);
	/* Returns a file descriptor or -errno. length 0: the build id is hexadecimal text. */
	int (*find)(void *client, const unsigned char *build_id, int length, char **path);
	unsigned failures; /* consecutive ones */
	const char *problem;
};

/* The library stays loaded: some that it loads itself (curl, TLS) cannot be unloaded. */
static int load(struct debuginfod *d, struct error *e)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	void *(*begin)(void);

	if (!library)
		return error_set(e, E_UNSUPPORTED,
				 LIBRARY " cannot be loaded (%s): install libdebuginfod1",
				 dlerror());
	*(void **)&begin = dlsym(library, "debuginfod_begin");
	*(void **)&d->find = dlsym(library, "debuginfod_find_debuginfo");
	*(void **)&d->end = dlsym(library, "debuginfod_end");
	if (begin && d->find && d->end)
		d->client = begin();
	dlclose(library);
	return d->client ? 0 : error_set(e, E_UNSUPPORTED, LIBRARY " cannot be used");
}

int debuginfod_open(struct debuginfod **out, struct error *e)
{
	const char *urls = secure_getenv(URLS);
	struct debuginfod *d;
	int rc;

	if (!urls || !urls[strspn(urls, " ")])
		return error_set(e, E_UNSUPPORTED,
				 URLS " is not set: set it to the URL of a debuginfod server");
	d = calloc(1, sizeof(*d));
	if (!d)
		return error_set(e, -ENOMEM, "out of memory");
	rc = load(d, e);
	if (rc < 0)
		free(d);
	else
		*out = d;
	return rc;
}

void debuginfod_free(struct debuginfod *d)
{
	if (!d)
		return;
	d->end(d->client);
	free(d);
}

int debuginfod_fetch(struct debuginfod *d, const char *build_id, struct strbuf *path)
{
	char *cached = NULL;
	int fd;

	if (d->failures >= FAILURES_MAX)
		return -ENOENT;
	fd = d->find(d->client, (const unsigned char *)build_id, 0, &cached);
	if (fd >= 0) {
		close(fd);
		strbuf_adds(path, cached ? cached : "");
	}
	free(cached);
	d->failures = fd >= 0 || fd == -ENOENT ? 0 : d->failures + 1;
	if (d->failures)
		d->problem = error_code_text(fd);
	if (fd == -ENOMEM || path->failed)
		return -ENOMEM;
	return fd >= 0 ? 0 : -ENOENT;
}

const char *debuginfod_problem(const struct debuginfod *d)
{
	return d->problem ? d->problem : "";
}
