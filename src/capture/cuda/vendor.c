#include "capture/cuda/vendor.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cupti/cupti_find.h"

#define OPTIONAL 0
#define REQUIRED 1

static char cupti_path[4096];

/* Fills the table. Returns NULL, or the name of the first required function that is missing. */
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

static bool accept_library(void *handle, void *user, struct strbuf *why)
{
	struct cupti *cupti = user;
	const char *missing = resolve(cupti, handle);

	if (missing) {
		strbuf_addf(why, "lacks %s", missing);
		return false;
	}
	remember_path(*(void **)&cupti->GetVersion);
	cupti->path = cupti_path;
	cupti->handle = handle;
	return cupti->GetVersion(&cupti->version) == CUPTI_SUCCESS;
}

int cupti_load(struct cupti *cupti, const char *named, struct error *e)
{
	struct driver driver;
	int version = 0;

	if (!(named && *named) && driver_load(&driver, NULL) == 0)
		driver.DriverGetVersion(&version);
	return cupti_find(named, version, accept_library, cupti, e);
}

void *driver_function(const char *name)
{
	void *handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);

	return handle ? dlsym(handle, name) : NULL;
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
