#include "capture/cuda/vendor.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "elf/loaded_libraries.h"

#define OPTIONAL 0
#define REQUIRED 1

static char cupti_path[4096];

/* Fills the table from a handle; NULL, or the name of the first required function that is missing. */
static const char *resolve(struct cupti *cupti, void *handle)
{
#define F(name, need)                                                                              \
	*(void **)&cupti->name = dlsym(handle, "cupti" #name);                                     \
	if (need && !cupti->name)                                                                  \
		return "cupti" #name;
	CUPTI_FUNCTIONS(F)
#undef F
	return NULL;
}

static void remember_path(void *function)
{
	Dl_info info;

	if (dladdr(function, &info) && info.dli_fname)
		snprintf(cupti_path, sizeof(cupti_path), "%s", info.dli_fname);
}

static bool try_library(struct cupti *cupti, const char *path, int flags, struct strbuf *tried)
{
	void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL | flags);
	const char *missing;

	if (!handle) {
		if (!(flags & RTLD_NOLOAD))
			strbuf_addf(tried, "%s%s", tried->length ? ", " : "", path);
		return false;
	}
	missing = resolve(cupti, handle);
	if (missing) {
		strbuf_addf(tried, "%s%s (lacks %s)", tried->length ? ", " : "", path, missing);
		return false;
	}
	remember_path(*(void **)&cupti->GetVersion);
	cupti->path = cupti_path;
	return cupti->GetVersion(&cupti->version) == CUPTI_SUCCESS;
}

/* The last match of a pattern: the newest Python or toolkit version. */
static bool try_pattern(struct cupti *cupti, const char *pattern, struct strbuf *tried)
{
	glob_t found;
	bool ok = false;

	if (glob(pattern, 0, NULL, &found) == 0) {
		for (size_t i = found.gl_pathc; i > 0 && !ok; i--)
			ok = try_library(cupti, found.gl_pathv[i - 1], 0, tried);
		globfree(&found);
	}
	return ok;
}

/*
 * CUDA libraries that the process has loaded: CUPTI lies beside them, as toolkits and Python packages lay them out. Their paths
 * are copied while the loader's lock is held; opening something there would wait for a lock that another thread in dlopen()
 * holds while it waits for this one.
 */
#define LOADED_BYTES 8192u

struct loaded {
	char paths[LOADED_BYTES]; /* each with its NUL */
	size_t length;
};

static int copy_path(struct dl_phdr_info *info, size_t size, void *user)
{
	struct loaded *loaded = user;
	const char *name = info->dlpi_name, *slash = name ? strrchr(name, '/') : NULL;
	size_t length = slash ? strlen(name) + 1 : 0;

	(void)size;
	if (!slash || (!strstr(slash, "/libcudart.so") && !strstr(slash, "/libcublas.so") &&
		       !strstr(slash, "/libnvrtc.so")))
		return 0;
	if (length <= LOADED_BYTES - loaded->length) {
		memcpy(loaded->paths + loaded->length, name, length);
		loaded->length += length;
	}
	return 0;
}

static bool try_beside(struct cupti *cupti, int major, struct strbuf *tried)
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
			    try_library(cupti, path, 0, tried))
				return true;
		}
	}
	return false;
}

static bool try_major(struct cupti *cupti, int major, struct strbuf *tried)
{
	static const char *const patterns[] = {
		"/usr/local/cuda-%d*/lib64/libcupti.so.%d",
		"/usr/local/cuda-%d*/extras/CUPTI/lib64/libcupti.so.%d",
		"/usr/lib/x86_64-linux-gnu/libcupti.so.%d*",
	};
	char name[64], path[256];

	snprintf(name, sizeof(name), "libcupti.so.%d", major);
	if (try_beside(cupti, major, tried) || try_library(cupti, name, 0, tried))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(path, sizeof(path), patterns[i], major, major);
#pragma GCC diagnostic pop
		if (try_pattern(cupti, path, tried))
			return true;
	}
	return false;
}

int cupti_load(struct cupti *cupti, const char *named, struct error *e)
{
	static const char *const loaded[] = { "libcupti.so.13", "libcupti.so.12", "libcupti.so" };
	_cleanup_strbuf_ struct strbuf tried = STRBUF_INIT;
	struct driver driver;
	int version = 0, first;

	if (named && *named) {
		if (try_library(cupti, named, 0, &tried))
			return 0;
		return error_set(e, E_UNSUPPORTED, "'%s' cannot be used: %s", named,
				 strbuf_text(&tried));
	}
	for (size_t i = 0; i < ARRAY_SIZE(loaded); i++)
		if (try_library(cupti, loaded[i], RTLD_NOLOAD, &tried))
			return 0;
	if (driver_load(&driver, NULL) == 0)
		driver.DriverGetVersion(&version);
	first = version && version < 13000 ? 12 : 13;
	if (try_major(cupti, first, &tried) || try_major(cupti, 25 - first, &tried))
		return 0;
	return error_set(e, E_UNSUPPORTED,
			 "no usable libcupti found (tried %s); set PITOT_CUPTI to its path",
			 strbuf_text(&tried));
}

int driver_load(struct driver *driver, struct error *e)
{
	void *handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);

	if (!handle)
		handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
	if (!handle)
		return error_set(e, E_UNSUPPORTED,
				 "libcuda.so.1 cannot be loaded: no NVIDIA driver");
#define F(name, symbol, ...)                                                                       \
	*(void **)&driver->name = dlsym(handle, symbol);                                           \
	if (!driver->name)                                                                         \
		return error_set(e, E_UNSUPPORTED, "libcuda.so.1 lacks " symbol);
	DRIVER_FUNCTIONS(F)
#undef F
	return 0;
}

const char *cupti_result_text(const struct cupti *cupti, CUptiResult result)
{
	const char *text = NULL;

	return cupti->GetResultString(result, &text) == CUPTI_SUCCESS && text ? text
									      : "unknown error";
}
