#include "capture/nvtx/nvtx_choice.h"

#include <string.h>

#include "base/globs.h"

#define LEVELS 32u /* bits per domain */

_Atomic(const struct nvtx_watch *) nvtx_watch;

static struct {
	setting_TEXT include, exclude;
	atomic_uint number; /* of the choice: bits of threads with another one are void */
} choice;

static struct nvtx_thread *thread_with_bits(void)
{
	struct nvtx_thread *t = &nvtx_thread;
	unsigned number = atomic_load_explicit(&choice.number, memory_order_relaxed);

	if (t->choice != number) {
		memset(t->included, 0, sizeof(t->included));
		memset(t->excluded, 0, sizeof(t->excluded));
		t->choice = number;
	}
	return t;
}

static void end(uint32_t domain, uint32_t level)
{
	struct nvtx_thread *t = thread_with_bits();
	uint32_t others = level < LEVELS ? ~(UINT32_C(1) << level) : UINT32_MAX;

	t->included[domain] &= others;
	t->excluded[domain] &= others;
}

static void begin(uint32_t domain, uint32_t level, const char *message)
{
	struct nvtx_thread *t = thread_with_bits();

	end(domain, level);
	if (level >= LEVELS)
		return;
	t->included[domain] |= (uint32_t)globs_match(choice.include, message) << level;
	t->excluded[domain] |= (uint32_t)globs_match(choice.exclude, message) << level;
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
	const struct nvtx_thread *t;
	uint32_t included = 0, excluded = 0;

	if (likely(nvtx_watch_get() != &inside))
		return true;
	t = thread_with_bits();
	for (uint32_t domain = 0; domain < NVTX_LEVEL_DOMAINS; domain++) {
		included |= t->included[domain];
		excluded |= t->excluded[domain];
	}
	return (included || !*choice.include) && !excluded;
}

bool nvtx_choice_has_name(const char *message)
{
	return (!*choice.include || globs_match(choice.include, message)) &&
	       !globs_match(choice.exclude, message);
}
