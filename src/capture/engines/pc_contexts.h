/*
 * pc_contexts.h: the contexts that are sampled, each from the callback of its creation to that of
 * its destruction, in windows and outside of them: then readings are thrown away. Whoever calls
 * CUPTI for a context has claimed it: the vendor thread never waits for a claim, and a callback
 * only when its context is about to go, for a moment.
 */
#ifndef PITOT_CAPTURE_ENGINES_PC_CONTEXTS_H
#define PITOT_CAPTURE_ENGINES_PC_CONTEXTS_H

#include <stdbool.h>

#include "capture/cuda/vendor.h"

struct pc_counts {
	uint64_t setups, setup_ns;
	uint64_t full;	 /* times that the hardware's buffer was, in windows */
	uint64_t beyond; /* contexts beyond the limit, which are not sampled */
};

/*
 * A context is created, in a window or not, and is sampled every 2^exponent cycles from here on.
 * *function: which call failed.
 */
CUptiResult pc_contexts_add(const struct cupti *cupti, CUcontext handle, unsigned exponent,
			    bool in_window, const char **function);
/* It is about to be destroyed: the last reading. */
void pc_contexts_remove(const struct cupti *cupti, CUcontext handle);
/* A module was loaded into it, or is about to be unloaded. */
void pc_contexts_follow_module(const struct cupti *cupti, CUcontext handle, bool unloads);

/*
 * The calling thread begins or ends a call that loads or unloads code: meanwhile nothing is read.
 */
void pc_contexts_module_call(bool begins);

enum pc_read { PC_READ_WINDOWS, PC_READ_ALL, PC_READ_NOW };

/*
 * Reads those for which a window has opened or closed, or all; NOW: even while code is loaded. What
 * was sampled before this is of the window of before. *sampled: how much that was. false: not all
 * could be read, for the moment. Vendor thread, or before that runs.
 */
bool pc_contexts_read(const struct cupti *cupti, bool in_window, enum pc_read which,
		      uint64_t *sampled);

/* Whether CUPTI has something to do with any context. */
bool pc_contexts_exist(void);
/* Capabilities of those that are sampled already, for a session that begins. */
void pc_contexts_note(void);
struct pc_counts pc_contexts_counts(void);
void pc_contexts_after_fork(void);

#endif
