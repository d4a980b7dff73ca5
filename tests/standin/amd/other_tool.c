/*
 * other_tool.c: a tool of ROCprofiler-SDK beside Pitot's: counts dispatches, and writes their
 * number to the file that OTHER_TOOL_COUNT names. With OTHER_TOOL_DISCARDS, the SDK discards what
 * comes while the tool is reading, slowly.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "capture/amd/amd_api.h"

#define F(name, type, ...) type rocprofiler_##name(__VA_ARGS__) __attribute__((weak));
AMD_FUNCTIONS(F)
#undef F

#define DISCARD 1 /* AMD_LOSSLESS is the other policy */

static unsigned count;

static void on_buffer(uint64_t context, uint64_t buffer, struct amd_record_header **headers,
		      size_t length, void *data, uint64_t dropped)
{
	(void)context;
	(void)buffer;
	(void)headers;
	(void)data;
	(void)dropped;
	count += (unsigned)length;
	if (getenv("OTHER_TOOL_DISCARDS"))
		usleep(2000);
}

static int initialize(void (*finalize)(struct amd_client), void *data)
{
	uint64_t context = 0, buffer = 0;

	(void)finalize;
	(void)data;
	rocprofiler_create_context(&context);
	rocprofiler_create_buffer(context, 1 << 20, 100,
				  getenv("OTHER_TOOL_DISCARDS") ? DISCARD : AMD_LOSSLESS, on_buffer,
				  NULL, &buffer);
	rocprofiler_configure_buffer_tracing_service(context, AMD_BUFFER_KERNEL_DISPATCH, NULL, 0,
						     buffer);
	return rocprofiler_start_context(context);
}

static void finalize_tool(void *data)
{
	FILE *out = fopen(getenv("OTHER_TOOL_COUNT"), "w");

	(void)data;
	fprintf(out, "%u\n", count);
	fclose(out);
}

struct amd_configured *rocprofiler_configure(uint32_t version, const char *text, uint32_t priority,
					     struct amd_client *client);
struct amd_configured *rocprofiler_configure(uint32_t version, const char *text, uint32_t priority,
					     struct amd_client *client)
{
	static struct amd_configured configured = { .size = sizeof(configured),
						    .initialize = initialize,
						    .finalize = finalize_tool };

	(void)version;
	(void)text;
	(void)priority;
	client->name = "another";
	return &configured;
}
