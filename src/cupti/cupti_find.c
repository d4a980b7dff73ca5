#include "cupti/cupti_find.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/processor.h"
#include "elf/loaded_libraries.h"

struct search {
	cupti_accept *accept;
	void *user;
	struct strbuf tried;
	bool opened; /* a library that was then refused */
};

static bool try_library(struct search *s, const char *path, int flags)
{
	void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL | flags);
	_cleanup_strbuf_ struct strbuf why = STRBUF_INIT;

	s->opened |= handle != NULL;
	if (handle && s->accept(handle, s->user, &why))
		return true;
	if (handle || !(flags & RTLD_NOLOAD))
		strbuf_addf(&s->tried, "%s%s", s->tried.length ? ", " : "", path);
	if (why.length)
		strbuf_addf(&s->tried, " (%s)", strbuf_text(&why));
	return false;
}

/* Tries the matches of a pattern from the last on: the newest version of Python or of a toolkit. */
static bool try_pattern(struct search *s, const char *pattern)
{
	glob_t found;
	bool ok = false;

	if (glob(pattern, 0, NULL, &found) == 0) {
		for (size_t i = found.gl_pathc; i > 0 && !ok; i--)
			ok = try_library(s, found.gl_pathv[i - 1], 0);
		globfree(&found);
	}
	return ok;
}

/*
 * Paths of CUDA libraries loaded in the process, because toolkits and Python packages install CUPTI
 * near them; a relative path would lead into the folder that the program is in now. The paths are
 * copied under the loader's lock. Opening a library there could deadlock: another thread in
 * dlopen() may hold the lock that we need while it waits for this one.
 */
#define LOADED_BYTES 8192u

struct loaded {
	char paths[LOADED_BYTES]; /* NUL-terminated paths */
	size_t length;
};

static int copy_path(struct dl_phdr_info *info, size_t size, void *user)
{
	struct loaded *loaded = user;
	const char *name = info->dlpi_name, *slash = name ? strrchr(name, '/') : NULL;
	size_t length = slash ? strlen(name) + 1 : 0;

	(void)size;
	if (!slash || name[0] != '/' ||
	    (!strstr(slash, "/libcudart.so") && !strstr(slash, "/libcublas.so") &&
	     !strstr(slash, "/libnvrtc.so")))
		return 0;
	if (length <= LOADED_BYTES - loaded->length) {
		memcpy(loaded->paths + loaded->length, name, length);
		loaded->length += length;
	}
	return 0;
}

static bool try_beside(struct search *s, int major)
{
	static const char *const relative[] = { "", "../../cuda_cupti/lib/",
						"../extras/CUPTI/lib64/",
						"../../../extras/CUPTI/lib64/" };
	struct loaded loaded = { .length = 0 };
	char path[4096];

	loaded_libraries_visit(copy_path, &loaded);
	for (size_t at = 0; at < loaded.length; at += strlen(loaded.paths + at) + 1) {
		const char *name = loaded.paths + at, *slash = strrchr(name, '/');

		for (size_t i = 0; i < ARRAY_SIZE(relative); i++) {
			int n = snprintf(path, sizeof(path), "%.*s%slibcupti.so.%d",
					 (int)(slash + 1 - name), name, relative[i], major);

			if (n > 0 && (size_t)n < sizeof(path) && access(path, R_OK) == 0 &&
			    try_library(s, path, 0))
				return true;
		}
	}
	return false;
}

static bool try_major(struct search *s, int major)
{
	static const char *const patterns[] = {
		"/usr/local/cuda-%d*/lib64/libcupti.so.%d",
		"/usr/local/cuda-%d*/extras/CUPTI/lib64/libcupti.so.%d",
		ARCH_LIBRARIES "libcupti.so.%d*",
	};
	char name[64], path[256];

	snprintf(name, sizeof(name), "libcupti.so.%d", major);
	if (try_beside(s, major) || try_library(s, name, 0))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(path, sizeof(path), patterns[i], major, major);
#pragma GCC diagnostic pop
		if (try_pattern(s, path))
			return true;
	}
	return false;
}

static int search(struct search *s, const char *named, int driver_version, struct error *e)
{
	static const char *const loaded[] = { "libcupti.so.13", "libcupti.so.12", "libcupti.so" };
	int first = driver_version && driver_version < 13000 ? 12 : 13;

	if (named && *named) {
		if (named[0] != '/' && strchr(named, '/'))
			return error_set(e, E_UNSUPPORTED,
					 "'%s' is relative to a folder that the program may leave: "
					 "give an absolute path",
					 named);
		if (try_library(s, named, 0))
			return 0;
		return error_set(
			e, E_UNSUPPORTED,
			"PITOT_CUPTI='%s' cannot be used: %s; unset it to search for CUPTI", named,
			s->opened ? strbuf_text(&s->tried) : dlerror());
	}
	for (size_t i = 0; i < ARRAY_SIZE(loaded); i++)
		if (try_library(s, loaded[i], RTLD_NOLOAD))
			return 0;
	if (try_major(s, first) || try_major(s, 25 - first))
		return 0;
	return error_set(e, E_UNSUPPORTED,
			 "no usable libcupti found (tried %s); set PITOT_CUPTI to its path",
			 strbuf_text(&s->tried));
}

int cupti_find(const char *named, int driver_version, cupti_accept *accept, void *user,
	       struct error *e)
{
	struct search s = { .accept = accept, .user = user, .tried = STRBUF_INIT };
	int err = search(&s, named, driver_version, e);

	strbuf_release(&s.tried);
	return err;
}
