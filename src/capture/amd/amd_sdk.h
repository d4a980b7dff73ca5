/*
 * amd_sdk.h: ROCprofiler-SDK as the recorder uses it once amd_tool.c has made it a client: whether
 * it is there, and its contexts and buffer.
 */
#ifndef PITOT_CAPTURE_AMD_AMD_SDK_H
#define PITOT_CAPTURE_AMD_AMD_SDK_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/compiler.h"
#include "capture/amd/amd_api.h"

enum amd_state {
	AMD_ABSENT, /* the SDK has not called */
	AMD_REFUSED, /* amd_refusal() says why */
	AMD_READY,
	AMD_ENDED, /* the SDK has finalized, or the process is a fork: no call of it may follow */
};

enum amd_state amd_state(void);
const char *amd_refusal(void);
/* "1.2.1"; "" if the SDK has not called. */
const char *amd_version(void);
/* Whether its version tells which graph is launched. */
bool amd_has_graphs(void);
/* The SDK's functions; NULL unless it is ready. */
const struct amd_sdk *amd_sdk(void);

/*
 * Starts or stops recording calls, kernels and copies, and with `memory` allocations; while it is
 * stopped, nothing of Pitot is on the path of the program's calls. Work that was enqueued before is
 * delivered all the same. Returns false if the SDK refuses; amd_refusal() says why then. The vendor
 * thread, or the one that starts the session.
 */
bool amd_record(bool on, bool memory);
/* Hands over finished work, and waits until that has been done. Vendor thread. */
void amd_flush(void);

/* Whether calls are recorded. */
extern atomic_bool amd_records;

/* --- for amd_tool.c, while the SDK configures its tools --- */

/* Sets why the SDK cannot be used; the first reason stays. */
void amd_refuse(const char *format, ...) PRINTF_LIKE(1, 2);
void amd_set_version(uint32_t version);
/* Fills the table of functions, which is usable from then on. Returns NULL if it is incomplete. */
const struct amd_sdk *amd_load(void);
/* Returns whether a call was a success; if not, that is the reason. */
bool amd_check(const char *function, int status);
/* A function of counters that the SDK lacks; NULL: none. */
const char *amd_lacks_counters(void);
/* Contexts beside that of the trace are 0 if there is none. */
struct amd_contexts {
	uint64_t trace, counters, memory;
};
void amd_ready(const struct amd_contexts *contexts, uint64_t buffer);
/* Whether allocations can be recorded. */
bool amd_has_memory(void);
/* No function of the SDK is called any more. */
void amd_end(void);

#endif
