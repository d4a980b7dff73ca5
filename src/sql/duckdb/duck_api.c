#include "sql/duckdb/duck_api.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define VARIABLE "PITOT_DUCKDB"
#define HOW_TO_GET                                                                                 \
	"the archives of DuckDB's releases for C and the npm package "                             \
	"@duckdb/node-bindings-linux-x64 contain it, duckdb of Python does not. " VARIABLE         \
	"=FILE names it; without --engine, SQLite answers"

struct duck_api duck_api;

/* Not in the search path of every machine. */
static void *open_usual(void)
{
	static const char *const places[] = { "libduckdb.so", "/usr/local/lib/libduckdb.so" };
	const char *home = getenv("HOME");
	char path[PATH_MAX];
	void *library = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(places) && !library; i++)
		library = dlopen(places[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (library || !home || *home != '/')
		return library;
	snprintf(path, sizeof(path), "%s/.local/lib/libduckdb.so", home);
	return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

int duck_api_load(struct error *e)
{
	const char *path = getenv(VARIABLE);
	void *library;

	if (duck_api.library_version)
		return 0;
	if (path && *path)
		library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	else
		library = open_usual();
	if (!library && path && *path)
		return error_set(e, E_UNSUPPORTED, "cannot load " VARIABLE "='%s': %s; " HOW_TO_GET,
				 path, dlerror());
	if (!library)
		return error_set(e, E_UNSUPPORTED, "cannot find libduckdb.so: " HOW_TO_GET);
#define FIND(type, name, arguments)                                                                \
	*(void **)&duck_api.name = dlsym(library, "duckdb_" #name);                                \
	if (!duck_api.name) {                                                                      \
		duck_api.library_version = NULL;                                                   \
		return error_set(e, E_UNSUPPORTED,                                                 \
				 "'%s' has no duckdb_" #name                                       \
				 ", which DuckDB has since 1.4: " HOW_TO_GET,                      \
				 path && *path ? path : "libduckdb.so");                           \
	}
	DUCK_FUNCTIONS(FIND)
#undef FIND
	return 0;
}
