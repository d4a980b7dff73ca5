#include "capture/engines/replay_memory.h"

#include <dlfcn.h>
#include <stddef.h>

#include <cuda.h>

#include "base/compiler.h"
#include "capture/capability_notes.h"
#include "system/free_memory.h"

#define GIB ((double)(1 << 30))

typedef CUresult get_info(size_t *available, size_t *total);

static struct { /* accessed only by the thread that has claimed the engine */
	get_info *get_info;
	bool looked;
	unsigned slow_in, refused_in; /* the last session in which this was noted */
} self;

static get_info *find_function(void)
{
	void *driver;

	if (!self.looked) {
		driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
		if (driver)
			*(void **)&self.get_info = dlsym(driver, "cuMemGetInfo_v2");
		self.looked = true;
	}
	return self.get_info;
}

static void note(unsigned *noted_in, unsigned session, const char *got, uint64_t on_host,
		 uint64_t available)
{
	if (*noted_in == session)
		return;
	*noted_in = session;
	capability_note("replay_memory", capability_state_degraded, "range-profiler", got,
			"%.1f GiB of the GPU's memory do not fit into what is free there and must "
			"be saved on the host for each measured launch, which has %.1f GiB free: "
			"%s; metrics of a single pass need none of that, see `pitot metrics`",
			(double)on_host / GIB, (double)available / GIB,
			*got == 'n' ? "such launches are not measured" : "this takes seconds");
}

bool replay_memory_suffices(unsigned session)
{
	size_t available = 0, total = 0;
	uint64_t on_host, host;

	if (!find_function() || self.get_info(&available, &total) != CUDA_SUCCESS ||
	    total - available <= available)
		return true;
	on_host = total - available - available;
	host = free_memory("");
	if (on_host > host / 2) {
		note(&self.refused_in, session, "none", on_host, host);
		return false;
	}
	note(&self.slow_in, session, "range-profiler", on_host, host);
	return true;
}
