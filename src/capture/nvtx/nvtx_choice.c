#include "capture/nvtx/nvtx_choice.h"

#include <string.h>

#include "base/globs.h"

#define LEVELS 32u /* bits per domain */

_Atomic(const struct nvtx_watch *) nvtx_watch;

static struct {
	setting_TEXT include, exclude;
	atomic_uint number; /* of the choice: bits of threads with another one are void */
} choice;

/* NULL: the thread is beyond the limit of rings, and its ranges are not known. */
static struct ring_choice *bits_of_thread(void)
{
	unsigned number = atomic_load_explicit(&choice.number, memory_order_relaxed);
	struct ring *r = ring_of_thread ? ring_of_thread : ring_try_claim();

	if (r && r->choice.number != number)
		r->choice = (struct ring_choice){ .number = number };
	return r ? &r->choice : NULL;
}

static void end(uint32_t domain, uint32_t level)
{
	struct ring_choice *bits = bits_of_thread();
	uint32_t others = level < LEVELS ? ~(UINT32_C(1) << level) : UINT32_MAX;

	if (!bits)
		return;
	bits->included[domain] &= others;
	bits->excluded[domain] &= others;
}

static void begin(uint32_t domain, uint32_t level, const char *message)
{
	struct ring_choice *bits = bits_of_thread();

	end(domain, level);
	if (!bits || level >= LEVELS)
		return;
	bits->included[domain] |= (uint32_t)globs_match(choice.include, message) << level;
	bits->excluded[domain] |= (uint32_t)globs_match(choice.exclude, message) << level;
}

static const struct nvtx_watch inside = { begin, end };

void nvtx_choice_set(const struct settings *settings, const struct nvtx_watch *measures)
{
	nvtx_choice_clear();
	memcpy(choice.include, settings->nvtx_include, sizeof(choice.include));
	memcpy(choice.exclude, settings->nvtx_exclude, sizeof(choice.exclude));
	atomic_fetch_add(&choice.number, 1);
	if (!measures && (*choice.include || *choice.exclude))
		measures = &inside;
	atomic_store(&nvtx_watch, measures);
}

void nvtx_choice_clear(void)
{
	atomic_store(&nvtx_watch, NULL);
}

bool nvtx_choice_is_wanted(void)
{
	const struct ring_choice *bits;
	uint32_t included = 0, excluded = 0;

	if (likely(nvtx_watch_get() != &inside))
		return true;
	bits = bits_of_thread();
	for (uint32_t domain = 0; bits && domain < RING_LEVEL_DOMAINS; domain++) {
		included |= bits->included[domain];
		excluded |= bits->excluded[domain];
	}
	return bits && (included || !*choice.include) && !excluded;
}

bool nvtx_choice_has_name(const char *message)
{
	return (!*choice.include || globs_match(choice.include, message)) &&
	       !globs_match(choice.exclude, message);
}
