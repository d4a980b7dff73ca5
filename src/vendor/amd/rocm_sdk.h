/*
 * rocm_sdk.h: ROCprofiler-SDK on this machine, and how its loader gets to know a tool.
 *
 * A ROCm program that is told of a tool and finds no SDK is aborted by ROCm's own libraries. So it
 * is told only where an SDK was found, and which.
 */
#ifndef PITOT_VENDOR_AMD_ROCM_SDK_H
#define PITOT_VENDOR_AMD_ROCM_SDK_H

#include <stdbool.h>

#include "base/strbuf.h"
#include "vendor/amd/amd_cards.h"

/* From the worst to the best that a search finds. */
enum rocm_sdk_state {
	ROCM_NO_SDK,
	ROCM_OLD_SDK, /* 0.x, of ROCm 6 and before: its records have another layout */
	ROCM_BROKEN_SDK, /* programs could not load it */
	ROCM_SDK, /* 1.x */
};

struct rocm_sdk {
	enum rocm_sdk_state state;
	char path[AMD_PATH_MAX]; /* as it was found */
	char version[32]; /* "1.0.0", or less of it, from the file's name */
	char error[256]; /* of ROCM_BROKEN_SDK: why */
};

/*
 * Finds the SDK that a program which is started from this environment would use: in the folders of
 * LD_LIBRARY_PATH, ROCM_PATH, the Python environment's package, and /opt/rocm*.
 */
struct rocm_sdk rocm_find_sdk(void);

/* vendor->environment: the recorder's tool lies beside `library`. */
void rocm_environment(struct strbuf *out, const char *library);

#endif
