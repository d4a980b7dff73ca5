/*
 * pc_contexts.h: all sampled contexts, each from the callback of its creation to the callback of
 * its destruction. Readings outside windows are discarded. A thread must claim a context before it
 * calls CUPTI for it: the vendor thread never waits for a claim, and a callback waits only briefly,
 * when its context is about to be destroyed.
 */
#ifndef PITOT_CAPTURE_ENGINES_PC_CONTEXTS_H
#define PITOT_CAPTURE_ENGINES_PC_CONTEXTS_H

#include <stdbool.h>

#include "capture/cuda/vendor.h"

struct pc_counts {
	uint64_t full; /* times that the GPU's buffer was full in a window */
	uint64_t beyond; /* contexts beyond the limit; they are not sampled */
};

/*
 * Starts sampling a context every 2^exponent cycles, in the callback of its creation. `in_window`:
 * whether a window is open. On failure *function is the CUPTI function that failed; NULL: none, but
 * another process samples this GPU. CUPTI would let both start, and then give the later one neither
 * samples nor launches nor kernels, without an error (H100, CUPTI 13.0).
 */
CUptiResult pc_contexts_add(const struct cupti *cupti, CUcontext handle, unsigned exponent,
			    bool in_window, const char **function);
/* Reads a context that is about to be destroyed a last time and ends its sampling. */
void pc_contexts_remove(const struct cupti *cupti, CUcontext handle);
/*
 * Must be called before contexts are added: their callbacks run under the driver's locks, where the
 * loader's must not be waited for.
 */
void pc_contexts_find_driver(void);
/* Lets other processes sample the GPUs of this one. */
void pc_contexts_leave_gpus(void);
/* Called when a module was loaded into the context or is about to be unloaded. */
void pc_contexts_follow_module(const struct cupti *cupti, CUcontext handle, bool unloads);

/*
 * The calling thread begins or ends a call that loads or unloads code; readings wait meanwhile.
 */
void pc_contexts_module_call(bool begins, uint32_t correlation);

enum pc_read { PC_READ_WINDOWS, PC_READ_ALL, PC_READ_NOW };

/*
 * Reads the contexts whose window has opened or closed, or all contexts; NOW: even while code is
 * loaded. `in_window` holds for later samples only. *sampled: 0 if nothing was sampled. Returns
 * false if a context could not be read now. Vendor thread, or before that thread runs.
 */
bool pc_contexts_read(const struct cupti *cupti, bool in_window, enum pc_read which,
		      uint64_t *sampled);

/* Whether any context is sampled or claimed. */
bool pc_contexts_exist(void);
/* Notes the capabilities of the sampled contexts again, for a new session. */
void pc_contexts_note(void);
struct pc_counts pc_contexts_counts(void);
void pc_contexts_after_fork(void);

#endif
