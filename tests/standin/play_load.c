/* Loads the stand-ins. Functions to be hidden are renamed in a copy of the library. */
#include "play.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"

#define LIBRARY_BYTES_MAX (64u << 20)

/* Changes every "\0name\0": the symbol's hash then leads to a name that does not match. */
static void hide(char *bytes, size_t length, const char *name)
{
	char wanted[80] = "";
	size_t size = strlen(name) + 2;
	char *at = bytes, *end = bytes + length;

	if (size > sizeof(wanted))
		return;
	memcpy(wanted + 1, name, size - 2);
	while ((at = memmem(at, (size_t)(end - at), wanted, size)))
		at[1] = '_';
}

static int write_copy(const char *from, const char *to, struct error *e)
{
	_cleanup_strbuf_ struct strbuf bytes = STRBUF_INIT;
	_cleanup_close_ int fd = -1;
	const char *name;
	int r = io_read_file(from, LIBRARY_BYTES_MAX, &bytes);

	if (r < 0)
		return error_set(e, r, "cannot read '%s'", from);
	for (size_t i = 0; (name = standin_missing(i)); i++)
		hide(bytes.data, bytes.length, name);
	fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	r = fd < 0 ? -errno : io_write_all(fd, bytes.data, bytes.length);
	return r < 0 ? error_errno(e, -r, "cannot write '%s'", to) : 0;
}

static void *load_changed(const char *path, const char *name, struct error *e)
{
	const char *base = getenv("TMPDIR");
	char folder[3000], copy[4096];
	void *library = NULL;

	snprintf(folder, sizeof(folder), "%s/tape-play-XXXXXX", base && *base ? base : "/tmp");
	if (!mkdtemp(folder)) {
		error_errno(e, errno, "cannot make '%s'", folder);
		return NULL;
	}
	snprintf(copy, sizeof(copy), "%s/%s", folder, name);
	if (write_copy(path, copy, e) == 0)
		library = dlopen(copy, RTLD_NOW);
	unlink(copy);
	rmdir(folder);
	return library;
}

static void *load(const char *name, struct error *e)
{
	char folder[3000], path[4096];
	ssize_t n = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
	void *library;

	folder[n > 0 ? n : 0] = 0;
	*(strrchr(folder, '/') ? strrchr(folder, '/') : folder) = 0;
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	library = standin_missing(0) ? load_changed(path, name, e) : dlopen(path, RTLD_NOW);
	if (!library && !e->code)
		error_set(e, E_UNSUPPORTED, "cannot load '%s': %s", path, dlerror());
	return library;
}

int play_load_client(const char *path, struct play_client *client, struct error *e)
{
	void *library = dlopen(path, RTLD_NOW);

	if (!library)
		return error_set(e, E_UNSUPPORTED, "cannot load '%s': %s", path, dlerror());
	*(void **)&client->step = dlsym(library, "client_step");
	*(void **)&client->end = dlsym(library, "client_end");
	client->every_round = dlsym(library, "client_every_round") != NULL;
	return client->step && client->end ? 0
					   : error_set(e, E_UNSUPPORTED, "'%s' is no client", path);
}

int standins_load(const struct standin_player **player, CUresult (**init)(unsigned flags),
		  struct error *e)
{
	void *cupti = load("libcupti.so.13", e), *cuda = cupti ? load("libcuda.so.1", e) : NULL;

	if (!cuda || !load("libnvidia-ml.so.1", e))
		return e->code;
	*player = dlsym(cupti, "standin_player");
	*(void **)init = dlsym(cuda, "cuInit");
	if (!*player || !*init)
		return error_set(e, E_UNSUPPORTED, "the stand-in libraries are not ours");
	return 0;
}
