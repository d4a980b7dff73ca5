#include "capture/nvtx/nvtx_choice.h"

#include <string.h>

#include "base/globs.h"

#define LEVELS 32u /* bits per domain */

atomic_bool nvtx_choice_on;
_Atomic(const struct nvtx_watch *) nvtx_watch;

static struct {
	setting_TEXT include, exclude;
} choice;

void nvtx_choice_set(const struct settings *settings)
{
	atomic_store(&nvtx_choice_on, false);
	memcpy(choice.include, settings->nvtx_include, sizeof(choice.include));
	memcpy(choice.exclude, settings->nvtx_exclude, sizeof(choice.exclude));
	atomic_store(&nvtx_choice_on, *choice.include || *choice.exclude);
}

void nvtx_choice_push(uint32_t domain, uint32_t level, const char *message)
{
	struct nvtx_thread *t = &nvtx_thread;

	nvtx_choice_pop(domain, level);
	if (level >= LEVELS)
		return;
	t->included[domain] |= (uint32_t)globs_match(choice.include, message) << level;
	t->excluded[domain] |= (uint32_t)globs_match(choice.exclude, message) << level;
}

void nvtx_choice_pop(uint32_t domain, uint32_t level)
{
	uint32_t others = level < LEVELS ? ~(UINT32_C(1) << level) : UINT32_MAX;

	nvtx_thread.included[domain] &= others;
	nvtx_thread.excluded[domain] &= others;
}

bool nvtx_choice_is_wanted(void)
{
	uint32_t included = 0, excluded = 0;

	if (likely(!atomic_load_explicit(&nvtx_choice_on, memory_order_acquire)))
		return true;
	for (uint32_t domain = 0; domain < NVTX_LEVEL_DOMAINS; domain++) {
		included |= nvtx_thread.included[domain];
		excluded |= nvtx_thread.excluded[domain];
	}
	return (included || !*choice.include) && !excluded;
}

bool nvtx_choice_has_name(const char *message)
{
	return (!*choice.include || globs_match(choice.include, message)) &&
	       !globs_match(choice.exclude, message);
}
