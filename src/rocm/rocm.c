/*
 * rocm.c: libpitot-rocm.so, the tool that ROCprofiler-SDK finds: it hands the call on to the
 * libpitot.so beside it. Exporting this function makes a library a tool in every process that loads
 * it, and a ROCm program without an SDK is then aborted, so libpitot.so itself must not export it.
 *
 * A tool that cannot be loaded aborts the program as well. So this library needs nothing but the C
 * library: without libpitot.so it is a tool that wants nothing.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"
#include "base/path.h"

#define LIBRARY "libpitot.so"

struct amd_client;
struct amd_configured;
typedef struct amd_configured *configure_function(uint32_t version, const char *text,
						  uint32_t priority, struct amd_client *client);

EXPORT configure_function rocprofiler_configure;

static configure_function *find_recorder(void)
{
	configure_function *found;
	char path[PATH_MAX];
	size_t folder;
	Dl_info own;
	void *handle;

	if (!dladdr((const void *)&find_recorder, &own) || !own.dli_fname)
		return NULL;
	folder = (size_t)(base_name(own.dli_fname) - own.dli_fname);
	if (folder + sizeof(LIBRARY) > sizeof(path))
		return NULL;
	memcpy(path, own.dli_fname, folder);
	memcpy(path + folder, LIBRARY, sizeof(LIBRARY));
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	*(void **)&found = handle ? dlsym(handle, "pitot_rocm_configure") : NULL;
	return found;
}

/* Called by the SDK, once in a process. NULL: this tool wants nothing. */
EXPORT struct amd_configured *rocprofiler_configure(uint32_t version, const char *text,
						    uint32_t priority, struct amd_client *client)
{
	configure_function *recorder = find_recorder();

	return recorder ? recorder(version, text, priority, client) : NULL;
}
