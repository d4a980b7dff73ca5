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

/*
 * An engine that measures ranges (push and pop, scopes). Both functions are called on the range's
 * thread, outside of the range's own two events, so that what they take is not in the range.
 * `message` is valid during the call.
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

/* Whether the session chose ranges of this name. nvtx_choice_set must not run meanwhile. */
bool nvtx_choice_has_name(const char *message);

#endif
