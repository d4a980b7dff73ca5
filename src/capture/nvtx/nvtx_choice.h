/*
 * nvtx_choice.h: whether a thread is inside ranges (push and pop, of any domain) whose messages
 * patterns want: which launches --engine range-profiler measures. Ranges that were pushed before
 * the patterns were set do not count.
 */
#ifndef PITOT_CAPTURE_NVTX_NVTX_CHOICE_H
#define PITOT_CAPTURE_NVTX_NVTX_CHOICE_H

#include "capture/nvtx/nvtx_event.h"
#include "schema/settings.h"

extern atomic_bool nvtx_choice_on; /* there are patterns */

/* What a session wants. */
void nvtx_choice_set(const struct settings *wanted);

/* The range of a level in a domain begins; `message` "": it has none. */
void nvtx_choice_push(uint32_t domain, uint32_t level, const char *message);
void nvtx_choice_pop(uint32_t domain, uint32_t level);

/* Of the calling thread: one of its ranges is included, where any need be, and none is excluded. */
bool nvtx_choice_is_wanted(void);

#endif
