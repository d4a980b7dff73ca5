#include "capture/engines/replay_memory.h"

#include <stddef.h>

#include "capture/core/capability_notes.h"
#include "capture/cuda/vendor.h"
#include "system/free_memory.h"

#define GIB ((double)(1 << 30))

static struct { /* accessed only by the thread that owns the engine */
	CUresult (*get_info)(size_t *available, size_t *total);
	unsigned slow_in, refused_in; /* the last session in which this was noted */
} self;

static void note(unsigned *noted_in, unsigned session, const char *actual, const char *therefore,
		 uint64_t used, uint64_t on_host, uint64_t host)
{
	if (*noted_in == session)
		return;
	*noted_in = session;
	capability_note(feature_replay_memory, capability_state_degraded, "range-profiler", actual,
			"each measured launch must save %.1f GiB of GPU memory, of which %.1f GiB "
			"go to the host (%.1f GiB free): %s; metrics of a single pass need none of "
			"that, see `pitot metrics`",
			(double)used / GIB, (double)on_host / GIB, (double)host / GIB, therefore);
}

bool replay_memory_suffices(unsigned session)
{
	size_t available = 0, total = 0;
	uint64_t used, on_host, host;

	if (!self.get_info)
		*(void **)&self.get_info = driver_function("cuMemGetInfo_v2");
	if (!self.get_info || self.get_info(&available, &total) != CUDA_SUCCESS ||
	    total - available <= available)
		return true;
	used = total - available;
	on_host = used - available;
	host = free_memory("");
	if (on_host > host / 2) {
		note(&self.refused_in, session, "none", "such launches are not measured", used,
		     on_host, host);
		return false;
	}
	note(&self.slow_in, session, "range-profiler", "this takes seconds", used, on_host, host);
	return true;
}
