/*
 * nvtx_choice.h: whether a thread is inside ranges (push and pop, in any domain) whose messages
 * match patterns: decides which launches --engine range-profiler measures. Ranges that were pushed
 * before the patterns were set are ignored.
 */
#ifndef PITOT_CAPTURE_NVTX_NVTX_CHOICE_H
#define PITOT_CAPTURE_NVTX_NVTX_CHOICE_H

#include "capture/nvtx/nvtx_event.h"
#include "schema/settings.h"

extern atomic_bool nvtx_choice_on; /* there are patterns */

/* Sets the patterns of a session. */
void nvtx_choice_set(const struct settings *settings);

/* A range begins at a level of a domain; `message` "" if it has none. */
void nvtx_choice_push(uint32_t domain, uint32_t level, const char *message);
void nvtx_choice_pop(uint32_t domain, uint32_t level);

/* Whether the calling thread is in an included range, if patterns require one, and no excluded. */
bool nvtx_choice_is_wanted(void);

/*
 * Implemented by an engine that measures ranges (push and pop, scopes). Both functions are called
 * on the range's thread, outside the range's own two events, so that the range excludes the time
 * that they take. `message` is valid during the call only.
 */
struct nvtx_watch {
	void (*begin)(uint32_t domain, uint32_t level, const char *message);
	void (*end)(uint32_t domain, uint32_t level);
};
extern _Atomic(const struct nvtx_watch *) nvtx_watch; /* NULL: ranges are not measured */

static inline const struct nvtx_watch *nvtx_watch_get(void)
{
	return atomic_load_explicit(&nvtx_watch, memory_order_relaxed);
}

/*
 * Whether a range with this message matches the patterns. nvtx_choice_set() must not run meanwhile.
 */
bool nvtx_choice_has_name(const char *message);

#endif
