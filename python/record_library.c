#include "record_library.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

#define LIBRARY "libpitot.so"

struct recorder recorder;
char no_recorder[PATH_MAX + 256];

static bool use_library(void *library, const char *path)
{
	const char *missing = NULL;
	struct recorder found;

	if (!library) {
		const char *text = dlerror();

		snprintf(no_recorder, sizeof(no_recorder), "cannot load '%s': %s", path,
			 text ? text : "?");
		return false;
	}
#define F(name)                                                                                    \
	*(void **)&found.name = dlsym(library, "pitot_" #name);                                    \
	if (!found.name)                                                                           \
		missing = "pitot_" #name;
	FUNCTIONS(F)
#undef F
	if (missing)
		snprintf(no_recorder, sizeof(no_recorder), "'%s' is an older recorder, without %s",
			 path, missing);
	else
		recorder = found;
	return true; /* also for an older recorder, because it records this process */
}

static bool is_recorder(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && strncmp(slash + 1, LIBRARY, strlen(LIBRARY)) == 0;
}

/* The file of a loaded library may have been deleted; the loader still knows it by its name. */
static bool use_loaded(void)
{
	static const char deleted[] = " (deleted)";
	FILE *maps = fopen("/proc/self/maps", "re");
	char *line = NULL;
	size_t room = 0;
	bool used = false;

	while (maps && !used && getline(&line, &room, maps) > 0) {
		char *path = strchr(line, '/'), *end;
		void *library;

		if (!path || !is_recorder(path))
			continue;
		path[strcspn(path, "\n")] = '\0';
		end = path + strlen(path);
		if (end - path >= (ptrdiff_t)sizeof(deleted) &&
		    strcmp(end - sizeof(deleted) + 1, deleted) == 0)
			end[1 - (ptrdiff_t)sizeof(deleted)] = '\0';
		library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
		used = library && use_library(library, path);
	}
	free(line);
	if (maps)
		fclose(maps);
	return used;
}

void find_recorder(void)
{
	static const char *const variables[] = { "CUDA_INJECTION64_PATH", "PITOT_LIBRARY" };
	char path[PATH_MAX];
	const char *slash;
	Dl_info self;

	if (use_loaded())
		return;
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		const char *named = getenv(variables[i]);

		if (named && is_recorder(named) && use_library(dlopen(named, RTLD_NOW), named))
			return;
	}
	if (!dladdr((void *)&find_recorder, &self) || !(slash = strrchr(self.dli_fname, '/')))
		return;
	snprintf(path, sizeof(path), "%.*s" LIBRARY, (int)(slash + 1 - self.dli_fname),
		 self.dli_fname);
	use_library(dlopen(path, RTLD_NOW), path);
}
