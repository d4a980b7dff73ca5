/*
 * nvtx_choice.h: what an engine does about the program's ranges (push and pop of any domain and
 * scopes) by their messages: it measures those that match a session's patterns (--measure range),
 * or only launches inside of such ranges. Ranges that were pushed before the patterns were set are
 * ignored.
 */
#ifndef PITOT_CAPTURE_NVTX_NVTX_CHOICE_H
#define PITOT_CAPTURE_NVTX_NVTX_CHOICE_H

#include "capture/nvtx/nvtx_event.h"
#include "schema/settings.h"

/*
 * Both functions are called on the range's thread, outside the range's own two events, so that the
 * range excludes the time that they take. `message` is valid during the call only; "": it has none.
 */
struct nvtx_watch {
	void (*begin)(uint32_t domain, uint32_t level, const char *message);
	void (*end)(uint32_t domain, uint32_t level);
};
extern _Atomic(const struct nvtx_watch *) nvtx_watch; /* NULL: nobody watches ranges */

static inline const struct nvtx_watch *nvtx_watch_get(void)
{
	return atomic_load_explicit(&nvtx_watch, memory_order_acquire);
}

/*
 * Sets the patterns of a session, and who measures ranges. NULL: nobody; then ranges are watched
 * for nvtx_choice_is_wanted(), if there are patterns.
 */
void nvtx_choice_set(const struct settings *settings, const struct nvtx_watch *measures);
void nvtx_choice_clear(void);

/* Whether the calling thread is in an included range, if patterns require one, and no excluded. */
bool nvtx_choice_is_wanted(void);

/*
 * Whether a range with this message matches the patterns. nvtx_choice_set() must not run meanwhile.
 */
bool nvtx_choice_has_name(const char *message);

#endif
