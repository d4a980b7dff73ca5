#include "vendor/amd/rocm_sdk.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/path.h"

#define SDK "librocprofiler-sdk.so."
#define TOOL "libpitot-rocm.so"
#define LOAD_SECONDS 10u
#define TOOLS_VARIABLE "ROCP_TOOL_LIBRARIES"
#define SDK_VARIABLE "ROCPROFILER_REGISTER_LIBRARY"

/* The whole version is in the name of the file to which the one with the major version links. */
static void read_version(struct rocm_sdk *sdk)
{
	char real[PATH_MAX];
	const char *file = realpath(sdk->path, real) ? base_name(real) : base_name(sdk->path);
	const char *version = strstr(file, ".so.");

	if (!version)
		version = strstr(base_name(sdk->path), ".so.");
	snprintf(sdk->version, sizeof(sdk->version), "%.31s", version + strlen(".so."));
}

static const char *load(const char *path)
{
	void *handle = dlopen(path, RTLD_LAZY);
	const char *error = handle ? NULL : dlerror();

	if (handle && !dlsym(handle, "rocprofiler_set_api_table"))
		error = "it lacks rocprofiler_set_api_table";
	return error;
}

/*
 * ROCm's libraries abort a program whose SDK does not load. A child process tries, since the SDK's
 * constructors may do anything: if it crashes or hangs in them, programs would, too. Returns false
 * with *error.
 */
static bool loads_in_child(const char *path, char *error, size_t size)
{
	int fds[2], status = -1, null;
	ssize_t length = -1;
	const char *text;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return false;
	pid = fork();
	if (pid == 0) {
		null = open("/dev/null", O_RDWR | O_CLOEXEC);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		alarm(LOAD_SECONDS);
		text = load(path);
		_exit(text && write(fds[1], text, strlen(text)) ? 1 : text != NULL);
	}
	close(fds[1]);
	if (pid > 0)
		length = read(fds[0], error, size - 1);
	close(fds[0]);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	error[MAX(length, 0)] = '\0';
	if (length <= 0)
		snprintf(error, size, "programs that load it %s",
			 pid < 0 ? "cannot be started" : "crash or hang");
	return pid > 0 && status == 0;
}

/* Whether a library of version 1.x loads. The last answer is remembered: it is asked for twice. */
static bool loads(const char *path, char *error, size_t size)
{
	static struct rocm_sdk last;

	if (strcmp(last.path, path) != 0) {
		snprintf(last.path, sizeof(last.path), "%s", path);
		last.state = loads_in_child(path, last.error, sizeof(last.error)) ? ROCM_SDK
										  : ROCM_BROKEN_SDK;
	}
	snprintf(error, size, "%s", last.error);
	return last.state == ROCM_SDK;
}

/* One that is better than what was found before. */
static void look_at_file(struct rocm_sdk *sdk, const char *path)
{
	const char *version = strstr(base_name(path), ".so.") + strlen(".so.");
	bool is_new = *version == '1' && (version[1] == '\0' || version[1] == '.');
	struct rocm_sdk found = { .state = is_new ? ROCM_SDK : ROCM_OLD_SDK };

	if (access(path, R_OK) || strlen(path) >= sizeof(sdk->path))
		return;
	if (is_new && !loads(path, found.error, sizeof(found.error)))
		found.state = ROCM_BROKEN_SDK;
	if (found.state <= sdk->state)
		return;
	memcpy(found.path, path, strlen(path) + 1);
	read_version(&found);
	*sdk = found;
}

/* Looks at the files of a pattern, which may be of several versions. 1.x ends the search. */
static bool look_at(struct rocm_sdk *sdk, const char *pattern)
{
	glob_t found;

	if (glob(pattern, 0, NULL, &found) != 0)
		return false;
	for (size_t i = 0; i < found.gl_pathc && sdk->state != ROCM_SDK; i++)
		look_at_file(sdk, found.gl_pathv[i]);
	globfree(&found);
	return sdk->state == ROCM_SDK;
}

/* Folders that depend on the current one, or on glob(), are no installation's. */
static bool look_in(struct rocm_sdk *sdk, const char *folder, size_t length, const char *below)
{
	char pattern[2 * AMD_PATH_MAX];

	if (!length || folder[0] != '/' || memchr(folder, '*', length) ||
	    memchr(folder, '[', length) || memchr(folder, '?', length) ||
	    snprintf(pattern, sizeof(pattern), "%.*s%s/" SDK "[0-9]*", (int)length, folder,
		     below) >= (int)sizeof(pattern))
		return false;
	return look_at(sdk, pattern);
}

static bool look_in_variable(struct rocm_sdk *sdk, const char *name, const char *below)
{
	const char *folders = getenv(name);

	for (size_t length; folders && *folders; folders += length + (folders[length] == ':')) {
		length = strcspn(folders, ":");
		if (look_in(sdk, folders, length, below))
			return true;
	}
	return false;
}

struct rocm_sdk rocm_find_sdk(void)
{
	static const char *const places[] = { "/opt/rocm/lib", "/opt/rocm*/lib",
					      "/opt/rocm/core-*/lib" };
	struct rocm_sdk sdk = { .state = ROCM_NO_SDK };
	char room[AMD_PATH_MAX], pattern[AMD_PATH_MAX + 64];
	bool found = look_in_variable(&sdk, "LD_LIBRARY_PATH", "") ||
		     look_in_variable(&sdk, "ROCM_PATH", "/lib") ||
		     look_in_variable(&sdk, "VIRTUAL_ENV",
				      "/lib/python3*/site-packages/_rocm_sdk_core/lib");

	for (size_t i = 0; i < sizeof(places) / sizeof(*places) && !found; i++) {
		snprintf(pattern, sizeof(pattern), "%s/" SDK "[0-9]*", amd_path(room, places[i]));
		found = look_at(&sdk, pattern);
	}
	return sdk;
}

void rocm_environment(struct strbuf *out, const char *library)
{
	const char *others = getenv(TOOLS_VARIABLE), *named = getenv(SDK_VARIABLE);
	int folder = (int)(base_name(library) - library);
	char tool[PATH_MAX];
	struct rocm_sdk sdk;

	/* A colon would cut the path in two, and the program aborts where a tool is not there. */
	if (snprintf(tool, sizeof(tool), "%.*s" TOOL, folder, library) >= (int)sizeof(tool) ||
	    strchr(tool, ':') || access(tool, R_OK))
		return;
	sdk = rocm_find_sdk();
	if (sdk.state != ROCM_SDK)
		return;
	/* Of a list, ROCprofiler-SDK ignores what has no colon behind it. */
	if (others && *others)
		strbuf_addf(out, TOOLS_VARIABLE "=%s:%s:", others, tool);
	else
		strbuf_addf(out, TOOLS_VARIABLE "=%s", tool);
	strbuf_addc(out, '\0');
	if (named && *named)
		return; /* the program's own choice, which works without us, too */
	strbuf_addf(out, SDK_VARIABLE "=%s", sdk.path);
	strbuf_addc(out, '\0');
}
