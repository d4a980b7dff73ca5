/* inject.c: finds libpitot.so, and makes the environment that injects it. */
#include "record/inject.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/folder.h"
#include "base/io.h"
#include "base/map.h"
#include "base/path.h"
#include "base/starts_with.h"
#include "format/segment_request.h"
#include "vendor/vendors.h"

#define LIBRARY "libpitot.so"
#define PRELOAD "libpitot-preload.so"
#define PLUGIN_MAX 254u

#ifndef PITOT_LIBDIR
#define PITOT_LIBDIR "lib" /* relative to the installation's prefix */
#endif

static char *usable(const char *path)
{
	return access(path, R_OK) ? NULL : realpath(path, NULL);
}

char *record_find_library(struct error *e)
{
	static const char *const places[] = { "", "../" PITOT_LIBDIR "/", "../lib/", "../lib64/" };
	const char *given = secure_getenv("PITOT_LIBRARY");
	char folder[PATH_MAX], path[PATH_MAX + 64], *found;
	ssize_t length;

	if (given && *given) {
		found = usable(given);
		if (!found)
			error_errno(e, errno, "cannot use PITOT_LIBRARY='%s'", given);
		return found;
	}
	length = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
	if (length <= 0) {
		error_errno(e, errno, "cannot find the path of this program");
		return NULL;
	}
	folder[length] = '\0';
	*strrchr(folder, '/') = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		snprintf(path, sizeof(path), "%s/%s%s", folder, places[i], LIBRARY);
		found = usable(path);
		if (found)
			return found;
	}
	error_set(e, -ENOENT,
		  "no " LIBRARY " in '%s' nor in '%s/../" PITOT_LIBDIR
		  "': install it, or name it with "
		  "PITOT_LIBRARY",
		  folder, folder);
	return NULL;
}

char *record_find_preload(const char *library)
{
	char path[PATH_MAX];
	const char *name = base_name(library);

	if (snprintf(path, sizeof(path), "%.*s%s", (int)(name - library), library, PRELOAD) >=
	    (int)sizeof(path))
		return NULL;
	return usable(path);
}

/* Whether nobody else can rename or remove what we create in a folder. */
static bool is_safe_place(int folder)
{
	struct stat st;

	return folder >= 0 && fstat(folder, &st) == 0 && (!st.st_uid || st.st_uid == geteuid()) &&
	       (!(st.st_mode & 022) || (st.st_mode & S_ISVTX));
}

/* Makes a link in our folder at a place, or finds it there. Returns its path, or NULL. */
static char *link_at(const char *place, const char *path)
{
	_cleanup_close_ int parent = folder_open(place, FOLDER_ANY), folder = -1;
	char name[64], target[PATH_MAX], *link;
	struct stat st;
	ssize_t length;

	snprintf(name, sizeof(name), "pitot-preload-%u-%llx", (unsigned)geteuid(),
		 (unsigned long long)hash_bytes(path, strlen(path)));
	if (!is_safe_place(parent) || (mkdirat(parent, name, 0755) < 0 && errno != EEXIST))
		return NULL;
	folder = folder_enter(parent, name, FOLDER_OWN);
	/* The command may become another user. */
	if (folder < 0 || fchmodat(parent, name, 0755, 0) < 0 || fstat(folder, &st) < 0 ||
	    (st.st_mode & 022) || (symlinkat(path, folder, PRELOAD) < 0 && errno != EEXIST))
		return NULL;
	length = readlinkat(folder, PRELOAD, target, sizeof(target));
	if (length != (ssize_t)strlen(path) || memcmp(target, path, (size_t)length) != 0)
		return NULL;
	return asprintf(&link, "%s/%s/" PRELOAD, place, name) < 0 ? NULL : link;
}

int record_link_preload(char **path, struct error *e)
{
	char own[32] = "/run";
	const char *const places[] = { own, "/tmp", "/dev/shm", "/var/tmp" };
	char *link = NULL;

	if (!strpbrk(*path, " :$"))
		return 0;
	if (geteuid())
		snprintf(own, sizeof(own), "/run/user/%u", (unsigned)geteuid());
	for (size_t i = 0; i < ARRAY_SIZE(places) && !link; i++)
		link = link_at(places[i], *path);
	if (!link)
		return error_set(e, -EACCES,
				 "LD_PRELOAD cannot have the path '%s', which has a blank, colon "
				 "or dollar sign, and no link to it can be made in '%s' or '/tmp'",
				 *path, own);
	free(*path);
	*path = link;
	return 0;
}

const char *record_foreign_injection(const char **value)
{
	FOR_EACH_VENDOR(v)
	{
		for (const char *const *variable = (*v)->injection; *variable; variable++) {
			const char *found = getenv(*variable);

			if (found && *found && !starts_with(base_name(found), LIBRARY)) {
				*value = found;
				return *variable;
			}
		}
	}
	return NULL;
}

const char *record_own_core_variable(void)
{
	FOR_EACH_VENDOR(v)
	for (const char *const *name = (*v)->core_variables; name && *name; name++)
		if (getenv(*name))
			return *name;
	return NULL;
}

static void add_variable(struct strbuf *out, const char *name, const char *value)
{
	strbuf_addf(out, "%s=%s", name, value);
	strbuf_addc(out, '\0');
}

/* NCCL reads at most PLUGIN_MAX bytes. Programs with a plug-in of their own keep it. */
static void add_vendor(const struct vendor *v, const char *library, struct strbuf *out)
{
	for (const char *const *name = v->injection; *name; name++)
		add_variable(out, *name, library);
	for (const char *const *name = v->plugins; name && *name; name++)
		if (!getenv(*name) && strlen(library) <= PLUGIN_MAX)
			add_variable(out, *name, library);
	if (v->environment)
		v->environment(out, library);
}

void record_environment(const struct record_injection *injection, struct strbuf *out)
{
	const char *others = getenv("LD_PRELOAD"), *sanitizer = getenv("ASAN_OPTIONS");

	if (injection->core_folder)
		FOR_EACH_VENDOR(v)
	if ((*v)->core_files)
		(*v)->core_files(out, injection->core_folder);
	if (!injection->gpu && !injection->preload)
		return;
	if (injection->prepared)
		add_variable(out, "PITOT_IDLE", "1");
	if (injection->options) {
		add_variable(out, "PITOT_RECORDING",
			     injection->directory ? injection->directory : "");
		add_variable(out, "PITOT_OPTIONS", injection->options);
		add_variable(out, LAUNCHER_VARIABLE,
			     injection->launcher ? injection->launcher : "");
	}
	if (injection->perfetto && !getenv("PITOT_PERFETTO"))
		add_variable(out, "PITOT_PERFETTO", injection->perfetto);
	if (injection->startup && !getenv("__TRACE_STARTUP"))
		add_variable(out, "__TRACE_STARTUP", injection->startup);
	if (injection->log_path)
		add_variable(out, "PITOT_GPUFL", injection->log_path);
	if (injection->gpu)
		FOR_EACH_VENDOR(v)
	add_vendor(*v, injection->library, out);
	if (injection->preload) {
		strbuf_addf(out, "LD_PRELOAD=%s%s%s", injection->preload,
			    others && *others ? ":" : "", others ? others : "");
		strbuf_addc(out, '\0');
		/* A program with AddressSanitizer would refuse to start after another library. */
		strbuf_addf(out, "ASAN_OPTIONS=%s%sverify_asan_link_order=0",
			    sanitizer ? sanitizer : "", sanitizer && *sanitizer ? ":" : "");
		strbuf_addc(out, '\0');
	}
}
