/* window_copy.h: copies a few seconds of what is held of recordings. */
#ifndef PITOT_AGENT_WINDOW_COPY_H
#define PITOT_AGENT_WINDOW_COPY_H

#include "agent/agent_sources.h"

/* Whether a source belongs to the copy, and then from when to when (CLOCK_MONOTONIC). */
typedef bool window_chooses(const void *user, const struct source *source, uint64_t *from_ns,
			    uint64_t *until_ns);

/* Copies into an empty folder. Returns the number of segments, or a negative code. */
int window_copy(struct sources *sources, window_chooses *chooses, const void *user,
		int folder) MUST_USE;

#endif
