/*
 * rocm.c: libpitot-rocm.so, the tool that ROCprofiler-SDK finds: it hands the call on to
 * libpitot.so. Exporting this function makes a library a tool in every process that loads it, and a
 * ROCm program without an SDK is then aborted, so libpitot.so itself must not export it.
 */
#include <stdint.h>

#include "base/compiler.h"

struct amd_client;
struct amd_configured;

/* In libpitot.so; capture/amd/amd_tool.c. */
struct amd_configured *pitot_rocm_configure(uint32_t version, const char *text, uint32_t priority,
					    struct amd_client *client);

EXPORT struct amd_configured *rocprofiler_configure(uint32_t version, const char *text,
						    uint32_t priority, struct amd_client *client);
/* Called by the SDK, once in a process. */
EXPORT struct amd_configured *rocprofiler_configure(uint32_t version, const char *text,
						    uint32_t priority, struct amd_client *client)
{
	return pitot_rocm_configure(version, text, priority, client);
}
