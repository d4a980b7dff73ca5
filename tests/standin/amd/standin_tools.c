#include "standin_tools.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture/amd/amd_api.h"
#include "rocm_standin.h"

#define PUBLIC __attribute__((visibility("default")))
#define TOOLS_MAX 4u
#define LOCKED 7 /* CONFIGURATION_LOCKED */

typedef struct amd_configured *configure_function(uint32_t version, const char *text,
						  uint32_t priority, struct amd_client *client);

bool standin_locked, standin_finalized;

static struct tool {
	configure_function *configure;
	struct amd_configured *configured; /* NULL: it wants nothing */
} tools[TOOLS_MAX];
static unsigned tool_count;
static void (*flush_all)(void);

static uint32_t version(void)
{
	return has_fault("old", NULL) ? 600 : has_fault("no-graphs", NULL) ? 10201 : 10305;
}

static void add_tool(void *function)
{
	if (!function || tool_count == TOOLS_MAX)
		return;
	for (unsigned i = 0; i < tool_count; i++)
		if ((void *)tools[i].configure == function)
			return;
	*(void **)&tools[tool_count++].configure = function;
}

/* Each entry ends with a colon, unless there is only one: the rest of a list is left out. */
static void add_listed(const char *list)
{
	bool is_one = !strchr(list, ':');

	for (size_t length; *list; list += length + 1) {
		char path[4096];
		void *handle;

		length = strcspn(list, ":");
		if (!list[length] && !is_one)
			break;
		snprintf(path, sizeof(path), "%.*s", (int)length, list);
		handle = *path ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
		if (*path && !handle) {
			fprintf(stderr, "rocprofiler: %s\n", dlerror());
			abort();
		}
		if (handle)
			add_tool(dlsym(handle, "rocprofiler_configure"));
		if (!list[length])
			break;
	}
}

static void finalize_tool(struct amd_client client)
{
	(void)client;
}

/* Configures and initializes the tools from `first` on. */
static void configure(unsigned first)
{
	for (unsigned i = first; i < tool_count; i++) {
		struct amd_client client = { .size = sizeof(client), .handle = i };

		tools[i].configured = tools[i].configure(version(), "1.3.5", i, &client);
	}
	standin_locked = false;
	for (unsigned i = first; i < tool_count; i++)
		if (tools[i].configured && tools[i].configured->initialize)
			tools[i].configured->initialize(finalize_tool, tools[i].configured->data);
	standin_locked = true;
}

static void at_exit(void)
{
	if (flush_all)
		flush_all();
	standin_finalized = true;
	for (unsigned i = 0; i < tool_count; i++)
		if (tools[i].configured && tools[i].configured->finalize)
			tools[i].configured->finalize(tools[i].configured->data);
}

/* The tool that a program forces comes first. */
static void start_once(void *forced)
{
	static bool is_started;
	const char *listed = getenv("ROCP_TOOL_LIBRARIES");

	if (is_started)
		return;
	is_started = true;
	add_tool(forced);
	add_listed(listed ? listed : "");
	add_tool(dlsym(RTLD_DEFAULT, "rocprofiler_configure"));
	configure(0);
	atexit(at_exit);
}

void standin_tools_start(void (*flush)(void))
{
	start_once(NULL);
	flush_all = flush;
}

PUBLIC int rocprofiler_force_configure(configure_function *forced);
/*
 * A program's own tool, at once, before the SDK is called by HIP. From version 1.3.2 on also later;
 * before, the configuration is locked then. Children of the program load the SDK, too. HIP, if it
 * was initialized without the SDK, is called to introduce itself.
 */
PUBLIC int rocprofiler_force_configure(configure_function *forced)
{
	unsigned count = tool_count;
	void (*replay)(void);

	if (standin_locked && version() < 10302)
		return LOCKED;
	setenv("ROCPROFILER_REGISTER_FORCE_LOAD", "1", 1);
	if (standin_locked) {
		add_tool((void *)forced);
		configure(count);
	} else {
		start_once((void *)forced);
	}
	*(void **)&replay = dlsym(RTLD_DEFAULT, "standin_hip_replay");
	if (replay)
		replay();
	return AMD_SUCCESS;
}
